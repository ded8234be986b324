# SPDX-License-Identifier: BSD-2-Clause
"""Congestion controllers of installed packages are found by name (docs/extending.md)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mrc.endpoint.congestion import CongestionController, PacketSizes, algorithm_names, factory_of, registry
from mrc.errors import CallerError


@pytest.fixture
def offer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, str], None]]:
    """Installs a package with a module and an entry point that names something in it."""

    def install(value: str, source: str) -> None:
        (tmp_path / "another_package.py").write_text(source)
        info = tmp_path / "another_package-1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: another-package\nVersion: 1\n")
        (info / "entry_points.txt").write_text(f"[{registry.ENTRY_POINTS}]\nhalving = {value}\n")

    monkeypatch.setattr(registry, "_registered", dict(registry._registered))
    monkeypatch.syspath_prepend(tmp_path)
    yield install
    sys.modules.pop("another_package", None)


HALVING = """
from mrc.endpoint.congestion import FixedWindow

class Halving(FixedWindow):
    pass
"""


def test_a_controller_of_an_installed_package_is_found_by_name(offer: Callable[[str, str], None]) -> None:
    offer("another_package:Halving", HALVING)
    assert "halving" in algorithm_names()
    controller = factory_of("halving")(PacketSizes(4200, 4096))
    assert isinstance(controller, CongestionController)
    assert type(controller).__name__ == "Halving"
    # Once loaded it stays what it is.
    assert factory_of("halving") is factory_of("halving")


@pytest.mark.parametrize(
    ("value", "source", "says"),
    [
        ("another_package:Halving", "raise RuntimeError('no luck')", "cannot be loaded: no luck"),
        ("another_package:Halving", "", "cannot be loaded: .*Halving"),
        ("another_package:Halving", "Halving = 3", "makes no controller"),
    ],
    ids=["an error", "a name that is not there", "no factory"],
)
def test_a_package_that_is_broken_is_named(
    offer: Callable[[str, str], None], value: str, source: str, says: str
) -> None:
    offer(value, source)
    with pytest.raises(CallerError, match=f"'halving'.*{says}"):
        factory_of("halving")


def test_an_unknown_name_says_what_there_is(offer: Callable[[str, str], None]) -> None:
    offer("another_package:Halving", HALVING)
    with pytest.raises(CallerError, match="no congestion controller 'cubic': there are fixed, halving, none, nscc"):
        factory_of("cubic")
