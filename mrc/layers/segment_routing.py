# SPDX-License-Identifier: GPL-2.0-only
"""Segment routing headers (wire.md section 11, RFC 8754): Scapy's own, with its HMAC TLV put right, and the HMAC.

Scapy's IPv6ExtHdrSegmentRouting has the right header, segments, Pad1 and PadN. Its HMAC TLV does not dissect: it reads
a two-byte length where RFC 8754 section 2.1.2 has one byte, and takes 48 off it. A TLV class registers itself under
its type, so defining the right one here replaces the wrong one. MRC itself sends no TLV.
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv6Address

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.hmac import HMAC
from scapy.fields import BitField, ByteField, FieldLenField, StrLenField, XIntField
from scapy.layers.inet6 import IPv6, IPv6ExtHdrSegmentRouting, IPv6ExtHdrSegmentRoutingTLV
from scapy.packet import Packet

from mrc.errors import CallerError

# The D bit with its reserved bits, and the key id, count towards the TLV's length.
_FIXED_LENGTH = 6
_DIGEST_LENGTH = 32
_FLAGS_AT = 5


def _hmac_length(tlv: IPv6ExtHdrSegmentRoutingTLV) -> int:
    return max(0, int(tlv.len) - _FIXED_LENGTH)


class SRHTLVHMAC(IPv6ExtHdrSegmentRoutingTLV):
    """HMAC TLV of a segment routing header: `hmac` is 8 to 32 bytes, a multiple of 8; `with_hmac` works it out.

    The length counts everything after itself, as in Linux: 38 with an HMAC of 32 bytes. `d` 1: the destination address
    is not checked against the segment list, which a reduced list does not hold.
    """

    name = "Segment Routing HMAC TLV"
    fields_desc = [
        ByteField("type", 5),
        FieldLenField("len", None, fmt="B", length_of="hmac", adjust=lambda pkt, length: length + _FIXED_LENGTH),
        BitField("d", 0, 1),
        BitField("reserved", 0, 15),
        XIntField("hmackeyid", 0),
        StrLenField("hmac", b"", length_from=_hmac_length),
    ]


def _hmac_tlv(srh: Packet) -> SRHTLVHMAC | None:
    return next((tlv for tlv in srh.tlv_objects if isinstance(tlv, SRHTLVHMAC)), None)


def _digest(header: IPv6, key_id: int, key: bytes) -> HMAC:
    """The HMAC of a dissected header, not finished: over the text of RFC 8754 section 2.1.2.1."""
    srh = header[IPv6ExtHdrSegmentRouting]
    digest = HMAC(key, SHA256())
    digest.update(IPv6Address(header.src).packed)
    digest.update(bytes((srh.lastentry, bytes(srh)[_FLAGS_AT])))
    digest.update(key_id.to_bytes(4, "big"))
    for address in srh.addresses:
        digest.update(IPv6Address(address).packed)
    return digest


def with_hmac(packet: Packet, key: bytes, key_id: int | None = None) -> Packet:
    """A copy of `packet` whose segment routing header carries the HMAC TLV, SHA-256 under `key`.

        header = IPv6ExtHdrSegmentRouting(addresses=["fd00::3", "fd00::2"])
        with_hmac(IPv6(src="fd00::1", dst="fd00::2") / header, b"secret", key_id=17)

    A TLV that is there is filled in and keeps its key id, unless `key_id` is given; else one is put last. `d` is set
    where the list is reduced (segleft beyond lastentry). Linux looks at a TLV only when the header's `hmac` flag, which
    RFC 8754 does not have, is 1. Raises CallerError without a segment routing header on IPv6, or for an empty key.
    """
    signed = packet.copy()
    srh = signed.getlayer(IPv6ExtHdrSegmentRouting)
    if srh is None or not isinstance(srh.underlayer, IPv6):
        raise CallerError("an HMAC needs a segment routing header on IPv6")
    if not key:
        raise CallerError("an HMAC needs a key that is not empty")
    tlv = _hmac_tlv(srh)
    if tlv is None:
        tlv = SRHTLVHMAC()
        srh.tlv_objects = [*srh.tlv_objects, tlv]
    tlv.hmackeyid = tlv.hmackeyid if key_id is None else key_id
    tlv.hmac = bytes(_DIGEST_LENGTH)
    built = IPv6(bytes(srh.underlayer))
    final = built[IPv6ExtHdrSegmentRouting]
    tlv.d = int(final.segleft > final.lastentry)
    tlv.hmac = _digest(built, tlv.hmackeyid, key).finalize()
    return signed


def check_hmac(packet: Packet, keys: Mapping[int, bytes]) -> bool | None:
    """Whether the HMAC of a dissected packet's segment routing header is right; None where there is none.

    `keys` by key id. As RFC 8754 section 2.1.2.1 says: without d, the destination has to be the segment the header
    points at; an unknown key id is wrong; so is an HMAC that is not all there.
    """
    srh = packet.getlayer(IPv6ExtHdrSegmentRouting)
    tlv = _hmac_tlv(srh) if srh is not None and isinstance(srh.underlayer, IPv6) else None
    if tlv is None:
        return None
    header = srh.underlayer
    points_at = srh.addresses[srh.segleft] if srh.segleft < len(srh.addresses) else None
    if (not tlv.d and points_at != header.dst) or tlv.hmackeyid not in keys:
        return False
    try:
        _digest(header, tlv.hmackeyid, keys[tlv.hmackeyid]).verify(tlv.hmac)
    except InvalidSignature:
        return False
    return True
