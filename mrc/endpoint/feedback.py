"""What comes back to a requestor, SACKs, ACKs, NACKs and NAKs, and its timers, which run while nothing does."""

from __future__ import annotations

from collections.abc import Callable

from mrc.endpoint.acknowledgements import Acknowledgements
from mrc.endpoint.completions import WorkStatus
from mrc.endpoint.config import MPR_UNIT, QpConfig
from mrc.endpoint.congestion.base import CongestionController
from mrc.endpoint.counters import Counters
from mrc.endpoint.heaps import Heap
from mrc.endpoint.loss import LossDetector
from mrc.endpoint.nacked import NackHandler
from mrc.endpoint.paths.path_set import PathSet
from mrc.endpoint.probes import Probes
from mrc.endpoint.retries import RetryBudget
from mrc.endpoint.rtt import RttEstimator
from mrc.endpoint.sack_reading import Sack
from mrc.endpoint.send_queue import SendQueue
from mrc.endpoint.send_room import SendRoom
from mrc.endpoint.sent import PsnState, SentPackets
from mrc.endpoint.tracing import HOLE, LOCAL_ACK_TIMEOUT, PATH_TIMER, QpTrace
from mrc.wire.psn import unwrap
from mrc.wire.received_batch import ReceivedBatch

_OUTSTANDING = int(PsnState.OUTSTANDING)
_MPR_UNIT = MPR_UNIT
_NONE = -1
_MARKED, _ALWAYS_SKIP = 1, 2


