# SPDX-License-Identifier: BSD-2-Clause
"""One pass over a packet: which headers it has and where, down to the transport, without reading more than that takes.

What a walk finds is enough to list layers, to check the ICRC and to write a line about the packet; `fields.py` reads
every field where somebody wants them. It goes as far as the bytes do and never raises: what is wrong is
in `Walked.malformed`. What packets are carried in is the table of `mrc.capture.carriers`, the reading of the transport
headers `mrc.capture.transport`.

A header that is skipped has no layer: hop-by-hop and destination options, an atomic fragment header, and routing
headers other than type 4; the `nh` before them says they are there. A fragment is not followed beyond its IP header:
`mrc.capture.fragments` reassembles them.
"""

from __future__ import annotations

from mrc.capture.carriers import CARRIERS, IP_PROTOCOLS, LINK_TYPES, MOST_CARRIERS, UDP_PORTS
from mrc.capture.transport import walk_transport
from mrc.capture.walked import Walked, too_short
from mrc.errors import MalformedPacket
from mrc.wire.profile import DEFAULT_WIRE_PROFILE, WireProfile

HOP_BY_HOP, ROUTING, FRAGMENT, DESTINATION_OPTIONS = 0, 43, 44, 60
_EXTENSIONS = frozenset((HOP_BY_HOP, ROUTING, FRAGMENT, DESTINATION_OPTIONS))
_SEGMENT_ROUTING_TYPE = 4
_NO_PROTOCOL = -1
_IPV6_HEADER = 40
# What the GRH of RoCEv1 says follows it.
GRH_PROTOCOL = 0x1B


def walk(data: bytes, link_type: int, wire_length: int, profile: WireProfile = DEFAULT_WIRE_PROFILE) -> Walked:
    """The headers of a packet given from its link layer on (LINKTYPE number `link_type`).

    `wire_length` is how many bytes the packet had where it was captured, `data` those that were kept.
    """
    walked = Walked(data, max(wire_length, len(data)))
    first = LINK_TYPES.get(link_type)
    try:
        if first is None:
            walked.malformed = f"unknown_link: link type {link_type}"
        _follow(walked, first, profile)
    except MalformedPacket as error:
        walked.note(str(error))
        walked.rest_is_payload()
    return walked


def _follow(walked: Walked, name: str | None, profile: WireProfile) -> None:
    """From the header called `name` through all that carry each other, to the payload of the last."""
    carriers = 0
    while name is not None and carriers < MOST_CARRIERS:
        if name == "ipv6":
            name = _ipv6(walked)
        elif name == "ipv4":
            name = _ipv4(walked)
        elif name == "udp":
            name = _udp(walked, profile)
        elif name == "grh":
            _grh(walked, profile)
            break
        else:
            name = _carrier(walked, name)
            carriers += 1
    if walked.transport_at is None:
        walked.rest_is_payload()


def _carrier(walked: Walked, name: str) -> str | None:
    """Past a header of the table of carriers."""
    data, at, carrier = walked.data, walked.at, CARRIERS[name]
    if len(data) < at + carrier.peek or walked.end < at + carrier.peek:
        raise too_short(walked, carrier.name, _IPV6_HEADER if name == "ip" else carrier.peek)
    step = carrier.step(data[at : at + carrier.peek])
    if len(data) < at + step.length or walked.end < at + step.length:
        raise too_short(walked, carrier.name, step.length)
    walked.layers += [(layer, at + first) for layer, first in step.layers]
    walked.at = at + step.length
    if carrier.length_at is not None:
        length_at = at + carrier.length_at
        walked.ends_at(walked.at + (data[length_at] << 8 | data[length_at + 1]), carrier.name.upper())
    if carrier.tunnel is not None:
        walked.goes_inside(step.truncated)
    return step.following


def _ipv6(walked: Walked) -> str | None:
    """Past an IPv6 header and its extension headers."""
    protocol = _header_like_ipv6(walked, "ipv6")
    while protocol in _EXTENSIONS:
        protocol = _extension(walked, protocol)
    return IP_PROTOCOLS.get(protocol)


def _grh(walked: Walked, profile: WireProfile) -> None:
    """The GRH of RoCEv1, and the transport, which follows without UDP."""
    if _header_like_ipv6(walked, "grh") == GRH_PROTOCOL:
        walk_transport(walked, profile)


