# SPDX-License-Identifier: BSD-2-Clause
"""The requestor of RC: sends writes in order and goes back to what is missing (IBTA 9.7.2, 9.7.5, 9.9.2)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mrc.endpoint.completion_ring import NO_IMMEDIATE, CompletionRing
from mrc.endpoint.completions import WorkKind, WorkStatus
from mrc.endpoint.parts.numbers import signed
from mrc.endpoint.refusals import NAK_STATUS
from mrc.endpoint.work import WriteRequest
from mrc.rc.config import RETRY_FOREVER, RcConfig
from mrc.rc.counters import RcCounters
from mrc.rc.framing import Framing
from mrc.rc.messages import Message, SendQueue
from mrc.rc.syndromes import RNR_DELAYS_NS, RNR_TIMER_MASK, Answer, answer_of
from mrc.wire.psn import PSN_MASK, unwrap
from mrc.wire.transmit_batch import TransmitBatch


class Requestor:
    """One QP's sending half. Work that ends goes to `completions`. `fail(status, detail)` is called when an answer or
    its absence ends the QP."""

    __slots__ = (
        "_completions",
        "_config",
        "_counters",
        "_fail",
        "_queue",
        "_retries",
        "_rnr_retries",
        "_since_ackreq",
        "_timer_at",
        "_wait_until",
    )

    def __init__(
        self,
        *,
        first_psn: int,
        config: RcConfig,
        counters: RcCounters,
        completions: CompletionRing,
        fail: Callable[[WorkStatus, str], None],
    ) -> None:
        self._config = config
        self._counters = counters
        self._completions = completions
        self._fail = fail
        self._queue = SendQueue(config.path_mtu, first_psn)
        # Attempts in a row that brought nothing.
        self._retries = 0
        self._rnr_retries = 0
        self._since_ackreq = 0  # packets
        # The local ACK timeout, while something is outstanding.
        self._timer_at: int | None = None
        # The receiver asked for time until then.
        self._wait_until: int | None = None

    def post(self, request: WriteRequest) -> None:
        self._completions.expect()
        self._queue.post(request)

    def _end(self, request: WriteRequest, status: WorkStatus, length: int) -> None:
        self._completions.add(signed(request.wr_id), status, length, WorkKind.RDMA_WRITE, NO_IMMEDIATE)

    def flush(self, status: WorkStatus) -> None:
        """The QP is over: the oldest write completes with `status`, the rest flushed."""
        for request in self._queue.clear():
            self._end(request, status, 0)
            status = WorkStatus.FLUSHED
        self._timer_at = self._wait_until = None

    # ------------------------------------------------------------------ answers in

    def on_answer(self, layers: Mapping[str, Mapping[str, int]], now: int) -> None:
        """An ACK or NAK whose length, ICRC and source have been checked; `layers` are the fields of BTH and AETH."""
        queue, counters, syndrome = self._queue, self._counters, layers["aeth"]["syndrome"]
        psn = unwrap(layers["bth"]["psn"], queue.una)
        answer = answer_of(syndrome)
        if answer == Answer.UNKNOWN:
            counters.unknown_syndrome += 1
            return
        # What is told of packets acknowledged before, or never sent, is not news.
        if not queue.una <= psn < queue.highest:
            counters.answers_to_nothing += 1
            return
        if answer == Answer.ACK:
            counters.acks_received += 1
            self._arrived(psn + 1, now)
            return
        # A NAK acknowledges everything before its PSN.
        self._arrived(psn, now)
        if answer == Answer.SEQUENCE_ERROR:
            counters.sequence_naks_received += 1
            self._on_sequence_error(psn, now)
        elif answer == Answer.RNR_NAK:
            counters.rnr_naks_received += 1
            self._on_not_ready(psn, RNR_DELAYS_NS[syndrome & RNR_TIMER_MASK], now)
        else:
            counters.naks_received += 1
            self._fail(NAK_STATUS[syndrome], f"the peer refused the request with PSN {psn & PSN_MASK}")

    def _arrived(self, una: int, now: int) -> None:
        """The peer has everything before `una`."""
        queue = self._queue
        if una <= queue.una:
            return
        self._retries = self._rnr_retries = 0
        self._wait_until = None
        for request in queue.acknowledge(una):
            self._end(request, WorkStatus.SUCCESS, request.length)
        self._timer_at = now + self._config.local_ack_timeout_ns if queue.una < queue.highest else None

    def _on_sequence_error(self, psn: int, now: int) -> None:
        if self._wait_until is None and self._try_again("packets got lost on the way again and again"):
            self._queue.go_back(psn)
            self._timer_at = now + self._config.local_ack_timeout_ns

    def _on_not_ready(self, psn: int, delay_ns: int, now: int) -> None:
        if self._config.rnr_retry != RETRY_FOREVER:
            self._rnr_retries += 1
            if self._rnr_retries > self._config.rnr_retry:
                self._fail(WorkStatus.RNR_RETRY_EXCEEDED, "the peer never had a receive posted")
                return
        self._queue.go_back(psn)
        self._wait_until = now + delay_ns
        self._timer_at = None

    def _try_again(self, why: str) -> bool:
        """Whether there is another attempt left; else the QP fails."""
        self._retries += 1
        if self._retries <= self._config.retry_count:
            return True
        self._fail(WorkStatus.RETRY_EXCEEDED, f"{why}: {self._config.retry_count} retries brought nothing")
        return False

    # ------------------------------------------------------------------ packets out

    @property
    def may_send(self) -> bool:
        """Whether a packet may leave."""
        return self._wait_until is None and self._queue.next_psn < self._window_end

    @property
    def _window_end(self) -> int:
        """One past the last PSN that may be sent."""
        return min(self._queue.end_psn, self._queue.una + self._config.window_packets)

    def transmit(self, batch: TransmitBatch, framing: Framing, most: int, now: int) -> None:
        """Put up to `most` (1 or more) packets into the batch."""
        if not self.may_send:
            return
        queue, end = self._queue, self._window_end
        for _ in range(min(most, end - queue.next_psn)):
            self._send_next(batch, framing, queue.next_message(), last_of_window=queue.next_psn == end - 1)
        if self._timer_at is None:
            self._timer_at = now + self._config.local_ack_timeout_ns

    def _send_next(self, batch: TransmitBatch, framing: Framing, message: Message, *, last_of_window: bool) -> None:
        queue, counters = self._queue, self._counters
        psn = queue.next_psn
        layers, start, stop = message.packet(psn)
        self._since_ackreq += 1
        ends = psn == message.end_psn - 1
        if ends or last_of_window or self._since_ackreq >= self._config.ack_every_packets:
            layers[0][1]["ackreq"] = 1
            self._since_ackreq = 0
        region, offset = message.request.source, message.request.offset
        framing.request(batch, layers, region.address + offset + start, stop - start)
        counters.data_packets_sent += 1
        counters.data_bytes_sent += stop - start
        if queue.sent():
            counters.retransmitted_packets += 1

    # ------------------------------------------------------------------ time

    def next_deadline(self) -> int | None:
        """When `on_timer` is due, ns, or None. Never both: what waits for the receiver is not timed out."""
        return self._timer_at if self._wait_until is None else self._wait_until

    def on_timer(self, now: int) -> None:
        """What is due: the receiver had the time it asked for, or nothing was heard for a local ACK timeout."""
        if self._wait_until is not None:
            if now >= self._wait_until:
                self._wait_until = None
            return
        if self._timer_at is None or now < self._timer_at:
            return
        self._counters.local_ack_timeouts += 1
        if self._try_again("the peer does not answer"):
            self._queue.go_back(self._queue.una)
            self._timer_at = now + self._config.local_ack_timeout_ns
