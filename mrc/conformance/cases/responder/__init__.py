# SPDX-License-Identifier: BSD-2-Clause
"""The target receives: what it writes, and what it answers."""
