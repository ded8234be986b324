# SPDX-License-Identifier: BSD-2-Clause
"""Fixtures for tests that build real namespaces."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator

import pytest
from lab_wire import Wire

from mrc.lab import Lab


def missing(what: str) -> None:
    """Skip, or fail where everything is supposed to be installed."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"needs {what}")
    pytest.skip(f"needs {what}")


@pytest.fixture(autouse=True)
def _root(request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker("root") and os.geteuid() != 0:
        missing("root")


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
        assert path is not None
        return path

    return find


@pytest.fixture(scope="session")
def lab_name() -> Callable[[str], str]:
    """A lab name of this test run's own."""
    return lambda what: f"test-{os.getpid()}-{what}"


@pytest.fixture(scope="module")
def lab(lab_name: Callable[[str], str], request: pytest.FixtureRequest) -> Iterator[Lab]:
    """The default fabric, one for all tests of a module; they leave it whole."""
    if os.geteuid() != 0:
        missing("root")
    with Lab.up(lab_name(request.module.__name__.rpartition(".")[2].removeprefix("test_lab_"))) as built:
        yield built


@pytest.fixture
def wire(lab: Lab) -> Iterator[Wire]:
    opened = Wire(lab)
    yield opened
    opened.close()


@pytest.fixture
def make_wire() -> Iterator[Callable[[Lab], Wire]]:
    opened: list[Wire] = []

    def make(lab: Lab) -> Wire:
        opened.append(Wire(lab))
        return opened[-1]

    yield make
    for each in opened:
        each.close()
