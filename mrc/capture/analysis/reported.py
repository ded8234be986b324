# SPDX-License-Identifier: BSD-2-Clause
"""What an endpoint's trace (docs/trace.md) reports of its QPs: figures as the endpoint took them, not inferred."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from mrc.errors import CallerError
from mrc.trace import Event, Header, read_trace, vocabulary
from mrc.untrusted import printable
from mrc.wire.psn import PSN_MASK, unwrap

# A number beyond belongs to a damaged record: no time, PSN, EV or count is as large.
_MOST = 1 << 60
_EV_MASK = 0xFFFFFFFF
_LONGEST_TEXT = 200
# Points of the congestion state that are kept for each QP, and changes of state that are shown for each path.
METRICS_KEPT, CHANGES_KEPT = 1000, 1000
HOLE, PATH_TIMER, LOCAL_ACK_TIMEOUT, NACK = "hole", "path_timer", "local_ack_timeout", "nack"
_TRIMS = ("nack:TRIMMED", "nack:TRIMMED_LASTHOP")
ASSUMED_BAD = "ASSUMED_BAD"


@dataclass(slots=True)
class ReportedLoss:
    """A transmission taken for lost. `seq` is its PSN unwrapped along the trace; `taken_back` says that it arrived."""

    seq: int
    ev: int
    trigger: str
    taken_back: bool = False

    @property
    def kind(self) -> str:
        """What the analysis of packets would call it: lost, trimmed or refused."""
        if not self.trigger.startswith(NACK):
            return "lost"
        return "trimmed" if self.trigger in _TRIMS else "refused"


@dataclass(slots=True)
class ReportedPath:
    """One EV of a QP. `packets` is None where the trace has no totals; `changes` are (time_ns, old, new, cause).

    `spine` is None where the network chooses it, or the trace does not say.
    """

    ev: int
    plane: int | None = None
    spine: int | None = None
    packets: int | None = None
    marked: int | None = None
    state: str = "GOOD"
    outs: int = 0
    changes: list[tuple[int, str, str, str]] = field(default_factory=list)

    def change(self, time_ns: int, old: str, new: str, cause: str) -> None:
        self.outs += new == ASSUMED_BAD and old != ASSUMED_BAD
        self.state = new
        self.changes.append((time_ns, old, new, cause))

    def out_ns(self, end_ns: int) -> int:
        """Time in ASSUMED_BAD, up to `end_ns` at the latest."""
        ends = [*(time for time, *_ in self.changes[1:]), end_ns]
        spans = zip(self.changes, ends, strict=True) if self.changes else ()
        return sum(max(0, end - time) for (time, _, new, _), end in spans if new == ASSUMED_BAD)


@dataclass(slots=True)
class ReportedQp:
    """What a trace reports of the QP `qpn`; `counts` are sums by name, those of docs/analyze.md.

    `spurious` are (seq, whether it was sent again) of losses taken back. `metrics` are (time_ns, cwnd_bytes,
    inflight_bytes, outstanding, srtt_ns, min_rtt_ns), thinned out evenly.
    """

    qpn: int
    peer_qpn: int | None = None
    state: str | None = None
    why: str | None = None
    first_seq: int | None = None
    near: int | None = None
    losses: list[ReportedLoss] = field(default_factory=list)
    spurious: list[tuple[int, bool]] = field(default_factory=list)
    paths: dict[int, ReportedPath] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    nacks_sent: Counter[str] = field(default_factory=Counter)
    nacks_received: Counter[str] = field(default_factory=Counter)
    work: Counter[str] = field(default_factory=Counter)
    metrics: list[tuple[int, int, int, int, int, int]] = field(default_factory=list)
    metrics_stride: int = 1
    metrics_seen: int = 0
    destroyed: bool = False
    _by_psn: dict[int, list[ReportedLoss]] = field(default_factory=dict)

    def path(self, ev: int) -> ReportedPath:
        return self.paths.setdefault(ev, ReportedPath(ev))

    def seq(self, psn: int) -> int:
        """The PSN, unwrapped next to the one reported before it."""
        seq = unwrap(psn, self.near) if self.near is not None else psn
        self.near = seq
        if self.first_seq is None:
            self.first_seq = seq
        return seq

    def lose(self, psn: int, ev: int, trigger: str) -> None:
        loss = ReportedLoss(self.seq(psn), ev, trigger)
        self.losses.append(loss)
        self._by_psn.setdefault(loss.seq, []).append(loss)

    def take_back(self, psn: int, ev: int | None, sent_again: bool) -> None:
        seq = self.seq(psn)
        self.spurious.append((seq, sent_again))
        standing = [each for each in self._by_psn.get(seq, []) if not each.taken_back]
        # The EV that it arrived on says which transmission; else the first one that is still taken for lost.
        named = [each for each in standing if each.ev == ev]
        for loss in (named or standing)[:1]:
            loss.taken_back = True

    def measure(self, point: tuple[int, int, int, int, int, int]) -> None:
        if self.metrics_seen % self.metrics_stride == 0:
            self.metrics.append(point)
        self.metrics_seen += 1
        if len(self.metrics) > 2 * METRICS_KEPT:
            del self.metrics[1::2]
            self.metrics_stride *= 2

    def lost(self) -> Counter[tuple[int, str]]:
        """Losses that were not taken back, by EV and kind."""
        return Counter((each.ev, each.kind) for each in self.losses if not each.taken_back)

    @property
    def by_trigger(self) -> dict[str, int]:
        """All losses, those taken back later too."""
        return dict(Counter(each.trigger for each in self.losses).most_common())

    @property
    def spurious_noticed(self) -> int:
        return sum(sent_again for _, sent_again in self.spurious)

    @property
    def weight(self) -> int:
        return self.counts["data_packets"] + self.counts["requests"] + len(self.losses)

    @property
    def is_requestor(self) -> bool:
        return bool(self.losses or self.counts["data_packets"] or self.metrics)

    @property
    def is_responder(self) -> bool:
        return bool(self.counts["requests"])


@dataclass(slots=True)
class Trace:
    """One trace. Times are nanoseconds since 1970, or of the endpoint's clock where there is no wall clock.

    `not_believed` events had numbers that cannot be, `dropped` were not written, `skipped` records were damaged.
    """

    file: str
    header: Header
    qps: list[ReportedQp] = field(default_factory=list)
    ports: list[tuple[int, str, int, bool]] = field(default_factory=list)
    events: int = 0
    first_ns: int = 0
    last_ns: int = 0
    dropped: int = 0
    not_believed: int = 0
    skipped: int = 0
    cut: bool = False
    ended: bool = False

    def add(self, event: Event) -> None:
        if not _believable(event):
            self.not_believed += 1
            return
        if not self.events:
            self.first_ns = self.last_ns = _when(event)
        self.events += event.kind is not vocabulary.END
        self.last_ns = max(self.last_ns, _when(event))
        if event.kind is vocabulary.DROPPED:
            self.dropped += event["events"]
        elif event.kind is vocabulary.PORT:
            self.ports.append((_when(event), _text(event, "side"), event["port"], event["up"]))
        elif event.qpn is not None and event.kind is not None:
            _TAKEN.get(event.name, _leave)(self._qp(event.qpn), event)

    @property
    def has_wall_clock(self) -> bool:
        return self.header.realtime_offset_ns is not None

    def _qp(self, qpn: int) -> ReportedQp:
        """The latest QP of this number: one let go of is followed by another."""
        for qp in reversed(self.qps):
            if qp.qpn == qpn:
                if not qp.destroyed:
                    return qp
                break
        self.qps.append(ReportedQp(qpn))
        return self.qps[-1]


def read_reported(stream: BinaryIO, name: str) -> Trace:
    """A trace, whatever state it is in. Raises CallerError when it is none."""
    try:
        header, events = read_trace(stream)
    except CallerError as error:
        raise CallerError(f"{name}: {error}") from error
    trace = Trace(name, header)
    for event in events:
        trace.add(event)
    trace.skipped, trace.cut, trace.ended = events.skipped, events.cut, events.ended
    return trace


def short_text(text: str) -> str:
    """What a trace says in words, the beginning of it, fit for a terminal."""
    return printable(text[:_LONGEST_TEXT])


def _text(event: Event, name: str) -> str:
    return short_text(event[name])


def _when(event: Event) -> int:
    return event.time_ns if event.realtime_ns is None else event.realtime_ns


def _believable(event: Event) -> bool:
    """Whether its numbers can be: a record may be well formed and its numbers be anything."""
    if (
        abs(event.time_ns) >= _MOST
        or abs(_when(event)) >= 4 * _MOST
        or not (event.qpn is None or 0 <= event.qpn <= PSN_MASK)
    ):
        return False
    for name, value in event.data.items():
        if isinstance(value, bool) or not isinstance(value, int):
            continue
        most = PSN_MASK if name in _PSNS else _EV_MASK if name == "ev" else 4 * _MOST if name == _OFFSET else _MOST
        if not (-most if name.endswith("_ns") else 0) <= value <= most:
            return False
    return True


_PSNS = ("psn", "cack_psn", "first_psn", "peer_first_psn", "peer_qpn")
_OFFSET = "realtime_offset_ns"


# ------------------------------------------------------------------ what becomes of each event


def _leave(qp: ReportedQp, event: Event) -> None:
    """Nothing here is about it."""


def _qp_state(qp: ReportedQp, event: Event) -> None:
    qp.state, qp.why = _text(event, "new"), _text(event, "why") if event["why"] is not None else None


def _responder_started(qp: ReportedQp, event: Event) -> None:
    qp.peer_qpn = event["peer_qpn"]
    for each in event["paths"]:
        ev = each.get("ev") if isinstance(each, dict) else None
        if isinstance(ev, int) and not isinstance(ev, bool) and 0 <= ev <= _EV_MASK:
            path = qp.path(ev)
            path.plane, path.spine = _number(each.get("plane")), _number(each.get("spine"))


def _number(value: object) -> int | None:
    """A plane's or a spine's; of another file's there may be anything."""
    return value if isinstance(value, int) and 0 <= value < 1 << 16 else None


