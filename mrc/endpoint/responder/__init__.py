# SPDX-License-Identifier: BSD-2-Clause
"""The receiving half of a QP: PSNs, placement, SACKs, NACKs and ACKs."""
