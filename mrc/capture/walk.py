"""One pass over a packet: which headers it has and where, down to the transport, without reading more than that takes.

What a walk finds is enough to list layers, to check the ICRC and to write a line about the packet; `fields.py` reads
every field where somebody wants them. It goes as far as the bytes do and never raises: what is wrong is
in `Walked.malformed`. The reading of the transport headers is `mrc.capture.transport`.

A header that is skipped has no layer: hop-by-hop and destination options, an atomic fragment header, and routing
headers other than type 4; the `nh` before them says they are there. A fragment is not followed beyond its IP header.
"""

from __future__ import annotations

from mrc.capture.transport import walk_transport
from mrc.capture.walked import Walked, too_short
from mrc.errors import MalformedPacket
from mrc.wire.profile import DEFAULT_WIRE_PROFILE, WireProfile

ETHERNET = 1
LINUX_SLL = 113
LINUX_SLL2 = 276
RAW_IP = frozenset((12, 101, 228, 229))  # one number was the operating system's own, two say which IP it is

VLAN_TYPES = frozenset((0x8100, 0x88A8, 0x9100))
_IPV4_TYPE, _IPV6_TYPE = 0x0800, 0x86DD

HOP_BY_HOP, IPV4, UDP, IPV6, ROUTING, FRAGMENT, DESTINATION_OPTIONS = 0, 4, 17, 41, 43, 44, 60
_EXTENSIONS = frozenset((HOP_BY_HOP, ROUTING, FRAGMENT, DESTINATION_OPTIONS))
_SEGMENT_ROUTING_TYPE = 4
_NO_IP = -1


def walk(data: bytes, link_type: int, wire_length: int, profile: WireProfile = DEFAULT_WIRE_PROFILE) -> Walked:
    """The headers of a packet given from its link layer on (LINKTYPE number `link_type`).

    `wire_length` is how many bytes the packet had where it was captured, `data` those that were kept.
    """
    walked = Walked(data, max(wire_length, len(data)))
    try:
        if link_type == ETHERNET:
            protocol, at = _ethernet(walked)
        elif link_type in RAW_IP:
            protocol, at = _raw_ip(walked)
        elif link_type == LINUX_SLL:
            protocol, at = _cooked(walked, 14, 16)
        elif link_type == LINUX_SLL2:
            protocol, at = _cooked(walked, 0, 20)
        else:
            walked.malformed = f"unknown_link: link type {link_type}"
            protocol, at = _NO_IP, 0
        walked.at = at
        if protocol == _NO_IP:
            walked.rest_is_payload()
        else:
            _network(walked, protocol, profile)
    except MalformedPacket as error:
        walked.note(str(error))
        walked.rest_is_payload()
    return walked


def _ethernet(walked: Walked) -> tuple[int, int]:
    data = walked.data
    if len(data) < 14:
        raise too_short(walked, "ether", 14)
    walked.layers.append(("ether", 0))
    return _by_ether_type(walked, data[12] << 8 | data[13], 14)


def _cooked(walked: Walked, protocol_at: int, length: int) -> tuple[int, int]:
    """Linux cooked capture: its one field here is the protocol, an Ethernet type."""
    data = walked.data
    if len(data) < length:
        raise too_short(walked, "sll", length)
    walked.layers.append(("sll", protocol_at))
    return _by_ether_type(walked, data[protocol_at] << 8 | data[protocol_at + 1], length)


def _by_ether_type(walked: Walked, ether_type: int, at: int) -> tuple[int, int]:
    data = walked.data
    while ether_type in VLAN_TYPES:
        walked.at = at
        if len(data) < at + 4:
            raise too_short(walked, "vlan", 4)
        walked.layers.append(("vlan", at))
        ether_type = data[at + 2] << 8 | data[at + 3]
        at += 4
    if ether_type == _IPV6_TYPE:
        return IPV6, at
    if ether_type == _IPV4_TYPE:
        return IPV4, at
    return _NO_IP, at


def _raw_ip(walked: Walked) -> tuple[int, int]:
    if not walked.data:
        raise too_short(walked, "ipv6", 40)
    return IPV4 if walked.data[0] >> 4 == 4 else IPV6, 0


def _network(walked: Walked, protocol: int, profile: WireProfile) -> None:
    """From an IP header through all that carry each other to what the last one carries."""
    data = walked.data
    after_ipv6 = False
    while True:
        at = walked.at
        if protocol == IPV6:
            if len(data) < at + 40 or walked.end < at + 40:
                raise too_short(walked, "ipv6", 40)
            if data[at] >> 4 != 6:
                raise MalformedPacket("bad_version", f"{data[at] >> 4} where an IPv6 header should begin")
            walked.layers.append(("ipv6", at))
            walked.ip.append(at)
            protocol = data[at + 6]
            walked.at = at + 40
            length = data[at + 4] << 8 | data[at + 5]
            # No length: a jumbogram, or a packet captured before its segments were cut.
            if length:
                walked.ends_at(at + 40 + length, "IPv6")
            after_ipv6 = True
        elif protocol == UDP:
            _udp(walked, profile)
            return
        elif protocol == IPV4:
            protocol = _ipv4(walked)
            after_ipv6 = False
        elif after_ipv6 and protocol in _EXTENSIONS:
            protocol = _extension(walked, protocol)
        else:
            walked.rest_is_payload()
            return


def _ipv4(walked: Walked) -> int:
    """Past an IPv4 header with its options; the protocol it carries, or none for a fragment."""
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
    more_or_offset = (data[at + 6] << 8 | data[at + 7]) & 0x3FFF
    return _NO_IP if more_or_offset else data[at + 9]


def _extension(walked: Walked, kind: int) -> int:
    """Past one IPv6 extension header; what follows it, or nothing readable for a fragment."""
    data, at = walked.data, walked.at
    if len(data) < at + 8 or walked.end < at + 8:
        raise too_short(walked, "extension", 8)
    if kind == FRAGMENT:
        if (data[at + 2] << 8 | data[at + 3]) & 0xFFF9:
            return _NO_IP
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


def _udp(walked: Walked, profile: WireProfile) -> None:
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
    if data[at + 2] << 8 | data[at + 3] in profile.accepted_udp_ports:
        walk_transport(walked, profile)
        if walked.end < ip_end and walked.malformed is None and not walked.trimmed:
            walked.malformed = f"bad_length: UDP length {length}, {ip_end - at} bytes follow the IP header"
    else:
        walked.rest_is_payload()
