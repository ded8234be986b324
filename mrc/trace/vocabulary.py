# SPDX-License-Identifier: BSD-2-Clause
"""What happened, by name: every event with its fields and when it is written, in one table.

An endpoint writes the categories of ENDPOINT into its trace (docs/trace.md), a lab those of `fabric` into its event log
(docs/lab.md), a drill those of `fabric` and `drill` into its recording. The tables of both pages are drawn from this
one. What an endpoint reports to its owner, what a controller and an application hear, are views of these events.

PSNs are those on the wire (24 bit), EVs 32-bit numbers as a SACK reflects them. Fields whose name ends in `_ns` and
that name a moment are on the same clock as `time_ns`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from enum import Enum
from types import UnionType
from typing import Any

from mrc.records import record

__all__ = [
    "BEGIN",
    "CLEAR",
    "CLOCK",
    "CUT",
    "DROPPED",
    "END",
    "ENDPOINT",
    "END_OF_FLOW",
    "EVENTS",
    "EV_STATE",
    "EV_STATES",
    "EV_TOTALS",
    "FABRIC_UP",
    "FLAP_END",
    "FLAP_START",
    "HEAL",
    "IMPAIR",
    "LOCAL",
    "LOCAL_ACK_TIMEOUT",
    "METRICS_UPDATED",
    "NACK_RECEIVED",
    "NACK_SENT",
    "PACKET_LOST",
    "PEER",
    "PORT",
    "PROBE_ANSWERED",
    "PROBE_FAILED",
    "PROBE_SENT",
    "QP_DESTROYED",
    "QP_STATE",
    "REQUESTOR_STARTED",
    "RESPONDER_STARTED",
    "RETRANSMISSION",
    "SACKS_RECEIVED",
    "SACKS_SENT",
    "SPURIOUS_LOSS",
    "WORK_COMPLETED",
    "EventType",
    "Field",
    "Kind",
]


class Kind(Enum):
    """What JSON value a field is."""

    INTEGER = "integer"
    FRACTION = "number"
    TEXT = "text"
    FLAG = "true or false"
    LIST = "list"
    TABLE = "object"


@record(frozen=True, slots=True)
class Field:
    """One field of an event's data; `optional` ones may be null."""

    name: str
    kind: Kind
    meaning: str
    optional: bool = False

    def allows(self, value: object) -> bool:
        """Whether a JSON value may stand here."""
        if value is None:
            return self.optional
        if isinstance(value, bool):
            return self.kind is Kind.FLAG
        return isinstance(value, _TYPES[self.kind])


_TYPES: dict[Kind, type | UnionType] = {
    Kind.INTEGER: int,
    Kind.FRACTION: int | float,
    Kind.TEXT: str,
    Kind.FLAG: bool,
    Kind.LIST: list,
    Kind.TABLE: dict,
}


@record(frozen=True, slots=True)
class EventType:
    """`name` is category:event. `fields` is the order in which a tracer is handed their values.

    >>> PACKET_LOST.name, PACKET_LOST.category
    ('recovery:packet_lost', 'recovery')
    """

    name: str
    when: str
    fields: tuple[Field, ...]

    @property
    def category(self) -> str:
        """The part of the name before the colon: `recovery`."""
        return self.name.partition(":")[0]

    @property
    def word(self) -> str:
        """The name without its category."""
        return self.name.partition(":")[2]

    def named(self, values: Iterable[object]) -> dict[str, Any]:
        """These values of its fields by their names. Raises ValueError where there are more or fewer."""
        return dict(zip((field.name for field in self.fields), values, strict=True))


EVENTS: dict[str, EventType] = {}
"""Every event by its name."""

ENDPOINT = ("connectivity", "path", "recovery", "transport", "trace")
"""The categories of an endpoint's trace."""


def _event(name: str, when: str, *fields: Field) -> EventType:
    EVENTS[name] = EventType(name, when, fields)
    return EVENTS[name]


def _number(name: str, meaning: str, optional: bool = False) -> Field:
    return Field(name, Kind.INTEGER, meaning, optional)


def _text(name: str, meaning: str, optional: bool = False) -> Field:
    return Field(name, Kind.TEXT, meaning, optional)


_PSN = _number("psn", "")
_EV = _number("ev", "")
_SINCE = _number("since_ns", "when the interval began that the counts are of")
_SACK_COUNT = _number("sacks", "SACKs in it")
_ACK_COUNT = _number("acks", "transport ACKs in it")
_CACK = _number("cack_psn", "")

# ---------------------------------------------------------------------- connectivity

