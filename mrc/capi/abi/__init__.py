# SPDX-License-Identifier: BSD-2-Clause
"""The ABI of the C interface as tables: what has to agree with C is held to them."""
