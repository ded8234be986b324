# SPDX-License-Identifier: BSD-2-Clause
"""When something wants to be looked at next, in ns of the endpoint's clock."""

from __future__ import annotations

from typing import Final

# No timer runs.
FOREVER: Final = 1 << 62
