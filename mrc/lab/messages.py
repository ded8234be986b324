# SPDX-License-Identifier: BSD-2-Clause
"""Route-netlink messages: interfaces, addresses, neighbours, routes and rules of a plan, as bytes ready to send.

pyroute2 does the encoding. Two things it does not know are made by hand here: the NEXT-C-SID flavor of a seg6local
route (RFC 9800; attributes of linux/seg6_local.h), and an acknowledgement flag on everything.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from typing import Any

from pyroute2.netlink.rtnl.fibmsg import FR_ACT_BLACKHOLE, FR_ACT_TO_TBL, fibmsg
from pyroute2.netlink.rtnl.ifaddrmsg import ifaddrmsg
from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg
from pyroute2.netlink.rtnl.ndmsg import ndmsg
from pyroute2.netlink.rtnl.rtmsg import rtmsg

from mrc.lab.netlink import Request
from mrc.lab.plan import LOOPBACK_INDEX, USID_DEVICE, USID_DEVICE_INDEX, Interface, NodePlan, Route, RouteKind, Rule
from mrc.lab.plan.out_of_band import CableEnd
from mrc.wire.usid import BLOCK_BITS, USID_BITS

_RTM_NEWLINK, _RTM_DELLINK, _RTM_GETLINK = 16, 17, 18
_RTM_NEWADDR, _RTM_NEWROUTE, _RTM_NEWNEIGH, _RTM_NEWRULE = 20, 24, 28, 32
_REQUEST, _ACK, _DUMP = 0x001, 0x004, 0x300
_REPLACE, _EXCLUSIVE, _CREATE, _APPEND = 0x100, 0x200, 0x400, 0x800

_IFF_UP = 0x1
# Operational: the kernel has put the port's queue to use, which it does a moment after the carrier came.
_IFF_RUNNING = 0x40
_LINK_INDEX = struct.Struct("=16x4xi")
_IFA_F_NODAD = 0x02
_NUD_PERMANENT = 0x80
_TABLE_MAIN, _TABLE_LOCAL = 254, 255
_RTPROT_STATIC = 4
_SCOPE_UNIVERSE = 0
_RTN_UNICAST, _RTN_LOCAL, _RTN_BLACKHOLE = 1, 2, 6
_EEXIST, _ENODEV = 17, 19

_LWTUNNEL_SEG6_LOCAL = 7
_SEG6_LOCAL_ACTION, _SEG6_LOCAL_FLAVORS = 1, 11
_SEG6_LOCAL_ACTION_END = 1
_FLAVOR_OPERATION, _FLAVOR_BLOCK_BITS, _FLAVOR_NODE_BITS = 1, 2, 3
_FLAVOR_NEXT_CSID = 1 << 4
_NLA_F_NESTED = 0x8000


class _RouteMessage(rtmsg):  # type: ignore[misc]
    """A route whose encapsulation is given as bytes instead of a known structure."""

    __slots__ = ()
    encaps: dict[int, Any] = {}  # noqa: RUF012  (the name and shape pyroute2 looks up)


def _encoded(message: Any, kind: int, flags: int) -> bytes:
    message["header"]["type"] = kind
    message["header"]["flags"] = _REQUEST | _ACK | flags
    message.encode()
    return bytes(message.data)


def _attribute(kind: int, payload: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(payload), kind) + payload + bytes(-len(payload) % 4)


def _next_csid_end() -> bytes:
    """SRv6 End with the NEXT-C-SID flavor, F3216: a 32-bit block and 16-bit uSIDs."""
    flavors = (
        _attribute(_FLAVOR_OPERATION, struct.pack("=I", _FLAVOR_NEXT_CSID))
        + _attribute(_FLAVOR_BLOCK_BITS, bytes([BLOCK_BITS]))
        + _attribute(_FLAVOR_NODE_BITS, bytes([USID_BITS]))
    )
    return _attribute(_SEG6_LOCAL_ACTION, struct.pack("=I", _SEG6_LOCAL_ACTION_END)) + _attribute(
        _SEG6_LOCAL_FLAVORS | _NLA_F_NESTED, flavors
    )


def loopback_up(tag: str) -> Request:
    """Bring `lo` up and write on it whose namespace this is (its alias, which `ip link` shows)."""
    message = ifinfmsg()
    message["index"] = LOOPBACK_INDEX
    message["flags"] = message["change"] = _IFF_UP
    message["attrs"] = [("IFLA_IFALIAS", tag)]
    return Request("bring lo up", _encoded(message, _RTM_NEWLINK, 0))


def usid_device() -> Request:
    """The bridge without members that a switch's uSID route hangs on."""
    return bridge(USID_DEVICE_INDEX, USID_DEVICE)