QP_STATE = _event(
    "connectivity:qp_state",
    "a QP goes from one state to another",
    _text("old", "RESET, INIT, RTR, RTS, ERROR"),
    _text("new", "the same"),
    _text("why", "what ended it, in ERROR", optional=True),
)
RESPONDER_STARTED = _event(
    "connectivity:responder_started",
    "a QP reaches RTR",
    _number("peer_qpn", ""),
    _number("peer_first_psn", ""),
    _number("path_mtu", "bytes"),
    _number("mpr_dest", "what we grant, units of 128 PSNs"),
    Field("capabilities", Kind.LIST, "what both ends can do, by name"),
    Field(
        "paths",
        Kind.LIST,
        "of each EV of the profile `ev`, `plane`, `port`, `spine`, which is -1 where the network chooses",
    ),
)
REQUESTOR_STARTED = _event(
    "connectivity:requestor_started",
    "a QP reaches RTS",
    _number("first_psn", ""),
    _number("mpr", "what the peer grants, units of 128 PSNs"),
    _number("local_ack_timeout_ns", "a duration"),
)
QP_DESTROYED = _event(
    "connectivity:qp_destroyed",
    "a QP is let go of; path:ev_totals of each EV comes before it",
    Field("counters", Kind.TABLE, "the QP's named counters, those that are not 0"),
    _number("work_omitted", "completions without a transport:work_completed, not counted by one either"),
)

# ---------------------------------------------------------------------- path

# The states of an EV as the events name them.
EV_STATES = ("GOOD", "SKIP", "ASSUMED_BAD", "DENIED")
EV_STATE = _event(
    "path:ev_state",
    "an EV goes from one state to another",
    _EV,
    _text("old", ", ".join(EV_STATES)),
    _text("new", "the same; SKIP after LOST where ev_min_active kept it from going bad"),
    _text("cause", "MARKED, ALWAYS_SKIP, LOST, PASSED, PROBED_CLEAR, PROBED_MARKED, SPURIOUS, DENY, ALLOW"),
)
EV_TOTALS = _event(
    "path:ev_totals",
    "a QP is let go of: what one of its EVs carried",
    _EV,
    _number("packets", "data packets sent on it"),
    _number("lost", "of them lost untrimmed and not spuriously"),
    _number("marked", "SACKs with m and NACKs TRIMMED that named it"),
    _text("state", "its last one"),
)
LOCAL, PEER = "local", "peer"
PORT = _event(
    "path:port",
    "a local port's link changes, or the peer says that its own did",
    _text("side", f"{LOCAL} or {PEER}"),
    _number("port", "the local port, or the plane of the peer's"),
    Field("up", Kind.FLAG, ""),
)

# ---------------------------------------------------------------------- recovery

PACKET_LOST = _event(
    "recovery:packet_lost",
    "a transmission is taken for lost",
    _PSN,
    _EV,
    _number("sent_at_ns", "when that transmission left"),
    _text("trigger", "hole, path_timer, local_ack_timeout, nack:TRIMMED and the other reasons"),
)
RETRANSMISSION = _event(
    "recovery:retransmission",
    "a PSN is sent again",
    _PSN,
    _EV,
    _number("times_sent", "this one included"),
)
SPURIOUS_LOSS = _event(
    "recovery:spurious_loss",
    "a PSN taken for lost arrived all the same",
    _PSN,
    _number("ev", "the one it arrived on, null where that is not known", optional=True),
    Field("sent_again", Kind.FLAG, "whether it had been sent again: a spurious retransmission"),
)
LOCAL_ACK_TIMEOUT = _event(
    "recovery:local_ack_timeout",
    "the local ACK timeout of the oldest PSN runs out",
    _PSN,
    _number("retries", "drawn before, of the retry budget of this PSN"),
)
PROBE_SENT = _event(
    "recovery:probe_sent",
    "a reliability probe leaves",
    _number("probe_id", ""),
    _text("purpose", "tail: has the last data arrived; path: is this EV back"),
    _EV,
)
PROBE_ANSWERED = _event(
    "recovery:probe_answered",
    "a SACK answers a reliability probe",
    _number("probe_id", ""),
    _text("purpose", "the same"),
    _number("m", "the answer's ECN verdict"),
)
PROBE_FAILED = _event(
    "recovery:probe_failed",
    "a probe of an EV is given up: the next was due before its answer came",
    _number("probe_id", ""),
    _EV,
)
METRICS_UPDATED = _event(
    "recovery:metrics_updated",
    "an acknowledgement came; at most once a round trip and once an interval",
    _number("cwnd_bytes", ""),
    _number("inflight_bytes", "of the controller, which QPs to one destination may share"),
    _number("outstanding", "packets of this QP in the network"),
    _number("srtt_ns", "0 before the first sample"),
    _number("rttvar_ns", ""),
    _number("min_rtt_ns", ""),
)

