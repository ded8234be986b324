# SPDX-License-Identifier: BSD-2-Clause
"""Fixtures of the C interface's tests."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from c_programs import own_network
from loopback import Inside


@pytest.fixture
def inside() -> Iterator[Inside]:
    """Runs a function in a namespace of the test's own."""
    yield from own_network()


@pytest.fixture
def directory() -> Iterator[str]:
    """Where the host's file is that a controller changes. A socket's path has 107 bytes at most."""
    path = Path(f"/tmp/mrc-ctl-{os.getpid()}")
    path.mkdir(mode=0o700)
    yield str(path)
    shutil.rmtree(path)
