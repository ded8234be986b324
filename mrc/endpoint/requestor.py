"""The requestor: turns posted work into packets and acknowledgements into completions (behaviour.md, Requestor)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from mrc.endpoint.acknowledgements import NO_PSNS, Acknowledgements, RttSamples
from mrc.endpoint.completions import Completion, WorkStatus
from mrc.endpoint.config import MPR_UNIT, NO_CAPABILITIES, Capability, QpConfig
from mrc.endpoint.congestion import PENALTY_UNKNOWN, CongestionController
from mrc.endpoint.counters import Counters
from mrc.endpoint.data_sender import DataSender
from mrc.endpoint.loss import LossDetector
from mrc.endpoint.nacked import NackHandler
from mrc.endpoint.paths import PathSet
from mrc.endpoint.probes import Probes
from mrc.endpoint.requests import RequestMaker, full_packet_bytes
from mrc.endpoint.retries import RetryBudget
from mrc.endpoint.rtt import RttEstimator
from mrc.endpoint.sack_reading import SACK_BYTES, Sack, read_sacks
from mrc.endpoint.send_queue import SendQueue
from mrc.endpoint.sent import PsnState, SentPackets
from mrc.endpoint.tracing import HOLE, LOCAL_ACK_TIMEOUT, PATH_TIMER, QpTrace
from mrc.endpoint.traffic_class import TrafficClasses
from mrc.endpoint.work import WriteRequest
from mrc.wire.psn import unwrap
from mrc.wire.received_batch import ReceivedBatch
from mrc.wire.rows import ACKREQ, NACK, PSN_FLAGS_AT, U8, Fields
from mrc.wire.transmit_batch import TransmitBatch

I64 = npt.NDArray[np.int64]

_OUTSTANDING = int(PsnState.OUTSTANDING)


class Requestor:
    """One QP's sending half. The owner supplies `complete` and `fail`, called as work ends or the QP does.

    `agreed` is what both ends can do.
    """

    __slots__ = (
        "_acknowledgements",
        "_complete",
        "_config",
        "_controller",
        "_counters",
        "_dynamic_mpr",
        "_fail",
        "_most",
        "_nacks",
        "_paths",
        "_probes",
        "_qpn",
        "_requests",
        "_retries",
        "_right_edge",
        "_sender",
        "_trace",
        "loss",
        "packet_bytes",
        "queue",
        "rtt",
        "sent",
    )

    def __init__(
        self,
        *,
        qpn: int,
        peer_qpn: int,
        first_psn: int,
        config: QpConfig,
        paths: PathSet,
        controller: CongestionController,
        counters: Counters,
        classes: TrafficClasses,
        complete: Callable[[Completion], None],
        fail: Callable[[WorkStatus, str, int], None],
        agreed: Capability = NO_CAPABILITIES,
        trace: QpTrace | None = None,
    ) -> None:
        self._qpn = qpn
        self._trace = trace
        self._config = config
        self._paths = paths
        self._controller = controller
        self._counters = counters
        self._complete = complete
        self._fail = fail
        self.packet_bytes = full_packet_bytes(config)
        self._dynamic_mpr = Capability.DYNAMIC_MPR in agreed
        self._most = max(config.mpr, config.max_mpr) * MPR_UNIT if self._dynamic_mpr else config.send_window
        # The rings get their size with the first work: many QPs never have any.
        self.sent = SentPackets(1, first_psn)
        # The first PSN beyond what the peer ever granted.
        self._right_edge = first_psn + config.send_window
        self.rtt = RttEstimator()
        self.loss = LossDetector(self.sent, self.rtt, config.loss, config.local_ack_timeout_ns)
        self._acknowledgements = Acknowledgements(
            sent=self.sent,
            rtt=self.rtt,
            loss=self.loss,
            paths=paths,
            controller=controller,
            counters=counters,
            service_time=Capability.SVC_TIME in agreed and config.timestamps,
            trace=trace,
        )
        self._retries = RetryBudget(config, self.sent, self.rtt)
        self._probes = Probes(
            qpn=qpn, peer_qpn=peer_qpn, config=config, paths=paths, counters=counters, classes=classes, trace=trace
        )
        self.queue = SendQueue(config)
        self._requests = RequestMaker(
            peer_qpn=peer_qpn,
            config=config,
            sent=self.sent,
            messages=self.queue.messages,
            paths=paths,
            counters=counters,
            classes=classes,
        )
        self._sender = DataSender(
            sent=self.sent,
            queue=self.queue,
            requests=self._requests,
            paths=paths,
            counters=counters,
            trace=trace,
        )
        self._nacks = NackHandler(
            config=config,
            sent=self.sent,
            rtt=self.rtt,
            loss=self.loss,
            paths=paths,
            controller=controller,
            retries=self._retries,
            counters=counters,
            resend=self._sender.send_again,
            fail=fail,
            trace=trace,
        )

    # ------------------------------------------------------------------ work in

    def post(self, request: WriteRequest) -> None:
        """Queue a write. It completes in post order. Raises CallerError for an immediate the peer never grants."""
        if not self.queue.next_msn:
            self.sent.make_rings(self._most)
            self._requests.make_ring()
        self.queue.post(request)

    def flush(self, status: WorkStatus, failed_psn: int | None = None) -> None:
        """Complete everything with errors: the message of `failed_psn`, or else the oldest, with `status`."""
        failed = self.queue.holding(failed_psn)
        for message in self.queue.unfinished:
            outcome = status if message is failed else WorkStatus.FLUSHED
            self._complete(Completion(message.request.wr_id, self._qpn, outcome, 0))
        self.abandon()

    def abandon(self) -> None:
        """Forget all work and give the window back."""
        self._controller.on_removed(self.sent.settle(self.sent.outstanding_until(self.sent.next_transmission)))
        self.queue.clear()
        self._sender.resend.clear()
        self._nacks.clear()
        self._retries.watch(None, 0)

    # ------------------------------------------------------------------ packets out

    def ready(self) -> bool:
        """Whether `transmit` would send something now."""
        return self._probes.waiting or self._may_send()

    def has_probes(self) -> bool:
        return self._probes.waiting

    def has_work(self) -> bool:
        """Whether there is something to send, now or once a window opens."""
        return self._probes.waiting or bool(self.queue.unsent) or self._sender.has_lost() or self._nacks.keeps_waiting

    @property
    def one_packet_waits(self) -> bool:
        """Whether a single packet of new data is all there is to send, as far as its message tells."""
        return self.queue.one_packet_waits and not self._sender.resend

    def _may_send(self) -> bool:
        if not self.queue.unsent and not self._sender.resend:
            return False
        if not self._controller.may_send or not self._paths.usable():
            return False
        if self.sent.make_log_room(1) <= 0:
            return False
        return self._sender.has_lost() or self._sender.new_data_may_go(self._last_new())

    def _last_sendable(self) -> int:
        """The last PSN the peer granted, as far as our own records reach."""
        return min(self._right_edge, self.sent.una + self._most) - 1

    def _last_new(self) -> int:
        """The last PSN that may leave for the first time: no further one while the peer has no room."""
        return self.sent.next_psn - 1 if self._nacks.waits_for_room else self._last_sendable()

    def _stalled(self) -> bool:
        """Whether there is new data, nothing is outstanding that would bring news, and it cannot leave: the SACK that
        opened the window was lost, or no path is usable."""
        if not self.queue.unsent or self.sent.outstanding:
            return False
        return self.sent.next_psn > self._last_sendable() or not self._paths.usable()

    def transmit(self, batch: TransmitBatch, limit: int, now: int, others_wait: bool = False) -> int:
        """Append up to `limit` packets: probes, then retransmissions oldest first, then new data. Returns how many.

        `others_wait`: other QPs have their turn next, and may leave no window to go on with.
        """
        start = batch.count
        limit = min(limit, batch.free)
        self._probes.transmit(batch, limit, now)
        data_from = batch.count
        room = self._room(limit - (data_from - start))
        if room > 0:
            sent_bytes = self._sender.transmit(batch, room, self._congestion_room(), self._last_new(), now)
            if sent_bytes:
                self._controller.on_sent(sent_bytes)
        if batch.count > data_from:
            if others_wait or not self._may_send():
                batch.set_bits(batch.count - 1, PSN_FLAGS_AT, ACKREQ >> 24)
            self.loss.arm(now)
            self._probes.arm_tail(now, self._tail_timer())
            self._watch_oldest(now)
        elif self._stalled():
            if not self._probes.tail_armed:
                self._probes.arm_tail(now, self._tail_timer())
            self._watch_oldest(now)
        return batch.count - start

    def _watch_oldest(self, now: int) -> None:
        """The local ACK timeout runs for the oldest PSN that waits for an acknowledgement, or to leave at all."""
        sent = self.sent
        if sent.una < sent.next_psn:
            self._retries.watch(sent.una, now)
        elif self._stalled():
            self._retries.watch_unsent(sent.next_psn, now)
        else:
            self._retries.watch(None, now)

    def _room(self, most: int) -> int:
        """Packets of data, at most `most`, that our own records have room for; 0 where there is nothing to send."""
        if most <= 0 or not (self.queue.unsent or self._sender.resend):
            return 0
        return min(most, self.sent.make_log_room(most))

    def _congestion_room(self) -> int:
        """Bytes of the congestion window that are free: one more packet may leave while there are any."""
        return self._controller.cwnd - self._controller.inflight

    # ------------------------------------------------------------------ acknowledgements in

    def on_sack(self, batch: ReceivedBatch, row: int, now: int) -> None:
        self.on_sacks(batch.data[row : row + 1, SACK_BYTES], now)

    def on_nack(self, batch: ReceivedBatch, row: int, now: int) -> None:
        self.on_nacks(batch.fields(NACK)[row : row + 1], now)

    def on_sacks(self, rows: U8, now: int) -> None:
        """Reliability SACKs in order of arrival, each a row of SACK_BYTES. One about what was never sent is dropped."""
        self._counters.sacks_received += len(rows)
        sacks = read_sacks(rows, self.sent, self._counters)
        if not sacks:
            return
        self.loss.on_heard(now)
        # Feedback on paths comes first: it is about the network as these packets found it.
        self._path_feedback(sacks, now)
        # Before arrivals are judged by their time: a SACK that names the original's EV knows which loss was none.
        rtt = self._acknowledgements.sample_rtt(sacks, now)
        acked_bytes = self._acknowledgements.apply(sacks, now)
        for sack in sacks:
            if sack.probe_id >= 0:
                self._probe_answered(sack.probe_id, sack.mark, now)
        if self._dynamic_mpr:
            self._follow_mpr(sacks)
        self._steer(sacks, acked_bytes, rtt, now)
        self._after_acknowledgement(now)

    def _follow_mpr(self, sacks: list[Sack]) -> None:
        """The right edge never retreats; an mpr of 0 means it is not in use."""
        edges = [sack.cack + 1 + (sack.mpr or self._config.mpr) * MPR_UNIT for sack in sacks]
        self._right_edge = max(self._right_edge, *edges)

    def _steer(self, sacks: list[Sack], acked_bytes: int, rtt: RttSamples, now: int) -> None:
        """Tell the congestion controller: the bytes of SACKs merged here are shared out between m=1 and the rest."""
        marked = 0
        for sack in sacks:
            marked += sack.mark == 1
        # Of the SACKs that have a CC_STATE the last one counts (MRC-SACK-28).
        last = next((sack for sack in reversed(sacks) if sack.penalty != PENALTY_UNKNOWN), sacks[-1])
        marked_bytes = acked_bytes * marked // len(sacks)
        if marked < len(sacks):
            self._controller.on_ack(now, acked_bytes - marked_bytes, False, rtt.unmarked, last.penalty, last.restore)
        if marked:
            self._controller.on_ack(now, marked_bytes, True, rtt.marked, last.penalty, last.restore)

    def on_ack(self, cack_psn: int, now: int) -> None:
        """A transport ACK with this cack_psn (24 bit)."""
        self._counters.acks_received += 1
        cack = unwrap(cack_psn, self.sent.una - 1)
        if cack >= self.sent.next_psn:
            self._counters.ack_for_unsent_psn += 1
            return
        self.loss.on_heard(now)
        if cack >= self.sent.una:
            self._controller.on_ack(now, self._acknowledgements.acknowledge(cack, NO_PSNS, now), False, None)
            self._after_acknowledgement(now)

    def on_nak(self, psn: int, status: WorkStatus, detail: str) -> None:
        """The peer refused the request with this PSN (24 bit): the QP is over."""
        self._counters.naks_received += 1
        offending = unwrap(psn, self.sent.una)
        if not self.sent.una <= offending < self.sent.next_psn:
            self._counters.ack_for_unsent_psn += 1
            return
        self._fail(status, detail, offending)

    def _path_feedback(self, sacks: list[Sack], now: int) -> None:
        answered = []
        for sack in sacks:
            index = self._paths.index(sack.entropy)
            if index >= 0:
                answered.append(index)
            if sack.mark not in (1, 2):
                continue
            if index < 0:
                self._counters.unknown_ev += 1
            else:
                self._paths.on_mark(index, sack.mark)
        self._paths.on_evs_answered(answered, now)

    def _probe_answered(self, probe_id: int, m: int, now: int) -> None:
        after = self._probes.on_answer(probe_id, m, now)
        if after is not None:
            self.loss.on_probe_answered(after)

    def _after_acknowledgement(self, now: int) -> None:
        lost = self.loss.holes()
        if len(lost):
            self._counters.losses_by_hole += len(lost)
            self._lose(lost, HOLE, now)
        self.take_up_bad_evs(now)
        una = self.sent.una
        self._nacks.on_cack_moved()
        if not self._dynamic_mpr:
            self._right_edge = una + self._config.send_window
        for message in self.queue.finished(una):
            self._complete(Completion(message.request.wr_id, self._qpn, WorkStatus.SUCCESS, message.request.length))
        self._watch_oldest(now)
        if self._trace is not None:
            self._trace.on_feedback(self._counters, self.sent, self.rtt, self._controller, now)

    def take_up_bad_evs(self, now: int) -> None:
        """Begin to probe the EVs that turned bad since this was last asked."""
        if self._paths.newly_bad:
            self._probes.take_up_bad_evs(now, self.loss.path_timer_ns)

    # ------------------------------------------------------------------ NACKs in

    def on_nacks(self, fields: Fields, now: int) -> None:
        """Reliability NACKs, in order of arrival."""
        self._counters.nacks_received += len(fields)
        self._nacks.on_nacks(fields, now)

    def _lose(self, transmissions: I64, trigger: str, now: int) -> None:
        sent = self.sent
        psns, size = sent.mark_lost(transmissions)
        self._controller.on_removed(size)
        self._controller.on_loss(now, size)
        entries = transmissions & sent.log_mask
        sent.blamed[psns & sent.mask] = transmissions
        sent.by_timer[psns & sent.mask] = trigger != HOLE
        evs, sent_at = sent.log_ev[entries].tolist(), sent.log_sent_at[entries].tolist()
        if self._trace is not None:
            self._trace.lost(psns.tolist(), evs, sent_at, trigger)
        for psn, ev, at in zip(psns.tolist(), evs, sent_at, strict=True):
            self._sender.send_again(psn)
            self._paths.on_loss(ev, psn, at)
        self.take_up_bad_evs(now)

    # ------------------------------------------------------------------ time

    def _tail_timer(self) -> int:
        return max(self.rtt.path_timer or self.loss.path_timer_ns, self._config.loss.tail_probe_min_ns)

    def next_deadline(self) -> int | None:
        """When `on_timer` wants to be called next, ns, or None."""
        earliest = self.loss.next_deadline()
        for deadline in (self._probes.next_deadline(), self._retries.next_deadline(), self._nacks.next_deadline()):
            if deadline is not None and (earliest is None or deadline < earliest):
                earliest = deadline
        return earliest

    def on_timer(self, now: int) -> None:
        """Run every timer that is due."""
        lost = self.loss.timed_out(now)
        if len(lost):
            self._counters.losses_by_path_timer += len(lost)
            self._lose(lost, PATH_TIMER, now)
            self.sent.skip_settled()
        self._nacks.on_timer(now)
        goes_on = self._probes.tail_is_due(now) and self._may_send()
        self._probes.on_timer(now, self.sent, self.loss.path_timer_ns, asks=self._stalled(), goes_on=goes_on)
        if self._retries.expired(now):
            self._local_ack_timeout(now)

    def _local_ack_timeout(self, now: int) -> None:
        self._counters.local_ack_timeouts += 1
        psn = self.sent.una
        if self._trace is not None:
            self._trace.local_ack_timeout(psn, self._retries.spent(psn))
        if not self._retries.draw_for_timeout(psn):
            self._fail(WorkStatus.RETRY_EXCEEDED, self._retries.exceeded(psn, "a local ACK timeout"), psn)
            return
        self._retries.wait_again(now)
        slot = psn & self.sent.mask
        if self.sent.state[slot] == _OUTSTANDING:
            self._lose(np.array([self.sent.transmission[slot]], np.int64), LOCAL_ACK_TIMEOUT, now)
