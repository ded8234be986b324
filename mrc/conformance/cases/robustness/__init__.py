# SPDX-License-Identifier: BSD-2-Clause
"""Hostile input seen from the wire: whatever comes, the target goes on working."""
