# SPDX-License-Identifier: BSD-2-Clause
"""NACKs and trimmed packets: those the target sends, and what it makes of those it gets."""
