# SPDX-License-Identifier: BSD-2-Clause
"""Route-netlink messages: interfaces, addresses, neighbours, routes and rules of a plan, as bytes ready to send.

Attributes and structures are those of linux/if_link.h, if_addr.h, neighbour.h, rtnetlink.h, fib_rules.h and
seg6_local.h. They are written here, as those of queues are: pyroute2, which writes the same bytes, takes a quarter of a
second to import.
"""

from __future__ import annotations

import socket
import struct
import sys
from collections.abc import Iterator

from mrc.lab.netlink import Request
from mrc.lab.plan import LOOPBACK_INDEX, USID_DEVICE, USID_DEVICE_INDEX, Interface, NodePlan, Route, RouteKind, Rule
from mrc.lab.plan.out_of_band import CableEnd
from mrc.netlink import ACK, ADDRESS, DUMP, HEADER, LINK, NESTED, attribute, attributes, message, number, text
from mrc.wire.usid import BLOCK_BITS, USID_BITS

_RTM_NEWLINK, _RTM_DELLINK, _RTM_GETLINK = 16, 17, 18
_RTM_NEWADDR, _RTM_NEWROUTE, _RTM_NEWNEIGH, _RTM_NEWRULE = 20, 24, 28, 32
_REPLACE, _EXCLUSIVE, _CREATE, _APPEND = 0x100, 0x200, 0x400, 0x800

_IFF_UP = 0x1
# Operational: the kernel has put the port's queue to use, which it does a moment after the carrier came.
_IFF_RUNNING = 0x40
_LINK_INDEX = struct.Struct("=16x4xi")
_IFLA_ADDRESS, _IFLA_IFNAME, _IFLA_MTU, _IFLA_MASTER, _IFLA_LINKINFO = 1, 3, 4, 10, 18
_IFLA_IFALIAS, _IFLA_STATS64, _IFLA_NET_NS_FD = 20, 23, 28
_INFO_KIND, _INFO_DATA = 1, 2
_VETH_PEER = 1
_STATISTICS = struct.Struct("=QQQQ")  # the first of struct rtnl_link_stats64: packets in and out, bytes in and out
_IFA_ADDRESS, _IFA_LOCAL = 1, 2
_IFA_F_NODAD = 0x02
_NEIGHBOUR = struct.Struct("=BxxxiHBB")  # struct ndmsg: family, interface, state, flags, type
_NDA_DST, _NDA_LLADDR = 1, 2
_NUD_PERMANENT = 0x80
# struct rtmsg: family, lengths of the destination's and the source's prefix, TOS, table, protocol, scope, type, flags.
# struct fib_rule_hdr: the same, but that protocol and scope are not used and the type is an action.
_ROUTE = struct.Struct("=BBBBBBBBI")
_RTA_DST, _RTA_OIF, _RTA_GATEWAY, _RTA_PRIORITY, _RTA_PREFSRC, _RTA_TABLE = 1, 4, 5, 6, 7, 15
_RTA_ENCAP_TYPE, _RTA_ENCAP = 21, 22
_TABLE_MAIN, _TABLE_LOCAL = 254, 255
_RTPROT_STATIC = 4
_SCOPE_UNIVERSE = 0
_RTN_UNICAST, _RTN_LOCAL, _RTN_BLACKHOLE = 1, 2, 6
_FRA_PRIORITY, _FRA_FWMARK, _FRA_SUPPRESS_PREFIXLEN, _FRA_TABLE, _FRA_FWMASK = 6, 10, 14, 15, 16
_FR_ACT_TO_TBL, _FR_ACT_BLACKHOLE = 1, 6
_EEXIST, _ENODEV = 17, 19

_LWTUNNEL_SEG6_LOCAL = 7
_SEG6_LOCAL_ACTION, _SEG6_LOCAL_FLAVORS = 1, 11
_SEG6_LOCAL_ACTION_END = 1
_FLAVOR_OPERATION, _FLAVOR_BLOCK_BITS, _FLAVOR_NODE_BITS = 1, 2, 3
_FLAVOR_NEXT_CSID = 1 << 4


def _link(kind: int, flags: int, index: int, attributes: bytes = b"", state: int = 0, changed: int = 0) -> bytes:
    return message(kind, ACK | flags, LINK.pack(0, 0, index, state, changed) + attributes)


def _ip(kind: int, text: str) -> bytes:
    return attribute(kind, socket.inet_pton(socket.AF_INET6 if ":" in text else socket.AF_INET, text))


def _mac(kind: int, text: str) -> bytes:
    return attribute(kind, bytes.fromhex(text.replace(":", "")))


