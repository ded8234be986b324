# SPDX-License-Identifier: BSD-2-Clause
"""Packets, bit by bit."""
