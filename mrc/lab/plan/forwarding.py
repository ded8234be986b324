# SPDX-License-Identifier: BSD-2-Clause
"""Routes, rules and kernel settings by forwarding mode: how a switch finds a packet's next hop.

Plain IPv6 is there in every mode, for TCP and the exchange of tickets: as the shape has it (with spines: to another
leaf's hosts by the kernel's multipath over all spines of the plane, per flow). A mode adds what it needs:

    srv6, srv6-srh   routes for uSIDs, the switch's own one with the action that shifts (UsidForwarding)
    stev             the leaf's field of the EV becomes a mark, each mark has a table with one spine (StevForwarding)
    ecmp             the multipath's hash takes in the flow label (EcmpForwarding)

Switches drop in silence what they have no way for: nothing sends ICMPv6 errors behind a cut, and no packet runs in
circles.
"""

from __future__ import annotations

from collections.abc import Iterator

from mrc.fabric import Shape
from mrc.fabric.address import PLAIN, address, host_prefix, hosts_prefix, plane_prefix, usid
from mrc.fabric.names import LEAF, host_name, leaf_name, parse_switch
from mrc.lab.plan import addresses
from mrc.lab.plan.nodes import LOOPBACK_INDEX, USID_DEVICE_INDEX, Interface, Marking, Route, RouteKind, Rule
from mrc.wire.profile import DEFAULT_WIRE_PROFILE

# Behind every route that has the kernel's own metric of 1024.
_LAST_METRIC = 4096
_MAIN_TABLE = 254
# Where the kernel looks first, and a switch twice for every packet: uSIDs are there.
_LOCAL_TABLE = 255

Settings = tuple[tuple[str, str], ...]
# Why each setting is there is in docs/lab.md, "Settings of the kernel".
_EVERYWHERE = (
    ("ipv6/conf/all/accept_dad", "0"),
    ("ipv6/conf/default/accept_dad", "0"),
    ("ipv6/conf/default/addr_gen_mode", "1"),
    ("ipv6/conf/default/accept_ra", "0"),
    ("ipv6/conf/default/router_solicitations", "0"),
    ("ipv6/icmp/ratelimit", "1000"),
)
_HASH_ADDRESSES_AND_PORTS = (("ipv6/fib_multipath_hash_policy", "1"),)
# Source and destination address, protocol, flow label, source and destination port: bits 0 to 5.
_HASH_FLOW_LABEL_TOO = (("ipv6/fib_multipath_hash_fields", "63"), ("ipv6/fib_multipath_hash_policy", "3"))


class PlainForwarding:
    """What all modes have in common. `end` is the interface a route leaves by."""

    hash_settings: Settings = _HASH_ADDRESSES_AND_PORTS

    def __init__(self, topology: Shape) -> None:
        self.topology = topology

    def settings(self, is_switch: bool) -> Settings:
        """Files below /proc/sys/net and their contents, to be written before interfaces exist."""
        accept_srh, forwarding = str(int(self.takes_srh(is_switch))), str(int(is_switch))
        return (
            *_EVERYWHERE,
            ("ipv6/conf/all/seg6_enabled", accept_srh),
            ("ipv6/conf/default/seg6_enabled", accept_srh),
            ("ipv6/conf/all/forwarding", forwarding),
            ("ipv6/conf/default/forwarding", forwarding),
            *(self.hash_settings if is_switch else ()),
        )

    def takes_srh(self, is_switch: bool) -> bool:
        """Whether the kernel itself is to act on a segment routing header."""
        return False

    def host(self, host: int) -> Iterator[Route]:
        """Routes of a host that no link carries."""
        return iter(())

    def switch(self, plane: int, tier: str, number: int) -> Iterator[Route]:
        """Routes of a switch that no link carries."""
        yield Route(PLAIN, RouteKind.BLACKHOLE, LOOPBACK_INDEX)
        if tier == LEAF:
            # Without its cable a host is nowhere: not up at the spines, which would send the packet back.
            for host in self.topology.hosts_of_leaf(number):
                yield Route(host_prefix(host, plane), RouteKind.BLACKHOLE, LOOPBACK_INDEX, metric=_LAST_METRIC)

    def to_neighbour(self, plane: int, neighbour: str, end: Interface) -> Iterator[Route]:
        """Routes of a switch to the node at the other end of a cable, whatever tier either is of."""
        return iter(())

    def host_up(self, plane: int, host: int, end: Interface) -> Iterator[Route]:
        yield forward(end, plane_prefix(plane), source=address(host_name(host), plane))

    def leaf_down(self, plane: int, host: int, end: Interface) -> Iterator[Route]:
        yield forward(end, host_prefix(host, plane))

    def between(self, plane: int, near: str, far: str, end: Interface) -> Iterator[Route]:
        """Routes of the switch `near` over a cable to the switch `far`."""
        for prefix, one_of_many in self.topology.plain_routes(near, far):
            yield forward(end, prefix, one_of_many=one_of_many)

    def rules(self, tier: str) -> Iterator[Rule]:
        """Routing rules of a switch, beside the kernel's own."""
        return iter(())

    def marking(self, tier: str) -> Marking | None:
        """How a switch marks packets before it routes them."""
        return None


