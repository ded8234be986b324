# SPDX-License-Identifier: BSD-2-Clause
"""The C interface: a libibverbs over the endpoint of this package (docs/capi.md)."""