class Feedback:
    """Acknowledgements, one after another, and timers of one requestor: what they change in its parts.

    `resend` is the requestor's heap of PSNs to be sent again, `room` tells whether something may leave now. `fail` is
    the QP's.
    """

    __slots__ = (
        "_acknowledgements",
        "_controller",
        "_counters",
        "_dynamic_mpr",
        "_fail",
        "_loss",
        "_mpr",
        "_nacks",
        "_paths",
        "_probes",
        "_qpn",
        "_queue",
        "_resend",
        "_retries",
        "_room",
        "_rtt",
        "_sack",
        "_send_window",
        "_sent",
        "_trace",
    )

    def __init__(
        self,
        *,
        qpn: int,
        config: QpConfig,
        dynamic_mpr: bool,
        sent: SentPackets,
        rtt: RttEstimator,
        loss: LossDetector,
        acknowledgements: Acknowledgements,
        nacks: NackHandler,
        retries: RetryBudget,
        probes: Probes,
        queue: SendQueue,
        resend: Heap,
        paths: PathSet,
        controller: CongestionController,
        counters: Counters,
        room: SendRoom,
        fail: Callable[[WorkStatus, str, int], None],
        trace: QpTrace | None = None,
    ) -> None:
        self._qpn = qpn
        self._dynamic_mpr = dynamic_mpr
        self._mpr, self._send_window = config.mpr, config.send_window
        self._sent = sent
        self._rtt = rtt
        self._loss = loss
        self._acknowledgements = acknowledgements
        self._nacks = nacks
        self._retries = retries
        self._probes = probes
        self._queue = queue
        self._resend = resend
        self._paths = paths
        self._controller = controller
        self._counters = counters
        self._room = room
        self._fail = fail
        self._trace = trace
        self._sack = Sack()

    # ------------------------------------------------------------------ acknowledgements

    def on_sack(self, batch: ReceivedBatch, row: int, now: int) -> None:
        """A reliability SACK. One about what was never sent is dropped."""
        sack = self._sack
        self._counters.sacks_received += 1
        if not sack.read(batch, row, self._sent, self._counters):
            return
        self._loss.on_heard(now)
        # Feedback on paths comes first: it is about the network as these packets found it.
        self._path_feedback(sack, now)
        # Before arrivals are judged by their time: a SACK that names the original's EV knows which loss was none.
        rtt = self._acknowledgements.sample_rtt(sack, now)
        acked_bytes = self._acknowledgements.apply(sack, now)
        if sack.probe_id != _NONE:
            self._probe_answered(sack.probe_id, sack.mark, now)
        if self._dynamic_mpr:
            self._follow_mpr(sack)
        sample = None if rtt == _NONE else rtt
        self._controller.on_ack(now, acked_bytes, sack.mark == _MARKED, sample, sack.penalty, sack.restore)
        self._after_acknowledgement(now)

    def on_ack(self, cack_psn: int, now: int) -> None:
        """A transport ACK with this cack_psn (24 bit)."""
        self._counters.acks_received += 1
        cack = unwrap(cack_psn, self._sent.una - 1)
        if cack >= self._sent.next_psn:
            self._counters.ack_for_unsent_psn += 1
            return
        self._loss.on_heard(now)
        if cack >= self._sent.una:
            self._controller.on_ack(now, self._acknowledgements.acknowledge(cack, now), False, None)
            self._after_acknowledgement(now)

    def on_nak(self, psn: int, status: WorkStatus, detail: str) -> None:
        """The peer refused the request with this PSN (24 bit): the QP is over."""
        self._counters.naks_received += 1
        offending = unwrap(psn, self._sent.una)
        if not self._sent.una <= offending < self._sent.next_psn:
            self._counters.ack_for_unsent_psn += 1
            return
        self._fail(status, detail, offending)

    def on_nack(self, batch: ReceivedBatch, row: int, now: int) -> None:
        """A reliability NACK."""
        self._counters.nacks_received += 1
        self._nacks.on_nack(batch, row, now)

    def _path_feedback(self, sack: Sack, now: int) -> None:
        index = self._paths.index(sack.entropy)
        if sack.mark == _MARKED or sack.mark == _ALWAYS_SKIP:
            if index == _NONE:
                self._counters.unknown_ev += 1
            else:
                self._paths.on_mark(index, sack.mark)
        if index != _NONE:
            self._paths.on_ev_answered(index, now)

    def _probe_answered(self, probe_id: int, m: int, now: int) -> None:
        before = self._probes.on_answer(probe_id, m, now)
        if before != _NONE:
            self._loss.on_probe_answered(before, self._probes.asked_at)

    def _follow_mpr(self, sack: Sack) -> None:
        """The right edge never retreats; an mpr of 0 means it is not in use."""
        self._sent.right_edge = max(self._sent.right_edge, sack.cack + 1 + (sack.mpr or self._mpr) * _MPR_UNIT)

    def _after_acknowledgement(self, now: int) -> None:
        if self._loss.holes():
            self._lose_holes(now)
        self.take_up_bad_evs(now)
        self._nacks.on_cack_moved()
        una = self._sent.una
        if not self._dynamic_mpr:
            self._sent.right_edge = una + self._send_window
        self._queue.finish(una)
        self.watch_oldest(now)
        if self._trace is not None:
            self._trace.on_feedback(self._counters, self._sent, self._rtt, self._controller, now)

    # ------------------------------------------------------------------ losses

    def _lose_holes(self, now: int) -> None:
        lost: list[int] = []
        while (transmission := self._loss.next_hole()) >= 0:
            lost.append(transmission)
        self._counters.losses_by_hole += len(lost)
        self._lose(lost, HOLE, now)

    def _lose(self, transmissions: list[int], trigger: str, now: int) -> None:
        """These outstanding transmissions are lost."""
        sent, size = self._sent, 0
        for number in transmissions:
            entry = number & sent.log_mask
            psn = sent.log_psn[entry]
            size += sent.lose(number)
            sent.blamed[psn & sent.mask] = number
            sent.by_timer[psn & sent.mask] = trigger != HOLE
            if self._trace is not None:
                self._trace.lost((psn,), (sent.log_ev[entry],), (sent.log_sent_at[entry],), trigger)
        self._controller.on_removed(size)
        self._controller.on_loss(now, size)
        for number in transmissions:
            entry = number & sent.log_mask
            psn = sent.log_psn[entry]
            self._resend.push(psn, 0)
            self._paths.on_loss(sent.log_ev[entry], psn, sent.log_sent_at[entry])
        self.take_up_bad_evs(now)

    def take_up_bad_evs(self, now: int) -> None:
        """Begin to probe the EVs that turned bad since this was last asked."""
        if self._paths.has_newly_bad():
            self._probes.take_up_bad_evs(now, self._loss.path_timer())

    # ------------------------------------------------------------------ time

    def watch_oldest(self, now: int) -> None:
        """The local ACK timeout runs for the oldest PSN that waits for an acknowledgement, or to leave at all."""
        sent = self._sent
        if sent.una < sent.next_psn:
            self._retries.watch(sent.una, now)
        elif self._room.stalled():
            self._retries.watch_unsent(sent.next_psn, now)
        else:
            self._retries.rest()

    def next_deadline(self) -> int:
        """When `on_timer` wants to be called next, ns, or FOREVER."""
        of_losses = min(self._loss.next_deadline(), self._retries.next_deadline())
        return min(of_losses, self._probes.next_deadline(), self._nacks.next_deadline())

    def on_timer(self, now: int) -> None:
        """Run every timer that is due."""
        lost = self._loss.timed_out(now)
        if lost:
            self._counters.losses_by_path_timer += len(lost)
            self._lose(lost, PATH_TIMER, now)
            self._sent.skip_settled()
        self._nacks.on_timer(now)
        goes_on = self._probes.tail_is_due(now) and self._room.may_send()
        self._probes.on_timer(now, self._sent, self._loss.path_timer(), self._room.stalled(), goes_on)
        if self._retries.expired(now):
            self._local_ack_timeout(now)

    def _local_ack_timeout(self, now: int) -> None:
        self._counters.local_ack_timeouts += 1
        sent, psn = self._sent, self._sent.una
        if self._trace is not None:
            self._trace.local_ack_timeout(psn, self._retries.spent(psn))
        if not self._retries.draw_for_timeout(psn):
            self._fail(WorkStatus.RETRY_EXCEEDED, self._retries.exceeded(psn, "a local ACK timeout"), psn)
            return
        self._retries.wait_again(now)
        if sent.state[psn & sent.mask] == _OUTSTANDING:
            self._lose([sent.transmission[psn & sent.mask]], LOCAL_ACK_TIMEOUT, now)
        elif not self._controller.may_send and (unanswered := self._loss.unanswered(now)):
            # The oldest PSN was lost before and could not leave since: packets that nobody answers fill the window.
            self._lose(unanswered, LOCAL_ACK_TIMEOUT, now)
            sent.skip_settled()
