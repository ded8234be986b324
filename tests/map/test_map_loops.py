# SPDX-License-Identifier: BSD-2-Clause
"""Loops as lists of uSIDs (wire.md section 11), and the schedule in which a host sends them."""

from __future__ import annotations

import ipaddress
import itertools
import random
from collections import Counter

import pytest
from virtual_fabric import passages

from mrc.errors import CallerError
from mrc.fabric import Clos
from mrc.fabric.place import Place
from mrc.map.components import Kind, suspects_of
from mrc.map.loops import Loop, far_loops, loops_of, near_loops, schedule
from mrc.wire.usid import DEFAULT_BLOCK


@pytest.mark.parametrize(
    ("loop", "address"),
    [
        (Loop(0, (0x1000, 0x4000)), "5f00:0:1000:4000::"),
        (Loop(1, (0x1102, 0x4103)), "5f00:0:1102:4103::"),
        (Loop(0, (0x1000, 0x2001, 0x1000, 0x4000)), "5f00:0:1000:2001:1000:4000::"),
        (Loop(1, (0x1104, 0x2103, 0x1107, 0x2102, 0x1104, 0x4105)), "5f00:0:1104:2103:1107:2102:1104:4105"),
    ],
)
def test_a_loop_is_an_address_worked_out_by_hand(loop: Loop, address: str) -> None:
    assert ipaddress.IPv6Address(loop.address(DEFAULT_BLOCK)) == ipaddress.IPv6Address(address)


@pytest.mark.parametrize(
    "usids",
    [
        (),
        (0x4000,),
        (0x1000, 0x2001, 0x1000),
        (0x1000, 0x4000, 0x1000, 0x4000),
        (0x1100, 0x4000),
        (0x1000, 0x3000, 0x1000, 0x4000),
        (0x1000, 0x2001, 0x1001, 0x4000),
        (0x1000, 0x1000, 0x4000),
        (0x1000, 0x2001, 0x1001, 0x2001, 0x1001, 0x2001, 0x1000, 0x4000),
    ],
)
def test_no_loop_of_usids_that_make_none(usids: tuple[int, ...]) -> None:
    with pytest.raises(CallerError):
        Loop(0, usids)


def test_the_loops_of_a_host_reach_each_leaf_and_each_spine_and_come_back() -> None:
    port = Place(plane=1, leaf=2, leaves=4, uplinks=4)
    loops = loops_of(2, [port])
    # Itself, 4 spines, and 3 leaves by 4 spines back by 3 others.
    assert len(loops) == len(set(loops)) == 1 + 4 + 3 * 4 * 3
    reached = {part for loop in loops for part, _ in passages(loop)}
    assert reached >= {f"p1l{leaf}" for leaf in range(4)} | {f"p1s{spine}" for spine in range(4)}
    for loop in loops:
        way = [end for part, end in passages(loop) if end]
        assert way[0] == way[-2] == "p1l2"
        assert way[-1] == "h2"


def test_both_directions_of_each_cable_are_told_apart_from_loops() -> None:
    """Every part of a fabric of four hosts has a column of its own."""
    clos = Clos(planes=1, leaves=4, spines=4)
    loops = [loop for host in range(4) for loop in loops_of(host, [Place(0, host, 4, 4)])]
    suspects = suspects_of(0, loops)
    assert not any(each.also for each in suspects.listed)
    told = Counter(each.component.kind for each in suspects.listed)
    links, switches = len(list(clos.fabric_links())), 4
    assert told == {
        Kind.LINK: 3 * links,
        Kind.HOST_PORT: 4,
        Kind.LEAF: switches,
        Kind.SPINE: switches,
        Kind.PLANE: 1,
    }
    # And says how often each loop passes it, as the walk over its uSIDs does.
    for number, loop in enumerate(loops):
        walked = Counter(passages(loop))
        for column, each in enumerate(suspects.listed):
            if each.toward is not None:
                assert suspects.passes[number, column] == walked[each.component.name, each.toward]
            elif each.component.kind in (Kind.LEAF, Kind.SPINE):
                assert suspects.passes[number, column] == walked[each.component.name, ""]


def test_what_no_loop_tells_apart_is_said_to_be_so() -> None:
    """One leaf, one host: a spine cannot be told from its only cable, nor the leaf from the host's port."""
    suspects = suspects_of(0, loops_of(0, [Place(0, 0, 1, 2)]))
    also = {each.component.name: each.also for each in suspects.listed}
    assert also["p0l0-p0s0"] == ("p0s0",)
    assert "p0s0" not in also
    assert {"h0-p0l0", *also["h0-p0l0"]} >= {"h0-p0l0", "plane:0"}


def test_with_one_spine_the_directions_of_a_cable_are_one() -> None:
    loops = [loop for host in range(3) for loop in loops_of(host, [Place(0, host, 3, 1)])]
    links = [each for each in suspects_of(0, loops).listed if each.component.kind is Kind.LINK]
    assert [each.toward for each in links] == [None] * 3


def test_the_schedule_is_fair_to_planes_and_loops() -> None:
    ports = [Place(plane, 1, 4, 4) for plane in range(2)]
    sent = Counter(itertools.islice(schedule(1, ports, random.Random(5)), 6 * 36 * 2 * 10))
    assert sum(count for loop, count in sent.items() if loop.plane == 0) == sum(sent.values()) // 2
    near = [sent[loop] for loop in near_loops(1, ports[0])]
    far = [sent[loop] for loop in far_loops(1, ports[0])]
    # One near loop for five far ones, each as often as the others: 5 near loops, 36 far ones.
    assert max(near) - min(near) <= 1
    assert max(far) - min(far) <= 1
    assert sum(far) == 5 * sum(near)


def test_a_fabric_of_one_leaf_has_near_loops_alone() -> None:
    port = Place(0, 0, 1, 3)
    assert far_loops(0, port) == ()
    assert set(itertools.islice(schedule(0, [port], random.Random(1)), 40)) == set(near_loops(0, port))
