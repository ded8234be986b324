# SPDX-License-Identifier: BSD-2-Clause
"""What two ends exchange before the first write (behaviour.md, QP life), as JSON and back."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Mapping, Sequence
from dataclasses import field
from random import Random
from typing import Any

from mrc.endpoint.config import PATH_MTUS
from mrc.endpoint.paths.addressing import PlanePair
from mrc.endpoint.paths.formats import EvFormat
from mrc.endpoint.paths.profiles import EvProfile, EvProfileMode
from mrc.endpoint.qp_peer import QpPeer
from mrc.errors import CallerError, PeerError
from mrc.fabric.host_view import MODES, USID_MODES, Fabric
from mrc.records import record, values
from mrc.untrusted import quoted
from mrc.wire.entropy import EvMode
from mrc.wire.ipv4 import address_number
from mrc.wire.profile import DEFAULT_WIRE_PROFILE, WireProfile
from mrc.wire.psn import PSN_MODULUS
from mrc.wire.usid import MAX_PER_PLANE, MAX_PLANES

_MAX_UDP_PORTS = 8
_MAX_SWITCHES = 64


def integer(document: Mapping[str, Any], key: str, low: int, high: int) -> int:
    """An integer member low <= value < high. Raises PeerError for anything else."""
    value = document.get(key)
    if type(value) is not int or not low <= value < high:
        raise PeerError(f"the peer sent {key}={quoted(value)}, an integer {low}..{high - 1} is expected")
    return value


def text(document: Mapping[str, Any], key: str) -> str:
    """A string member. Raises PeerError for anything else."""
    value = document.get(key)
    if not isinstance(value, str):
        raise PeerError(f"the peer sent {key}={quoted(value)}, a string is expected")
    return value


def objects(document: Mapping[str, Any], key: str, most: int) -> list[dict[str, Any]]:
    """A list of 1 to `most` JSON objects. Raises PeerError for anything else."""
    value = document.get(key)
    if not isinstance(value, list) or not 1 <= len(value) <= most or not all(isinstance(v, dict) for v in value):
        raise PeerError(f"the peer sent no list of 1..{most} objects as {key}")
    return value


@record(frozen=True, slots=True)
class PortDescription:
    """One port of a node: its plane, (inner) address, and the number of the leaf it hangs on."""

    plane: int
    address: str
    leaf: int


@record(frozen=True, slots=True)
class NodeDescription:
    """The half of every path that only the node itself knows.

    `mode` is how the fabric reads the EV, `udp_ports` the destination ports the node takes packets on, `path_mtu` the
    largest its interfaces have room for. `wire` are the switches of its wire profile that both ends have to set alike;
    those it does not report are missing.
    """

    host: int
    ports: tuple[PortDescription, ...]
    mode: str = "srv6"
    udp_ports: tuple[int, ...] = DEFAULT_WIRE_PROFILE.accepted_udp_ports
    path_mtu: int = max(PATH_MTUS)
    wire: Mapping[str, bool | int] = field(default_factory=dict)

    @classmethod
    def of(
        cls, fabric: Fabric, wire: WireProfile = DEFAULT_WIRE_PROFILE, path_mtu: int = max(PATH_MTUS)
    ) -> NodeDescription:
        ports = tuple(PortDescription(p.plane, p.address, p.leaf) for p in fabric.ports)
        return cls(fabric.host, ports, fabric.mode, wire.accepted_udp_ports, path_mtu, wire.shared)

    def to_json(self) -> dict[str, Any]:
        """What `from_json` reads, and JSON can hold: lists, no tuples."""
        lists = {"ports": [values(port) for port in self.ports], "udp_ports": list(self.udp_ports)}
        return values(self) | lists | {"wire": dict(self.wire)}

    @classmethod
    def from_json(cls, document: object) -> NodeDescription:
        """Raises PeerError for anything but a description. A member that came later than srv6 mode may be missing."""
        if not isinstance(document, dict):
            raise PeerError("the peer sent no node description")
        defaults = cls(0, ())
        mode = text({"mode": defaults.mode} | document, "mode")
        if mode not in MODES:
            raise PeerError(f"the peer sent mode={quoted(mode)}, one of {', '.join(MODES)} is expected")
        ports = []
        for port in objects(document, "ports", MAX_PLANES):
            leaf, plane = integer(port, "leaf", 0, MAX_PER_PLANE), integer(port, "plane", 0, MAX_PLANES)
            ports.append(PortDescription(plane, _address(port, mode), leaf))
        udp_ports = document.get("udp_ports", list(defaults.udp_ports))
        if not isinstance(udp_ports, list) or len(udp_ports) > _MAX_UDP_PORTS:
            raise PeerError(f"the peer sent no list of at most {_MAX_UDP_PORTS} UDP ports")
        return cls(
            integer(document, "host", 0, MAX_PER_PLANE),
            tuple(ports),
            mode,
            tuple(integer({"udp_port": port}, "udp_port", 0, 1 << 16) for port in udp_ports),
            path_mtu_of({"path_mtu": defaults.path_mtu} | document),
            _switches(document.get("wire", {})),
        )


def _switches(document: object) -> dict[str, bool | int]:
    """Switches of a wire profile by name, those of other releases too. Raises PeerError for anything else."""
    if (
        not isinstance(document, dict)
        or len(document) > _MAX_SWITCHES
        or not all(isinstance(value, int) for value in document.values())
    ):
        raise PeerError(f"the peer sent no wire profile of at most {_MAX_SWITCHES} numbers, true and false as wire")
    return document


def _address(port: Mapping[str, Any], mode: str) -> str:
    """An address: IPv6 where packets carry uSIDs, otherwise IPv4 as well. Raises PeerError for anything else."""
    address = text(port, "address")
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        raise PeerError(f"the peer sent address={quoted(address)}, an IP address is expected") from None
    if mode in USID_MODES and parsed.version == 4:
        raise PeerError(f"the peer sent address={address!r}, an IPv6 address is expected")
    return address


@record(frozen=True, slots=True)
class QpDescription:
    """One end of a QP: its number and the first PSN it will send."""

    qpn: int
    first_psn: int

    def to_json(self) -> dict[str, Any]:
        return values(self)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> QpDescription:
        return cls(integer(document, "qpn", 3, 1 << 24), integer(document, "first_psn", 0, PSN_MODULUS))


def path_mtu_of(document: Mapping[str, Any]) -> int:
    value = document.get("path_mtu")
    if type(value) is not int or value not in PATH_MTUS:
        raise PeerError(f"the peer wants path_mtu={quoted(value)}, one of {PATH_MTUS} is expected")
    return value


def peer_of(
    fabric: Fabric,
    node: NodeDescription,
    qp: QpDescription,
    wire: WireProfile,
    ev_profile: EvProfile | None = None,
    random: Random | None = None,
) -> QpPeer:
    """How to reach one QP of `node` from `fabric`: the EVs of a profile, over the planes both have.

    Without a profile EVs are chosen as the fabric's mode has it; `random` is where those that are drawn come from.
    Raises PeerError when there is no common plane, and when the two ends cannot understand each other.
    """
    if node.mode != fabric.mode:
        raise PeerError(f"one end runs in {node.mode} mode, the other in {fabric.mode}: give both the same --mode")
    _compare_wire_profiles(wire, node)
    pairs: list[PlanePair] = []
    theirs = {port.plane: port for port in node.ports}
    for number, port in enumerate(fabric.ports):
        their = theirs.get(port.plane)
        if their is None:
            continue
        try:
            usids = fabric.template(port, their.leaf, node.host)
        except CallerError as error:
            raise PeerError(f"no paths to the peer: {error}") from None
        pairs.append(PlanePair(number, port.plane, port.address, their.address, port.uplinks, usids))
    if not pairs:
        raise PeerError(
            f"no common plane: we are on {_planes(fabric.planes)}, the peer on {_planes(sorted(theirs))}; "
            "are both on the same fabric?"
        )
    profile = ev_profile or default_ev_profile(fabric)
    try:
        paths = tuple(profile.paths(pairs, random or Random(0), wire))
    except CallerError as error:
        raise PeerError(f"no paths to the peer: {error}") from None
    sources = {pair.port: address_number(pair.peer_address) for pair in pairs}
    return QpPeer(qp.qpn, qp.first_psn, paths, sources)


def _compare_wire_profiles(wire: WireProfile, node: NodeDescription) -> None:
    """Raises PeerError when the two ends would misread each other's packets, with every switch that differs."""
    if wire.udp_port not in node.udp_ports:
        taken = ", ".join(map(str, node.udp_ports)) or "none"
        raise PeerError(
            f"one end sends to UDP port {wire.udp_port}, the other takes {taken}: the `udp_port` of one has to be "
            "among the `accepted_udp_ports` of the other: give both the same --wire-profile, with both set"
        )
    different = [
        f"`{name}` is {json.dumps(ours)} at one end and {json.dumps(node.wire[name])} at the other"
        for name, ours in wire.shared.items()
        if name in node.wire and node.wire[name] != ours
    ]
    if different:
        raise PeerError(
            f"the wire profiles of the two ends differ: {', '.join(different)}: give both the same --wire-profile"
        )


def default_ev_profile(fabric: Fabric) -> EvProfile:
    """The EVs that a node uses by default."""
    if fabric.uses_usids:
        return EvProfile(EvProfileMode.AUTO, EvFormat(EvMode.SRV6, srh=fabric.mode == "srv6-srh"))
    if fabric.mode == "stev":
        return EvProfile.auto(EvMode.STEV, fabric.ev_widths)
    return EvProfile.auto(EvMode.UDP)


def _planes(planes: Sequence[int]) -> str:
    return ", ".join(f"plane {plane}" for plane in planes)
