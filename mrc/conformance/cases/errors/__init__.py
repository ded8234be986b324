# SPDX-License-Identifier: BSD-2-Clause
"""Malformed input, violations of the protocol, and what becomes of a QP that is in error."""
