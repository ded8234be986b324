# SPDX-License-Identifier: GPL-2.0-only
"""Headers of the reliability probe and of endpoint operations: PETH, ERTH, EETH (wire.md section 8)."""

from __future__ import annotations

from typing import Any

from scapy.fields import (
    BitEnumField,
    BitField,
    ByteField,
    ShortField,
    StrFixedLenField,
    XByteField,
    XIntField,
    XShortField,
)

from mrc.layers.base import Reserved, TransportHeader
from mrc.wire.names import OPERATIONS

# Bytes 0-1 of an EETH: type(4) next(5), then seven bits that hold op.
_EETH_BITS_BELOW_NEXT = 7
_OP_BITS = 2


class PETH(TransportHeader):
    """Probe extended transport header, 16 bytes (grade A). The answer is a SACK with pr=1 and this probe_id."""

    name = "PETH"
    dpdcid_at = 10
    fields_desc = [
        BitField("type", 0, 4),
        BitField("next", 0, 5),
        Reserved("reserved", 7),
        ByteField("reserved2", 0),
        XByteField("vendor_info", 0),
        ShortField("probe_id", 0),
        ShortField("reserved3", 0),
        XShortField("spdcid", 0),
        XShortField("dpdcid", 0),
        ShortField("tx_timestamp", 0),
        BitField("tsr", 0, 1),
        Reserved("reserved4", 11),
        BitField("ftype", 1, 4),
    ]


class ERTH(TransportHeader):
    """Endpoint request extended transport header, 16 bytes (grade A; which bit is which port is C).

    `port_status_mask` has one bit per local port, 1 for up; port n, counted from 1, is bit n - 1.
    """

    name = "ERTH"
    fields_desc = [
        BitField("type", 0, 4),
        BitField("next", 0, 5),
        Reserved("reserved", 5),
        BitEnumField("op", 0, _OP_BITS, OPERATIONS),
        ByteField("reserved2", 0),
        XByteField("vendor_info", 0),
        XIntField("port_status_mask", 0),
        XIntField("reserved3", 0),
        ShortField("tx_timestamp", 0),
        BitField("tsr", 0, 1),
        Reserved("reserved4", 11),
        BitField("ftype", 1, 4),
    ]


def eeth_fields(op_shift: int = 2) -> list[Any]:
    """The EETH's table. `op_shift`: lowest bit of op in byte 1, 2 or 4 (grade C, WireProfile.eeth_op_shift)."""
    return [
        BitField("type", 0, 4),
        BitField("next", 0, 5),
        Reserved("reserved", _EETH_BITS_BELOW_NEXT - _OP_BITS - op_shift),
        BitEnumField("op", 0, _OP_BITS, OPERATIONS),
        Reserved("reserved2", op_shift),
        StrFixedLenField("reserved3", bytes(26), 26),
        ShortField("tx_timestamp", 0),
        StrFixedLenField("reserved4", bytes(6), 6),
    ]


class EETH(TransportHeader):
    """Endpoint response extended transport header, 36 bytes (grade A; the place of op C). tx_timestamp is reflected."""

    name = "EETH"
    fields_desc = eeth_fields()