def _requestor_started(qp: ReportedQp, event: Event) -> None:
    qp.seq(event["first_psn"])


def _destroyed(qp: ReportedQp, event: Event) -> None:
    qp.destroyed = True


def _ev_state(qp: ReportedQp, event: Event) -> None:
    qp.path(event["ev"]).change(_when(event), *(_text(event, name) for name in ("old", "new", "cause")))


def _ev_totals(qp: ReportedQp, event: Event) -> None:
    path = qp.path(event["ev"])
    path.packets, path.marked, path.state = event["packets"], event["marked"], _text(event, "state")


def _packet_lost(qp: ReportedQp, event: Event) -> None:
    qp.lose(event["psn"], event["ev"], _text(event, "trigger"))


def _retransmission(qp: ReportedQp, event: Event) -> None:
    qp.seq(event["psn"])
    qp.counts["retransmissions"] += 1


def _spurious_loss(qp: ReportedQp, event: Event) -> None:
    qp.take_back(event["psn"], event["ev"], event["sent_again"])


def _local_ack_timeout(qp: ReportedQp, event: Event) -> None:
    qp.counts["local_ack_timeouts"] += 1


def _probe_sent(qp: ReportedQp, event: Event) -> None:
    qp.counts["probes_sent"] += 1


def _probe_answered(qp: ReportedQp, event: Event) -> None:
    qp.counts["probes_answered"] += 1


