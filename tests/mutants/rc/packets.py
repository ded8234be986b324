# SPDX-License-Identifier: BSD-2-Clause
"""Endpoints that take packets that are none of theirs, or send others than RC's."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, ClassVar

from mrc.endpoint.datapath.qp_datapath import PeerSources
from mrc.endpoint.datapath.receive import PacketChecks
from mrc.rc import RcEndpoint, RcQueuePair
from mrc.rc.framing import Framing
from mrc.rc.opcodes import RcOp
from mrc.wire.fields import COMMON, Fields
from mrc.wire.packet import Layer
from mrc.wire.received_batch import ReceivedBatch, ReceivedPacket
from mrc.wire.rows import ACKREQ, MIN_PACKET, P_KEY, PSN_FLAGS_AT, UDP_AT
from mrc.wire.transmit_batch import TransmitBatch
from mutants.rc.mutant import rc_mutant

_LIMITED = 0x7FFF
_SPORT_AT = 40  # behind the IPv6 header


class _Right(ReceivedBatch):
    def icrc_right(self, row: int) -> bool:
        return True


class _Seen(PacketChecks):
    """Sees each packet that has a right ICRC as `change` leaves it."""

    takes_any_icrc: ClassVar[bool] = False

    def look(self, batch: ReceivedBatch, row: int) -> int:
        seen: Any = ReceivedBatch.from_packets([batch.packet(row)])
        if batch.lengths[row] >= MIN_PACKET and (self.takes_any_icrc or batch.icrc_right(row)):
            seen.__class__ = _Right
            self.change(seen.fields(COMMON), batch.lengths[row])
        found = super().look(seen, 0)
        if batch.lengths[row] >= MIN_PACKET:
            self.packet.read(batch, row)
        return found

    def change(self, fields: Fields, length: int) -> None:
        """What is seen instead; nothing else here."""


@rc_mutant("RC-WIRE-06")
class AnyIcrcIsTaken(_Seen):
    """A wrong ICRC is not noticed."""

    takes_any_icrc = True


@rc_mutant("RC-WIRE-08")
class AnyPartitionIsTaken(_Seen):
    """A packet is taken whatever its P_Key is."""

    def change(self, fields: Fields, length: int) -> None:
        fields["pkey"] = P_KEY


@rc_mutant("RC-WIRE-08")
def limited_members_are_dropped(endpoint: RcEndpoint, qp: RcQueuePair) -> None:
    """P_Keys are compared as numbers: that of a limited member counts as another partition's."""
    endpoint._checks._pkey_mask = 0xFFFF


@rc_mutant("RC-WIRE-09")
class AnyTransportVersionIsTaken(_Seen):
    """A packet is taken whatever its TVer is."""

    def change(self, fields: Fields, length: int) -> None:
        fields["flags"] &= 0xF0


@rc_mutant("RC-WIRE-10")
class AnyUdpPortIsTaken(_Seen):
    """A packet is taken whatever UDP port it came to."""

    def change(self, fields: Fields, length: int) -> None:
        fields["udp_dport"] = 4791


@rc_mutant("RC-WIRE-13")
class AllTransportsAreOne(_Seen):
    """The upper three bits of an opcode, which name the transport, are not looked at: what is not RC's is refused."""

    def change(self, fields: Fields, length: int) -> None:
        fields["opcode"] &= 0x1F


@rc_mutant("RC-WIRE-14")
class LengthsMayContradict(_Seen):
    """The lengths in the IP and UDP headers are not looked at."""

    def change(self, fields: Fields, length: int) -> None:
        fields["ip_plen"] = fields["udp_len"] = length - UDP_AT


class _AnyQp(dict[int, RcQueuePair]):
    def get(self, key: int, default: Any = None) -> Any:
        return next(iter(self.values()), default)


@rc_mutant("RC-RESP-12")
def any_qpn_is_taken(endpoint: RcEndpoint, qp: RcQueuePair) -> None:
    """A packet for a QPN that does not exist goes to one that does."""
    endpoint.qps = _AnyQp(endpoint.qps)