def bridge(index: int, name: str) -> Request:
    message = ifinfmsg()
    message["index"] = index
    message["flags"] = message["change"] = _IFF_UP
    message["attrs"] = [
        ("IFLA_IFNAME", name),
        ("IFLA_LINKINFO", {"attrs": [("IFLA_INFO_KIND", "bridge")]}),
    ]
    return Request("make a bridge device", _encoded(message, _RTM_NEWLINK, _CREATE | _EXCLUSIVE))


def bridge_port(index: int, name: str, bridge_index: int) -> Request:
    """Bring an interface up as a port of a bridge."""
    message = ifinfmsg()
    message["index"] = index
    message["flags"] = message["change"] = _IFF_UP
    message["attrs"] = [("IFLA_MASTER", bridge_index)]
    return Request(f"make {name} a port of a bridge", _encoded(message, _RTM_NEWLINK, 0))


def veth_pair(lower: Interface | CableEnd, upper: Interface | CableEnd, upper_namespace: int, mtu: int) -> Request:
    """One cable, sent in the lower node's namespace; `upper_namespace` is a descriptor. Both ends start down.

    (The kernel refuses a peer that is to be up at birth: it opens that end before it has tied it to the other.)
    """
    peer = {
        "index": upper.index,
        "attrs": [
            ("IFLA_IFNAME", upper.name),
            ("IFLA_MTU", mtu),
            ("IFLA_ADDRESS", upper.mac),
            ("IFLA_NET_NS_FD", upper_namespace),
        ],
    }
    message = ifinfmsg()
    message["index"] = lower.index
    message["attrs"] = [
        ("IFLA_IFNAME", lower.name),
        ("IFLA_MTU", mtu),
        ("IFLA_ADDRESS", lower.mac),
        (
            "IFLA_LINKINFO",
            {"attrs": [("IFLA_INFO_KIND", "veth"), ("IFLA_INFO_DATA", {"attrs": [("VETH_INFO_PEER", peer)]})]},
        ),
    ]
    what = f"lay the cable {lower.node}-{upper.node}"
    return Request(what, _encoded(message, _RTM_NEWLINK, _CREATE | _EXCLUSIVE))


def link_state(interface: Interface | CableEnd, up: bool) -> Request:
    message = ifinfmsg()
    message["index"] = interface.index
    message["flags"] = _IFF_UP if up else 0
    message["change"] = _IFF_UP
    what = f"set {interface.name} of {interface.node} {'up' if up else 'down'}"
    return Request(what, _encoded(message, _RTM_NEWLINK, 0))


def delete_link(index: int, name: str) -> Request:
    """Delete an interface; of a cable the other end too. No error when it is gone."""
    message = ifinfmsg()
    message["index"] = index
    return Request(f"delete {name}", _encoded(message, _RTM_DELLINK, 0), frozenset({_ENODEV}))


def link_mtu(index: int, name: str, mtu: int) -> Request:
    message = ifinfmsg()
    message["index"] = index
    message["attrs"] = [("IFLA_MTU", mtu)]
    return Request(f"set the MTU of {name} to {mtu}", _encoded(message, _RTM_NEWLINK, 0))


def address(index: int, text: str, length: int) -> Request:
    is_ipv6 = ":" in text
    message = ifaddrmsg()
    message["family"] = socket.AF_INET6 if is_ipv6 else socket.AF_INET
    message["prefixlen"] = length
    message["flags"] = _IFA_F_NODAD if is_ipv6 else 0
    message["index"] = index
    # The kernel reads an IPv4 address that is its own from the second, and the other end's from the first.
    message["attrs"] = [("IFA_ADDRESS", text), *([] if is_ipv6 else [("IFA_LOCAL", text)])]
    return Request(f"add the address {text}", _encoded(message, _RTM_NEWADDR, _CREATE | _REPLACE))


def neighbour(interface: Interface) -> Request:
    message = ndmsg()
    message["family"] = socket.AF_INET6
    message["ifindex"] = interface.index
    message["state"] = _NUD_PERMANENT
    message["attrs"] = [("NDA_DST", interface.peer_link_local), ("NDA_LLADDR", interface.peer_mac)]
    what = f"add the neighbour {interface.peer_link_local} to {interface.name} of {interface.node}"
    return Request(what, _encoded(message, _RTM_NEWNEIGH, _CREATE | _REPLACE))


