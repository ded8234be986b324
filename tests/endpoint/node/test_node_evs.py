# SPDX-License-Identifier: BSD-2-Clause
"""Which EVs a packet that belongs to no QP may get, against a model with lists and sets."""

from __future__ import annotations

from hand_peer import paths
from hypothesis import given
from hypothesis import strategies as st

from mrc.endpoint.config import PeerNodeConfig
from mrc.endpoint.node.peer_node import PeerNode
from mrc.endpoint.parts.draws import Draws
from mrc.endpoint.paths.port_set import PortSet
from mrc.endpoint.paths.reverse import ReverseEvs

PLANES, SPINES = 3, 3
NUMBERS = range(PLANES * SPINES)
SOME_PLANES, SOME_EVS = st.sets(st.integers(0, PLANES - 1)), st.sets(st.sampled_from(NUMBERS))


def node_of(ports_down: PortSet) -> PeerNode:
    node = PeerNode({0: 1}, PeerNodeConfig(), Draws(5), lambda node: None, ports_down)
    node.add_paths(paths(PLANES, SPINES))
    return node


def expected_planes(node: PeerNode, usable: set[int], closed: set[int]) -> list[list[int]]:
    planes = [
        [number for number in NUMBERS if node.paths[number].plane == plane and number in usable]
        for plane in range(PLANES)
        if plane not in closed
    ]
    return [members for members in planes if members]


def known_good(reverse: ReverseEvs, members: list[int]) -> set[int]:
    confirmed = sorted((number for number in members if reverse.confirmed_at[number] >= 0), reverse=True)
    return set(confirmed[:2]) or {number for number in members if reverse.confirmed_at[number] == -1}


@given(SOME_PLANES, SOME_PLANES, SOME_EVS, SOME_EVS, SOME_EVS, SOME_EVS)
def test_control_packets_alternate_the_planes_that_have_evs_to_use(
    down: set[int], peer_down: set[int], unused: set[int], denied: set[int], confirmed: set[int], lost: set[int]
) -> None:
    """Higher numbers are confirmed later; ports have the number of their plane."""
    node = node_of(PortSet(down))
    for plane in peer_down:
        node.set_port(plane, False)
    for number in NUMBERS:
        node.reverse.users[number] = number not in unused
        node.reverse.deny(number, number in denied)
        if number in confirmed:
            node.reverse.confirm(number, number)
        if number in lost:
            node.reverse.lose(number)
    usable = set(NUMBERS) - unused - denied
    up_at_both = expected_planes(node, usable, down | peer_down)
    planes = up_at_both or expected_planes(node, usable, down)
    columns = [good for members in planes if (good := known_good(node.reverse, members))] or [*map(set, planes)]
    drawn = [node.evs.control_ev() for _ in range(60 * PLANES)]
    if columns:
        for turn in range(len(columns)):
            # Over and over each of them comes.
            assert set(drawn[turn :: len(columns)]) == columns[(turn + 1) % len(columns)]
    else:
        assert set(drawn) == {-1}
    random = {node.evs.random_ev() for _ in range(200)}
    assert random == {number for members in up_at_both for number in members} or (not up_at_both and random == {-1})


def test_a_plane_that_is_down_at_the_peer_stays_so_when_evs_are_added() -> None:
    node = PeerNode({0: 1}, PeerNodeConfig(), Draws(5), lambda node: None, PortSet())
    every = paths(PLANES, SPINES)
    node.add_paths(every[:6])
    node.set_port(1, False)
    node.add_paths(every)
    for number in NUMBERS:
        node.reverse.users[number] = 1
    assert {node.paths[node.evs.control_ev()].plane for _ in range(100)} == {0, 2}
    node.set_port(1, True)
    assert {node.paths[node.evs.control_ev()].plane for _ in range(100)} == {0, 1, 2}
