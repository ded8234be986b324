# SPDX-License-Identifier: BSD-2-Clause
"""What two ends tell each other: there and back as JSON, every malformed member refused, paths worked out by hand."""

from __future__ import annotations

import ipaddress
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrc.endpoint.paths.formats import EvFormat
from mrc.errors import CallerError, PeerError
from mrc.fabric import Fabric
from mrc.fabric.host_view import FabricPort
from mrc.net.negotiation import (
    NodeDescription,
    PortDescription,
    QpDescription,
    default_ev_profile,
    integer,
    objects,
    path_mtu_of,
    peer_of,
    text,
)
from mrc.wire.entropy import EvMode
from mrc.wire.profile import DEFAULT_WIRE_PROFILE, WireProfile
from mrc.wire.usid import address_text

PORT = {"plane": 1, "address": "fd4d:5243:1::2", "leaf": 1}
NODE: dict[str, Any] = {"host": 1, "ports": [{"plane": 0, "address": "fd4d:5243::2", "leaf": 1}, PORT]}
NOT_INTEGERS = (None, True, False, 1.0, "1", [], {}, [1])
NOT_TEXT = (None, True, 0, 1.5, [], {}, ["a"])
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["host", "ports", "plane", "x"]), inner)
    ),
    max_leaves=8,
)

addresses = st.integers(0, (1 << 128) - 1).map(lambda value: str(ipaddress.IPv6Address(value)))
ports = st.builds(PortDescription, plane=st.integers(0, 15), address=addresses, leaf=st.integers(0, 255))


def fabric(planes: tuple[int, ...] = (0, 1), leaf: int = 0, uplinks: int = 4) -> Fabric:
    return Fabric(
        name="by hand",
        host=0,
        mtu=4400,
        ports=tuple(FabricPort(p, f"p{p}", f"fd4d:5243:{p:x}::1", leaf, uplinks) for p in planes),
    )


@given(st.integers(0, 255), st.lists(ports, min_size=1, max_size=16))
def test_a_node_there_and_back(host: int, described: list[PortDescription]) -> None:
    node = NodeDescription(host, tuple(described), udp_ports=(host, 4791), path_mtu=1024)
    assert NodeDescription.from_json(json.loads(json.dumps(node.to_json()))) == node


@given(st.integers(3, (1 << 24) - 1), st.integers(0, (1 << 24) - 1))
def test_a_qp_there_and_back(qpn: int, first_psn: int) -> None:
    qp = QpDescription(qpn, first_psn)
    assert QpDescription.from_json(json.loads(json.dumps(qp.to_json()))) == qp


def test_a_node_is_described_by_its_fabric() -> None:
    assert json.loads(json.dumps(NodeDescription.of(fabric()).to_json())) == {
        "host": 0,
        "ports": [
            {"plane": 0, "address": "fd4d:5243:0::1", "leaf": 0},
            {"plane": 1, "address": "fd4d:5243:1::1", "leaf": 0},
        ],
        "mode": "srv6",
        "udp_ports": [4791, 4971],
        "path_mtu": 4096,
        # Every switch but the five that may differ, with wire.md's choices.
        "wire": {
            "solicited_event_first": True,
            "tsr1_unit_ns": 1000,
            "first_port_bit": 0,
            "eeth_op_shift": 2,
            "icrc_covers_outer": False,
            "ev_low_half_in_source_port": True,
            "dscp_no_trim": 0,
            "dscp_trimmable": 4,
            "dscp_trimmable_retx": 8,
            "dscp_trimmed": 12,
            "dscp_trimmed_lasthop": 16,
            "dscp_control": 46,
        },
    }


@given(JSON_VALUES)
def test_anything_else_is_the_peers_error(value: Any) -> None:
    try:
        NodeDescription.from_json(value)
    except PeerError:
        return
    raise AssertionError(f"{value!r} was taken for a node")


@pytest.mark.parametrize(
    ("member", "values"),
    [
        ("host", (*NOT_INTEGERS, -1, 256, 1 << 64)),
        ("mode", (*NOT_TEXT, "", "SRV6", "ecmp")),
        ("udp_ports", (None, {}, 4791, "4791", [4791, None], [-1], [65536], [True], [1] * 9)),
        ("path_mtu", (*NOT_INTEGERS, 0, 1000, 8192)),
        ("ports", (None, {}, "ab", 1, [], [[]], [None], [PORT, 1], [PORT] * 17)),
    ],
)
def test_malformed_members_of_a_node(member: str, values: tuple[Any, ...]) -> None:
    for value in values:
        with pytest.raises(PeerError):
            NodeDescription.from_json({**NODE, member: value})
    without = {key: value for key, value in NODE.items() if key != member}
    if member in ("mode", "udp_ports", "path_mtu"):
        assert NodeDescription.from_json(without).mode == "srv6"
        return
    with pytest.raises(PeerError):
        NodeDescription.from_json(without)


