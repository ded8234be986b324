# SPDX-License-Identifier: BSD-2-Clause
"""Requestors that send too much, too early, in another order, or complete what is not done."""

from __future__ import annotations

from typing import Any

from mrc.endpoint.completion_ring import NO_IMMEDIATE
from mrc.endpoint.completions import WorkKind, WorkStatus
from mrc.endpoint.endpoint import Endpoint
from mrc.endpoint.paths.path_set import PathSet
from mrc.endpoint.qp import QueuePair
from mrc.endpoint.requestor.feedback import Feedback
from mrc.endpoint.requestor.requestor import Requestor
from mrc.endpoint.requestor.send import DataSender, RequestHeaders, SendRoom
from mrc.endpoint.requestor.send_queue import COLUMNS
from mrc.endpoint.requestor.sent import PsnState
from mrc.endpoint.work import WriteRequest
from mrc.wire.fields import REQUEST
from mrc.wire.psn import unwrap
from mrc.wire.rows import ACKREQ
from mrc.wire.transmit_batch import TransmitBatch
from mutants.mutant import mutant


@mutant("MRC-SEND-01")
class CwndIsIgnored(SendRoom):
    """Packets leave whatever cwnd is, as long as the peer's window lets them."""

    def of_window(self) -> int:
        return 1 << 40


@mutant("MRC-SEND-02")
class OnePsnBeyondTheWindow(SendRoom):
    """The window reaches one PSN too far."""

    def _last_sendable(self) -> int:
        return super()._last_sendable() + 1


@mutant("MRC-SEND-02")
class TheWindowFollowsTheHighestArrived(SendRoom):
    """The window counts from the highest PSN acknowledged, holes or not."""

    def _last_sendable(self) -> int:
        return super()._last_sendable() + max(0, self._nacks._loss.latest_acked - 1)


@mutant("MRC-SEND-03")
class DeniedEvsAreUsed(PathSet):
    """What a controller denies is used all the same."""

    def deny(self, ev: int) -> None:
        return


@mutant("MRC-SEND-04")
def the_latest_write_goes_first(endpoint: Endpoint, qp: QueuePair) -> None:
    """Of writes that wait the one posted last is sent first, under the PSNs that it would have had behind them."""
    qp.requestor.__class__ = _LatestFirst
    headers: Any = qp.requestor._requests._headers
    headers.__class__ = _MsnsAsPosted


class _LatestFirst(Requestor):
    """The write posted last takes the place of the first that waits; each of those has the place behind its own."""

    def post(self, request: WriteRequest) -> None:
        super().post(request)
        queue = self.queue
        last = queue.next_msn - 1
        first = queue.unsent + int(queue.sent_packets[queue.place(queue.unsent)] > 0)
        for column in (*COLUMNS, "_requests"):
            kept = getattr(queue, column)
            latest = kept[queue.place(last)]
            for msn in range(last, first, -1):
                kept[queue.place(msn)] = kept[queue.place(msn - 1)]
            if first <= last:
                kept[queue.place(first)] = latest


class _MsnsAsPosted(RequestHeaders):
    """A write has the MSN of its turn to be posted, whatever its place is now."""

    def write(self, batch: TransmitBatch, row: int, place: int, msn: int, position: int, psn: int, now: int) -> None:
        posted = sorted(self._queue.wr_ids[self._queue.place(each)] for each in self._queue.unfinished())
        msn = self._queue.oldest + posted.index(self._queue.wr_ids[place])
        super().write(batch, row, place, msn, position, psn, now)


@mutant("MRC-SEND-05")
class TheFirstPsnCompletes(Feedback):
    """A write completes once cack_psn covers its first PSN."""

    def _after_acknowledgement(self, now: int) -> None:
        queue = self._queue
        for msn in queue.unfinished():
            place = queue.place(msn)
            if queue.last_psn[place] >= 0:
                queue.last_psn[place] = queue.first_psn[place]
        super()._after_acknowledgement(now)


