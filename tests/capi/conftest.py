# SPDX-License-Identifier: BSD-2-Clause
"""Fixtures of the C interface's tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from c_programs import own_network
from loopback import Inside


@pytest.fixture
def inside() -> Iterator[Inside]:
    """Runs a function in a namespace of the test's own."""
    yield from own_network()
