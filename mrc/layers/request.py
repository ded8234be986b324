"""Headers of requests: METH, TSETH, RETH, ImmDt (wire.md section 4), and the standard RoCEv2 ones (section 13)."""

from __future__ import annotations

from scapy.fields import BitField, ByteField, IntField, LongField, ShortField, X3BytesField, XIntField, XLongField

from mrc.layers.base import Reserved, TransportHeader


class METH(TransportHeader):
    """MRC extended transport header, 4 bytes (grade A): write-with-immediate and message sequence numbers."""

    name = "METH"
    fields_desc = [ShortField("rqmsn", 0), ShortField("msn", 0)]

    def info(self) -> str:
        return f"MSN={self.msn}" + (f" RQMSN={self.rqmsn}" if self.rqmsn else "")


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

    def info(self) -> str:
        return f"TS={self.tx_timestamp}"


class RETH(TransportHeader):
    """RDMA extended transport header, 16 bytes (grade A). `dmalen` in bytes, of the whole message."""

    name = "RETH"
    fields_desc = [XLongField("va", 0), XIntField("rkey", 0), IntField("dmalen", 0)]

    def info(self) -> str:
        return f"VA=0x{self.va:x} Len={self.dmalen}"


class ImmDt(TransportHeader):
    """Immediate data, 4 bytes (grade A)."""

    name = "ImmDt"
    fields_desc = [XIntField("data", 0)]

    def info(self) -> str:
        return f"Imm=0x{self.data:08x}"


class AtomicETH(TransportHeader):
    """Atomic extended transport header, 28 bytes (IBTA; standard opcodes only). `swap` is what FETCH & ADD adds."""

    name = "AtomicETH"
    fields_desc = [XLongField("va", 0), XIntField("rkey", 0), LongField("swap", 0), LongField("compare", 0)]

    def info(self) -> str:
        return f"VA=0x{self.va:x}"


class DETH(TransportHeader):
    """Datagram extended transport header, 8 bytes (IBTA; standard opcodes only)."""

    name = "DETH"
    fields_desc = [XIntField("qkey", 0), ByteField("reserved", 0), X3BytesField("sqpn", 0)]

    def info(self) -> str:
        return f"SQP=0x{self.sqpn:06x}"


class IETH(TransportHeader):
    """Invalidate extended transport header, 4 bytes (IBTA; standard opcodes only)."""

    name = "IETH"
    fields_desc = [XIntField("rkey", 0)]

    def info(self) -> str:
        return f"Invalidate=0x{self.rkey:08x}"