@rc_mutant("RC-RESP-13")
class AnySourceIsTaken(PeerSources):
    """A packet is taken whatever address it came from."""

    def has_sent(self, batch: ReceivedBatch, packet: ReceivedPacket) -> bool:
        return True


class _Requests(Framing):
    __slots__ = ()

    def request(self, batch: TransmitBatch, layers: Sequence[Layer], address: int, length: int) -> None:
        (_, bth), *others = layers
        bth, others = self.changed(bth, others, length)
        super().request(batch, [("bth", bth), *others], address, length)

    def changed(self, bth: dict[str, int], others: list[Layer], size: int) -> tuple[dict[str, int], list[Layer]]:
        raise NotImplementedError


@rc_mutant("RC-WIRE-01")
class NothingIsOnly(_Requests):
    """A message of one packet is a First."""

    __slots__ = ()

    def changed(self, bth: dict[str, int], others: list[Layer], size: int) -> tuple[dict[str, int], list[Layer]]:
        return (bth | {"opcode": RcOp.WRITE_FIRST} if bth["opcode"] == RcOp.WRITE_ONLY else bth), others


@rc_mutant("RC-WIRE-02")
class ImmediatesComeBeforeTheReth(_Requests):
    """The ImmDt of an Only with Immediate lies before its RETH."""

    __slots__ = ()

    def changed(self, bth: dict[str, int], others: list[Layer], size: int) -> tuple[dict[str, int], list[Layer]]:
        return bth, others[::-1]


@rc_mutant("RC-WIRE-03")
class EachPacketHasAReth(_Requests):
    """Middle and Last have a RETH too, as MRC's have."""

    __slots__ = ()

    def changed(self, bth: dict[str, int], others: list[Layer], size: int) -> tuple[dict[str, int], list[Layer]]:
        without = bth["opcode"] in (RcOp.WRITE_MIDDLE, RcOp.WRITE_LAST)
        return bth, [("reth", {}), *others] if without else others


@rc_mutant("RC-WIRE-03")
class TheRethIsThePackets(_Requests):
    """The length in the RETH is that of the packet."""

    __slots__ = ()

    def changed(self, bth: dict[str, int], others: list[Layer], size: int) -> tuple[dict[str, int], list[Layer]]:
        return bth, [(name, fields | {"dmalen": size} if name == "reth" else fields) for name, fields in others]


@rc_mutant("RC-WIRE-12")
class RequestsAreMarkedAsRetransmitted(_Requests):
    """A reserved bit of the BTH is set: the one in which MRC says that a packet is sent again."""

    __slots__ = ()

    def changed(self, bth: dict[str, int], others: list[Layer], size: int) -> tuple[dict[str, int], list[Layer]]:
        return bth | {"rtx": 1}, others


@rc_mutant("RC-REQ-02")
class NobodyIsAsked(_Requests):
    """No packet asks for an answer."""

    __slots__ = ()

    def changed(self, bth: dict[str, int], others: list[Layer], size: int) -> tuple[dict[str, int], list[Layer]]:
        return bth | {"ackreq": 0}, others


@rc_mutant("RC-WIRE-07")
class LimitedMember(_Requests):
    """Requests carry the P_Key of a limited member."""

    __slots__ = ()

    def changed(self, bth: dict[str, int], others: list[Layer], size: int) -> tuple[dict[str, int], list[Layer]]:
        return bth | {"pkey": _LIMITED}, others


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
class AcksAskForAcks(Framing):
    """AckReq is set in ACKs."""

    __slots__ = ()

    def acknowledge(self, batch: TransmitBatch, psn: int, syndrome: int, msn: int) -> None:
        super().acknowledge(batch, psn, syndrome, msn)
        batch.set_bits(batch.count - 1, PSN_FLAGS_AT, ACKREQ >> 24)


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
