# SPDX-License-Identifier: BSD-2-Clause
"""Errors go from process to process: a pool pickles what a worker raised, and waits for ever where that is not read."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from mrc.capture.filter.language import FilterError
from mrc.collectives.errors import OperationTimeout, RankLost
from mrc.conformance.live.qp_file import QpFileError
from mrc.control.errors import ControlError
from mrc.errors import CallerError, MalformedPacket, MrcError, SystemRefused
from mrc.fabric.shape import ShapeError
from mrc.fabric.structure import Problem
from mrc.fabric.yaml_file import FileProblems
from mrc.fabric.yaml_tree import Place, YamlError
from mrc.net.exchange.channel import ChannelLost
from mrc.net.exchange.client import RefusedByPeer
from mrc.report.plots import NoPlots
from mrc.sim.fault import SimulationFault
from mrc.verbs.errors import VerbsError

ERRORS = (
    CallerError("planes must be 1..16"),
    SystemRefused("no room"),
    SystemRefused(28, "no room"),
    SystemRefused(28, "no room", "/tmp/file"),
    MalformedPacket("short", "3 bytes"),
    VerbsError(22, "no such state"),
    ControlError(7, "too long", 3),
    ShapeError("no such plane", "planes", "p9"),
    FilterError("ev ==", 3, 2, "a value is missing"),
    ChannelLost("closed", "the peer has closed"),
    RefusedByPeer("not now", "CallerError"),
    RankLost("rank 3 has ended", 3, "all_reduce"),
    OperationTimeout("not done in 3 s"),
    YamlError(Place(1, 2, "x"), ("links", 0), "no such thing"),
    FileProblems([Problem("f", 2, 1, "hosts", "no"), Problem("f", 1, 1, "planes", "neither")]),
    QpFileError([Problem("f", 1, 1, "qpn", "no")]),
    NoPlots(),
    SimulationFault("time went back"),
)


def of(error: Any) -> tuple[Any, ...]:
    system = [getattr(error, name, None) for name in ("errno", "strerror", "filename")]
    return type(error), str(error), error.args, vars(error), *system


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda it: pickle.loads(pickle.dumps(it))])
def test_copies_and_pickles_say_the_same(error: MrcError, again: Callable[[Any], Any]) -> None:
    assert of(again(error)) == of(error)


def test_every_error_that_takes_other_arguments_than_its_text_is_tried() -> None:
    def below(kind: type[MrcError]) -> set[type[MrcError]]:
        return {kind}.union(*map(below, kind.__subclasses__()))

    tried = {each for error in ERRORS for each in type(error).__mro__}
    own = {kind for kind in below(MrcError) if "__init__" in vars(kind) and kind.__module__.startswith("mrc.")}
    assert own <= tried
