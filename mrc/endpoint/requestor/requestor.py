# SPDX-License-Identifier: BSD-2-Clause
# compiled (docs/contributing/compiled.md)
"""The requestor: turns posted work into packets and acknowledgements into completions (behaviour.md, Requestor)."""

from __future__ import annotations

from collections.abc import Callable

from mrc.endpoint.completion_ring import CompletionRing
from mrc.endpoint.completions import WorkStatus
from mrc.endpoint.config import MPR_UNIT, Capability
from mrc.endpoint.congestion.base import CongestionController
from mrc.endpoint.congestion.estimates import RttEstimator
from mrc.endpoint.parts.numbers import Heap
from mrc.endpoint.qp_parts import QpParts
from mrc.endpoint.requestor.acknowledgements import Acknowledgements
from mrc.endpoint.requestor.feedback import Feedback
from mrc.endpoint.requestor.loss import LossDetector, RetryBudget
from mrc.endpoint.requestor.nacked import NackHandler
from mrc.endpoint.requestor.probes import Probes
from mrc.endpoint.requestor.send import DataSender, RequestMaker, SendRoom, full_packet_bytes
from mrc.endpoint.requestor.send_queue import SendQueue
from mrc.endpoint.requestor.sending_parts import SendingParts
from mrc.endpoint.requestor.sent import SentPackets
from mrc.endpoint.work import WriteRequest
from mrc.wire.compiled import python, readonly
from mrc.wire.rows import ACKREQ, PSN_FLAGS_AT
from mrc.wire.transmit_batch import TransmitBatch

_ACKREQ_BIT = ACKREQ >> 24


