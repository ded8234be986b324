# SPDX-License-Identifier: GPL-2.0-only
"""Headers of requests: METH, TSETH, RETH, ImmDt (wire.md section 4), and the standard RoCEv2 ones (section 13)."""

from __future__ import annotations

from typing import Any

from scapy.fields import BitField, ByteField, IntField, LongField, ShortField, X3BytesField, XIntField, XLongField

from mrc.layers.base import Reserved, TransportHeader
from mrc.layers.icrc import ICRC, Pad

_DMALEN_BYTES = 4


class METH(TransportHeader):
    """MRC extended transport header, 4 bytes (grade A): write-with-immediate and message sequence numbers."""

    name = "METH"
    fields_desc = [ShortField("rqmsn", 0), ShortField("msn", 0)]


class TSETH(TransportHeader):
    """Timestamp extended transport header, 4 bytes (grade A): there when the BTH's ts is 1.

    tsr 0 means units of 128 ns, 1 implementation-defined units. ftype 1: the timestamp is valid.
    """

    name = "TSETH"
    fields_desc = [
        ShortField("tx_timestamp", 0),
        BitField("tsr", 0, 1),
        Reserved("reserved", 11),
        BitField("ftype", 1, 4),
    ]


class RETH(TransportHeader):
    """RDMA extended transport header, 16 bytes (grade A). `dmalen` in bytes, of the whole message.

    Unset, `dmalen` is the length of this packet's payload: that of the message where the packet is all of it. For the
    packets of a longer one see `mrc.layers.segmented`.
    """

    name = "RETH"
    fields_desc = [XLongField("va", 0), XIntField("rkey", 0), IntField("dmalen", None)]

    def post_build(self, pkt: bytes, pay: bytes) -> bytes:
        if self.dmalen is None:
            pkt = pkt[:-_DMALEN_BYTES] + self._payload_length(len(pay)).to_bytes(_DMALEN_BYTES, "big")
        return super().post_build(pkt, pay)

    def _payload_length(self, above: int) -> int:
        """Bytes of payload, given those of all that is above this header so far: padding and ICRC may be among it."""
        for layer in (self.getlayer(ImmDt), self.getlayer(Pad), self.getlayer(ICRC)):
            if layer is not None:
                above -= len(layer.self_build())
        return above

    def shown_value(self, field: str) -> Any:
        if field == "dmalen" and self.dmalen is None:
            return self._payload_length(len(self.payload))
        return super().shown_value(field)


class ImmDt(TransportHeader):
    """Immediate data, 4 bytes (grade A)."""

    name = "ImmDt"
    fields_desc = [XIntField("data", 0)]


class AtomicETH(TransportHeader):
    """Atomic extended transport header, 28 bytes (IBTA; standard opcodes only). `swap` is what FETCH & ADD adds."""

    name = "AtomicETH"
    fields_desc = [XLongField("va", 0), XIntField("rkey", 0), LongField("swap", 0), LongField("compare", 0)]


class DETH(TransportHeader):
    """Datagram extended transport header, 8 bytes (IBTA; standard opcodes only)."""

    name = "DETH"
    fields_desc = [XIntField("qkey", 0), ByteField("reserved", 0), X3BytesField("sqpn", 0)]


class RDETH(TransportHeader):
    """Reliable datagram extended transport header, 4 bytes (IBTA; standard opcodes only): the end-to-end context."""

    name = "RDETH"
    fields_desc = [Reserved("reserved", 8), X3BytesField("eec", 0)]


class XRCETH(TransportHeader):
    """Extended reliable connection header, 4 bytes (IBTA; standard opcodes only): the shared receive queue."""

    name = "XRCETH"
    fields_desc = [Reserved("reserved", 8), X3BytesField("xrcsrq", 0)]


class IETH(TransportHeader):
    """Invalidate extended transport header, 4 bytes (IBTA; standard opcodes only)."""

    name = "IETH"
    fields_desc = [XIntField("rkey", 0)]
