# SPDX-License-Identifier: BSD-2-Clause
"""A lab for the tests of real transfers, and what starts programs in it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from live_run import Transfers, missing, slowed

from mrc.lab import Lab


@pytest.fixture(scope="session")
def need_root() -> None:
    if os.geteuid() != 0:
        missing("root")


@pytest.fixture(scope="session")
def need_program() -> Callable[[str], str]:
    def find(program: str) -> str:
        path = shutil.which(program)
        if path is None:
            missing(f"the program {program}")
        return str(path)

    return find


def of_module(request: pytest.FixtureRequest) -> str:
    return request.module.__name__.rpartition(".")[2].removeprefix("test_live_").replace("_", "-")


@pytest.fixture(scope="session")
def built() -> Iterator[str]:
    """The name of a lab that is up: the default fabric, one for all tests of a process."""
    if os.geteuid() != 0:
        missing("root")
    with Lab.up(f"live-{os.getpid()}") as made:
        made.close()  # each file opens it
        yield made.name


@pytest.fixture(scope="module")
def lab(built: str) -> Iterator[Lab]:
    """The default fabric. A file leaves it as it was built."""
    with Lab.open(built) as opened:
        yield opened
        assert not opened.processes()
        assert opened.differences() == ()


@pytest.fixture(scope="module")
def slow_lab(request: pytest.FixtureRequest, need_root: None) -> Iterator[Lab]:
    """`slowed` to 20 Mbit/s a plane."""
    with Lab.up(f"live-{os.getpid()}-{of_module(request)}", slowed(20_000_000)) as built:
        yield built


@pytest.fixture(scope="module")
def steady_lab(request: pytest.FixtureRequest, need_root: None) -> Iterator[Lab]:
    """`slowed` to 100 Mbit/s a plane, of which control packets are little."""
    with Lab.up(f"live-{os.getpid()}-{of_module(request)}", slowed(100_000_000)) as built:
        yield built


@pytest.fixture
def transfers(lab: Lab, tmp_path: Path) -> Iterator[Transfers]:
    """Programs started through it are over after the test, and the fabric is whole."""
    made = Transfers(lab, tmp_path)
    yield made
    made.close()
    lab.heal(*lab.topology.hosts, *(f"p{plane}s{spine}" for plane in range(2) for spine in range(4)))
    assert not lab.processes()
