# SPDX-License-Identifier: BSD-2-Clause
"""What cannot be simulated is refused, with the name of what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import numpy as np
import pytest
from cluster_setups import PLAIN, flows

from mrc.errors import CallerError
from mrc.sim.cluster import ClusterLink, EvRequest, Failures, Flows, Policies, Progress, Setup, Topology, run
from mrc.sim.cluster.hosts import Hosts

SMALL = Topology(4, planes=2, hosts_per_leaf=2, spines=2)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Topology(1), "hosts must be 2"),
        (lambda: Topology(10, hosts_per_leaf=4), "multiple of hosts_per_leaf"),
        (lambda: Topology(8, hosts_per_leaf=2, leaves_per_pod=2), "for tiers=3"),
        (lambda: Topology(8, hosts_per_leaf=2, tiers=3, leaves_per_pod=3, cores_per_spine=1), "leaves_per_pod, 3"),
        (lambda: Topology(8, hosts_per_leaf=2, tiers=4), "tiers must be 2..3, got 4"),
        (lambda: ClusterLink(rate_bps=0), "rate_bps must be"),
        (lambda: ClusterLink(loss=1.5), "loss must be 0.0..1.0, got 1.5"),
        (lambda: ClusterLink(ecn_low_bytes=5), "come together"),
        (lambda: ClusterLink(ecn_low_bytes=5, ecn_high_bytes=4), "ecn_low_bytes must be at most ecn_high_bytes"),
        (lambda: ClusterLink(trim_to_bytes=40), "trim_to_bytes must be 100"),
        (lambda: Policies(evs=0), "evs must be 1"),
        (lambda: Policies(ev_choice="best"), "one of spread, random, first"),
        (lambda: Policies(ev_choice=7), "or a function of yours, got 7"),  # type: ignore[arg-type]
        (lambda: Policies(ev_choice=Random), r"not the class: ev_choice=Random\(\)"),  # type: ignore[arg-type]
        (lambda: run(Setup(SMALL, flows([0], [0], 1))), "flow 0 leads from a host to itself"),
        (lambda: run(Setup(SMALL, flows([0], [4], 1))), "destination: hosts are 0..3, got 4..4"),
        (lambda: run(Setup(SMALL, flows([0], [1], 0))), "bytes must be 1"),
        (lambda: run(Setup(SMALL, flows([0], [1], 1, -1))), "start_ns cannot be negative"),
        (
            lambda: run(Setup(SMALL, flows([0], [1], 9), policies=Policies(controller="cubic"))),
            "no congestion controller",
        ),
        (
            lambda: run(Setup(SMALL, flows([0], [1], 9), policies=Policies(controller_settings=(("speed", 1),)))),
            "controller_settings: .*speed",
        ),
        (lambda: run(Setup(SMALL, flows([0], [1], 9), ClusterLink(delay_ns=50_000_000))), "a shorter delay"),
        (lambda: Setup(SMALL, flows([0], [1], 9), threads=0), "threads must be 1"),
        (lambda: Setup(SMALL, flows([0], [1], 9), shards=0), "shards must be 1"),
    ],
)
def test_errors_name_what_is_wrong(make: Callable[[], object], said: str) -> None:
    with pytest.raises(CallerError, match=said):
        make()


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        (([0], [5], [0], [0]), "failure 0: cable 5: 0..11"[:10]),
        (([-1], [0], [0], [0]), "time_ns cannot be negative"),
        (([0], [9], [0], [0]), "failure 0: 9 is not a valid Target"),
        (([0], [4], [2], [0]), "failure 0: plane 2: 0..1"),
        (([0, 1], [0], [0], [0]), "target must be one column of 2 rows"),
    ],
)
def test_failures_are_checked(columns: tuple[list[int], ...], said: str) -> None:
    found = Failures(*(np.array(column) for column in columns))
    if said.startswith("failure 0:") and columns[1] == [5]:
        said = "failure 0: 5 is not a valid Target"
    with pytest.raises(CallerError, match=said):
        found.checked(SMALL)


def test_dependencies_are_checked() -> None:
    one = flows([0, 1], [1, 2], 9)
    for first, after in (([0, 1], [0]), ([0, 0, 3], [0]), ([], [0]), ([0, 0, 1], [7])):
        broken = Flows(one.source, one.destination, one.bytes, one.start_ns, np.array(first, int), np.array(after))
        with pytest.raises(CallerError, match="after"):
            broken.checked(4)


@pytest.mark.parametrize("choice", ["spread", "random", "first"])
def test_evs_are_chosen_over_all_planes(choice: str) -> None:
    topology = Topology(64, planes=4, hosts_per_leaf=8, spines=8)
    paths = Hosts(topology, Policies(evs=12, ev_choice=choice), seed=3).paths(1, 60)
    assert len({path.ev for path in paths}) == 12
    assert all(path.ev == path.plane << 24 | path.spine and path.spine < 8 for path in paths)
    if choice != "random":
        assert np.bincount([path.plane for path in paths]).tolist() == [3, 3, 3, 3]
    # Neighbours on one leaf have one way in each plane.
    assert len(Hosts(topology, Policies(evs=12, ev_choice=choice), seed=3).paths(1, 2)) == 4


@pytest.mark.parametrize(("evs", "wanted"), [(None, 32), (128, 32), (12, 12)])
def test_a_choice_of_ones_own_is_asked_whatever_is_wanted(evs: int | None, wanted: int) -> None:
    asked: list[EvRequest] = []

    def upper_half(request: EvRequest) -> list[tuple[int, int]]:
        asked.append(request)
        return [(plane, uplink) for plane in (2, 3) for uplink in request.uplinks[:2]]

    topology = Topology(64, planes=4, hosts_per_leaf=8, spines=8)
    paths = Hosts(topology, Policies(evs=evs, ev_choice=upper_half), seed=3).paths(1, 60)
    assert [(path.plane, path.spine) for path in paths] == [(2, 0), (2, 1), (3, 0), (3, 1)]
    (request,) = asked
    assert (request.near, request.far, request.planes, request.wanted) == (1, 60, 4, wanted)


def test_progress_is_told_at_the_start_and_at_the_end() -> None:
    told: list[Progress] = []
    run(Setup(SMALL, flows([0], [2], 9), PLAIN, PLAIN), told.append)
    assert [(each.flows_done, each.over) for each in told] == [(0, False), (1, True)]
