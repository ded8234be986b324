# SPDX-License-Identifier: BSD-2-Clause
"""The target sends and its congestion controller decides how much: NSCC, seen by what is in flight."""
