# SPDX-License-Identifier: BSD-2-Clause
"""Which EVs packets go by, and what changes that (behaviour.md, Paths)."""
