# SPDX-License-Identifier: BSD-2-Clause
"""Tests that look at what compiled code keeps to itself run interpreted only."""

from __future__ import annotations

import pytest

from mrc import CORE
from mrc.core import COMPILED

SEEN_FROM_WITHIN = pytest.mark.skipif(
    CORE.kind == COMPILED, reason="seen from within: compiled code calls nothing that can be watched"
)
