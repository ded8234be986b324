# SPDX-License-Identifier: BSD-2-Clause
"""A lab for the tests of real transfers, and what starts programs in it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from live_run import Transfers, missing

from mrc.fabric import Clos, Description, Impairment
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


@pytest.fixture(scope="module")
def lab(request: pytest.FixtureRequest) -> Iterator[Lab]:
    """The default fabric, one for all tests of a module."""
    if os.geteuid() != 0:
        missing("root")
    module = request.module.__name__.rpartition(".")[2].removeprefix("test_live_").replace("_", "-")
    with Lab.up(f"live-{os.getpid()}-{module}") as built:
        yield built


@pytest.fixture(scope="module")
def slow_lab(request: pytest.FixtureRequest, need_root: None) -> Iterator[Lab]:
    """The default fabric, in which h0 sends 20 Mbit/s a plane: what goes on for long takes little of a processor."""
    module = request.module.__name__.rpartition(".")[2].removeprefix("test_live_").replace("_", "-")
    slow = {(f"h0-p{plane}l0", f"p{plane}l0"): Impairment(rate_bps=20_000_000) for plane in range(2)}
    with Lab.up(f"live-{os.getpid()}-{module}", Description(Clos(), slow)) as built:
        yield built


@pytest.fixture
def transfers(lab: Lab, tmp_path: Path) -> Iterator[Transfers]:
    """Programs started through it are over after the test, and the fabric is whole."""
    made = Transfers(lab, tmp_path)
    yield made
    made.close()
    lab.heal(*lab.topology.hosts, *(f"p{plane}s{spine}" for plane in range(2) for spine in range(4)))
    assert not lab.processes()
