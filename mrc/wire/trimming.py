# SPDX-License-Identifier: BSD-2-Clause
"""What a trimming switch makes of a packet (wire.md section 12): for hand-made captures, and to hold switches to."""

from __future__ import annotations

import struct

from mrc.errors import CallerError
from mrc.wire.opcodes import BTH_LENGTH
from mrc.wire.profile import DEFAULT_WIRE_PROFILE, WireProfile

_IPV6, _UDP = 40, 8
_UDP_PROTOCOL, _IPV6_PROTOCOL, _ROUTING = 17, 41, 43


def trim(
    packet: bytes,
    profile: WireProfile = DEFAULT_WIRE_PROFILE,
    *,
    last_hop: bool = False,
    kept_bytes: int | None = None,
) -> bytes:
    """Cut a packet, given from its outermost IP header on, as our lab's switches do.

    `kept_bytes` count from there; None: the headers through the BTH and the bytes that MRC's own kind of switch keeps
    after it. The outermost header gets the codepoint of a trimmed packet (of the last hop, if so) and the new length;
    where UDP follows it at once (UDP and STEV modes) the UDP length too. Inner lengths keep their old value. A packet
    that is no longer than that only gets the codepoint. Raises CallerError for anything but UDP in IP, or in IPv6 in
    IPv6, and for `kept_bytes` that end before the BTH does.
    """
    udp_at = _udp_at(packet)
    least = udp_at + _UDP + BTH_LENGTH
    if kept_bytes is not None and kept_bytes < least:
        raise CallerError(f"a trimmed packet keeps its headers through the BTH, {least} bytes here, got {kept_bytes}")
    kept = bytearray(packet[: least + profile.trim_keeps_after_bth if kept_bytes is None else kept_bytes])
    codepoint = profile.dscp_trimmed_lasthop if last_hop else profile.dscp_trimmed
    if kept[0] >> 4 == 6:
        word = int.from_bytes(kept[:2], "big") & 0xF03F | codepoint << 6
        kept[:2] = word.to_bytes(2, "big")
        if len(kept) < len(packet):
            kept[4:6] = (len(kept) - _IPV6).to_bytes(2, "big")
    else:
        kept[1] = codepoint << 2 | kept[1] & 3
        if len(kept) < len(packet):
            kept[2:4] = len(kept).to_bytes(2, "big")
        header = 4 * (kept[0] & 0xF)
        kept[10:12] = b"\0\0"
        kept[10:12] = _checksum(bytes(kept[:header])).to_bytes(2, "big")
    if len(kept) < len(packet) and not _carries_ip(packet):
        kept[udp_at + 4 : udp_at + 6] = (len(kept) - udp_at).to_bytes(2, "big")
    return bytes(kept)


def _carries_ip(packet: bytes) -> bool:
    return packet[0] >> 4 == 6 and packet[6] != _UDP_PROTOCOL


def _udp_at(packet: bytes) -> int:
    """Where the UDP header lies, behind one IP header or behind IPv6 [SRH] IPv6."""
    if not packet:
        raise CallerError("an empty packet cannot be trimmed")
    if packet[0] >> 4 == 4:
        protocol, at = packet[9:10], 4 * (packet[0] & 0xF)
    else:
        protocol, at = packet[6:7], _IPV6
        if protocol == bytes((_ROUTING,)):
            protocol, at = packet[at : at + 1], at + 8 * (1 + int.from_bytes(packet[at + 1 : at + 2], "big"))
        if protocol == bytes((_IPV6_PROTOCOL,)):
            protocol, at = packet[at + 6 : at + 7], at + _IPV6
    if protocol != bytes((_UDP_PROTOCOL,)) or len(packet) < at + _UDP + BTH_LENGTH:
        raise CallerError("only UDP in IP, or in IPv6 in IPv6, with a whole BTH can be trimmed")
    return at


def _checksum(header: bytes) -> int:
    total: int = sum(struct.unpack(f">{len(header) // 2}H", header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