def route(wanted: Route) -> Request:
    destination, _, length = wanted.prefix.partition("/")
    message = _RouteMessage()
    message["family"] = socket.AF_INET6
    message["dst_len"] = int(length)
    # One byte, too small for every table: the attribute below wins.
    message["table"] = _TABLE_LOCAL if wanted.kind is RouteKind.LOCAL else _TABLE_MAIN
    message["proto"] = _RTPROT_STATIC
    message["scope"] = _SCOPE_UNIVERSE
    message["type"] = {RouteKind.LOCAL: _RTN_LOCAL, RouteKind.BLACKHOLE: _RTN_BLACKHOLE}.get(wanted.kind, _RTN_UNICAST)
    attributes: list[tuple[str, Any]] = [("RTA_DST", destination), ("RTA_OIF", wanted.device_index)]
    if wanted.gateway is not None:
        attributes.append(("RTA_GATEWAY", wanted.gateway))
    if wanted.source is not None:
        attributes.append(("RTA_PREFSRC", wanted.source))
    if wanted.table is not None:
        attributes.append(("RTA_TABLE", wanted.table))
    if wanted.metric is not None:
        attributes.append(("RTA_PRIORITY", wanted.metric))
    if wanted.kind is RouteKind.USID:
        attributes += [("RTA_ENCAP_TYPE", _LWTUNNEL_SEG6_LOCAL), ("RTA_ENCAP", _next_csid_end())]
    message["attrs"] = attributes
    # Appending a next hop that is there already is refused with EEXIST, which is what replaying wants.
    how, tolerate = (
        (_CREATE | _APPEND, frozenset({_EEXIST})) if wanted.one_of_many else (_CREATE | _REPLACE, frozenset())
    )
    return Request(
        f"add the {wanted.kind.value} route {wanted.prefix}", _encoded(message, _RTM_NEWROUTE, how), tolerate
    )


def rule(wanted: Rule) -> Request:
    message = fibmsg()
    message["family"] = socket.AF_INET6
    message["action"] = FR_ACT_BLACKHOLE if wanted.table is None else FR_ACT_TO_TBL
    attributes: list[tuple[str, Any]] = [("FRA_PRIORITY", wanted.priority)]
    if wanted.table is not None:
        attributes.append(("FRA_TABLE", wanted.table))
    if wanted.mark is not None:
        attributes += [("FRA_FWMARK", wanted.mark), ("FRA_FWMASK", wanted.mask)]
    if wanted.longer_than is not None:
        attributes.append(("FRA_SUPPRESS_PREFIXLEN", wanted.longer_than))
    message["attrs"] = attributes
    return Request(f"add the routing rule {wanted.priority}", _encoded(message, _RTM_NEWRULE, _CREATE | _EXCLUSIVE))


def interface_configuration(interface: Interface) -> Iterator[Request]:
    """Up, and everything a link-down flushes, in the order that brings it back: addresses, neighbour, routes."""
    yield link_state(interface, up=True)
    yield address(interface.index, interface.link_local, 64)
    for text in interface.addresses:
        yield address(interface.index, text, 128)
    yield neighbour(interface)
    for wanted in interface.routes:
        yield route(wanted)


def own_configuration(node: NodePlan) -> Iterator[Request]:
    """What a namespace has apart from its links: addresses on `lo`, routes, rules."""
    for text in node.loopback_addresses:
        yield address(LOOPBACK_INDEX, text, 128)
    for wanted in node.routes:
        yield route(wanted)
    for each in node.rules:
        yield rule(each)


def dump_links() -> bytes:
    message = ifinfmsg()
    message["header"]["type"] = _RTM_GETLINK
    message["header"]["flags"] = _REQUEST | _DUMP
    message.encode()
    return bytes(message.data)


def parse_index(data: bytes) -> int:
    """The interface's index in one answer to `dump_links`; cheap, for waiting."""
    return int(_LINK_INDEX.unpack_from(data)[0])


def parse_link(data: bytes) -> tuple[str, bool, int, int, int]:
    """(name, up and operational, received packets, received bytes, MTU) of one answer to `dump_links`."""
    message = ifinfmsg(data)
    message.decode()
    flags = int(message["flags"])
    statistics = message.get_attr("IFLA_STATS64") or {}
    return (
        str(message.get_attr("IFLA_IFNAME")),
        bool(flags & _IFF_UP and flags & _IFF_RUNNING),
        int(statistics.get("rx_packets", 0)),
        int(statistics.get("rx_bytes", 0)),
        int(message.get_attr("IFLA_MTU") or 0),
    )
