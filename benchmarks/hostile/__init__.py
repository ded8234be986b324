# SPDX-License-Identifier: BSD-2-Clause
"""How much goodput an established QP keeps while somebody floods one of its ends: `benchmarks/hostile-load`."""