# ---------------------------------------------------------------------- transport

SACKS_RECEIVED = _event(
    "transport:sacks_received",
    "with each recovery:metrics_updated",
    _SINCE,
    _SACK_COUNT,
    _ACK_COUNT,
    _CACK,
    _number("data_packets", "sent in it, retransmissions included"),
    _number("data_bytes", "their payload"),
    _number("retransmitted", "of those packets"),
)
SACKS_SENT = _event(
    "transport:sacks_sent",
    "requests came; at most once an interval",
    _SINCE,
    _SACK_COUNT,
    _ACK_COUNT,
    _CACK,
    _number("ooo_count", "packets held above a hole at its end"),
    _number("requests", "received in it"),
    _number("bytes_placed", "in it"),
    _number("duplicates", "of those requests"),
    _number("ecn_marked", "of those requests"),
)
NACK_SENT = _event(
    "transport:nack_sent",
    "a reliability NACK leaves",
    _PSN,
    _text("reason", "as in wire.md section 7"),
    _number("ev", "the one it reflects"),
    Field("rtx", Kind.FLAG, ""),
)
NACK_RECEIVED = _event(
    "transport:nack_received",
    "a reliability NACK about a PSN that was sent arrives; recovery:packet_lost follows unless it is old news",
    *NACK_SENT.fields,
)
WORK_COMPLETED = _event(
    "transport:work_completed",
    "a write or a receive completes; at most so many a second as configured",
    _number("wr_id", ""),
    _text("kind", "RDMA_WRITE or RECV_RDMA_WITH_IMM"),
    _text("status", "as in the verbs"),
    _number("byte_len", "bytes"),
    _number("omitted", "completions since the last such event that were one too many"),
)

# ---------------------------------------------------------------------- trace

CLOCK = _event(
    "trace:clock",
    "the wall clock was set: this holds from here on",
    _number("realtime_offset_ns", "as in the header"),
)
DROPPED = _event(
    "trace:dropped",
    "the file could not be written fast enough",
    _number("events", "that are missing here"),
)
END = _event(
    "trace:end",
    "the trace was closed in order: without it the end is missing",
    _number("events", "in the file, the header and this one not counted"),
)


# ---------------------------------------------------------------------- fabric: a lab's event log

FABRIC_UP = _event(
    "fabric:up",
    "a lab is up",
    _text("shape", "and its sizes, such as `planes` and `leaves`"),
    _number("mtu_bytes", ""),
    _text("mode", ""),
    Field("fast", Kind.FLAG, ""),
)
CUT = _event("fabric:cut", "just before the first of the cables breaks", _number("took_ns", "until the last one broke"))
HEAL = _event("fabric:heal", "all of the cables work again", _number("took_ns", "since the first one was mended"))
_TOWARD = Field("toward", Kind.LIST, "the ends whose arriving packets are meant")
IMPAIR = _event(
    "fabric:impair",
    "a link is about to be impaired; each parameter given is a field as well, such as `loss` or `rate_bps`",
    _TOWARD,
)
CLEAR = _event("fabric:clear", "the impairments of a link are about to be removed", _TOWARD)
FLAP_START = _event(
    "fabric:flap-start",
    "cables begin to flap; each change until the end is a `fabric:cut` or `fabric:heal` of its own",
    Field("period_s", Kind.FRACTION, ""),
    _number("count", ""),
    Field("duty", Kind.FRACTION, ""),
)
FLAP_END = _event(
    "fabric:flap-end",
    "cables flap no longer, and work",
    _number("cycles", ""),
    _number("left_out", ""),
    _number("latest_ns", ""),
    _text("ended", "done, stopped or failed"),
)

# ---------------------------------------------------------------------- drill: besides those of its fabric

BEGIN = _event("drill:begin", "a flow begins", _text("target", "its name"))
END_OF_FLOW = _event("drill:end", "a flow was asked to end", _text("target", "its name"))


def as_markdown(categories: Collection[str] = ENDPOINT) -> str:
    """The table of docs/trace.md, or that of other categories."""
    lines = ["| event | when | fields |", "|---|---|---|"]
    for event in EVENTS.values():
        if event.category not in categories:
            continue
        fields = [
            f"`{field.name}`"
            + (f" ({field.meaning})" if field.meaning else "")
            + (" or null" if field.optional else "")
            for field in event.fields
        ]
        lines.append(f"| `{event.name}` | {event.when} | {'; '.join(fields)} |")
    return "\n".join(lines) + "\n"
