# SPDX-License-Identifier: BSD-2-Clause
"""What each forwarding mode puts into the plan, held against what an endpoint on that fabric sends."""

from __future__ import annotations

import pytest
from draws import draws
from hypothesis import given, settings
from hypothesis import strategies as st

from mrc.endpoint.paths.addressing import Path
from mrc.fabric import FORWARDING_MODES, Clos
from mrc.lab.plan import NodePlan, Route, RouteKind, host_fabric, plan
from mrc.net.negotiation import NodeDescription, QpDescription, peer_of
from mrc.wire.entropy import ev_to_fields
from mrc.wire.profile import DEFAULT_WIRE_PROFILE


def endpoint_paths(topology: Clos, source: int = 0, destination: int = 1) -> tuple[Path, ...]:
    """The paths the endpoint of one host makes towards another's, from nothing but their fabric files."""
    ours, theirs = (host_fabric(topology, host, "x") for host in (source, destination))
    peer = peer_of(ours, NodeDescription.of(theirs), QpDescription(9, 0), DEFAULT_WIRE_PROFILE)
    return tuple(peer.paths)


def everything(node: NodePlan) -> list[Route]:
    return [*node.routes, *(route for interface in node.interfaces for route in interface.routes)]


@pytest.mark.parametrize(
    ("mode", "expected"), [("srv6", "srv6"), ("srv6-srh", "srv6-srh"), ("stev", "stev"), ("ecmp", "udp")]
)
def test_the_fabric_file_names_the_mode(mode: str, expected: str) -> None:
    assert host_fabric(Clos(mode=mode), 0, "x").mode == expected


@pytest.mark.parametrize("mode", FORWARDING_MODES)
def test_only_usid_modes_route_usids(mode: str) -> None:
    plans = plan(Clos(mode=mode))
    shifting = {name for name, node in plans.items() if node.needs_usid_device}
    assert shifting == (set(Clos().leaf_switches + Clos().spine_switches) if mode.startswith("srv6") else set())
    ours = [route for node in plans.values() for route in everything(node) if route.prefix.startswith("5f00:")]
    assert bool(ours) == mode.startswith("srv6")


def test_a_leaf_sends_each_ev_to_the_spine_in_its_first_field() -> None:
    """Rule by rule: the mark of the packet's first word, the table of that mark, the interface of its route.

    MRC-EV-06.
    """
    topology = Clos(mode="stev", spines=5)
    plans = plan(topology)
    seen = set()
    for path in endpoint_paths(topology):
        leaf = plans[f"p{path.plane}l0"]
        assert leaf.marking is not None
        # wire.md section 10: the most significant byte is the first hop's.
        assert path.ev >> 24 == path.spine
        _, flow_label = ev_to_fields(path.ev)
        first_word = 6 << 28 | 0xB8 << 20 | flow_label
        mark = first_word & leaf.marking.mask | leaf.marking.tag
        rules = [rule for rule in leaf.rules if rule.mark is not None and mark & rule.mask == rule.mark]
        chosen = min(rules, key=lambda rule: rule.priority)
        ways = [
            interface.name
            for interface in leaf.interfaces
            for route in interface.routes
            if route.table == chosen.table is not None
        ]
        assert ways == [f"p{path.plane}s{path.spine}"]
        seen.add((path.plane, path.spine))
    assert seen == {(plane, spine) for plane in range(2) for spine in range(5)}


def test_a_leaf_marks_both_udp_ports_and_nothing_but_the_first_field() -> None:
    marking = plan(Clos(mode="stev"))["p1l1"].marking
    assert marking is not None
    assert marking.udp_ports == (4791, 4971)
    # The EV's high half is the low half of the flow label, bits 15 to 0 of the header's first word.
    assert marking.mask == 0x0000FF00
    assert marking.mask & marking.tag == 0


@settings(max_examples=draws(10), deadline=None)
@given(st.sampled_from(FORWARDING_MODES), st.integers(1, 3), st.integers(1, 3), st.integers(1, 3))
def test_behind_each_host_and_each_switch_there_is_silence(mode: str, planes: int, leaves: int, hosts: int) -> None:
    topology = Clos(planes=planes, leaves=leaves, spines=2, hosts_per_leaf=hosts, mode=mode)
    for node in plan(topology).values():
        silent = {route.prefix: route for route in node.routes if route.kind is RouteKind.BLACKHOLE and not route.table}
        assert ("fd4d:5243::/32" in silent) == node.is_switch
        own_hosts = [
            route.prefix
            for interface in node.interfaces
            if interface.name.startswith("h")
            for route in interface.routes
            if route.prefix.startswith("fd4d:")
        ]
        for prefix in own_hosts:
            # Behind the route by the cable, which has the kernel's own metric of 1024.
            assert (silent[prefix].metric or 0) > 1024
