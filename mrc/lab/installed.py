# SPDX-License-Identifier: BSD-2-Clause
"""What is installed in a namespace: interfaces; addresses, neighbours, routes and rules in the builder's own terms.

A request and the kernel's answer to a dump have the same form. So both are boiled down to the same keys, and what the
builder would send to a namespace can be held against what is there.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import cast

from mrc.lab import messages
from mrc.lab.netlink import NetlinkSocket, Request
from mrc.netlink import ADDRESS, DUMP, HEADER, LINK, attributes, message

Key = tuple[object, ...]
# "route", table, type, destination, its length, interface, gateway
_RouteKey = tuple[str, int, int, bytes, int, int, bytes | None]

_NEWADDR, _NEWROUTE, _NEWNEIGH, _NEWRULE = 20, 24, 28, 32
# The kind of request that asks for all of a kind is two above it.
_GET = 2

_IFF_UP, _IFF_RUNNING = 0x1, 0x40
_IFLA_IFNAME, _IFLA_MTU, _IFLA_IFALIAS, _IFLA_STATS64 = 3, 4, 20, 23
# Of struct rtnl_link_stats64: behind packets, bytes and errors, each received and sent, and what was dropped received.
_TX_DROPPED = slice(7 * 8, 8 * 8)

_ROUTE = struct.Struct("=BBBBBBBBI")  # family, dst_len, src_len, tos, table, protocol, scope, type, flags
_RTN_LOCAL = 2
_RTA_DST, _RTA_OIF, _RTA_GATEWAY, _RTA_MULTIPATH, _RTA_TABLE = 1, 4, 5, 9, 15
_NEXT_HOP = struct.Struct("=HBBi")  # length, flags, hops, interface
_IFA_ADDRESS = 1
_NEIGHBOUR = struct.Struct("=BxxxiHBB")  # family, interface, state, flags, type
_NDA_DST, _NDA_LLADDR = 1, 2
_PERMANENT = 0x80
_RULE = struct.Struct("=BBBBBBBBI")  # family, dst_len, src_len, tos, table, reserved, reserved, action, flags
_FRA_PRIORITY, _FRA_FWMARK, _FRA_TABLE = 6, 10, 15


@dataclass(frozen=True, slots=True)
class InterfaceFound:
    """An interface as it is: `up` if nobody set it down, `running` if it is operational too, `alias` a text on it.

    `dropped_packets` could not be sent: the interface's own queue was full.
    """

    name: str
    up: bool
    running: bool
    mtu: int
    alias: str
    dropped_packets: int


def interfaces(netlink: NetlinkSocket, node: str) -> dict[int, InterfaceFound]:
    """The interfaces of a namespace by index. Raises SystemRefused."""
    found: dict[int, InterfaceFound] = {}

    def collect(_: int, data: bytes) -> None:
        _, _, index, flags, _ = LINK.unpack_from(data, HEADER.size)
        said = _after(data, LINK)
        name = said.get(_IFLA_IFNAME, b"").rstrip(b"\0").decode(errors="replace")
        alias = said.get(_IFLA_IFALIAS, b"").rstrip(b"\0").decode(errors="replace")
        up, running = bool(flags & _IFF_UP), bool(flags & _IFF_UP and flags & _IFF_RUNNING)
        dropped = _number(said.get(_IFLA_STATS64, b"")[_TX_DROPPED])
        found[index] = InterfaceFound(name, up, running, _number(said.get(_IFLA_MTU)), alias, dropped)

    netlink.dump(f"read the interfaces of {node}", messages.dump_links(), collect)
    return found


def read(netlink: NetlinkSocket, node: str) -> set[Key]:
    """The keys of all that is in the namespace of `netlink`. Raises SystemRefused."""
    return set().union(*(_read(netlink, node, kind) for kind in _KINDS))


def local_addresses(netlink: NetlinkSocket, node: str) -> set[tuple[int, bytes]]:
    """(interface, address) of what the kernel takes for its own, which comes a little after the address.

    Raises SystemRefused.
    """
    routes = cast("set[_RouteKey]", _read(netlink, node, _NEWROUTE))
    return {(interface, address) for _, _, kind, address, _, interface, _ in routes if kind == _RTN_LOCAL}


def ipv4_address(netlink: NetlinkSocket, node: str, interface: int) -> str | None:
    """The IPv4 address at an interface. Raises SystemRefused."""
    there = {index: packed for _, index, packed, _ in _read(netlink, node, _NEWADDR, socket.AF_INET)}
    packed = there.get(interface)
    return socket.inet_ntop(socket.AF_INET, packed) if isinstance(packed, bytes) else None


def _read(netlink: NetlinkSocket, node: str, kind: int, family: int = socket.AF_INET6) -> set[Key]:
    what, header, keys = _KINDS[kind]
    found: set[Key] = set()
    body = bytes([family]) + bytes(header.size - 1)
    request = message(kind + _GET, DUMP, body)
    netlink.dump(f"read the {what} of {node}", request, lambda _, data: found.update(keys(data)))
    return found


def missing(requests: Iterable[Request], found: set[Key]) -> list[str]:
    """Of these requests, what is not there: "add the route ..." and so on. Requests of other kinds do not count."""
    lacking = []
    for request in requests:
        kind = HEADER.unpack_from(request.data)[1]
        if kind in _KINDS and not found.issuperset(_KINDS[kind][2](request.data)):
            lacking.append(request.what)
    return lacking


def _number(attribute: bytes | None, otherwise: int = 0) -> int:
    return int.from_bytes(attribute, "little") if attribute else otherwise


def _after(data: bytes, header: struct.Struct) -> dict[int, bytes]:
    return attributes(data, HEADER.size + header.size)


def _route_keys(data: bytes) -> Iterator[_RouteKey]:
    _, length, _, _, table, _, _, kind, _ = _ROUTE.unpack_from(data, HEADER.size)
    found = _after(data, _ROUTE)
    table = _number(found.get(_RTA_TABLE), table)
    for interface, gateway in _next_hops(found):
        yield "route", table, kind, found.get(_RTA_DST, bytes(16)), length, interface, gateway


def _next_hops(found: dict[int, bytes]) -> Iterator[tuple[int, bytes | None]]:
    several = found.get(_RTA_MULTIPATH)
    if several is None:
        yield _number(found.get(_RTA_OIF)), found.get(_RTA_GATEWAY)
        return
    offset = 0
    while offset + _NEXT_HOP.size <= len(several):
        length, _, _, interface = _NEXT_HOP.unpack_from(several, offset)
        yield interface, attributes(several, offset + _NEXT_HOP.size, offset + length).get(_RTA_GATEWAY)
        offset += max(length + 3 & ~3, _NEXT_HOP.size)


def _address_keys(data: bytes) -> Iterator[Key]:
    _, length, _, _, interface = ADDRESS.unpack_from(data, HEADER.size)
    yield "address", interface, _after(data, ADDRESS).get(_IFA_ADDRESS), length


def _neighbour_keys(data: bytes) -> Iterator[Key]:
    _, interface, state, _, _ = _NEIGHBOUR.unpack_from(data, HEADER.size)
    found = _after(data, _NEIGHBOUR)
    if state & _PERMANENT:
        yield "neighbour", interface, found.get(_NDA_DST), found.get(_NDA_LLADDR)


def _rule_keys(data: bytes) -> Iterator[Key]:
    table, action = _RULE.unpack_from(data, HEADER.size)[4:8:3]
    found = _after(data, _RULE)
    table = _number(found.get(_FRA_TABLE), table)
    yield "rule", _number(found.get(_FRA_PRIORITY)), action, table, _number(found.get(_FRA_FWMARK))


_KINDS: dict[int, tuple[str, struct.Struct, Callable[[bytes], Iterator[Key]]]] = {
    _NEWADDR: ("addresses", ADDRESS, _address_keys),
    _NEWROUTE: ("routes", _ROUTE, _route_keys),
    _NEWNEIGH: ("neighbours", _NEIGHBOUR, _neighbour_keys),
    _NEWRULE: ("routing rules", _RULE, _rule_keys),
}