@mutant("MRC-SEND-06")
class NewDataFirst(DataSender):
    """A retransmission waits until there is no new data to send."""

    def _next(self, batch: TransmitBatch, last_psn: int, now: int) -> int:
        return (
            self._new(batch, last_psn, now) if self.new_data_may_go(last_psn) else super()._next(batch, last_psn, now)
        )


@mutant("MRC-SEND-06")
class TheNewestLossGoesFirst(DataSender):
    """Retransmissions leave newest first."""

    def _again(self, batch: TransmitBatch, now: int) -> int:
        lost = self.resend.keys()
        self.resend.clear()
        self.resend.push(lost[-1], 0)
        size = super()._again(batch, now)
        for psn in lost[:-1]:
            self.resend.push(psn, 0)
        return size


class _WithoutAckReq(Requestor):
    """No AckReq where `forgets` says so."""

    def forgets(self) -> bool:
        raise NotImplementedError

    def transmit(self, batch: TransmitBatch, limit: int, now: int, others_wait: bool = False) -> int:
        count = super().transmit(batch, limit, now, others_wait)
        if count and self.forgets():
            batch.fields(REQUEST, batch.count - count, batch.count)["psn_word"] &= ~ACKREQ & 0xFFFFFFFF
        return count


@mutant("MRC-SEND-07")
class NoAckReqAtTheEnd(_WithoutAckReq):
    """AckReq is not set on the last packet of all."""

    def forgets(self) -> bool:
        return not self.queue.has_unsent()


@mutant("MRC-SEND-07")
class NoAckReqAtTheWindow(_WithoutAckReq):
    """AckReq is not set on the packet that exhausts the peer's window."""

    def forgets(self) -> bool:
        return self.queue.has_unsent() and self.sent.next_psn > self._room._last_sendable()


@mutant("MRC-SEND-07")
class NoAckReqAtCwnd(_WithoutAckReq):
    """AckReq is not set on the packet that exhausts cwnd."""

    def forgets(self) -> bool:
        return self.queue.has_unsent() and not self._controller.may_send


@mutant("MRC-SEND-08")
class OldAcksPullTheWindowBack(Feedback):
    """The window follows the PSN of the last ACK, older or not."""

    def on_ack(self, cack_psn: int, now: int) -> None:
        super().on_ack(cack_psn, now)
        self._sent.right_edge = unwrap(cack_psn, self._sent.una - 1) + 1 + self._send_window


@mutant("MRC-SEND-09")
class AcksBeyondWhatWasSentCoverAll(Feedback):
    """An ACK for a PSN that was never sent acknowledges all that was."""

    def on_ack(self, cack_psn: int, now: int) -> None:
        beyond = unwrap(cack_psn, self._sent.una - 1) >= self._sent.next_psn
        super().on_ack(self._sent.next_psn - 1 & 0xFFFFFF if beyond else cack_psn, now)


@mutant("MRC-SEND-05")
class WhatASackReportsCompletes(Feedback):
    """A write completes once all its packets have arrived, whatever is missing of those posted before."""

    def _after_acknowledgement(self, now: int) -> None:
        queue, state, mask = self._queue, self._sent.state, self._sent.mask
        while queue.oldest < queue.unsent and (last := queue.last_psn[queue.place(queue.oldest)]) < self._sent.una:
            if queue.request(queue.oldest) is None:
                queue.oldest += 1
            else:
                queue.finish(last + 1)
        super()._after_acknowledgement(now)
        for msn in queue.unfinished():
            place = queue.place(msn)
            psns = range(queue.first_psn[place], queue.last_psn[place] + 1)
            if psns and all(psn < self._sent.una or state[psn & mask] == PsnState.ACKED for psn in psns):
                request = queue.request(msn)
                if request is not None:
                    queue._requests[place] = None
                    queue._completions.add(
                        request.wr_id, WorkStatus.SUCCESS, request.length, WorkKind.RDMA_WRITE, NO_IMMEDIATE
                    )
