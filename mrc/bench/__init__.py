# SPDX-License-Identifier: BSD-2-Clause
"""Measuring: one end serves, the other writes to it and says how fast that was; and both in a lab, beside baselines."""