def _metrics(qp: ReportedQp, event: Event) -> None:
    names = ("cwnd_bytes", "inflight_bytes", "outstanding", "srtt_ns", "min_rtt_ns")
    cwnd, inflight, outstanding, srtt, min_rtt = (event[name] for name in names)
    qp.measure((_when(event), cwnd, inflight, outstanding, srtt, min_rtt))


def _sum(qp: ReportedQp, event: Event, names: dict[str, str]) -> None:
    for name, of in names.items():
        qp.counts[name] += event[of]


def _sacks_received(qp: ReportedQp, event: Event) -> None:
    # The edge moves on where nothing is lost, so that a PSN can be distinguished from the same one a round later.
    if qp.near is not None:
        qp.near = max(qp.near, unwrap(event["cack_psn"], qp.near))
    names = {"sacks_received": "sacks", "data_packets": "data_packets", "data_bytes": "data_bytes"}
    _sum(qp, event, names)


def _sacks_sent(qp: ReportedQp, event: Event) -> None:
    names = {name: name for name in ("requests", "bytes_placed", "duplicates", "ecn_marked")}
    _sum(qp, event, {"sacks_sent": "sacks", **names})


def _nack_sent(qp: ReportedQp, event: Event) -> None:
    qp.nacks_sent[_text(event, "reason")] += 1


def _nack_received(qp: ReportedQp, event: Event) -> None:
    qp.nacks_received[_text(event, "reason")] += 1


def _work(qp: ReportedQp, event: Event) -> None:
    qp.work[_text(event, "status")] += 1
    qp.counts["work_omitted"] += event["omitted"]


_TAKEN: dict[str, Any] = {
    vocabulary.QP_STATE.name: _qp_state,
    vocabulary.RESPONDER_STARTED.name: _responder_started,
    vocabulary.REQUESTOR_STARTED.name: _requestor_started,
    vocabulary.QP_DESTROYED.name: _destroyed,
    vocabulary.EV_STATE.name: _ev_state,
    vocabulary.EV_TOTALS.name: _ev_totals,
    vocabulary.PACKET_LOST.name: _packet_lost,
    vocabulary.RETRANSMISSION.name: _retransmission,
    vocabulary.SPURIOUS_LOSS.name: _spurious_loss,
    vocabulary.LOCAL_ACK_TIMEOUT.name: _local_ack_timeout,
    vocabulary.PROBE_SENT.name: _probe_sent,
    vocabulary.PROBE_ANSWERED.name: _probe_answered,
    vocabulary.METRICS_UPDATED.name: _metrics,
    vocabulary.SACKS_RECEIVED.name: _sacks_received,
    vocabulary.SACKS_SENT.name: _sacks_sent,
    vocabulary.NACK_SENT.name: _nack_sent,
    vocabulary.NACK_RECEIVED.name: _nack_received,
    vocabulary.WORK_COMPLETED.name: _work,
}
