# SPDX-License-Identifier: BSD-2-Clause
"""Every pair of hosts a test opens is closed behind it; sockets are in a directory of the test's own."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from control_pair import ControlPair
from control_served import Served


@pytest.fixture(autouse=True)
def close_pairs() -> Iterator[None]:
    yield
    while ControlPair.opened:
        ControlPair.opened.pop().close()


@pytest.fixture
def directory(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where control sockets are made and looked for. A socket's path has 107 bytes at most."""
    path = Path(f"/tmp/mrc-test-{os.getpid()}")
    path.mkdir(mode=0o700)
    monkeypatch.setenv("MRC_CONTROL_DIR", str(path))
    yield path
    shutil.rmtree(path)


@pytest.fixture
def served(directory: Path) -> Iterator[Served]:
    made = Served()
    yield made
    made.close()
