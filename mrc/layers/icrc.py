# SPDX-License-Identifier: GPL-2.0-only
"""What ends every packet: the padding and the ICRC (wire.md sections 3 and 9), and how the ICRC is worked out on build.

The CRC covers the innermost IP packet, so it needs the lengths that IP and UDP only get when they are built. The
BTH therefore asks for it when its own bytes and all that follow are final, and the headers below are
built once ahead of their turn with the same values.
"""

from __future__ import annotations

import zlib

from scapy.fields import StrField, XIntField
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6, _IPv6ExtHdr
from scapy.packet import Packet, Raw

from mrc.wire.icrc import icrc_bytes, icrc_ipv4, icrc_ipv6
from mrc.wire.opcodes import ICRC_LENGTH
from mrc.wire.profile import DEFAULT_WIRE_PROFILE, WireProfile

_UDP_CHECKSUM = 6
_BTH_RESERVED = 8 + 4


class Pad(Packet):
    """The 0..3 bytes after the payload; `data` None (the default) is as many zeros as the BTH's pad count says."""

    name = "Pad"
    fields_desc = [StrField("data", None)]

    @property
    def show_summary(self) -> bool:
        return self.underlayer is None


class ICRC(Packet):
    """The last 4 bytes (grade A; under SRv6 C). `crc` is the four bytes as they lie in the packet, as Wireshark and
    scapy.contrib.roce write it: the CRC-32 with its bytes turned round, since it is sent least significant byte first.

    None (the default) has it worked out when the packet is built, which takes a BTH, UDP and IPv4 or IPv6 below;
    without all three it is 0.
    """

    name = "ICRC"
    fields_desc = [XIntField("crc", None)]

    @property
    def show_summary(self) -> bool:
        return self.underlayer is None


def ip_layers(bth: Packet) -> list[Packet]:
    """The IP headers under a BTH, innermost first, as far as they carry each other (extension headers between them)."""
    found = []
    below = bth.underlayer
    if isinstance(below, UDP):
        below = below.underlayer
    while isinstance(below, IP | IPv6 | _IPv6ExtHdr):
        if not isinstance(below, _IPv6ExtHdr):
            found.append(below)
        below = below.underlayer
    return found


def icrc_value(
    bth: Packet, transport: bytes, profile: WireProfile = DEFAULT_WIRE_PROFILE, *, dissecting: bool = False
) -> int | None:
    """The ICRC of the packet `bth` is in, given its bytes from the BTH up to the ICRC (wire.md section 9).

    None when there is no UDP header, or no IP header, under the BTH. Extension headers between IPv6 and UDP, which the
    section does not mention, are covered as they stand. While `dissecting` the headers below are taken as they came.
    """
    udp = bth.underlayer
    below = ip_layers(bth)
    if not isinstance(udp, UDP) or not below:
        return None
    inner = below[0]
    covered = below if profile.icrc_covers_outer else below[:1]
    packet = (_came_with if dissecting else _built_with)(covered[-1], udp, transport)
    if len(covered) == 1 and udp.underlayer is inner:
        return icrc_ipv4(packet) if isinstance(inner, IP) else icrc_ipv6(packet)
    return _icrc_over_stack(packet, covered, udp, len(transport))


def _built_with(bottom: Packet, udp: Packet, transport: bytes) -> bytes:
    """Bytes from `bottom` to the end of `transport`, all lengths counting the ICRC to come."""
    # Down from `udp`: while Scapy builds, what lies below a layer need not have that same object as its payload.
    # UDP keeps the ports and the checksum it took over from the BTH, since Raw has none to offer.
    above: Packet = Raw(transport + bytes(ICRC_LENGTH))
    layer = udp
    while True:
        above = layer.clone_with(payload=above, **layer.fields)
        if layer is bottom:
            break
        layer = layer.underlayer
    built: bytes = above.do_build()
    return built[:-ICRC_LENGTH]


def _came_with(bottom: Packet, udp: Packet, transport: bytes) -> bytes:
    """Bytes from `bottom` to the end of `transport` as they were dissected."""
    packet, layer = transport, udp
    while True:
        packet = layer.raw_packet_cache + packet
        if layer is bottom:
            return packet
        layer = layer.underlayer


def _icrc_over_stack(packet: bytes, covered: list[Packet], udp: Packet, transport_length: int) -> int:
    """The ICRC where other headers stand between the first IP header and UDP."""
    masked = bytearray(packet)
    udp_at = len(packet) - transport_length - len(udp.self_build())
    at = len(packet) - transport_length
    layer: Packet = udp
    while True:
        at -= len(layer.self_build())
        if isinstance(layer, IP):
            masked[at + 1] = masked[at + 8] = masked[at + 10] = masked[at + 11] = 0xFF
        elif isinstance(layer, IPv6):
            masked[at] |= 0x0F
            masked[at + 1] = masked[at + 2] = masked[at + 3] = masked[at + 7] = 0xFF
        if layer is covered[-1]:
            break
        layer = layer.underlayer
    masked[udp_at + _UDP_CHECKSUM : udp_at + _UDP_CHECKSUM + 2] = b"\xff\xff"
    masked[udp_at + _BTH_RESERVED] = 0xFF
    return zlib.crc32(b"\xff" * 8 + masked)


def check_icrc(packet: Packet, profile: WireProfile = DEFAULT_WIRE_PROFILE) -> bool | None:
    """Whether a dissected packet's ICRC is right; None where it has none or it cannot be worked out.

    >>> from mrc.layers import BTH, METH, RETH, bound_to_udp, in_udp
    >>> packet = in_udp(0xC001, "fd00::1", "fd00::2") / BTH() / METH() / RETH() / b"hello"
    >>> with bound_to_udp():
    ...     check_icrc(type(packet)(bytes(packet)))
    True
    """
    icrc = packet.getlayer(ICRC)
    if icrc is None or icrc.crc is None:
        return None
    first: Packet = icrc.underlayer
    chain = [first]
    while first is not None and not isinstance(first.underlayer, UDP):
        first = first.underlayer
        chain.append(first)
    if first is None:
        return None
    transport = b"".join(layer.self_build() for layer in reversed(chain))
    value = icrc_value(first, transport, profile)
    return None if value is None else icrc_bytes(value) == bytes(icrc)[:ICRC_LENGTH]