def _header_like_ipv6(walked: Walked, name: str) -> int:
    data, at = walked.data, walked.at
    if len(data) < at + 40 or walked.end < at + 40:
        raise too_short(walked, name, 40)
    if data[at] >> 4 != 6:
        what = "an IPv6 header" if name == "ipv6" else "a GRH"
        raise MalformedPacket("bad_version", f"{data[at] >> 4} where {what} should begin")
    walked.layers.append((name, at))
    walked.ip.append(at)
    walked.at = at + 40
    length = data[at + 4] << 8 | data[at + 5]
    # No length: a jumbogram, or a packet captured before its segments were cut.
    if length:
        walked.ends_at(at + 40 + length, "IPv6" if name == "ipv6" else "GRH")
    return data[at + 6]


def _ipv4(walked: Walked) -> str | None:
    """Past an IPv4 header with its options; nothing follows in a fragment."""
    data, at = walked.data, walked.at
    if len(data) < at + 20 or walked.end < at + 20:
        raise too_short(walked, "ipv4", 20)
    if data[at] >> 4 != 4:
        raise MalformedPacket("bad_version", f"{data[at] >> 4} where an IPv4 header should begin")
    header = (data[at] & 0x0F) * 4
    if header < 20:
        raise MalformedPacket("bad_header_length", f"IPv4 header of {header} bytes, it takes 20")
    if len(data) < at + header or walked.end < at + header:
        raise too_short(walked, "ipv4", header)
    walked.layers.append(("ipv4", at))
    walked.ip.append(at)
    walked.at = at + header
    length = data[at + 2] << 8 | data[at + 3]
    if length:
        if length < header:
            raise MalformedPacket("bad_length", f"IPv4 length {length}, its header has {header}")
        walked.ends_at(at + length, "IPv4")
    if (data[at + 6] << 8 | data[at + 7]) & 0x3FFF:
        walked.fragment_at = at
        return None
    return IP_PROTOCOLS.get(data[at + 9])


def _extension(walked: Walked, kind: int) -> int:
    """Past one IPv6 extension header; what follows it, or nothing readable for a fragment."""
    data, at = walked.data, walked.at
    if len(data) < at + 8 or walked.end < at + 8:
        raise too_short(walked, "extension", 8)
    if kind == FRAGMENT:
        if (data[at + 2] << 8 | data[at + 3]) & 0xFFF9:
            walked.fragment_at = at
            return _NO_PROTOCOL
        walked.at = at + 8
        return data[at]
    length = 8 + 8 * data[at + 1]
    if kind == ROUTING and data[at + 2] == _SEGMENT_ROUTING_TYPE:
        walked.layers.append(("srh", at))
        last_entry, segments_left = data[at + 4], data[at + 3]
        if (last_entry + 1) * 16 > length - 8:
            walked.note(f"bad_srh: last entry {last_entry}, the header has room for {(length - 8) // 16} segments")
        elif segments_left > last_entry + 1:
            walked.note(f"bad_srh: segments left {segments_left}, last entry {last_entry}")
        walked.at = at + 8
    if len(data) < at + length or walked.end < at + length:
        walked.at = at
        raise too_short(walked, "srh" if walked.layers[-1] == ("srh", at) else "extension", length)
    walked.at = at + length
    return data[at]


def _udp(walked: Walked, profile: WireProfile) -> str | None:
    """Past a UDP header: the transport, where it goes to one of its ports, or a tunnel."""
    data, at = walked.data, walked.at
    if len(data) < at + 8 or walked.end < at + 8:
        raise too_short(walked, "udp", 8)
    walked.layers.append(("udp", at))
    walked.udp_at = at
    walked.at = at + 8
    length = data[at + 4] << 8 | data[at + 5]
    ip_end = walked.end
    if length >= 8:
        walked.ends_at(at + length, "UDP")
    elif length:
        walked.note(f"bad_length: UDP length {length}, its header has 8")
    port = data[at + 2] << 8 | data[at + 3]
    if port in profile.accepted_udp_ports:
        walk_transport(walked, profile)
        if walked.end < ip_end and walked.malformed is None and not walked.trimmed:
            walked.malformed = f"bad_length: UDP length {length}, {ip_end - at} bytes follow the IP header"
        return None
    return UDP_PORTS.get(port)
