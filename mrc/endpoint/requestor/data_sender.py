# SPDX-License-Identifier: BSD-2-Clause
# compiled (docs/contributing/compiled.md)
"""Which packet of data leaves next, and on which EV: what was lost, oldest first, then new data in post order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mrc.endpoint.qp_parts import QpParts
from mrc.endpoint.requestor.requests import RequestMaker
from mrc.endpoint.requestor.sending_parts import SendingParts
from mrc.wire.compiled import readonly, with_gil
from mrc.wire.transmit_batch import TransmitBatch

if TYPE_CHECKING:
    from mrc.endpoint.counters import Counters
    from mrc.endpoint.parts.numbers import Heap
    from mrc.endpoint.paths.path_set import PathSet
    from mrc.endpoint.requestor.send_queue import SendQueue
    from mrc.endpoint.requestor.sent import SentPackets
    from mrc.endpoint.tracing import QpTrace

_NONE = -1


class DataSender:
    """One QP's. `resend` is a heap of PSNs that were lost; one acknowledged meanwhile is passed over."""

    _sent: SentPackets
    _trace: readonly[QpTrace | None]
    _queue: SendQueue
    _requests: RequestMaker
    _paths: PathSet
    _counters: Counters
    resend: Heap

    __slots__ = tuple(__annotations__)

    def __init__(self, qp: QpParts, sending: SendingParts, requests: RequestMaker) -> None:
        self._sent = sending.sent
        self._queue = sending.queue
        self._requests = requests
        self._paths = qp.paths
        self._counters = qp.counters
        self._trace = qp.trace
        self.resend = sending.resend

    def has_lost(self) -> bool:
        """Whether anything lost waits to be sent again."""
        while self.resend.count:
            if self._sent.waits_to_leave(self.resend.first()):
                return True
            self.resend.pop()
        return False

    def new_data_may_go(self, last_psn: int) -> bool:
        """Whether `last_psn`, the last that may be in use, and the peer's grant of immediates let a new packet out."""
        return self._sent.next_psn <= last_psn and self._queue.next() != _NONE

    def transmit(self, batch: TransmitBatch, limit: int, window: int, last_psn: int, now: int) -> int:
        """Append up to `limit` packets, one more as long as they have less than `window` bytes, new ones up to
        `last_psn`. Returns their nominal bytes."""
        total = 0
        while limit > 0 and total < window:
            size = self._next(batch, last_psn, now)
            if size == _NONE:
                break
            total += size
            limit -= 1
        return total

    def _next(self, batch: TransmitBatch, last_psn: int, now: int) -> int:
        """Append the packet that is next and return its nominal bytes, or -1 where none may leave."""
        return self._again(batch, now) if self.has_lost() else self._new(batch, last_psn, now)

    def _again(self, batch: TransmitBatch, now: int) -> int:
        psn = self.resend.first()
        # Drawn at send time, and not the EV the last transmission was lost on, while there is another.
        ev = self._paths.select(now, self._sent.lost_ev[psn & self._sent.mask])
        if ev == _NONE:
            return _NONE
        self.resend.pop()
        self._counters.retransmitted_packets += 1
        size = self._requests.transmit_again(batch, psn, ev, now)
        if self._trace is not None:
            self._trace_sent_again(psn, ev)
        return size

    def _trace_sent_again(self, psn: int, ev: int) -> with_gil[None]:
        if self._trace is not None:
            self._trace.sent_again([psn], [ev], [int(self._sent.times_sent[psn & self._sent.mask])])

    def _new(self, batch: TransmitBatch, last_psn: int, now: int) -> int:
        psn = self._sent.next_psn
        msn = self._queue.next() if psn <= last_psn else _NONE
        if msn == _NONE:
            return _NONE
        ev = self._paths.select(now, _NONE)
        if ev == _NONE:
            return _NONE
        size = self._requests.transmit_new(batch, msn, ev, now)
        self._queue.begin(psn)
        return size
