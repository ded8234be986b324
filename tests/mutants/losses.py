# SPDX-License-Identifier: BSD-2-Clause
"""Requestors that find losses too early, too late or not at all, and repair them with the wrong packets."""

from __future__ import annotations

from mrc.endpoint.endpoint import Endpoint
from mrc.endpoint.qp import QueuePair
from mrc.endpoint.requestor.feedback import BY_HOLE, Feedback
from mrc.endpoint.requestor.requestor import Requestor
from mrc.endpoint.requestor.send import RequestMaker
from mrc.endpoint.requestor.sent import PsnState
from mrc.wire.received_batch import ReceivedBatch
from mrc.wire.transmit_batch import TransmitBatch
from mutants.mutant import mutant


@mutant("MRC-LOSS-01")
class NacksAreIgnored(Feedback):
    """A NACK loses nothing."""

    def on_nack(self, batch: ReceivedBatch, row: int, now: int) -> None:
        return


def _with_guard(qp: QueuePair, name: str, value: int) -> None:
    setattr(qp.requestor.loss, f"_guard_{name}", value)


@mutant("MRC-LOSS-02", "MRC-LOSS-05")
def holes_are_no_losses(endpoint: Endpoint, qp: QueuePair) -> None:
    """A hole loses nothing: only NACKs and timers do."""
    _with_guard(qp, "packets", 1 << 20)


@mutant("MRC-LOSS-05")
def guard_of_two_packets(endpoint: Endpoint, qp: QueuePair) -> None:
    """A packet is lost when one that left two packets later has arrived."""
    _with_guard(qp, "packets", 2)


@mutant("MRC-LOSS-05")
def no_guard_in_time(endpoint: Endpoint, qp: QueuePair) -> None:
    """The reorder guard is three packets, however short the time in which they left."""
    _with_guard(qp, "divisor", 1 << 20)


@mutant("MRC-LOSS-03")
class EveryHoleIsLostAgain(Feedback):
    """The oldest hole is lost with each SACK, sent again meanwhile or not."""

    def _after_acknowledgement(self, now: int) -> None:
        super()._after_acknowledgement(now)
        sent = self._sent
        slot = sent.una & sent.mask
        outstanding = sent.una < sent.next_psn and sent.state[slot] == PsnState.OUTSTANDING
        if outstanding and sent.times_sent[slot] > 1:
            self._lose(sent.transmission[slot], BY_HOLE)
            self._after_losses(now)


@mutant("MRC-LOSS-09")
class NoTailProbe(Requestor):
    """The probe for a lost tail comes only when the local ACK timeout does."""

    def _tail_timer(self) -> int:
        return self._retries._timeout_ns


@mutant("MRC-LOSS-10")
class WhatArrivedIsSentAgain(RequestMaker):
    """With each packet that is lost the one behind it is sent again, arrived or not."""

    def transmit_again(self, batch: TransmitBatch, psn: int, ev: int, now: int) -> int:
        sent = self._sent
        total = super().transmit_again(batch, psn, ev, now)
        behind = psn + 1
        if behind < sent.next_psn and batch.free:
            msn = self._msns[behind & sent.mask]
            if self._queue.request(msn) is not None:
                position = behind - self._queue.first_psn[self._queue.place(msn)]
                self._append(batch, msn, position, behind, ev, self._again_class, now)
        return total


@mutant("MRC-LOSS-11")
class TheSameEvAgain(RequestMaker):
    """A retransmission takes the EV on which its packet was lost."""

    def transmit_again(self, batch: TransmitBatch, psn: int, ev: int, now: int) -> int:
        lost = int(self._sent.lost_ev[psn & self._sent.mask])
        return super().transmit_again(batch, psn, lost if lost >= 0 else ev, now)
