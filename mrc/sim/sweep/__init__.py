# SPDX-License-Identifier: BSD-2-Clause
"""Sweeps: the cells of a grid, each simulated once, on the processes of this host or on Ray."""
