# SPDX-License-Identifier: BSD-2-Clause
"""The part of a walk from the BTH to the ICRC, and whether the ICRC is right (wire.md sections 2, 9 and 12).

A packet with nothing wrong is settled by the opcode table and a little arithmetic. Every other one goes to
`mrc.wire.packet.decode_transport`, which alone decides what is wrong with it.
"""

from __future__ import annotations

from mrc.capture.walked import Walked
from mrc.wire.crc import crc32
from mrc.wire.icrc import BTH_ICRC_MASK, ICRC_SEED, IPV6_ICRC_MASK, TRANSPORT_ICRC_MASK, icrc_ipv4, icrc_ipv6
from mrc.wire.ipv4 import IPV4_ICRC_MASK
from mrc.wire.opcodes import BTH_LENGTH, HEADER_LENGTHS, ICRC_LENGTH, OPCODES
from mrc.wire.packet import decode_transport, is_trimmed
from mrc.wire.profile import DEFAULT_WIRE_PROFILE, WireProfile
from mrc.wire.rows import PAD_SHIFT, lowest_bit, masks_in, offsets_in

# Where in a BTH: the two bits of the pad count, and ts.
PAD_AT, TS_AT = offsets_in("bth", "pad ts")
TS_SHIFT = lowest_bit(masks_in("bth", "ts reserved3")[0])


def _shapes() -> dict[int, tuple[int, tuple[tuple[str, int], ...], bool]]:
    """By opcode << 1 | ts: bytes of all headers, each header's name and distance from the BTH, whether a payload may
    follow."""
    shapes = {}
    for value, opcode in OPCODES.items():
        for ts in (0, 1):
            at, headers = BTH_LENGTH, [("bth", 0)]
            for name in opcode.headers:
                # In standard opcodes the bit is reserved, and none of them has a TSETH.
                if name != "tseth" or ts:
                    headers.append((name, at))
                    at += HEADER_LENGTHS[name]
            shapes[value << 1 | ts] = (at, tuple(headers), opcode.has_payload)
    return shapes


SHAPES = _shapes()


def walk_transport(walked: Walked, profile: WireProfile) -> None:
    """Follow a packet whose BTH begins at `walked.at`. Sets layers, payload, ICRC, trimmed and malformed."""
    data, at, end = walked.data, walked.at, walked.end
    walked.transport_at = at
    walked.transport_index = len(walked.layers)
    marked = any(dscp in profile.trimmed_dscps for dscp in _dscps(walked))
    if not marked and len(data) >= end and end - at >= BTH_LENGTH and walked.short is None:
        shape = SHAPES.get(data[at] << 1 | data[at + TS_AT] >> TS_SHIFT & 1)
        if shape is not None:
            length, headers, has_payload = shape
            body = end - at - length - ICRC_LENGTH
            pad = data[at + PAD_AT] >> PAD_SHIFT & 3
            if body >= pad and (has_payload or not body):
                layers = walked.layers
                for name, distance in headers:
                    layers.append((name, at + distance))
                walked.payload_length = body - pad
                walked.icrc_at = end - ICRC_LENGTH
                return
    walked.trimmed = marked and _is_trimmed(walked, profile)
    _walk_doubtful(walked, profile)


def _is_trimmed(walked: Walked, profile: WireProfile) -> bool:
    """What the capture left out must not look like what a switch cut off: then lengths decide, the ICRC cannot."""
    data, at, end = walked.data, walked.at, walked.end
    kept = data[at:end]
    if len(kept) < BTH_LENGTH:
        return False
    as_sent = kept + bytes(max(0, end - at - len(kept)))
    has_icrc = not walked.cut and len(kept) >= BTH_LENGTH + ICRC_LENGTH
    icrc_wrong = has_icrc and not _icrc_right(walked, at, end - ICRC_LENGTH, profile)
    return any(
        is_trimmed(as_sent, dscp, profile, lengths_say_more=walked.short is not None, icrc_wrong=icrc_wrong)
        for dscp in _dscps(walked)
    )


