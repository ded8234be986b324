# SPDX-License-Identifier: BSD-2-Clause
"""Interleaved rounds: medians and ratios by hand, and what a lab loses while whom is measured."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from mrc.bench.rounds import Rounds, Spread, run_rounds, set_loss
from mrc.bench.subject import Subject
from mrc.errors import CallerError, SystemRefused
from mrc.fabric import Clos
from mrc.lab import Lab

KEY = "goodput_gbps"


def rounds(**figures: list[float | None]) -> Rounds:
    return Rounds({name: [{KEY: value} for value in values] for name, values in figures.items()})


def test_medians_and_their_spread() -> None:
    assert rounds(mrc=[3.0, 1.0, 2.0]).spread("mrc", KEY) == Spread(2.0, 1.0, 3.0)
    assert rounds(mrc=[None, None]).spread("mrc", KEY) is None


def test_the_two_kinds_of_ratio_differ() -> None:
    found = rounds(mrc=[1.0, 4.0, 9.0], udp=[2.0, 1.0, 3.0])
    assert found.ratio_of_medians("mrc", "udp", KEY) == 4.0 / 2.0
    # 0.5, 4 and 3 round by round.
    assert found.pair_ratios("mrc", "udp", KEY) == Spread(3.0, 0.5, 4.0)


def test_a_baseline_that_moved_nothing_has_no_ratio() -> None:
    found = rounds(mrc=[1.0], udp=[0.0])
    assert found.ratio_of_medians("mrc", "udp", KEY) is None
    assert found.pair_ratios("mrc", "udp", KEY) is None


class Looking:
    """A subject that moves nothing: it looks at what the lab loses while it is measured."""

    def __init__(self, name: str, loss: float, order: list[str], missing: str = "") -> None:
        self.name = name
        self.loss = loss
        self._order = order
        self._missing = missing

    def check(self) -> None:
        if self._missing:
            raise SystemRefused(self._missing)

    def prepare(self, lab: Lab) -> None:
        self._order.append(f"prepare {self.name}")

    def run(self, lab: Lab) -> Mapping[str, Any]:
        self._order.append(self.name)
        losing = {
            (link.name, toward): way.loss_percent
            for link in lab.status().links
            for toward, way in link.toward.items()
            if way.loss_percent
        }
        return {"losing": losing}


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    if os.geteuid() != 0:
        pytest.skip("needs root")
    with Lab.up(f"test-{os.getpid()}-rounds", Clos(planes=1, spines=2)) as built:
        yield built


@pytest.mark.root
def test_every_second_round_goes_backwards(lab: Lab) -> None:
    order: list[str] = []
    subjects: list[Subject] = [Looking(name, 0.0, order) for name in "abc"]
    run_rounds(lab, subjects, 3)
    assert order == ["prepare a", "prepare b", "prepare c", *"abc", *"cba", *"abc"]


@pytest.mark.root
def test_every_path_loses_the_share_once_each_way(lab: Lab) -> None:
    order: list[str] = []
    found = run_rounds(lab, [Looking("whole", 0.0, order), Looking("lossy", 0.01, order)], 2)
    # A packet passes one link from a leaf to a spine, whichever way it goes.
    expected = {(f"p0l{leaf}-p0s{spine}", f"p0s{spine}"): 1.0 for leaf in range(2) for spine in range(2)}
    assert [each["losing"] for each in found.documents["lossy"]] == [expected, expected]
    assert [each["losing"] for each in found.documents["whole"]] == [{}, {}]
    set_loss(lab, 0.0)


@pytest.mark.root
def test_what_is_missing_is_said_before_anything_runs(lab: Lab) -> None:
    order: list[str] = []
    with pytest.raises(SystemRefused, match="install it"):
        run_rounds(lab, [Looking("a", 0.0, order), Looking("b", 0.0, order, "install it")], 1)
    assert order == []


@pytest.mark.root
def test_rounds_that_make_no_sense(lab: Lab) -> None:
    order: list[str] = []
    with pytest.raises(CallerError, match="at least 1 round"):
        run_rounds(lab, [Looking("a", 0.0, order)], 0)
    with pytest.raises(CallerError, match="twice"):
        run_rounds(lab, [Looking("a", 0.0, order), Looking("a", 0.0, order)], 1)