def _next_csid_end() -> bytes:
    """SRv6 End with the NEXT-C-SID flavor, F3216 (RFC 9800): a 32-bit block and 16-bit uSIDs."""
    flavors = (
        number(_FLAVOR_OPERATION, _FLAVOR_NEXT_CSID)
        + attribute(_FLAVOR_BLOCK_BITS, bytes([BLOCK_BITS]))
        + attribute(_FLAVOR_NODE_BITS, bytes([USID_BITS]))
    )
    return number(_SEG6_LOCAL_ACTION, _SEG6_LOCAL_ACTION_END) + attribute(_SEG6_LOCAL_FLAVORS | NESTED, flavors)


def loopback_up(tag: str) -> Request:
    """Bring `lo` up and write on it whose namespace this is (its alias, which `ip link` shows)."""
    return Request("bring lo up", _link(_RTM_NEWLINK, 0, LOOPBACK_INDEX, text(_IFLA_IFALIAS, tag), _IFF_UP, _IFF_UP))


def usid_device() -> Request:
    """The bridge without members that a switch's uSID route hangs on."""
    return bridge(USID_DEVICE_INDEX, USID_DEVICE)


def bridge(index: int, name: str) -> Request:
    described = text(_IFLA_IFNAME, name) + attribute(_IFLA_LINKINFO, text(_INFO_KIND, "bridge"))
    made = _link(_RTM_NEWLINK, _CREATE | _EXCLUSIVE, index, described, _IFF_UP, _IFF_UP)
    return Request("make a bridge device", made)


def bridge_port(index: int, name: str, bridge_index: int) -> Request:
    """Bring an interface up as a port of a bridge."""
    up = _link(_RTM_NEWLINK, 0, index, number(_IFLA_MASTER, bridge_index), _IFF_UP, _IFF_UP)
    return Request(f"make {name} a port of a bridge", up)


def veth_pair(lower: Interface | CableEnd, upper: Interface | CableEnd, upper_namespace: int, mtu: int) -> Request:
    """One cable, sent in the lower node's namespace; `upper_namespace` is a descriptor. Both ends start down.

    (The kernel refuses a peer that is to be up at birth: it opens that end before it has tied it to the other.)
    """
    peer = LINK.pack(0, 0, upper.index, 0, 0) + _end(upper, mtu) + number(_IFLA_NET_NS_FD, upper_namespace)
    info = text(_INFO_KIND, "veth") + attribute(_INFO_DATA, attribute(_VETH_PEER, peer))
    described = _end(lower, mtu) + attribute(_IFLA_LINKINFO, info)
    what = f"lay the cable {lower.node}-{upper.node}"
    return Request(what, _link(_RTM_NEWLINK, _CREATE | _EXCLUSIVE, lower.index, described))


def _end(end: Interface | CableEnd, mtu: int) -> bytes:
    return text(_IFLA_IFNAME, end.name) + number(_IFLA_MTU, mtu) + _mac(_IFLA_ADDRESS, end.mac)


def link_state(interface: Interface | CableEnd, up: bool) -> Request:
    what = f"set {interface.name} of {interface.node} {'up' if up else 'down'}"
    state = _IFF_UP if up else 0
    return Request(what, _link(_RTM_NEWLINK, 0, interface.index, state=state, changed=_IFF_UP))


def delete_link(index: int, name: str) -> Request:
    """Delete an interface; of a cable the other end too. No error when it is gone."""
    return Request(f"delete {name}", _link(_RTM_DELLINK, 0, index), frozenset({_ENODEV}))


def link_mtu(index: int, name: str, mtu: int) -> Request:
    return Request(f"set the MTU of {name} to {mtu}", _link(_RTM_NEWLINK, 0, index, number(_IFLA_MTU, mtu)))


def address(index: int, ip: str, length: int) -> Request:
    is_ipv6 = ":" in ip
    family, flags = (socket.AF_INET6, _IFA_F_NODAD) if is_ipv6 else (socket.AF_INET, 0)
    # The kernel reads an IPv4 address that is its own from the second, and the other end's from the first.
    both = _ip(_IFA_ADDRESS, ip) + (b"" if is_ipv6 else _ip(_IFA_LOCAL, ip))
    body = ADDRESS.pack(family, length, flags, 0, index) + both
    return Request(f"add the address {ip}", message(_RTM_NEWADDR, ACK | _CREATE | _REPLACE, body))


def neighbour(interface: Interface) -> Request:
    body = _NEIGHBOUR.pack(socket.AF_INET6, interface.index, _NUD_PERMANENT, 0, 0)
    body += _ip(_NDA_DST, interface.peer_link_local) + _mac(_NDA_LLADDR, interface.peer_mac)
    what = f"add the neighbour {interface.peer_link_local} to {interface.name} of {interface.node}"
    return Request(what, message(_RTM_NEWNEIGH, ACK | _CREATE | _REPLACE, body))


