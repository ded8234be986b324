# SPDX-License-Identifier: BSD-2-Clause
"""Tests of what attackers can do: they build their packets with the hand-made peer of tests/endpoint."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "endpoint"))