def _walk_doubtful(walked: Walked, profile: WireProfile) -> None:
    """A packet that is trimmed, cut short or malformed, or has a TRIMMED codepoint."""
    data, at, end = walked.data, walked.at, walked.end
    bth = at
    kept = data[at:end]
    incomplete = walked.trimmed or walked.cut or walked.short is not None
    transport = decode_transport(kept, trimmed=incomplete, profile=profile)
    reason, icrc, payload = transport.malformed, transport.icrc is not None, len(transport.payload)
    if not transport.layers:
        payload = len(kept)
    for name, _ in transport.layers:
        walked.layers.append((name, at))
        at += BTH_LENGTH if name == "bth" else HEADER_LENGTHS[name]
    if walked.trimmed:
        walked.short = reason = None
        payload = end - at
    elif walked.short is not None:
        reason = walked.short
    elif walked.cut:
        reason, payload = _cut_short(walked, bth, at, reason, payload)
    elif reason is not None and reason.startswith("unknown_opcode") and payload >= ICRC_LENGTH:
        # The ICRC is the last 4 bytes whatever the opcode.
        icrc = True
        pad = min(kept[PAD_AT] >> PAD_SHIFT & 3, payload - ICRC_LENGTH)
        payload -= ICRC_LENGTH + pad
    if reason is not None:
        walked.note(reason)
    walked.payload_length = payload
    walked.icrc_at = end - ICRC_LENGTH if icrc else None


def _cut_short(walked: Walked, bth: int, at: int, reason: str | None, payload: int) -> tuple[str | None, int]:
    """Reason and payload length of a packet the capture kept in part; headers were read from `bth` up to `at`.

    One of which all headers were kept is as good as whole: its payload length follows from where it ends.
    """
    if reason is not None and reason.startswith("unknown_opcode"):
        return reason, walked.end - at
    data = walked.data
    there = len(data) - bth
    if there < BTH_LENGTH:
        return f"cut_short: the capture kept {max(0, there)} bytes of bth, it takes {BTH_LENGTH}", payload
    length = SHAPES[data[bth] << 1 | data[bth + TS_AT] >> TS_SHIFT & 1][0]
    if at < bth + length:
        return f"cut_short: the capture kept {there} bytes of headers, they take {length}", payload
    body = walked.end - at - ICRC_LENGTH
    pad = data[bth + PAD_AT] >> PAD_SHIFT & 3
    if body < 0:
        return f"no_icrc: {walked.end - at} bytes follow the headers, the ICRC takes 4", walked.end - at
    if pad > body:
        return f"bad_pad: pad count {pad}, {body} bytes of payload", body
    return None, body - pad


def _dscps(walked: Walked) -> list[int]:
    data = walked.data
    return [data[at + 1] >> 2 if data[at] >> 4 == 4 else (data[at] << 8 | data[at + 1]) >> 6 & 0x3F for at in walked.ip]


def icrc_ok(walked: Walked, profile: WireProfile = DEFAULT_WIRE_PROFILE) -> bool | None:
    """Whether the ICRC is right; None when there is none to check: not RoCE, trimmed, too short, or not kept whole.

    It covers the innermost IP packet, or the outermost when the profile says so. Extension headers between that IP
    header and UDP (a segment routing header without an inner IP header) are covered as they stand (section 9 does not
    mention them), as in `mrc.layers.icrc`. In RoCEv1 it covers the GRH, of which the same bits vary as of IPv6.
    """
    if walked.icrc_at is None or walked.transport_at is None:
        return None
    return _icrc_right(walked, walked.transport_at, walked.icrc_at, profile)


def _icrc_right(walked: Walked, bth_at: int, icrc_at: int, profile: WireProfile) -> bool:
    data, udp_at = walked.data, walked.udp_at
    covered = walked.ip if profile.icrc_covers_outer else walked.ip[-1:]
    first = covered[0]
    sent = int.from_bytes(data[icrc_at : icrc_at + ICRC_LENGTH], "little")
    packet = memoryview(data)[first:icrc_at]
    if len(covered) == 1:
        if data[first] >> 4 == 4:
            return icrc_ipv4(packet) == sent
        if udp_at == first + 40:
            return icrc_ipv6(packet) == sent
    masked = bytearray(packet)
    masks = [(at, IPV4_ICRC_MASK if data[at] >> 4 == 4 else IPV6_ICRC_MASK) for at in covered]
    masks.append((bth_at, BTH_ICRC_MASK) if udp_at is None else (udp_at, TRANSPORT_ICRC_MASK))
    for begin, mask in masks:
        for at, ones in enumerate(mask, begin - first):
            masked[at] |= ones
    return crc32(masked, ICRC_SEED) == sent
