# SPDX-License-Identifier: BSD-2-Clause
"""How much is drawn: each run of the suite looks at some, MRC_DRAWS=10 at ten times as many, MRC_DRAWS=0.3 at fewer."""

from __future__ import annotations

import os


def draws(some: int) -> int:
    return max(1, round(some * float(os.environ.get("MRC_DRAWS", "1"))))
