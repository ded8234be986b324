"""Endpoints that take packets that are none of theirs, or send others than RC's."""

from __future__ import annotations

import struct
from typing import Any, ClassVar

from mrc.rc import RcEndpoint, RcQueuePair
from mrc.rc.framing import Framing
from mrc.rc.opcodes import RcOp
from mrc.wire.received_batch import ReceivedBatch
from mrc.wire.rows import P_KEY, UDP_AT
from mrc.wire.transmit_batch import TransmitBatch
from mutants.rc.mutant import rc_mutant

_LIMITED = 0x7FFF
_ACKREQ, _RTX = 1 << 31, 1 << 29
_SPORT_AT = 40  # behind the IPv6 header
_P_KEY_AT = 50


class _Endpoint(RcEndpoint):
    """Sees a batch as `_Seen` shows it."""

    seen: ClassVar[type[ReceivedBatch]]

    def receive(self, batch: ReceivedBatch, now: int) -> None:
        batch.__class__ = self.seen
        super().receive(batch, now)


class _Fields(ReceivedBatch):
    __slots__ = ()

    def fields(self, layout: Any) -> Any:
        found = super().fields(layout).copy()
        self.change(found)
        return found

    def change(self, found: Any) -> None:
        """What the endpoint reads instead; nothing else here."""


class _AnyIcrc(ReceivedBatch):
    __slots__ = ()

    def icrc_right(self, row: int) -> bool:
        return True


@rc_mutant("RC-WIRE-06")
class AnyIcrcIsTaken(_Endpoint):
    """A wrong ICRC is not noticed."""

    seen = _AnyIcrc


class _AnyPartition(_Fields):
    __slots__ = ()

    def change(self, found: Any) -> None:
        found["pkey"] = P_KEY


@rc_mutant("RC-WIRE-08")
class AnyPartitionIsTaken(_Endpoint):
    """A packet is taken whatever its P_Key is."""

    seen = _AnyPartition


class _FullMembers(_Fields):
    __slots__ = ()

    def change(self, found: Any) -> None:
        found["pkey"][found["pkey"] == _LIMITED] = 0


@rc_mutant("RC-WIRE-08")
class LimitedMembersAreDropped(_Endpoint):
    """P_Keys are compared as numbers: that of a limited member counts as another partition's."""

    seen = _FullMembers


class _AnyTver(_Fields):
    __slots__ = ()

    def change(self, found: Any) -> None:
        found["flags"] &= 0xF0


@rc_mutant("RC-WIRE-09")
class AnyTransportVersionIsTaken(_Endpoint):
    """A packet is taken whatever its TVer is."""

    seen = _AnyTver


class _AnyPort(_Fields):
    __slots__ = ()

    def change(self, found: Any) -> None:
        found["udp_dport"] = 4791


@rc_mutant("RC-WIRE-10")
class AnyUdpPortIsTaken(_Endpoint):
    """A packet is taken whatever UDP port it came to."""

    seen = _AnyPort


class _Rc(_Fields):
    __slots__ = ()

    def change(self, found: Any) -> None:
        found["opcode"] &= 0x1F


@rc_mutant("RC-WIRE-13")
class AllTransportsAreOne(_Endpoint):
    """The upper three bits of an opcode, which name the transport, are not looked at: what is not RC's is refused."""

    seen = _Rc


class _AsLongAsItIs(_Fields):
    __slots__ = ()

    def change(self, found: Any) -> None:
        found["ip_plen"] = found["udp_len"] = self.length - UDP_AT


@rc_mutant("RC-WIRE-14")
class LengthsMayContradict(_Endpoint):
    """The lengths in the IP and UDP headers are not looked at."""

    seen = _AsLongAsItIs


class _AnyQp(dict[int, RcQueuePair]):
    def get(self, key: int, default: Any = None) -> Any:
        return next(iter(self.values()), default)


@rc_mutant("RC-RESP-12")
def any_qpn_is_taken(endpoint: RcEndpoint, qp: RcQueuePair) -> None:
    """A packet for a QPN that does not exist goes to one that does."""
    endpoint.qps = _AnyQp(endpoint.qps)


@rc_mutant("RC-RESP-13")
class AnySourceIsTaken(RcQueuePair):
    """A packet is taken whatever address it came from."""

    __slots__ = ()

    def receive(self, batch: ReceivedBatch, row: int, opcode: int, now: int) -> None:
        self._source = bytes(batch.view(row, 8, 24))
        super().receive(batch, row, opcode, now)


class _Requests(Framing):
    __slots__ = ()

    def request(
        self,
        batch: TransmitBatch,
        opcode: RcOp,
        psn_word: int,
        extension: bytes,
        address: int,
        length: int,
    ) -> None:
        opcode, psn_word, extension = self.changed(opcode, psn_word, extension, length)
        super().request(batch, opcode, psn_word, extension, address, length)

    def changed(self, opcode: RcOp, psn_word: int, extension: bytes, size: int) -> tuple[RcOp, int, bytes]:
        return opcode, psn_word, extension


@rc_mutant("RC-WIRE-01")
class NothingIsOnly(_Requests):
    """A message of one packet is a First."""

    __slots__ = ()

    def changed(self, opcode: RcOp, psn_word: int, extension: bytes, size: int) -> tuple[RcOp, int, bytes]:
        return RcOp.WRITE_FIRST if opcode == RcOp.WRITE_ONLY else opcode, psn_word, extension


