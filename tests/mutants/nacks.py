# SPDX-License-Identifier: BSD-2-Clause
"""Endpoints that send the wrong NACKs, or make the wrong thing of those they get."""

from __future__ import annotations

from collections.abc import Callable

from mrc.endpoint.endpoint import Endpoint
from mrc.endpoint.paths.path_set import PathSet
from mrc.endpoint.qp import QueuePair
from mrc.endpoint.requestor.nacked import PATH_REASONS, RESPONSES, NackHandler, NackResponse
from mrc.endpoint.requestor.sent import PsnState
from mrc.endpoint.responder.answers import NackMaker
from mrc.endpoint.responder.request_checks import Answer, ResourceLimits
from mrc.endpoint.responder.responder import Responder
from mrc.wire.fields import NACK
from mrc.wire.names import NackReason
from mrc.wire.received_batch import ReceivedBatch, ReceivedPacket
from mrc.wire.transmit_batch import TransmitBatch
from mutants.mutant import mutant, taken

_ALWAYS_SKIP = 2


def _change_waiting(maker: NackMaker, change: Callable[[list[Answer]], None]) -> None:
    """Change the NACKs that wait to be sent."""
    waiting = taken(maker.pending)
    change(waiting)
    for answer in waiting:
        maker.pending.add(answer)


@mutant("MRC-NACK-01")
def cc_type_in_the_lower_half(endpoint: Endpoint, qp: QueuePair) -> None:
    """cc_type of a NACK is in the lower four bits of its byte, where cc_flags should be."""
    qp.responder.nacks._cc_type >>= 4


@mutant("MRC-NACK-04")
def nacks_are_those_of_no_switch(endpoint: Endpoint, qp: QueuePair) -> None:
    """cc_type of a NACK is 0."""
    qp.responder.nacks._cc_type = 0


@mutant("MRC-NACK-02")
class NacksOfABurstNameItsFirst(NackMaker):
    """All NACKs of one burst name the first packet of it that was refused."""

    def transmit(self, batch: TransmitBatch, limit: int, now: int) -> None:
        def name_the_first(waiting: list[Answer]) -> None:
            for answer in waiting:
                answer.psn = waiting[0].psn

        _change_waiting(self, name_the_first)
        super().transmit(batch, limit, now)


@mutant("MRC-NACK-03")
class NacksOfABurstReflectItsFirst(NackMaker):
    """All NACKs of one burst have EV and timestamp of the first packet of it that was refused."""

    def transmit(self, batch: TransmitBatch, limit: int, now: int) -> None:
        def reflect_the_first(waiting: list[Answer]) -> None:
            for answer in waiting:
                for name in ("entropy", "tx_timestamp", "unit_ns", "arrived_at", "rtx"):
                    setattr(answer, name, getattr(waiting[0], name))

        _change_waiting(self, reflect_the_first)
        super().transmit(batch, limit, now)


@mutant("MRC-NACK-25")
def nack_dcids_turned_round(endpoint: Endpoint, qp: QueuePair) -> None:
    """spdcid of a NACK is the receiver's and dpdcid the sender's."""
    nacks = qp.responder.nacks
    nacks._spdcid, nacks._dpdcid = nacks._dpdcid, nacks._spdcid


@mutant("MRC-NACK-05", "MRC-NACK-18")
class TrimmedCondemns(PathSet):
    """NACK TRIMMED takes its EV to ASSUMED_BAD."""

    def on_trimmed(self, index: int) -> None:
        self.on_mark(index, _ALWAYS_SKIP)


@mutant("MRC-NACK-05", "MRC-NACK-18")
class TrimmedLeavesTheEv(PathSet):
    """NACK TRIMMED does nothing to its EV."""

    def on_trimmed(self, index: int) -> None:
        return


@mutant("MRC-NACK-06", "MRC-NACK-07", "MRC-NACK-08", "MRC-NACK-09", "MRC-NACK-10")
class EveryNackSkipsItsEv(NackHandler):
    """Whatever its reason, a NACK takes its EV to SKIP."""

    def _on_nack(self, psn: int, reason: int, entropy: int, rtx: bool, now: int) -> None:
        if reason not in PATH_REASONS:
            self._trimmed_on(entropy)
        super()._on_nack(psn, reason, entropy, rtx, now)


@mutant("MRC-NACK-23")
class UnknownReasonsAreDropped(NackHandler):
    """A NACK whose reason is none of the seven does nothing."""

    def _on_nack(self, psn: int, reason: int, entropy: int, rtx: bool, now: int) -> None:
        if reason in RESPONSES:
            super()._on_nack(psn, reason, entropy, rtx, now)


