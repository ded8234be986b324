# SPDX-License-Identifier: BSD-2-Clause
"""The life of a QP: its states, what it is given, what both ends agree on beforehand."""
