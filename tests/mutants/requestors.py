# SPDX-License-Identifier: BSD-2-Clause
"""Requestors that misread what they are answered."""

from __future__ import annotations

from mrc.endpoint.datapath.qp_datapath import Arrivals
from mrc.endpoint.paths.path_set import PathSet
from mrc.endpoint.requestor.acknowledgements import Sack
from mrc.endpoint.requestor.feedback import Feedback
from mrc.wire.received_batch import ReceivedBatch, ReceivedPacket
from mrc.wire.rows import EXTENSION_AT
from mutants.mutant import mutant


class _Syndromes(Arrivals):
    """Takes syndromes for others: `read` says for which, None where the packet is not looked at."""

    def read(self, syndrome: int) -> int | None:
        raise NotImplementedError

    def _on_aeth(self, batch: ReceivedBatch, packet: ReceivedPacket, now: int) -> None:
        found = self.read(int(batch.data[packet.row, EXTENSION_AT]))
        if found is not None:
            batch.data[packet.row, EXTENSION_AT] = found
            super()._on_aeth(batch, packet, now)


@mutant("MRC-WIRE-12", "MRC-ACK-02")
class AcksAreIgnored(_Syndromes):
    """A transport ACK acknowledges nothing; only SACKs do."""

    def read(self, syndrome: int) -> int | None:
        return syndrome if syndrome > 0x1F else None


@mutant("MRC-ACK-02")
class OnlyAllOnesAreAnAck(_Syndromes):
    """An ACK with credits, a syndrome below 0x1f, is not taken for one."""

    def read(self, syndrome: int) -> int | None:
        return syndrome if syndrome >= 0x1F else None


@mutant("MRC-ACK-03")
class EveryNakIsAnInvalidRequest(_Syndromes):
    """Whatever the syndrome of a NAK, the work it ends has the status of an invalid request."""

    def read(self, syndrome: int) -> int | None:
        return min(syndrome, 0x61)


@mutant("MRC-WIRE-14")
class SacksAreIgnored(Feedback):
    """A SACK acknowledges nothing; only transport ACKs do."""

    def on_sack(self, batch: ReceivedBatch, row: int, now: int) -> None:
        return


@mutant("MRC-SACK-10")
class AnyMarkCondemns(PathSet):
    """m=1 takes an EV to ASSUMED_BAD, as m=2 does."""

    def on_mark(self, index: int, m: int) -> None:
        super().on_mark(index, 2)


@mutant("MRC-SACK-10")
class NoMarkCondemns(PathSet):
    """m=2 only takes an EV to SKIP, as m=1 does."""

    def on_mark(self, index: int, m: int) -> None:
        super().on_mark(index, 1)


@mutant("MRC-SACK-10")
class TheReservedMarkCondemns(Feedback):
    """m is looked at bit by bit: 3 is taken for 2."""

    def _path_feedback(self, sack: Sack, now: int) -> None:
        if sack.mark & 2:
            sack.mark = 2
        super()._path_feedback(sack, now)


@mutant("MRC-SACK-24")
class ZerosAboveTheHighestOneAreNews(Feedback):
    """A 0 bit anywhere in the bitmap of a SACK is taken for a packet that is missing."""

    def on_sack(self, batch: ReceivedBatch, row: int, now: int) -> None:
        super().on_sack(batch, row, now)
        sent, loss = self._sent, self._loss
        latest = sent.next_transmission - 1
        if loss.latest_acked >= 0 and sent.outstanding and latest > loss.latest_acked:
            loss.latest_acked = latest
            self._after_acknowledgement(now)


class _Steered(Feedback):
    """What the controller is told of a SACK, changed."""

    def change(self, sack: Sack) -> None:
        raise NotImplementedError

    def _path_feedback(self, sack: Sack, now: int) -> None:
        self.change(sack)
        super()._path_feedback(sack, now)


@mutant("MRC-SACK-27")
class PenaltiesAreIgnored(_Steered):
    """rcv_cwnd_pen does not reach the congestion controller."""

    def change(self, sack: Sack) -> None:
        sack.penalty = 0


@mutant("MRC-SACK-28")
class AnotherCcTypeEndsPenalties(_Steered):
    """A SACK whose cc_type is not 0 is taken for one that says rcv_cwnd_pen 0."""

    def change(self, sack: Sack) -> None:
        sack.penalty = max(sack.penalty, 0)


@mutant("MRC-SACK-27")
class WindowsAreNotRestored(_Steered):
    """restore_cwnd does not reach the congestion controller."""

    def change(self, sack: Sack) -> None:
        sack.restore = False


@mutant("MRC-SACK-27")
class WindowsAreAlwaysRestored(_Steered):
    """Every penalty is taken for one with restore_cwnd."""

    def change(self, sack: Sack) -> None:
        sack.restore = True