@pytest.mark.parametrize(
    ("member", "values"),
    [
        ("plane", (*NOT_INTEGERS, -1, 16)),
        ("leaf", (*NOT_INTEGERS, -1, 256)),
        ("address", (*NOT_TEXT, "", "10.0.0.1", "fd00::1/64", "fd00::1 ", "host", "fd00:::1", "\ud800")),
    ],
)
def test_malformed_members_of_a_port(member: str, values: tuple[Any, ...]) -> None:
    for value in values:
        with pytest.raises(PeerError):
            NodeDescription.from_json({**NODE, "ports": [{**PORT, member: value}]})
    with pytest.raises(PeerError):
        NodeDescription.from_json({**NODE, "ports": [{key: value for key, value in PORT.items() if key != member}]})


@pytest.mark.parametrize(
    ("member", "values"),
    # QPs 0 to 2 are not for writes: 2 is that of the endpoint operations.
    [("qpn", (*NOT_INTEGERS, -1, 0, 2, 1 << 24)), ("first_psn", (*NOT_INTEGERS, -1, 1 << 24))],
)
def test_malformed_members_of_a_qp(member: str, values: tuple[Any, ...]) -> None:
    for value in values:
        with pytest.raises(PeerError, match=member):
            QpDescription.from_json({"qpn": 17, "first_psn": 0, member: value})
    with pytest.raises(PeerError, match=member):
        QpDescription.from_json({key: 17 for key in ("qpn", "first_psn") if key != member})


def test_path_mtu() -> None:
    """MRC-REQ-13."""
    assert [path_mtu_of({"path_mtu": mtu}) for mtu in (256, 512, 1024, 2048, 4096)] == [256, 512, 1024, 2048, 4096]
    for value in (*NOT_INTEGERS, 0, 255, 4095, 8192, -256, 4096.0, "4096"):
        with pytest.raises(PeerError, match="path_mtu"):
            path_mtu_of({"path_mtu": value})
    with pytest.raises(PeerError, match="path_mtu"):
        path_mtu_of({})


def test_the_readers_of_single_members() -> None:
    assert [integer({"a": value}, "a", 3, 5) for value in (3, 4)] == [3, 4]
    for value in (2, 5, *NOT_INTEGERS):
        with pytest.raises(PeerError, match=r"3\.\.4"):
            integer({"a": value}, "a", 3, 5)
    assert text({"a": ""}, "a") == ""
    for value in NOT_TEXT:
        with pytest.raises(PeerError, match="a string is expected"):
            text({"a": value}, "a")
    assert objects({"a": [{}, {}]}, "a", 2) == [{}, {}]
    for value in ([], [{}] * 3, {}, None, [1], [{}, []]):
        with pytest.raises(PeerError, match=r"list of 1\.\.2 objects"):
            objects({"a": value}, "a", 2)


def test_every_path_over_the_planes_both_have() -> None:
    """The addresses are those of wire.md section 11, worked out by hand. MRC-PATH-03."""
    node = NodeDescription(1, (PortDescription(0, "fd4d:5243::2", 1), PortDescription(1, "fd4d:5243:1::2", 1)))
    peer = peer_of(fabric(uplinks=4), node, QpDescription(99, 5), DEFAULT_WIRE_PROFILE)
    assert (peer.qpn, peer.first_psn) == (99, 5)
    assert peer.sources == {
        0: int(ipaddress.IPv6Address("fd4d:5243::2")),
        1: int(ipaddress.IPv6Address("fd4d:5243:1::2")),
    }
    assert [(path.ev, path.plane, path.spine, path.port) for path in peer.paths] == [
        (plane << 24 | spine, plane, spine, plane) for plane in (0, 1) for spine in range(4)
    ]
    # A destination is a sockaddr_in6: the address is in bytes 8 to 23.
    found = [address_text(int.from_bytes(bytes(path.destination)[8:24], "big")) for path in peer.paths]
    assert found[0] == "5f00:0:1000:2000:1001:4001::"
    assert found[7] == "5f00:0:1100:2103:1101:4101::"
    assert len(set(found)) == 8


def test_only_common_planes_count_and_ports_keep_their_numbers() -> None:
    node = NodeDescription(1, (PortDescription(3, "fd4d:5243:3::2", 1), PortDescription(1, "fd4d:5243:1::2", 1)))
    peer = peer_of(fabric(planes=(0, 1), uplinks=2), node, QpDescription(99, 5), DEFAULT_WIRE_PROFILE)
    assert [(path.plane, path.port) for path in peer.paths] == [(1, 1), (1, 1)]
    assert list(peer.sources) == [1]


