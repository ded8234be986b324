# SPDX-License-Identifier: BSD-2-Clause
"""The sending half of a QP: posted work, packets of data, what comes back, losses."""
