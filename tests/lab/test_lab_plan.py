# SPDX-License-Identifier: BSD-2-Clause
"""The address plan against wire.md section 11's own example, and the properties the kernel relies on."""

from __future__ import annotations

import ipaddress

import pytest
from draws import draws
from hypothesis import given, settings
from hypothesis import strategies as st

from mrc.errors import CallerError
from mrc.fabric import Clos, Fabric
from mrc.lab.plan import RouteKind, host_fabric, interface_name, plan
from mrc.lab.state import check_name

shapes = st.builds(
    Clos,
    planes=st.integers(1, 3),
    leaves=st.integers(1, 3),
    spines=st.integers(1, 4),
    hosts_per_leaf=st.integers(1, 3),
)


def routes_of(node: str, kind: RouteKind) -> set[str]:
    planned = plan(Clos())[node]
    everything = planned.routes + tuple(route for interface in planned.interfaces for route in interface.routes)
    return {route.prefix for route in everything if route.kind is kind}


def test_usids_are_those_of_the_specification_example() -> None:
    """MRC-SRV6-03."""
    # Plane 1, uplink 3, leaf 0 to host 1 on leaf 1: 5f00:0:1100:2103:1101:4101:: (wire.md section 11).
    assert routes_of("p1l0", RouteKind.USID) == {"5f00:0:1100::/48"}
    assert "5f00:0:2103::/48" in routes_of("p1l0", RouteKind.FORWARD)
    assert routes_of("p1s3", RouteKind.USID) == {"5f00:0:2103::/48"}
    assert "5f00:0:1101::/48" in routes_of("p1s3", RouteKind.FORWARD)
    assert "5f00:0:4101::/48" in routes_of("p1l1", RouteKind.FORWARD)
    assert routes_of("h1", RouteKind.LOCAL) == {"5f00:0:4001::/48", "5f00:0:4101::/48"}


def test_a_host_reaches_the_leaves_of_each_plane_through_its_port_there() -> None:
    host = plan(Clos())["h0"]
    found = {interface.name: interface.routes[0] for interface in host.interfaces}
    assert {name: route.prefix for name, route in found.items()} == {
        "p0": "5f00:0:1000::/40",
        "p1": "5f00:0:1100::/40",
    }
    assert {name: route.source for name, route in found.items()} == {"p0": "fd4d:5243::1", "p1": "fd4d:5243:1::1"}


@settings(max_examples=draws(10), deadline=None)
@given(shapes)
def test_names_and_numbers_never_clash(shape: Clos) -> None:
    plans = plan(shape)
    ends = [interface for node in plans.values() for interface in node.interfaces]
    assert len(ends) == 2 * len(shape.links)
    for attribute in ("index", "mac", "link_local"):
        assert len({getattr(end, attribute) for end in ends}) == len(ends), attribute
    for node in plans.values():
        names = [interface.name for interface in node.interfaces]
        assert len(set(names)) == len(names)
        assert all(len(name) <= 15 for name in names)
    plain = [address for end in ends for address in end.addresses]
    assert len(set(plain)) == len(plain) == shape.planes * shape.host_count
    assert all(str(ipaddress.IPv6Address(address)) == address for address in plain)


@settings(max_examples=draws(10), deadline=None)
@given(shapes)
def test_both_ends_of_a_link_know_each_other(shape: Clos) -> None:
    plans = plan(shape)
    for link in shape.links:
        lower, upper = plans[link.lower].interface(link), plans[link.upper].interface(link)
        assert (lower.peer_mac, lower.peer_link_local) == (upper.mac, upper.link_local)
        assert (upper.peer_mac, upper.peer_link_local) == (lower.mac, lower.link_local)
        assert lower.name == interface_name(link, link.lower)


def test_the_fabric_file_reads_back(tmp_path: object) -> None:
    from pathlib import Path

    described = host_fabric(Clos(planes=3, spines=5, hosts_per_leaf=2), 3, "x")
    path = Path(str(tmp_path)) / "h3.json"
    path.write_text(described.to_json())
    loaded = Fabric.load(path)
    assert loaded == described
    assert [(port.interface, port.leaf, port.uplinks) for port in loaded.ports] == [
        ("p0", 1, 5),
        ("p1", 1, 5),
        ("p2", 1, 5),
    ]


@pytest.mark.parametrize(
    ("target", "count"), [("p0l0-p0s1", 1), ("p0s1-p0l0", 1), ("p0s1", 2), ("p0l0", 5), ("h0", 2), ("plane:1", 10)]
)
def test_targets(target: str, count: int) -> None:
    assert len(Clos().links_of_target(target)) == count


@pytest.mark.parametrize("target", ["p0l0-p1s1", "p0s9", "plane:2", "plane:x", "", "h7"])
def test_unknown_targets_are_the_callers_fault(target: str) -> None:
    with pytest.raises(CallerError):
        Clos().links_of_target(target)


@pytest.mark.parametrize("name", ["", "../x", "a/b", "-x", "a" * 41, "a b", "x\n"])
def test_names_that_could_leave_the_directory_are_refused(name: str) -> None:
    with pytest.raises(CallerError, match="not a lab name"):
        check_name(name)
