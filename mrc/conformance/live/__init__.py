# SPDX-License-Identifier: BSD-2-Clause
"""The suite across a real network: packets made by the tester on real ports, and a target that messages control."""