class Requestor:
    """One QP's sending half. Work that ends goes to `completions`; the owner supplies `fail`, called as the QP
    ends.
    """

    def __init__(
        self,
        qp: QpParts,
        *,
        first_psn: int,
        controller: CongestionController,
        completions: CompletionRing,
        fail: Callable[[WorkStatus, str, int], None],
    ) -> None:
        config = qp.config
        self._controller = controller
        self._counters = qp.counters
        self._completions = completions
        self._tail_least_ns = config.loss.tail_probe_min_ns
        self.packet_bytes = full_packet_bytes(config)
        dynamic_mpr = Capability.DYNAMIC_MPR in qp.agreed
        self._most: int = max(config.mpr, config.max_mpr) * MPR_UNIT if dynamic_mpr else config.send_window
        # The rings get their size with the first work: many QPs never have any.
        self.sent = SentPackets(1, first_psn)
        self.sent.right_edge = first_psn + config.send_window
        self.rtt = RttEstimator()
        self.loss = LossDetector(self.sent, self.rtt, config.loss, config.local_ack_timeout_ns)
        self._retries: readonly[RetryBudget] = RetryBudget(config, self.sent, self.rtt)
        self.queue = SendQueue(config, completions)
        sending = SendingParts(
            queue=self.queue,
            sent=self.sent,
            rtt=self.rtt,
            loss=self.loss,
            retries=self._retries,
            controller=controller,
            resend=Heap(),
            fail=fail,
        )
        self._probes: readonly[Probes] = Probes(qp, self._retries.waits_at_most)
        self._requests: readonly[RequestMaker] = RequestMaker(qp, sending)
        self._sender: readonly[DataSender] = DataSender(qp, sending, self._requests)
        self._nacks: readonly[NackHandler] = NackHandler(qp, sending)
        self._room: readonly[SendRoom] = SendRoom(qp, sending, self._sender, self._nacks, self._most)
        self.feedback = Feedback(
            qp,
            sending,
            acknowledgements=Acknowledgements(qp, sending),
            nacks=self._nacks,
            probes=self._probes,
            room=self._room,
        )

    @property
    def waited_ns(self) -> int:
        """What the timeouts of the oldest PSN that waits have taken in all; 0 where none has run out."""
        return self._retries.waited

    @property
    def hears_of_other_psns(self) -> bool:
        """Whether all that was acknowledged are PSNs that were never sent: the peer counts from another first one."""
        strange = self._counters.ack_for_unsent_psn + self._counters.ack_before_first_psn + self._counters.ack_too_old
        return strange > 0 and self.sent.una == self.sent.first_psn

    @property
    def waits(self) -> bool:
        """Whether it has work that is not acknowledged."""
        return self.queue.has_unsent() or self.sent.outstanding > 0 or self.sent.una < self.sent.next_psn

    @property
    def waits_at_most_ns(self) -> int:
        """How long they may, before the QP is given up."""
        return self._retries.waits_at_most

    # ------------------------------------------------------------------ work in

    def post(self, request: WriteRequest) -> python[None]:
        """Queue a write. It completes in post order. Raises CallerError for an immediate the peer never grants."""
        if not self.queue.next_msn:
            self.sent.make_rings(self._most)
            self._requests.make_ring()
        self.queue.post(request)

    def prepare(self, room: int) -> python[None]:
        """Have places for `room` writes, a power of two, that are posted without the interpreter (`queue.post_at`)."""
        self.sent.make_rings(self._most)
        self._requests.make_ring()
        self.queue.reserve(room)

    def flush(self, status: WorkStatus, failed_psn: int | None = None) -> python[None]:
        """Complete everything with errors: the message of `failed_psn`, or else the oldest, with `status`."""
        self.queue.flush(self.queue.holding(failed_psn), status)
        self.abandon()

    def abandon(self) -> python[None]:
        """Forget all work and give the window back."""
        self._controller.on_removed(self.sent.settle_all())
        self.queue.clear()
        self._sender.resend.clear()
        self._nacks.clear()
        self._retries.rest()

    # ------------------------------------------------------------------ packets out

    def ready(self) -> bool:
        """Whether `transmit` would send something now."""
        return self._probes.waiting or self._room.may_send()

    def has_probes(self) -> bool:
        return self._probes.waiting

    def has_work(self) -> bool:
        """Whether there is something to send, now or once a window opens."""
        if self._probes.waiting or self.queue.has_unsent() or self._sender.has_lost():
            return True
        return self._nacks.waits and self._nacks.keeps_waiting()

    def one_packet_waits(self) -> bool:
        """Whether a single packet of new data is all there is to send, judged by its message."""
        return self.queue.one_packet_waits() and not self._sender.resend.count

    def transmit(self, batch: TransmitBatch, limit: int, now: int, others_wait: bool) -> int:
        """Append up to `limit` packets: probes, then retransmissions oldest first, then new data. Returns how many.

        `others_wait`: other QPs have their turn next, and may leave no window to go on with.
        """
        start = batch.count
        limit = min(limit, batch.capacity - start)
        self._probes.transmit(batch, limit, now)
        data_from, alone = batch.count, not self.sent.outstanding
        room = self._room.of_records(limit - (data_from - start))
        if room > 0:
            sent_bytes = self._sender.transmit(batch, room, self._room.of_window(), self._room.last_new(), now)
            if sent_bytes:
                self._controller.on_sent(sent_bytes)
        if batch.count > data_from:
            if others_wait or not self._room.may_send():
                batch.set_bits(batch.count - 1, PSN_FLAGS_AT, _ACKREQ_BIT)
            self.loss.arm(now, alone)
            self._probes.arm_tail(now, self._tail_timer(), not self.rtt.srtt)
            self.feedback.watch_oldest(now)
        elif self._room.stalled():
            if not self._probes.tail_armed:
                self._probes.arm_tail(now, self._tail_timer(), not self.rtt.srtt)
            self.feedback.watch_oldest(now)
        return batch.count - start

    # ------------------------------------------------------------------ time

    def _tail_timer(self) -> int:
        return max(self.rtt.path_timer() or self.loss.path_timer(), self._tail_least_ns)

    def on_timer(self, now: int) -> None:
        """Run every timer that is due."""
        self.feedback.on_timer(now)