@rc_mutant("RC-WIRE-02")
class ImmediatesComeBeforeTheReth(_Requests):
    """The ImmDt of an Only with Immediate lies before its RETH."""

    __slots__ = ()

    def changed(self, opcode: RcOp, psn_word: int, extension: bytes, size: int) -> tuple[RcOp, int, bytes]:
        if opcode == RcOp.WRITE_ONLY_WITH_IMMEDIATE:
            extension = extension[16:] + extension[:16]
        return opcode, psn_word, extension


@rc_mutant("RC-WIRE-03")
class EachPacketHasAReth(_Requests):
    """Middle and Last have a RETH too, as MRC's have."""

    __slots__ = ()

    def changed(self, opcode: RcOp, psn_word: int, extension: bytes, size: int) -> tuple[RcOp, int, bytes]:
        return opcode, psn_word, bytes(16 if opcode in (RcOp.WRITE_MIDDLE, RcOp.WRITE_LAST) else 0) + extension


@rc_mutant("RC-WIRE-03")
class TheRethIsThePackets(_Requests):
    """The length in the RETH is that of the packet."""

    __slots__ = ()

    def changed(self, opcode: RcOp, psn_word: int, extension: bytes, size: int) -> tuple[RcOp, int, bytes]:
        if opcode == RcOp.WRITE_FIRST:
            extension = extension[:12] + struct.pack(">I", size)
        return opcode, psn_word, extension


@rc_mutant("RC-WIRE-12")
class RequestsAreMarkedAsRetransmitted(_Requests):
    """A reserved bit of the BTH is set: the one in which MRC says that a packet is sent again."""

    __slots__ = ()

    def changed(self, opcode: RcOp, psn_word: int, extension: bytes, size: int) -> tuple[RcOp, int, bytes]:
        return opcode, psn_word | _RTX, extension


@rc_mutant("RC-REQ-02")
class NobodyIsAsked(_Requests):
    """No packet asks for an answer."""

    __slots__ = ()

    def changed(self, opcode: RcOp, psn_word: int, extension: bytes, size: int) -> tuple[RcOp, int, bytes]:
        return opcode, psn_word & ~_ACKREQ, extension


@rc_mutant("RC-WIRE-07")
def limited_member(endpoint: RcEndpoint, qp: RcQueuePair) -> None:
    """Requests carry the P_Key of a limited member."""
    assert qp._framing is not None
    qp._framing._frames.templates[_P_KEY_AT : _P_KEY_AT + 2] = _LIMITED.to_bytes(2, "big")


@rc_mutant("RC-WIRE-11")
class PacketsAreSprayed(Framing):
    """Each packet has another UDP source port."""

    __slots__ = ()

    def request(self, batch: TransmitBatch, *others: Any) -> None:
        template = self._frames.templates
        (port,) = struct.unpack_from(">H", template, _SPORT_AT)
        struct.pack_into(">H", template, _SPORT_AT, 0xC000 | port + 1 & 0x3FFF)
        super().request(batch, *others)


class _Answers(Framing):
    __slots__ = ()

    def acknowledge(self, batch: TransmitBatch, psn: int, syndrome: int, msn: int) -> None:
        super().acknowledge(batch, *self.changed(psn, syndrome, msn))

    def changed(self, psn: int, syndrome: int, msn: int) -> tuple[int, int, int]:
        raise NotImplementedError


@rc_mutant("RC-RESP-02")
class AcksNameTheNextPsn(_Answers):
    """An ACK has the PSN expected next, not the last that came."""

    __slots__ = ()

    def changed(self, psn: int, syndrome: int, msn: int) -> tuple[int, int, int]:
        return (psn + 1 & 0xFFFFFF if syndrome < 0x20 else psn), syndrome, msn


@rc_mutant("RC-WIRE-15")
class AcksAskForAcks(_Answers):
    """AckReq is set in ACKs."""

    __slots__ = ()

    def changed(self, psn: int, syndrome: int, msn: int) -> tuple[int, int, int]:
        return psn | _ACKREQ, syndrome, msn


@rc_mutant("RC-RESP-14")
class CreditsAreMadeUp(_Answers):
    """ACKs grant credits that nobody counts."""

    __slots__ = ()

    def changed(self, psn: int, syndrome: int, msn: int) -> tuple[int, int, int]:
        return psn, (5 if syndrome == 0x1F else syndrome), msn


@rc_mutant("RC-RESP-09")
class TheMsnIsThePsn(_Answers):
    """The MSN of an AETH is its PSN."""

    __slots__ = ()

    def changed(self, psn: int, syndrome: int, msn: int) -> tuple[int, int, int]:
        return psn, syndrome, psn


@rc_mutant("RC-ERR-06")
class NaksNameTheLastGoodPsn(_Answers):
    """A NAK that ends a QP has the PSN before the one at fault."""

    __slots__ = ()

    def changed(self, psn: int, syndrome: int, msn: int) -> tuple[int, int, int]:
        return (psn - 1 & 0xFFFFFF if syndrome > 0x60 else psn), syndrome, msn


@rc_mutant("RC-IMM-05")
class RnrNaksNameThePsnBefore(_Answers):
    """An RNR NAK has the PSN before that of the immediate."""

    __slots__ = ()

    def changed(self, psn: int, syndrome: int, msn: int) -> tuple[int, int, int]:
        return (psn - 1 & 0xFFFFFF if 0x20 <= syndrome < 0x40 else psn), syndrome, msn


@rc_mutant("RC-IMM-06")
class TheTimersCodeIsFixed(_Answers):
    """Each RNR NAK has timer code 12."""

    __slots__ = ()

    def changed(self, psn: int, syndrome: int, msn: int) -> tuple[int, int, int]:
        return psn, (0x2C if 0x20 <= syndrome < 0x40 else syndrome), msn