class UsidForwarding(PlainForwarding):
    """Every switch finds its own uSID first in the destination, takes it off and looks the rest up (RFC 9800)."""

    def takes_srh(self, is_switch: bool) -> bool:
        # A host reads the header itself. Its kernel would take it off and treat what is inside as one more packet.
        return is_switch

    def host(self, host: int) -> Iterator[Route]:
        for plane in range(self.topology.planes):
            yield Route(self._prefix(usid(host_name(host), plane)), RouteKind.LOCAL, LOOPBACK_INDEX)

    def switch(self, plane: int, tier: str, number: int) -> Iterator[Route]:
        own = self._prefix(usid(f"p{plane}{tier}{number}", plane))
        yield Route(own, RouteKind.USID, USID_DEVICE_INDEX, table=_LOCAL_TABLE)
        yield Route(addresses.block_prefix(self.topology.block), RouteKind.BLACKHOLE, LOOPBACK_INDEX)
        yield from super().switch(plane, tier, number)

    def host_up(self, plane: int, host: int, end: Interface) -> Iterator[Route]:
        leaves = self._prefix(usid(leaf_name(plane, 0), plane), addresses.PLANE_LEAVES_PREFIX)
        yield forward(end, leaves, source=address(host_name(host), plane), table=_LOCAL_TABLE)
        yield from super().host_up(plane, host, end)

    def to_neighbour(self, plane: int, neighbour: str, end: Interface) -> Iterator[Route]:
        yield forward(end, self._prefix(usid(neighbour, plane)), table=_LOCAL_TABLE)

    def _prefix(self, value: int, length: int = addresses.USID_PREFIX) -> str:
        return addresses.usid_prefix(self.topology.block, value, length)


class StevForwarding(PlainForwarding):
    """A leaf sends an MRC packet to the spine whose number is the most significant field of its EV.

    The way down is by the destination address. What comes down is marked as well, so an address of which the leaf knows
    more than its plane, a host of its own, is looked at before any mark.
    """

    def rules(self, tier: str) -> Iterator[Rule]:
        if tier != LEAF:
            return
        yield Rule(_KNOWN_ADDRESSES_RULE, _MAIN_TABLE, longer_than=64)
        for spine in range(self.topology.uplinks):
            yield Rule(_FIRST_SPINE_RULE + spine, _spine_table(spine), mark=_spine_mark(spine))
        # An EV that names no spine, or one whose port is down so that its table is empty: not to any other spine.
        yield Rule(_NO_SPINE_RULE, None, mark=_TAG, mask=_TAG_MASK)

    def marking(self, tier: str) -> Marking | None:
        if tier != LEAF:
            return None
        return Marking(DEFAULT_WIRE_PROFILE.accepted_udp_ports, _FIELD_MASK, _TAG)

    def between(self, plane: int, near: str, far: str, end: Interface) -> Iterator[Route]:
        _, tier, number = parse_switch(far)
        if tier != LEAF:
            yield forward(end, hosts_prefix(plane), table=_spine_table(number))
        yield from super().between(plane, near, far, end)


class EcmpForwarding(PlainForwarding):
    """The kernel's multipath, with a hash over everything in which packets of one host pair differ."""

    hash_settings = _HASH_FLOW_LABEL_TOO


# Widths of the EV's fields in stev mode: the leaf's, and the rest, which no switch of two tiers reads.
STEV_WIDTHS = (8, 24)
# The high half of an EV is the low half of the flow label, the last 16 bits of the header's first word (wire.md section
# 10): there the first field is on top.
_FIELD_SHIFT = 16 - STEV_WIDTHS[0]
_FIELD_MASK = ((1 << STEV_WIDTHS[0]) - 1) << _FIELD_SHIFT
# "MR": identifies our marks.
_TAG, _TAG_MASK = 0x4D520000, 0xFFFF0000
_KNOWN_ADDRESSES_RULE, _FIRST_SPINE_RULE, _NO_SPINE_RULE = 1000, 2000, 3000
_FIRST_SPINE_TABLE = 2000


def _spine_table(spine: int) -> int:
    return _FIRST_SPINE_TABLE + spine


def _spine_mark(spine: int) -> int:
    return _TAG | spine << _FIELD_SHIFT


def forward(
    end: Interface, prefix: str, *, source: str | None = None, one_of_many: bool = False, table: int | None = None
) -> Route:
    """A route out of `end` to the other end of its cable."""
    return Route(prefix, RouteKind.FORWARD, end.index, end.peer_link_local, source, one_of_many, table)


_OF_MODE = {"srv6": UsidForwarding, "srv6-srh": UsidForwarding, "stev": StevForwarding, "ecmp": EcmpForwarding}


def forwarding_of(topology: Shape) -> PlainForwarding:
    """The forwarding of a topology's mode."""
    return _OF_MODE[topology.mode](topology)