def test_two_hosts_on_one_leaf_have_one_path_a_plane() -> None:
    node = NodeDescription(5, (PortDescription(0, "fd4d:5243::6", 0),))
    peer = peer_of(fabric(uplinks=4), node, QpDescription(99, 5), DEFAULT_WIRE_PROFILE)
    assert len(peer.paths) == 1
    assert address_text(int.from_bytes(bytes(peer.paths[0].destination)[8:24], "big")) == "5f00:0:1000:4005::"


def test_without_a_common_plane_both_ends_sets_are_named() -> None:
    node = NodeDescription(1, (PortDescription(2, "fd4d:5243:2::2", 1),))
    with pytest.raises(
        PeerError, match=r"we are on plane 0, plane 1, the peer on plane 2; are both on the same fabric"
    ):
        peer_of(fabric(), node, QpDescription(99, 5), DEFAULT_WIRE_PROFILE)


def host(*addresses: str, mode: str = "udp") -> Fabric:
    """An ordinary host: a plane for each address."""
    ports = tuple(FabricPort(plane, "eth0", address, 0, 0) for plane, address in enumerate(addresses))
    return Fabric("host", 0, 1500, ports, mode=mode)


def described(fabric: Fabric) -> NodeDescription:
    return NodeDescription.from_json(json.loads(json.dumps(NodeDescription.of(fabric).to_json())))


@pytest.mark.parametrize("mode", ["udp", "stev"])
def test_ordinary_hosts_over_ipv4_and_ipv6(mode: str) -> None:
    """wire.md section 1: IPv4 is possible in UDP and STEV modes. MRC-WIRE-04."""
    theirs = described(host("10.0.0.2", "fd00::2", mode=mode))
    peer = peer_of(host("10.0.0.1", "fd00::1", mode=mode), theirs, QpDescription(99, 5), DEFAULT_WIRE_PROFILE)
    assert {path.plane for path in peer.paths} == {0, 1}
    assert peer.sources == {
        0: int(ipaddress.IPv6Address("::ffff:10.0.0.2")),
        1: int(ipaddress.IPv6Address("fd00::2")),
    }


@pytest.mark.parametrize("mode", ["srv6", "srv6-srh"])
def test_ipv4_is_refused_in_srv6_mode(mode: str) -> None:
    """MRC-WIRE-04."""
    document = json.loads(json.dumps(NodeDescription.of(host("10.0.0.2")).to_json())) | {"mode": mode}
    with pytest.raises(PeerError, match="an IPv6 address is expected"):
        NodeDescription.from_json(document)
    with pytest.raises(CallerError, match=f"{mode} mode needs IPv6"):
        host("10.0.0.2", mode=mode)


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("srv6", EvFormat(EvMode.SRV6)),
        ("srv6-srh", EvFormat(EvMode.SRV6, srh=True)),
        ("stev", EvFormat(EvMode.STEV, (8, 24))),
        # Fields belong to stev mode, whatever the file says.
        ("udp", EvFormat(EvMode.UDP)),
    ],
)
def test_the_mode_of_a_fabric_says_how_its_evs_are_read(mode: str, expected: EvFormat) -> None:
    assert default_ev_profile(replace(host("fd00::1", mode=mode), ev_widths=(8, 24))).format == expected


@pytest.mark.parametrize(
    ("ours", "theirs", "says"),
    [
        (host("fd00::1"), host("fd00::2", mode="stev"), "one end runs in stev mode, the other in udp"),
        (host("10.0.0.1"), host("fd00::2"), "plane 0: 10.0.0.1 and fd00::2 are of different IP versions"),
        (fabric(), host("fd00::2"), "one end runs in udp mode, the other in srv6"),
        (fabric(), host("fd00::2", mode="srv6-srh"), "one end runs in srv6-srh mode, the other in srv6"),
    ],
)
def test_ends_that_cannot_understand_each_other(ours: Fabric, theirs: Fabric, says: str) -> None:
    with pytest.raises(PeerError, match=says):
        peer_of(ours, described(theirs), QpDescription(99, 5), DEFAULT_WIRE_PROFILE)


def test_a_udp_port_the_other_end_does_not_take() -> None:
    """MRC-WIRE-05, MRC-WIRE-06."""
    ours, theirs = host("fd00::1"), host("fd00::2")
    assert peer_of(ours, described(theirs), QpDescription(99, 5), WireProfile(udp_port=4971)).paths
    with pytest.raises(PeerError, match="one end sends to UDP port 5000, the other takes 4791, 4971"):
        peer_of(ours, described(theirs), QpDescription(99, 5), WireProfile(udp_port=5000))


def test_a_description_is_read_back_without_json_in_between() -> None:
    ports = (PortDescription(0, "fd4d:5243::1", 0), PortDescription(3, "fd4d:5243:3::1", 2))
    described = NodeDescription(7, ports, "srv6", (4791,), 2048, {"first_port_bit": 1})
    assert NodeDescription.from_json(described.to_json()) == described
    assert json.loads(json.dumps(described.to_json())) == described.to_json()
