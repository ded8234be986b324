# SPDX-License-Identifier: BSD-2-Clause
"""From an EV to the bytes that make a packet take that path."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

from mrc.errors import CallerError
from mrc.records import record
from mrc.wire.entropy import EvMode, ev_to_fields, fields_to_ev
from mrc.wire.ipv4 import address_number, is_mapped
from mrc.wire.profile import DEFAULT_WIRE_PROFILE, WireProfile
from mrc.wire.templates import packet_template
from mrc.wire.usid import PathTemplate

_AF_INET, _AF_INET6 = 2, 10
NO_SPINE = -1  # the network chooses, or the spine is not known
SOURCE_PORT_BITS, EV_BITS = 16, 32


@record(frozen=True, slots=True, eq=False)
class Path:
    """One EV towards one peer.

    `port` is the local port (one per plane) it leaves by; `destination` 28 bytes, a sockaddr_in6 with the outer
    destination or a padded sockaddr_in; `template` the first 60 bytes of every packet on it; `spine` the uplink number,
    for people, -1 where the network chooses.
    """

    ev: int
    port: int
    plane: int
    spine: int
    destination: bytes
    template: bytes


@record(frozen=True, slots=True)
class PlanePair:
    """One plane as two peers see it: the local port, both (inner) addresses, how many uplinks our leaf has.

    `uplinks` is 0 where that is not known. `usids` is what SRV6 mode needs of the peer in this plane.
    """

    port: int
    plane: int
    local_address: str
    peer_address: str
    uplinks: int
    usids: PathTemplate | None = None

    @property
    def over_ipv4(self) -> bool:
        """Raises CallerError when one address is IPv4 and the other IPv6."""
        ends = {is_mapped(address_number(address)) for address in (self.local_address, self.peer_address)}
        if len(ends) > 1:
            raise CallerError(
                f"plane {self.plane}: {self.local_address} and {self.peer_address} are of different IP versions"
            )
        return ends.pop()


def sockaddr_in6(address: int, flow_label: int = 0) -> bytes:
    """struct sockaddr_in6 of a 128-bit address, port 0, no scope."""
    label = flow_label.to_bytes(4, "big")
    return struct.pack("=HH4s16sI", _AF_INET6, 0, label, address.to_bytes(16, "big"), 0)


def sockaddr_in(address: int) -> bytes:
    """struct sockaddr_in of an IPv4-mapped address, port 0, padded to the length of a sockaddr_in6."""
    return struct.pack("=HH4s20x", _AF_INET, 0, (address & 0xFFFFFFFF).to_bytes(4, "big"))


def srv6_path(plane: PlanePair, usids: PathTemplate, uplink: int, profile: WireProfile = DEFAULT_WIRE_PROFILE) -> Path:
    """The path of one uplink of a uSID fabric; under a shared leaf `uplink` plays no part in the address."""
    ev = usids.ev(plane.plane, uplink)
    source_port, flow_label = ev_to_fields(ev, profile)
    local, peer = address_number(plane.local_address), address_number(plane.peer_address)
    template = packet_template(local, peer, source_port, flow_label, profile)
    destination = sockaddr_in6(usids.address(plane.plane, uplink))
    return Path(ev, plane.port, plane.plane, uplink, destination, template)


def srv6_uplinks(plane: PlanePair, usids: PathTemplate) -> int:
    """How many distinct paths a plane has: its leaf's uplinks, one under a shared leaf."""
    return usids.count(plane.uplinks)


def srv6_paths(
    planes: Sequence[PlanePair], usids: PathTemplate, profile: WireProfile = DEFAULT_WIRE_PROFILE
) -> list[Path]:
    """Every path to a peer through a uSID fabric: planes times uplinks, or one per plane under a shared leaf.

    As many EVs as there are distinct paths (behaviour.md, Paths): no two EVs share a uSID list.
    """
    return [
        srv6_path(plane, usids, uplink, profile) for plane in planes for uplink in range(srv6_uplinks(plane, usids))
    ]


def ev_bits(plane: PlanePair, mode: EvMode) -> int:
    """Bits of the EV the network reads in UDP or STEV mode: those of the source port, in STEV over IPv6 all 32."""
    return SOURCE_PORT_BITS if mode == EvMode.UDP or plane.over_ipv4 else EV_BITS


def udp_paths(plane: PlanePair, source_ports: Iterable[int], profile: WireProfile = DEFAULT_WIRE_PROFILE) -> list[Path]:
    """A path for each UDP source port: switches hash it with the addresses and choose (ECMP).

    Raises CallerError for a source port of more than 16 bits.
    """
    return [_plain_path(plane, value, EvMode.UDP, NO_SPINE, profile) for value in source_ports]


def stev_paths(
    plane: PlanePair, evs: Iterable[tuple[int, int]], profile: WireProfile = DEFAULT_WIRE_PROFILE
) -> list[Path]:
    """A path for each (structured EV, its first hop): switches take their next hop out of its bits.

    Raises CallerError for an EV of more than 32 bits, 16 over IPv4.
    """
    return [_plain_path(plane, value, EvMode.STEV, first_hop, profile) for value, first_hop in evs]


def _plain_path(plane: PlanePair, value: int, mode: EvMode, spine: int, profile: WireProfile) -> Path:
    bits = ev_bits(plane, mode)
    if not 0 <= value < 1 << bits:
        raise CallerError(f"EV {value:#x} does not fit {bits} bits, all that plane {plane.plane} carries")
    # Sixteen bits go into the source port; the half of the EV that is in the flow label is then 0.
    ev = fields_to_ev(value, 0, profile) if bits == SOURCE_PORT_BITS else value
    source_port, flow_label = ev_to_fields(ev, profile)
    local, peer = address_number(plane.local_address), address_number(plane.peer_address)
    template = packet_template(local, peer, source_port, flow_label, profile)
    destination = sockaddr_in(peer) if plane.over_ipv4 else sockaddr_in6(peer, flow_label)
    return Path(ev, plane.port, plane.plane, spine, destination, template)