def route(wanted: Route) -> Request:
    destination, _, length = wanted.prefix.partition("/")
    # One byte, too small for every table: the attribute below wins.
    table = _TABLE_LOCAL if wanted.kind is RouteKind.LOCAL else _TABLE_MAIN
    kind = {RouteKind.LOCAL: _RTN_LOCAL, RouteKind.BLACKHOLE: _RTN_BLACKHOLE}.get(wanted.kind, _RTN_UNICAST)
    body = _ROUTE.pack(socket.AF_INET6, int(length), 0, 0, table, _RTPROT_STATIC, _SCOPE_UNIVERSE, kind, 0)
    body += _ip(_RTA_DST, destination) + number(_RTA_OIF, wanted.device_index)
    if wanted.gateway is not None:
        body += _ip(_RTA_GATEWAY, wanted.gateway)
    if wanted.source is not None:
        body += _ip(_RTA_PREFSRC, wanted.source)
    if wanted.table is not None:
        body += number(_RTA_TABLE, wanted.table)
    if wanted.metric is not None:
        body += number(_RTA_PRIORITY, wanted.metric)
    if wanted.kind is RouteKind.USID:
        body += attribute(_RTA_ENCAP_TYPE, struct.pack("=H", _LWTUNNEL_SEG6_LOCAL))
        body += attribute(_RTA_ENCAP, _next_csid_end())
    # Appending a next hop that is there already is refused with EEXIST, which is what replaying wants.
    how, tolerate = (
        (_CREATE | _APPEND, frozenset({_EEXIST})) if wanted.one_of_many else (_CREATE | _REPLACE, frozenset())
    )
    what = f"add the {wanted.kind.value} route {wanted.prefix}"
    return Request(what, message(_RTM_NEWROUTE, ACK | how, body), tolerate)


def rule(wanted: Rule) -> Request:
    action = _FR_ACT_BLACKHOLE if wanted.table is None else _FR_ACT_TO_TBL
    body = _ROUTE.pack(socket.AF_INET6, 0, 0, 0, 0, 0, 0, action, 0)
    body += number(_FRA_PRIORITY, wanted.priority)
    if wanted.table is not None:
        body += number(_FRA_TABLE, wanted.table)
    if wanted.mark is not None:
        body += number(_FRA_FWMARK, wanted.mark) + number(_FRA_FWMASK, wanted.mask)
    if wanted.longer_than is not None:
        body += number(_FRA_SUPPRESS_PREFIXLEN, wanted.longer_than)
    made = message(_RTM_NEWRULE, ACK | _CREATE | _EXCLUSIVE, body)
    return Request(f"add the routing rule {wanted.priority}", made)


def interface_configuration(interface: Interface) -> Iterator[Request]:
    """Up, and everything a link-down flushes, in the order that brings it back: addresses, neighbour, routes."""
    yield link_state(interface, up=True)
    yield address(interface.index, interface.link_local, 64)
    for ip in interface.addresses:
        yield address(interface.index, ip, 128)
    yield neighbour(interface)
    for wanted in interface.routes:
        yield route(wanted)


def own_configuration(node: NodePlan) -> Iterator[Request]:
    """What a namespace has apart from its links: addresses on `lo`, routes, rules."""
    for ip in node.loopback_addresses:
        yield address(LOOPBACK_INDEX, ip, 128)
    for wanted in node.routes:
        yield route(wanted)
    for each in node.rules:
        yield rule(each)


def dump_links() -> bytes:
    return message(_RTM_GETLINK, DUMP, LINK.pack(0, 0, 0, 0, 0))


def parse_index(data: bytes) -> int:
    """The interface's index in one answer to `dump_links`; cheap, for waiting."""
    return int(_LINK_INDEX.unpack_from(data)[0])


def parse_link(data: bytes) -> tuple[str, bool, int, int, int]:
    """(name, up and operational, received packets, received bytes, MTU) of one answer to `dump_links`."""
    flags = LINK.unpack_from(data, HEADER.size)[3]
    found = attributes(data, HEADER.size + LINK.size)
    statistics = found.get(_IFLA_STATS64)
    packets, _, octets, _ = _STATISTICS.unpack_from(statistics) if statistics else (0, 0, 0, 0)
    return (
        found[_IFLA_IFNAME].rstrip(b"\0").decode(errors="replace"),
        bool(flags & _IFF_UP and flags & _IFF_RUNNING),
        packets,
        octets,
        int.from_bytes(found.get(_IFLA_MTU, b""), sys.byteorder),
    )
