# SPDX-License-Identifier: BSD-2-Clause
"""Packets in and out of an endpoint: checks, the way to a QP's halves, whose turn it is."""
