# SPDX-License-Identifier: BSD-2-Clause
"""The headers around a captured packet: link types, tags, and the tunnels of mirror ports and overlays.

One table for all readers: the walk over one packet, the walk over a run, and the Lua dissector. Each header has a name,
and a function that gives its length and the next header from its first bytes. IP, the GRH and UDP are not here: the
walks know them (`ipv4`, `ipv6`, `grh`, `udp`).

A tunnel carries packets of another network: their addresses, their path and their ICRC are those of the headers inside.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

# No packet is followed through more of these headers.
MOST_CARRIERS = 32


class Step(NamedTuple):
    """A header of `length` bytes, and the name of the next one, `following`; None where that is unknown.

    `layers` are the names the header is listed by and where each begins, counted from the header's first byte.
    `truncated`: the mirror says that it cut the packet inside.
    """

    length: int
    following: str | None
    layers: tuple[tuple[str, int], ...]
    truncated: bool = False


class Carrier(NamedTuple):
    """A header: `step` decides by its first `peek` bytes, of which only the bits in `decides` matter ((offset, mask)
    of each byte).

    `name` is what errors call it, `tunnel` what Wireshark calls a tunnel. `length_at` is where the header has the
    length of what follows, in two bytes.
    """

    name: str
    peek: int
    decides: tuple[tuple[int, int], ...]
    step: Callable[[bytes], Step]
    tunnel: str | None = None
    length_at: int | None = None


_ERSPAN_TYPE, _ERSPAN_3_TYPE, _BRIDGED_TYPE, _PPP_TYPE = 0x88BE, 0x22EB, 0x6558, 0x880B
ETHER_TYPES = {
    0x0800: "ipv4",
    0x86DD: "ipv6",
    0x8100: "vlan",
    0x88A8: "vlan",
    0x9100: "vlan",
    0x8847: "mpls",
    0x8848: "mpls",
    0x8864: "pppoe",
    0x8915: "grh",
    0x8926: "vntag",
    _BRIDGED_TYPE: "ether",
}
IP_PROTOCOLS = {4: "ipv4", 17: "udp", 41: "ipv6", 47: "gre", 137: "mpls"}
UDP_PORTS = {4789: "vxlan", 6081: "geneve"}
_PPP_PROTOCOLS = {0x0021: "ipv4", 0x0057: "ipv6", 0x0281: "mpls"}
# BSD's numbers of address families; IPv6 has another on each system.
_FAMILIES = {2: "ipv4", 24: "ipv6", 28: "ipv6", 30: "ipv6"}
# LINKTYPE number -> the first header. Of raw IP one number was the operating system's own, two say which IP it is.
LINK_TYPES = {
    0: "null",
    1: "ether",
    9: "ppp",
    12: "ip",
    50: "ppp",
    51: "pppoe",
    101: "ip",
    108: "null",
    113: "sll",
    228: "ip",
    229: "ip",
    276: "sll2",
}


def _pair(head: bytes, at: int) -> int:
    return head[at] << 8 | head[at + 1]


def _by_ether_type(name: str, length: int, type_at: int, first: int = 0) -> Callable[[bytes], Step]:
    """The step over a header whose bytes at `type_at` are an Ethernet type; the layer `name` begins at `first`."""

    def step(head: bytes) -> Step:
        return Step(length, ETHER_TYPES.get(_pair(head, type_at)), ((name, first),))

    return step


def _ip(head: bytes) -> Step:
    return Step(0, "ipv4" if head[0] >> 4 == 4 else "ipv6", ())


def _null(head: bytes) -> Step:
    # In the byte order of the machine that captured: the number is in the first byte or in the last.
    at = 0 if head[0] else 3
    return Step(4, _FAMILIES.get(head[at]), (("null", at),))


def _ppp(head: bytes) -> Step:
    # Address and control may be there or not; a protocol below 0x100 may be one byte, then an odd one.
    at = 2 if head[:2] == b"\xff\x03" else 0
    if head[at] & 1:
        return Step(at + 1, _PPP_PROTOCOLS.get(head[at]), (("ppp_short", at),))
    return Step(at + 2, _PPP_PROTOCOLS.get(_pair(head, at)), (("ppp", at),))


def _pppoe(head: bytes) -> Step:
    is_session = head[:2] == b"\x11\x00"
    return Step(6, "ppp" if is_session else None, (("pppoe", 0),))


def _mpls(head: bytes) -> Step:
    return Step(4, "labelled" if head[2] & 1 else "mpls", (("mpls", 0),))


def _labelled(head: bytes) -> Step:
    """The last label does not say what follows: IP, by its version, or a pseudowire's frame, with or without a control
    word in front."""
    version = head[0] >> 4
    if version in (4, 6):
        return Step(0, f"ipv{version}", ())
    if version == 0 and _pair(head, 16) in ETHER_TYPES:
        return Step(4, "ether", ())
    return Step(0, "ether" if _pair(head, 12) in ETHER_TYPES else None, ())


def _gre(head: bytes) -> Step:
    checksum, routing, key, sequence = (head[0] >> bit & 1 for bit in (7, 6, 5, 4))
    version, kind = head[1] & 7, _pair(head, 2)
    layers = (("gre", 0),)
    if routing or version > 1:
        return Step(4, None, layers)
    length = 4 + 4 * (checksum + key + sequence + (version and head[1] >> 7))
    if kind == _ERSPAN_TYPE:
        # Type I has no header of its own, and no sequence number to tell it by.
        following: str | None = "erspan" if sequence else "ether"
    elif kind == _ERSPAN_3_TYPE:
        following = "erspan"
    elif kind == _PPP_TYPE:
        following = "ppp"
    else:
        following = ETHER_TYPES.get(kind)
    return Step(length, following, layers)


def _erspan(head: bytes) -> Step:
    version, truncated = head[0] >> 4, bool(head[2] & 4)
    if version == 1:
        return Step(8, "ether", (("erspan2", 0),), truncated)
    return Step(0, "erspan3" if version == 2 else None, ())


def _erspan3(head: bytes) -> Step:
    frame_type, has_more = head[10] >> 2 & 0x1F, head[11] & 1
    following = {0: "ether", 2: "ip"}.get(frame_type)
    return Step(20 if has_more else 12, following, (("erspan3", 0),), bool(head[2] & 4))


def _vxlan(head: bytes) -> Step:
    return Step(8, "ether", (("vxlan", 0),))


def _geneve(head: bytes) -> Step:
    following = ETHER_TYPES.get(_pair(head, 2)) if head[0] >> 6 == 0 else None
    return Step(8 + 4 * (head[0] & 0x3F), following, (("geneve", 0),))


def _whole(*offsets: int) -> tuple[tuple[int, int], ...]:
    return tuple((at, 0xFF) for at in offsets)


CARRIERS = {
    "ether": Carrier("ether", 14, _whole(12, 13), _by_ether_type("ether", 14, 12)),
    "vlan": Carrier("vlan", 4, _whole(2, 3), _by_ether_type("vlan", 4, 2)),
    "vntag": Carrier("vntag", 6, _whole(4, 5), _by_ether_type("vntag", 6, 4)),
    "sll": Carrier("sll", 16, _whole(14, 15), _by_ether_type("sll", 16, 14, 14)),
    "sll2": Carrier("sll", 20, _whole(0, 1), _by_ether_type("sll", 20, 0)),
    "null": Carrier("null", 4, _whole(0, 3), _null),
    "ip": Carrier("ipv6", 1, ((0, 0xF0),), _ip),
    "ppp": Carrier("ppp", 4, _whole(0, 1, 2, 3), _ppp),
    "pppoe": Carrier("pppoe", 6, _whole(0, 1), _pppoe, length_at=4),
    "mpls": Carrier("mpls", 4, ((2, 1),), _mpls, "mpls"),
    "labelled": Carrier("mpls", 18, ((0, 0xF0), *_whole(12, 13, 16, 17)), _labelled, "mpls"),
    "gre": Carrier("gre", 4, _whole(0, 1, 2, 3), _gre, "gre"),
    "erspan": Carrier("erspan", 8, ((0, 0xF0), (2, 4)), _erspan, "erspan"),
    "erspan3": Carrier("erspan3", 12, ((2, 4), (10, 0x7C), (11, 1)), _erspan3, "erspan"),
    "vxlan": Carrier("vxlan", 8, (), _vxlan, "vxlan"),
    "geneve": Carrier("geneve", 8, _whole(0, 2, 3), _geneve, "geneve"),
}
# Wireshark's names of the tunnels: what lies in front of one of them is not the packet's own.
TUNNELS = tuple(dict.fromkeys(carrier.tunnel for carrier in CARRIERS.values() if carrier.tunnel))
# Where these layers have an Ethernet type.
TYPE_AT = {"ether": 12, "vlan": 2, "vntag": 4, "sll": 0, "gre": 2, "geneve": 2}
