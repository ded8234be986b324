# SPDX-License-Identifier: BSD-2-Clause
"""Targets that lack what cases need: such a case is unsupported and says what it needs; none breaks down, and none
fails an endpoint that is right."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from draws import draws
from limited_targets import LimitedRc, LimitedTarget, Limits
from toy_targets import ToySession, ToyTarget, silent

from mrc.conformance.catalogue import catalogue, chosen
from mrc.conformance.control import TWIN
from mrc.conformance.requirements import CONGESTION, GROUPS
from mrc.conformance.runner import run_case
from mrc.conformance.setup import Plane, Setup
from mrc.conformance.target import Session, TargetQp
from mrc.conformance.verdicts import PASSED, UNSUPPORTED
from mrc.rc.conformance.catalogue import rc_catalogue
from mrc.wire.profile import WireProfile

NO_CAPABILITIES: frozenset[str] = frozenset()
OTHER_GROUPS = [group for group in GROUPS if group != CONGESTION]
# Each lacks several things that no case needs together, so that a few walks see every lack.
LACKING = {
    "one EV, one QP, no settings": Limits(planes=1, evs_per_plane=1, connections=1, settings=False),
    "two EVs, MTU 256": Limits(planes=1, evs_per_plane=2, path_mtu=256),
    "an EV in each of two planes, MPR 1": Limits(planes=2, evs_per_plane=1, granted={"mpr_dest": 1}),
    "an EV in each of four planes, one immediate": Limits(planes=4, evs_per_plane=1, granted={"max_wimm_dest": 1}),
    "three planes, MTU 4096": Limits(planes=3, evs_per_plane=3, path_mtu=4096),
    "one plane with many EVs, a region at 0": Limits(planes=1, evs_per_plane=16, region_va=0),
    "three EVs, no immediates, no capabilities": Limits(
        planes=1, evs_per_plane=3, granted={"max_wimm_dest": 0}, capabilities=NO_CAPABILITIES
    ),
    "4096 bytes of memory, three QPs": Limits(region_length=4096, connections=3),
    "64 bytes of memory": Limits(region_length=64),
}
# What a target has to have by a requirement: the lack is its fault.
MUST_HAVE = {"mpr_dest": "MRC-QP-05", "max_wimm_dest": "MRC-QP-05/immediates"}


# Of the cases each walk takes a part, and the next one another.
PARTS = max(1, 3 // draws(1))


@pytest.mark.parametrize(("at", "lacking"), list(enumerate(LACKING)), ids=LACKING)
def test_a_case_whose_needs_are_not_met_is_unsupported(at: int, lacking: str) -> None:
    limits = LACKING[lacking]
    target = LimitedTarget(limits)
    faults = {MUST_HAVE[name] for name in limits.granted}
    # All congestion cases need the same: settings, and packets of 1024 bytes.
    every = catalogue() if not limits.settings or limits.path_mtu else chosen(catalogue(), [], OTHER_GROUPS)
    some = [each for place, each in enumerate(every) if place % PARTS == at % PARTS or each.id in faults]
    found = {each.id: run_case(each, target) for each in some}
    wrong = {name: result.actual for name, result in found.items() if result.verdict not in (PASSED, UNSUPPORTED)}
    assert wrong.keys() == faults, wrong
    unsupported = [result for result in found.values() if result.verdict == UNSUPPORTED]
    assert unsupported
    assert all(result.actual for result in unsupported)


@pytest.mark.parametrize(
    "limits",
    [Limits(path_mtu=256), Limits(path_mtu=4096), Limits(region_va=0), Limits(region_length=4096)],
    ids=["MTU 256", "MTU 4096", "a region at 0", "4096 bytes of memory"],
)
def test_plain_rc_too(limits: Limits) -> None:
    target = LimitedRc(limits)
    found = {each.id: run_case(each, target) for each in rc_catalogue()}
    wrong = {name: result.actual for name, result in found.items() if result.verdict not in (PASSED, UNSUPPORTED)}
    assert wrong == {}
    assert PASSED in {result.verdict for result in found.values()}


PLANES = tuple(Plane(plane, f"fd00:{plane}::1", f"fd00:{plane}::2", (1, 2), (3, 4, 5)[: 3 - plane]) for plane in (0, 1))


class Small(ToySession):
    """2 planes, 2 + 2 EVs to it, 3 + 2 of its profile, MPR 2, 3 writes with immediate, 8192 bytes, 2 QPs."""

    planes = PLANES
    most_connections = 2

    def connect(self, setup: Setup, tester: Any) -> TargetQp:
        qp = super().connect(setup, tester)
        qp.terms = replace(qp.terms, mpr=2, max_wimm=3, region_length=8192)
        return qp


class SmallTarget(ToyTarget):
    def open(self, setup: Setup, wire: WireProfile, seed: int) -> Session:
        return Small(silent)


@pytest.mark.parametrize(
    ("need", "there", "reason"),
    [
        ("planes", 2, "the case needs 3 planes, this target has 2"),
        ("evs", 4, "the case needs 5 EVs to the target, this target has 4"),
        ("target_evs", 5, "the case needs 6 EVs of the target's profile, this target has 5"),
        ("plane_evs", 2, "the case needs 3 EVs of the target's profile in each plane, this target has 2"),
        ("window", 256, "the case needs 257 PSNs of window (MPR x 128) that the target grants, this target has 256"),
        ("immediates", 3, "the case needs 4 writes with immediate that the target grants, this target has 3"),
        ("region", 8192, "the case needs 8193 bytes of memory open to the tester, this target has 8192"),
        ("connections", 2, "the case needs 3 QPs at once, this target has 2"),
    ],
)
def test_each_need_is_looked_at_before_the_script_begins(need: str, there: int, reason: str) -> None:
    began: list[int] = []

    def verdict(count: int) -> tuple[str, str | None]:
        setup: Any = {need: count}
        case = replace(TWIN, setup=Setup(**setup), script=lambda bench: began.append(count))
        result = run_case(case, SmallTarget(silent))
        return result.verdict, result.actual

    assert verdict(there) == (PASSED, None)
    assert verdict(there + 1) == (UNSUPPORTED, reason)
    assert began == [there]


def test_a_session_without_planes_is_unsupported() -> None:
    class Bare(Small):
        planes = ()

    class BareTarget(ToyTarget):
        def open(self, setup: Setup, wire: WireProfile, seed: int) -> Session:
            return Bare(silent)

    result = run_case(TWIN, BareTarget(silent))
    assert (result.verdict, result.actual) == (UNSUPPORTED, "the case needs 1 plane, this target has 0")


def test_needs_are_part_of_the_catalogue() -> None:
    """`mrc conformance list --json` has them, and none is less than nothing."""
    from mrc.conformance.report.document import catalogue_document

    for each in catalogue_document([*catalogue(), *rc_catalogue()])["cases"]:
        setup = each["setup"]
        assert all(setup[need] >= 0 for need in ("evs", "target_evs", "plane_evs", "window", "immediates", "region"))
        assert setup["connections"] >= 1
