# SPDX-License-Identifier: GPL-2.0-only
"""Headers of acknowledgements: AETH (wire.md section 5), SETH and CC_STATE (section 6), NETH (section 7)."""

from __future__ import annotations

from typing import Any

from scapy.fields import (
    BitEnumField,
    BitField,
    ByteField,
    ConditionalField,
    LongField,
    ShortField,
    SignedShortField,
    ThreeBytesField,
    XByteEnumField,
    XByteField,
    XIntField,
    XLongField,
    XShortField,
)

from mrc.layers.base import Reserved, TransportHeader
from mrc.wire.names import MARKS, NACK_REASONS, SYNDROMES, UNLIMITED_CREDITS
from mrc.wire.profile import DEFAULT_WIRE_PROFILE


class AETH(TransportHeader):
    """ACK extended transport header, 4 bytes (grade A). `msn` counts completed messages."""

    name = "AETH"
    fields_desc = [XByteEnumField("syndrome", UNLIMITED_CREDITS, SYNDROMES), ThreeBytesField("msn", 0)]


class AtomicAckETH(TransportHeader):
    """Atomic ACK extended transport header, 8 bytes (IBTA; standard opcodes only): the value before the operation."""

    name = "AtomicAckETH"
    fields_desc = [LongField("orig", 0)]


def _is_probe_answer(seth: Any) -> bool:
    return bool(seth.pr)


def _is_no_probe_answer(seth: Any) -> bool:
    return not seth.pr


class SETH(TransportHeader):
    """SACK extended transport header, 28 bytes (grade A; spdcid and dpdcid C).

    Bytes 2-3 are `ack_psn_offset` (signed), or `probe_id` when pr is 1. Bit i of `bitmap`, least significant first,
    is PSN cack_psn + sack_offset + i. `mpr` is in units of 128 PSNs. Setting `probe_id` sets pr, unless that is set.
    """

    name = "SETH"
    dpdcid_at = 10
    _turns = True
    fields_desc = [
        BitField("type", 0, 4),
        BitField("next", 0, 5),
        BitEnumField("m", 0, 2, MARKS),
        Reserved("reserved", 3),
        BitField("pr", 0, 1),
        Reserved("reserved2", 1),
        ConditionalField(SignedShortField("ack_psn_offset", 0), _is_no_probe_answer),
        ConditionalField(ShortField("probe_id", 0), _is_probe_answer),
        XIntField("entropy", 0),
        XShortField("spdcid", 0),
        XShortField("dpdcid", 0),
        ByteField("reserved3", 0),
        ThreeBytesField("cack_psn", 0),
        BitField("cc_type", 0, 4),
        BitField("cc_flags", 0, 4),
        ByteField("mpr", 0),
        SignedShortField("sack_offset", 1),
        XLongField("bitmap", 0),
    ]

    def __init__(self, *args: Any, **fields: Any) -> None:
        super().__init__(*args, **(({"pr": 1} if "probe_id" in fields else {}) | fields))

    def setfieldval(self, attr: str, val: Any) -> None:
        super().setfieldval(attr, val)
        if attr == "probe_id":
            self.fields.setdefault("pr", 1)

    def own_psn(self) -> int:
        return int(self.cack_psn)


class CC_STATE(TransportHeader):
    """Congestion-control state, 8 bytes after the SETH (grade A). `rcvd_bytes` counts units of 256 bytes and wraps."""

    name = "CC_STATE"
    fields_desc = [
        ShortField("tx_timestamp", 0),
        Reserved("reserved", 1),
        BitField("ooo_count", 0, 15),
        BitField("restore_cwnd", 0, 1),
        BitField("rcv_cwnd_pen", 0, 7),
        ThreeBytesField("rcvd_bytes", 0),
    ]


class NETH(TransportHeader):
    """NACK extended transport header, 20 bytes (grade A; cc_type C: 2 is sent, any accepted; spdcid and dpdcid C)."""

    name = "NETH"
    dpdcid_at = 10
    _turns = True
    fields_desc = [
        BitField("type", 0, 4),
        BitField("next", 0, 5),
        Reserved("reserved", 7),
        XByteEnumField("reason", 0x01, NACK_REASONS),
        XByteField("vendor_info", 0),
        XIntField("entropy", 0),
        XShortField("spdcid", 0),
        XShortField("dpdcid", 0),
        ByteField("reserved2", 0),
        ThreeBytesField("nack_psn", 0),
        BitField("cc_type", DEFAULT_WIRE_PROFILE.neth_cc_type, 4),
        BitField("cc_flags", 0, 4),
        ByteField("reserved3", 0),
        ShortField("tx_timestamp", 0),
    ]

    def own_psn(self) -> int:
        return int(self.nack_psn)
