# SPDX-License-Identifier: BSD-2-Clause
"""What an endpoint reports to a tracer, if it has one; mrc.trace.vocabulary has the table."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol

from mrc.endpoint.completions import Completion
from mrc.endpoint.config import Capability, QpConfig, TraceConfig
from mrc.endpoint.counters import Counters
from mrc.endpoint.events import Event
from mrc.endpoint.paths.states import EvInput, EvState
from mrc.trace import vocabulary
from mrc.trace.vocabulary import EventType
from mrc.wire.rows import PSN_BITS_MASK

if TYPE_CHECKING:
    from mrc.endpoint.congestion import CongestionController
    from mrc.endpoint.congestion.estimates import RttEstimator
    from mrc.endpoint.qp_peer import QpPeer
    from mrc.endpoint.qp_states import QpState
    from mrc.endpoint.requestor.sent import SentPackets
    from mrc.endpoint.responder.received import ReceivedPsns
    from mrc.wire.fields import I64, U8

HOLE, PATH_TIMER, LOCAL_ACK_TIMEOUT = "hole", "path_timer", "local_ack_timeout"
_TAIL, _PATH = "tail", "path"
_SECOND = 1_000_000_000


class PathColumns(Protocol):
    """A PathSet, as far as its totals go: a number for each EV."""

    @property
    def packets(self) -> I64: ...
    @property
    def lost(self) -> I64: ...
    @property
    def marked(self) -> I64: ...
    @property
    def state(self) -> U8: ...


class Tracer(Protocol):
    """What takes the events of a trace. Neither method may raise or take long: packets wait meanwhile."""

    def now(self) -> int:
        """The endpoint's clock, ns: when something happens that no entry with a `now` of its own caused."""
        ...

    def event(self, kind: EventType, at_ns: int, qpn: int | None, values: tuple[object, ...], /) -> None:
        """One event: the values of its type's fields in their order, plain JSON values."""
        ...


class EndpointTrace:
    """One endpoint's tracer. `entered` returns the `now` of the entry that is being worked on, or was last."""

    __slots__ = ("_latest", "_tracer", "config", "entered")

    def __init__(self, tracer: Tracer, config: TraceConfig, entered: Callable[[], int]) -> None:
        self._tracer = tracer
        self.config = config
        self.entered = entered
        self._latest = 0

    def record(self, kind: EventType, at_ns: int, qpn: int | None, *values: object) -> None:
        """Record an event, in order of time: some events take theirs from the entry and some from the clock."""
        self._latest = at_ns = max(at_ns, self._latest)
        self._tracer.event(kind, at_ns, qpn, values)

    def between_entries(self) -> int:
        return max(self._tracer.now(), self.entered())

    def on_event(self, event: Event) -> None:
        """A listener of the endpoint's. States of QPs are recorded by their QpTraces."""
        if event.kind is vocabulary.PORT:
            self.record(event.kind, event.at_ns, event.qpn, *event.values)

    def of_qp(self, qpn: int) -> QpTrace:
        return QpTrace(self, qpn)


