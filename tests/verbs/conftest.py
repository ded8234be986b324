# SPDX-License-Identifier: BSD-2-Clause
"""Every pair of ends a test opens is closed behind it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from verbs_pair import Pair


@pytest.fixture(autouse=True)
def close_pairs() -> Iterator[None]:
    yield
    while Pair.opened:
        Pair.opened.pop().close()
