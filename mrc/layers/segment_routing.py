"""Segment routing headers (wire.md section 11, RFC 8754): Scapy's own, with its HMAC TLV put right.

Scapy's IPv6ExtHdrSegmentRouting has the right header, segments, Pad1 and PadN. Its HMAC TLV does not dissect: it reads
a two-byte length where RFC 8754 section 2.1.2 has one byte, and takes 48 off it. A TLV class registers itself under
its type, so defining the right one here replaces the wrong one. MRC itself sends no TLV.
"""

from __future__ import annotations

from scapy.fields import BitField, ByteField, FieldLenField, StrLenField, XIntField
from scapy.layers.inet6 import IPv6ExtHdrSegmentRoutingTLV

# The D bit with its reserved bits, and the key id, count towards the TLV's length.
_FIXED_LENGTH = 6


def _hmac_length(tlv: IPv6ExtHdrSegmentRoutingTLV) -> int:
    return max(0, int(tlv.len) - _FIXED_LENGTH)


class SRHTLVHMAC(IPv6ExtHdrSegmentRoutingTLV):
    """HMAC TLV of a segment routing header: `hmac` is 8 to 32 bytes, a multiple of 8.

    The length counts everything after itself, as in Linux: 38 with an HMAC of 32 bytes.
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
