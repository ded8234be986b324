# SPDX-License-Identifier: BSD-2-Clause
# compiled (docs/contributing/compiled.md)
"""What comes back to a requestor, SACKs, ACKs, NACKs and NAKs, and its timers, which run while nothing does."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from mrc.endpoint.completions import WorkStatus
from mrc.endpoint.config import MPR_UNIT, Capability
from mrc.endpoint.congestion.base import NO_SAMPLE
from mrc.endpoint.parts.numbers import Heap
from mrc.endpoint.qp_parts import QpParts
from mrc.endpoint.refusals import NAK_STATUS
from mrc.endpoint.requestor.acknowledgements import Acknowledgements, Sack
from mrc.endpoint.requestor.nacked import NackHandler
from mrc.endpoint.requestor.probes import Probes
from mrc.endpoint.requestor.send import SendRoom
from mrc.endpoint.requestor.sending_parts import SendingParts
from mrc.endpoint.requestor.sent import PsnState, unbounded
from mrc.endpoint.tracing import HOLE, LOCAL_ACK_TIMEOUT, PATH_TIMER
from mrc.wire.compiled import public, readonly, with_gil
from mrc.wire.received_batch import ReceivedBatch
from mrc.wire.rows import PSN_BITS_MASK

if TYPE_CHECKING:
    from mrc.endpoint.tracing import QpTrace

_OUTSTANDING, _ACKED = int(PsnState.OUTSTANDING), int(PsnState.ACKED)
_NONE = -1
_MARKED, _ALWAYS_SKIP = 1, 2
# What finds a loss, and its name in a trace.
BY_HOLE, BY_PATH_TIMER, BY_ACK_TIMEOUT = 0, 1, 2
_TRIGGERS: tuple[str, ...] = (HOLE, PATH_TIMER, LOCAL_ACK_TIMEOUT)


class Feedback:
    """Acknowledgements, one after another, and timers of one requestor: what they change in its parts.

    `resend` is the requestor's heap of PSNs to be sent again, `room` returns whether something may leave now. `fail` is
    the QP's.
    """

    def __init__(
        self,
        qp: QpParts,
        sending: SendingParts,
        *,
        acknowledgements: Acknowledgements,
        nacks: NackHandler,
        probes: Probes,
        room: SendRoom,
    ) -> None:
        self._qpn = qp.qpn
        self._dynamic_mpr = Capability.DYNAMIC_MPR in qp.agreed
        self._tail_least = qp.config.loss.tail_probe_min_ns
        self._mpr = qp.config.mpr
        self._send_window = qp.config.send_window
        self._follows_shrink = qp.config.follow_shrinking_mpr
        self._sent = sending.sent
        # The highest cack_psn of a SACK that told an edge.
        self._told_at = sending.sent.una - 1
        self._rtt = sending.rtt
        self._loss = sending.loss
        self._acknowledgements = acknowledgements
        self._nacks = nacks
        self._retries = sending.retries
        self._probes = probes
        self._queue = sending.queue
        self._resend = sending.resend
        self._paths = qp.paths
        self._controller = sending.controller
        self._counters = qp.counters
        self._room = room
        self._fail: public[Callable[[WorkStatus, str, int], None]] = sending.fail
        self._trace: readonly[QpTrace | None] = qp.trace
        self._sack = Sack()
        # Transmissions found lost together, and their bytes.
        self._lost = Heap()
        self._lost_bytes = 0

    # ------------------------------------------------------------------ acknowledgements

    def on_sack(self, batch: ReceivedBatch, row: int, now: int) -> None:
        """A reliability SACK. One about what was never sent is dropped."""
        self._counters.sacks_received += 1
        if not self._sack.read(batch, row, self._sent, self._counters):
            return
        self._loss.on_heard(now)
        # Feedback on paths comes first: it is about the network as these packets found it.
        self._path_feedback(self._sack, now)
        # Before arrivals are judged by their time: a SACK that names the original's EV knows which loss was none.
        rtt = self._acknowledgements.sample_rtt(self._sack, now)
        acked = self._acknowledgements.apply(self._sack, now)
        if self._sack.probe_id != _NONE:
            self._probe_answered(self._sack.probe_id, self._sack.mark, now)
        if self._dynamic_mpr:
            self._follow_mpr(self._sack)
        self._controller.acknowledged(
            now, acked, self._sack.mark == _MARKED, rtt, self._sack.penalty, self._sack.restore
        )
        self._after_acknowledgement(now)

    def on_ack(self, cack_psn: int, now: int) -> None:
        """A transport ACK with this cack_psn (24 bit)."""
        self._counters.acks_received += 1
        cack = unbounded(cack_psn, self._sent.una - 1)
        if cack >= self._sent.next_psn:
            self._counters.ack_for_unsent_psn += 1
            return
        if cack < self._sent.first_psn - 1:
            self._counters.ack_before_first_psn += 1
            return
        self._loss.on_heard(now)
        if cack >= self._sent.una:
            acked = self._acknowledgements.acknowledge(cack, now)
            self._controller.acknowledged(now, acked, False, NO_SAMPLE, 0, False)
            self._after_acknowledgement(now)

    def on_nak(self, psn: int, syndrome: int, now: int) -> None:
        """The peer refused the request with this PSN (24 bit), and says why: the QP is over."""
        self._counters.naks_received += 1
        offending = unbounded(psn, self._sent.una)
        if self._sent.una <= offending < self._sent.next_psn:
            self._refused(offending, syndrome)
        else:
            self._counters.ack_for_unsent_psn += 1

    def _refused(self, psn: int, syndrome: int) -> with_gil[None]:
        status = NAK_STATUS[syndrome]
        why = f"the peer refused PSN {psn & PSN_BITS_MASK}: {status.name.lower()}"
        if status == WorkStatus.REMOTE_INVALID_REQUEST and self._queue.has_immediate(self._queue.holding(psn)):
            if self._sent.state[psn & self._sent.mask] == _ACKED:
                why += "; it is a write with immediate that had arrived: no receive was posted for it in time"
            else:
                why += (
                    "; it is a write with immediate: there may be no receive for it, or more are in flight than granted"
                )
        self._fail(status, why, psn)

    def on_nack(self, batch: ReceivedBatch, row: int, now: int) -> None:
        """A reliability NACK."""
        self._counters.nacks_received += 1
        losses = self._counters.losses_by_nack
        self._nacks.on_nack(batch, row, now)
        # A window that shrank below what is outstanding holds back what would ask for a SACK (MRC-SEND-07), and before
        # the first RTT sample the tail timer is only a guess.
        lost = self._counters.losses_by_nack > losses
        if lost and self._probes.tail_guessed and self._sent.outstanding and not self._room.may_send():
            self._probes.hasten_tail(now, now - self._sent.log_sent_at[self._sent.head & self._sent.log_mask])

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
        """The right edge is where the latest SACK says, be it nearer than before (MRC-MPR-05); one that was overtaken
        moves no edge. An mpr of 0 means it is not in use, and takes nothing back. Without following, the edge never
        retreats."""
        edge = sack.cack + 1 + (sack.mpr or self._mpr) * MPR_UNIT
        if self._follows_shrink and sack.cack < self._told_at:
            return
        self._told_at = max(self._told_at, sack.cack)
        if (self._follows_shrink and sack.mpr) or edge > self._sent.right_edge:
            self._sent.right_edge = edge

    def _after_acknowledgement(self, now: int) -> None:
        if self._loss.holes():
            self._lose_holes(now)
        self.take_up_bad_evs(now)
        if self._nacks.waits:
            self._nacks.on_cack_moved()
        if not self._dynamic_mpr:
            self._sent.right_edge = self._sent.una + self._send_window
        self._queue.finish(self._sent.una)
        if self._probes.tail_guessed and self._rtt.srtt and self._sent.outstanding:
            self._probes.time_tail(max(self._rtt.path_timer(), self._tail_least))
        self.watch_oldest(now)
        if self._trace is not None:
            self._trace_feedback(now)

    def _trace_feedback(self, now: int) -> with_gil[None]:
        assert self._trace is not None
        self._trace.on_feedback(self._counters, self._sent, self._rtt, self._controller, now)

    # ------------------------------------------------------------------ losses

    def _lose_holes(self, now: int) -> None:
        while (transmission := self._loss.next_hole()) >= 0:
            self._counters.losses_by_hole += 1
            self._lose(transmission, BY_HOLE)
        self._after_losses(now)

    def _lose_timed_out(self, now: int) -> None:
        self._loss.look_for_timeouts(now)
        while (transmission := self._loss.next_timed_out(now)) >= 0:
            self._counters.losses_by_path_timer += 1
            self._lose(transmission, BY_PATH_TIMER)
        if self._lost.count:
            self._after_losses(now)
            self._sent.skip_settled()

    def _lose_unanswered(self, now: int) -> None:
        self._loss.look_at_all()
        while (transmission := self._loss.next_unanswered(now)) >= 0:
            self._lose(transmission, BY_ACK_TIMEOUT)
        if self._lost.count:
            self._after_losses(now)
            self._sent.skip_settled()

    def _lose(self, transmission: int, trigger: int) -> None:
        """This outstanding transmission is lost. `_after_losses` follows when all are that were found together."""
        slot = self._sent.log_psn[transmission & self._sent.log_mask] & self._sent.mask
        self._lost_bytes += self._sent.lose(transmission)
        self._sent.blamed[slot] = transmission
        self._sent.by_timer[slot] = trigger != BY_HOLE
        self._lost.push(transmission, 0)
        if self._trace is not None:
            self._trace_lost(transmission, trigger)

    def _trace_lost(self, transmission: int, trigger: int) -> with_gil[None]:
        assert self._trace is not None
        psn, ev, sent_at = self._sent.transmitted(transmission)
        self._trace.lost((psn,), (ev,), (sent_at,), _TRIGGERS[trigger])

    def _after_losses(self, now: int) -> None:
        """Report losses to the controller and the paths, and schedule the retransmissions."""
        self._controller.on_removed(self._lost_bytes)
        self._controller.lost(now, self._lost_bytes)
        self._lost_bytes = 0
        while self._lost.count:
            entry = self._lost.pop() & self._sent.log_mask
            psn = self._sent.log_psn[entry]
            self._resend.push(psn, 0)
            self._paths.on_loss(self._sent.log_ev[entry], psn, self._sent.log_sent_at[entry])
        self.take_up_bad_evs(now)

    def take_up_bad_evs(self, now: int) -> None:
        """Begin to probe the EVs that turned bad since this was last asked."""
        if self._paths.has_newly_bad():
            self._probes.take_up_bad_evs(now, self._loss.path_timer())

    # ------------------------------------------------------------------ time

    def watch_oldest(self, now: int) -> None:
        """The local ACK timeout runs for the oldest PSN that waits for an acknowledgement, or to leave at all."""
        if self._sent.una < self._sent.next_psn:
            self._retries.watch(self._sent.una, now)
        elif self._room.stalled():
            self._retries.watch_unsent(self._sent.next_psn, now)
        else:
            self._retries.rest()

    def next_deadline(self) -> int:
        """When `on_timer` wants to be called next, ns, or FOREVER."""
        deadline = min(self._loss.next_deadline(), self._retries.next_deadline, self._probes.next_deadline())
        return min(deadline, self._nacks.next_deadline()) if self._nacks.waits else deadline

    def on_timer(self, now: int) -> None:
        """Run every timer that is due."""
        self._lose_timed_out(now)
        self._nacks.on_timer(now)
        goes_on = self._probes.tail_is_due(now) and self._room.may_send()
        held = self.held_back()
        self._probes.on_timer(now, self._sent, self._loss.path_timer(), held, held or self._room.stalled(), goes_on)
        if self._retries.expired(now):
            if held:
                self._wait_on(now)
            else:
                self._local_ack_timeout(now)

    def held_back(self) -> bool:
        """Whether the oldest PSN that is not acknowledged is known to have arrived: the peer waits with its
        acknowledgement, as one does that has no receive for an immediate (MRC-IMM-07), or that was lost."""
        una = self._sent.una
        return una < self._sent.next_psn and self._sent.state[una & self._sent.mask] == _ACKED

    def _wait_on(self, now: int) -> None:
        """The peer acknowledges no more for now. It draws no retries while it answers."""
        if not self._retries.wait_on(now, self._loss.heard_since(self._retries.since)):
            self._fell_silent()

    def _fell_silent(self) -> with_gil[None]:
        psn = self._sent.una
        why = f"the peer, which had PSN {psn & PSN_BITS_MASK} and did not acknowledge it, has answered no probe since"
        self._fail(WorkStatus.RETRY_EXCEEDED, why, psn)

    def _local_ack_timeout(self, now: int) -> None:
        self._counters.local_ack_timeouts += 1
        psn = self._sent.una
        if self._trace is not None:
            self._trace_timeout(psn)
        if not self._retries.draw_for_timeout(psn):
            self._give_up(psn)
            return
        self._retries.wait_again(now)
        if self._sent.state[psn & self._sent.mask] == _OUTSTANDING:
            self._lose(self._sent.transmission[psn & self._sent.mask], BY_ACK_TIMEOUT)
            self._after_losses(now)
        elif self._controller.room() <= 0:
            # The oldest PSN was lost before and could not leave since: packets that nobody answers fill the window.
            self._lose_unanswered(now)
        # EVs that this turned bad may be probed at once.
        self._probes.probe_paths(now, self._loss.path_timer())

    def _trace_timeout(self, psn: int) -> with_gil[None]:
        assert self._trace is not None
        self._trace.local_ack_timeout(psn, self._retries.spent(psn))

    def _give_up(self, psn: int) -> with_gil[None]:
        """The retries of this PSN are spent."""
        self._fail(WorkStatus.RETRY_EXCEEDED, self._retries.exceeded(psn, "a local ACK timeout"), psn)
