# SPDX-License-Identifier: BSD-2-Clause
"""How often a requestor tries, and when it gives up."""