class QpTrace:
    """What one QP reports to the tracer. EVs are named by their index in its profile, PSNs are unbounded."""

    __slots__ = (
        "_all",
        "_answers_before",
        "_answers_due",
        "_answers_since",
        "_config",
        "_evs",
        "_feedback_before",
        "_feedback_due",
        "_feedback_since",
        "_qpn",
        "_work_left",
        "_work_omitted",
        "_work_until",
    )

    def __init__(self, whole: EndpointTrace, qpn: int) -> None:
        self._all = whole
        self._config = whole.config
        self._qpn = qpn
        self._evs: list[int] = []
        # Of the counts recorded at intervals: what they were, since when, and when they are due again.
        self._feedback_before = (0,) * 5
        self._feedback_since = self._feedback_due = 0
        self._answers_before = (0,) * 6
        self._answers_since = self._answers_due = 0
        self._work_until = self._work_left = self._work_omitted = 0

    def _record(self, kind: EventType, *values: object) -> None:
        self._all.record(kind, self._all.entered(), self._qpn, *values)

    def _record_between(self, kind: EventType, *values: object) -> None:
        self._all.record(kind, self._all.between_entries(), self._qpn, *values)

    # ------------------------------------------------------------------ connectivity

    def state(self, old: QpState, new: QpState, why: str | None) -> None:
        self._record_between(vocabulary.QP_STATE, old.name, new.name, why)

    def responder_started(self, peer: QpPeer, config: QpConfig, agreed: Capability) -> None:
        self._evs = [path.ev for path in peer.paths]
        self._answers_since = self._all.between_entries()
        self._record_between(
            vocabulary.RESPONDER_STARTED,
            peer.qpn,
            peer.first_psn & PSN_BITS_MASK,
            config.path_mtu,
            config.mpr_dest,
            [each.name for each in Capability if each in agreed],
            [{"ev": path.ev, "plane": path.plane, "port": path.port, "spine": path.spine} for path in peer.paths],
        )

    def evs_added(self, evs: Iterable[int]) -> None:
        """The profile has further EVs: they have the next indexes."""
        self._evs += evs

    def requestor_started(self, first_psn: int, config: QpConfig) -> None:
        self._feedback_since = self._all.between_entries()
        self._record_between(
            vocabulary.REQUESTOR_STARTED, first_psn & PSN_BITS_MASK, config.mpr, config.local_ack_timeout_ns
        )

    def destroyed(self, counters: Counters, paths: PathColumns | None) -> None:
        """`flush_feedback` and `flush_answers` come before it."""
        if paths is not None:
            columns = (paths.packets, paths.lost, paths.marked, paths.state)
            for ev, packets, lost, marked, state in zip(
                self._evs, *(column.tolist() for column in columns), strict=True
            ):
                self._record_between(vocabulary.EV_TOTALS, ev, packets, lost, marked, EvState(state).name)
        self._record_between(vocabulary.QP_DESTROYED, counters.as_dict(), self._work_omitted)

    # ------------------------------------------------------------------ paths

    def ev_state(self, index: int, old: EvState, new: EvState, cause: EvInput) -> None:
        record_event = self._record_between if cause in (EvInput.DENY, EvInput.ALLOW) else self._record
        record_event(vocabulary.EV_STATE, self._evs[index], old.name, new.name, cause.name)

    # ------------------------------------------------------------------ recovery

    def lost(self, psns: Iterable[int], indexes: Iterable[int], sent_at: Iterable[int], trigger: str) -> None:
        for psn, index, at in zip(psns, indexes, sent_at, strict=True):
            self._record(vocabulary.PACKET_LOST, psn & PSN_BITS_MASK, self._evs[index], at, trigger)

    def sent_again(self, psns: list[int], indexes: list[int], times_sent: list[int]) -> None:
        for psn, index, times in zip(psns, indexes, times_sent, strict=True):
            self._record(vocabulary.RETRANSMISSION, psn & PSN_BITS_MASK, self._evs[index], times)

    def spurious_loss(self, psn: int, index: int, sent_again: bool) -> None:
        """`index` is negative where it is not known on which EV it arrived."""
        ev = self._evs[index] if index >= 0 else None
        self._record(vocabulary.SPURIOUS_LOSS, psn & PSN_BITS_MASK, ev, sent_again)

    def local_ack_timeout(self, psn: int, retries: int) -> None:
        self._record(vocabulary.LOCAL_ACK_TIMEOUT, psn & PSN_BITS_MASK, retries)

    def probe_sent(self, probe_id: int, index: int, *, tail: bool) -> None:
        self._record(vocabulary.PROBE_SENT, probe_id, _TAIL if tail else _PATH, self._evs[index])

    def probe_answered(self, probe_id: int, m: int, *, tail: bool) -> None:
        self._record(vocabulary.PROBE_ANSWERED, probe_id, _TAIL if tail else _PATH, m)

    def probe_failed(self, probe_id: int, index: int) -> None:
        self._record(vocabulary.PROBE_FAILED, probe_id, self._evs[index])

    # ------------------------------------------------------------------ at intervals

    def on_feedback(
        self, counters: Counters, sent: SentPackets, rtt: RttEstimator, controller: CongestionController, now: int
    ) -> None:
        """An acknowledgement was taken."""
        if now >= self._feedback_due:
            self._feedback_due = now + max(rtt.srtt, self._config.interval_ns)
            self._record_feedback(counters, sent, rtt, controller, now)

    def flush_feedback(
        self, counters: Counters, sent: SentPackets, rtt: RttEstimator, controller: CongestionController
    ) -> None:
        """Record what was not recorded yet."""
        self._record_feedback(counters, sent, rtt, controller, self._all.between_entries())

    def _record_feedback(
        self, counters: Counters, sent: SentPackets, rtt: RttEstimator, controller: CongestionController, now: int
    ) -> None:
        counts = (
            counters.sacks_received,
            counters.acks_received,
            counters.data_packets_sent,
            counters.data_bytes_sent,
            counters.retransmitted_packets,
        )
        if counts == self._feedback_before:
            return
        sacks, acks, *data = (new - old for new, old in zip(counts, self._feedback_before, strict=True))
        self._all.record(
            vocabulary.METRICS_UPDATED,
            now,
            self._qpn,
            controller.cwnd,
            controller.inflight,
            sent.outstanding,
            rtt.srtt,
            rtt.rttvar,
            rtt.minimum,
        )
        cack_psn = (sent.una - 1) & PSN_BITS_MASK
        self._all.record(vocabulary.SACKS_RECEIVED, now, self._qpn, self._feedback_since, sacks, acks, cack_psn, *data)
        self._feedback_before, self._feedback_since = counts, now

    def on_answers(self, counters: Counters, received: ReceivedPsns, now: int) -> None:
        """The responder sent what it had to answer, if anything."""
        if now >= self._answers_due and counters.requests_received != self._answers_before[2]:
            self._answers_due = now + self._config.interval_ns
            self._record_answers(counters, received, now)

    def flush_answers(self, counters: Counters, received: ReceivedPsns) -> None:
        """Record what was not recorded yet."""
        self._record_answers(counters, received, self._all.between_entries())

    def _record_answers(self, counters: Counters, received: ReceivedPsns, now: int) -> None:
        counts = (
            counters.sacks_sent,
            counters.acks_sent,
            counters.requests_received,
            counters.bytes_placed,
            counters.duplicates_received,
            counters.ecn_marked_received,
        )
        if counts == self._answers_before:
            return
        sacks, acks, *requests = (new - old for new, old in zip(counts, self._answers_before, strict=True))
        cack_psn = received.cack_psn & PSN_BITS_MASK
        self._all.record(
            vocabulary.SACKS_SENT, now, self._qpn, self._answers_since, sacks, acks, cack_psn, received.held, *requests
        )
        self._answers_before, self._answers_since = counts, now

    # ------------------------------------------------------------------ transport

    def nack_sent(self, psn: int, reason: str, ev: int, rtx: bool) -> None:
        self._record(vocabulary.NACK_SENT, psn & PSN_BITS_MASK, reason, ev, rtx)

    def nack_received(self, psn: int, reason: str, ev: int, rtx: bool) -> None:
        self._record(vocabulary.NACK_RECEIVED, psn & PSN_BITS_MASK, reason, ev, rtx)

    def completing(self, complete: Callable[[Completion], None]) -> Callable[[Completion], None]:
        """Wrap `complete` to record completions too, as many as the configuration allows."""
        if not self._config.work_per_second:
            return complete

        def traced(done: Completion) -> None:
            self._completed(done)
            complete(done)

        return traced

    def _completed(self, done: Completion) -> None:
        now = self._all.entered()
        if now >= self._work_until:
            self._work_until = now + _SECOND
            self._work_left = self._config.work_per_second
        if not self._work_left:
            self._work_omitted += 1
            return
        self._work_left -= 1
        self._record(
            vocabulary.WORK_COMPLETED, done.wr_id, done.kind.name, done.status.name, done.byte_len, self._work_omitted
        )
        self._work_omitted = 0