@mutant("MRC-NACK-11")
class UnexpEventIsRetried(NackHandler):
    """UNEXP_EVENT is taken for one of the resource NACKs."""

    def _on_nack(self, psn: int, reason: int, entropy: int, rtx: bool, now: int) -> None:
        if RESPONSES.get(reason) == NackResponse.FAIL:
            reason = NackReason.NO_RESOURCE
        super()._on_nack(psn, reason, entropy, rtx, now)


@mutant("MRC-NACK-12")
class TheLastHopIsLikeAnyOther(Responder):
    """A packet that was trimmed on the last hop is answered with TRIMMED."""

    def on_trimmed(self, batch: ReceivedBatch, packet: ReceivedPacket, lasthop: bool, now: int) -> None:
        super().on_trimmed(batch, packet, False, now)


@mutant("MRC-NACK-13")
def trims_are_answered_without_agreement(endpoint: Endpoint, qp: QueuePair) -> None:
    """A trimmed packet is NACKed whether that was agreed or not."""
    qp.responder._answers_trims = True


@mutant("MRC-NACK-14", "MRC-NACK-15", "MRC-NACK-16")
class WantsAreMistaken(ResourceLimits):
    """Each shortage is reported with the reason of another."""

    def lacking(self, distance: int, held: int, stashed: int) -> int:
        reason = super().lacking(distance, held, stashed)
        wants = (NackReason.NO_BITMAP, NackReason.NO_PKT_BUFFER, NackReason.NO_RESOURCE)
        return wants[wants.index(NackReason(reason)) - 1] if reason else reason


@mutant("MRC-NACK-17")
class ErrorsAreSilent(Responder):
    """Once the QP is in ERROR its requests are answered by nothing."""

    def on_request_in_error(self, batch: ReceivedBatch, packet: ReceivedPacket, now: int) -> None:
        return


@mutant("MRC-NACK-18")
class LateNacksAreTaken(NackHandler):
    """A NACK for an earlier transmission is taken for one of the latest."""

    def _names_latest(self, psn: int, entropy: int, rtx: bool) -> bool:
        outstanding = self._sent.state[psn & self._sent.mask] == PsnState.OUTSTANDING
        return psn >= self._sent.una and bool(outstanding)


@mutant("MRC-NACK-18")
class LateNacksSayNothing(NackHandler):
    """A NACK for an acknowledged PSN or an earlier transmission does not count for its EV either."""

    def _on_nack(self, psn: int, reason: int, entropy: int, rtx: bool, now: int) -> None:
        if self._names_latest(psn, entropy, rtx):
            super()._on_nack(psn, reason, entropy, rtx, now)


class _SentAgainAtOnce(NackHandler):
    """Some reasons are as good as a trim: the packet is sent again at once."""

    kind = NackResponse.WAIT

    def _lose(self, psn: int, reason: int, now: int) -> None:
        super()._lose(psn, NackReason.TRIMMED_LASTHOP if RESPONSES[reason] == self.kind else reason, now)


@mutant("MRC-NACK-19")
class OutOfWindowIsSentAgainAtOnce(_SentAgainAtOnce):
    """A PSN beyond the peer's window is sent again at once."""

    kind = NackResponse.WAIT_FOR_WINDOW


@mutant("MRC-NACK-20")
class WantsAreNotWaitedOut(_SentAgainAtOnce):
    """After a resource NACK the packet is sent again at once."""


@mutant("MRC-NACK-20")
class WaitsDoNotDouble(NackHandler):
    """After a resource NACK the packet waits one RTT, however often that has happened to it."""

    def _lose(self, psn: int, reason: int, now: int) -> None:
        self._sent.waits[psn & self._sent.mask] = 0
        super()._lose(psn, reason, now)


@mutant("MRC-NACK-21")
class TheOldestWaitsForRoomToo(NackHandler):
    """A PSN that was refused for want of room waits its time, even when it has become the oldest."""

    def on_cack_moved(self) -> None:
        self._oldest = self._sent.una
        super().on_cack_moved()


@mutant("MRC-NACK-21")
class ALateNackKeepsTheOldestWaiting(NackHandler):
    """A refusal counts in full for a PSN that has become the oldest since it was sent."""

    def _fits_by_now(self, psn: int, transmission: int) -> bool:
        return False


@mutant("MRC-NACK-22")
class NewPsnsTakeTheRoom(NackHandler):
    """New PSNs are sent while others wait for room."""

    def waits_for_room(self) -> bool:
        return False


@mutant("MRC-NACK-04")
class OneCcTypeIsTaken(NackHandler):
    """A NACK whose cc_type is not 2 is dropped."""

    def on_nack(self, batch: ReceivedBatch, row: int, now: int) -> None:
        if int(batch.fields(NACK)["cc_type"][row]) >> 4 == 2:
            super().on_nack(batch, row, now)
