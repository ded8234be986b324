# SPDX-License-Identifier: BSD-2-Clause
"""The figures of an analysis, as they go into its JSON document: units are in the names, shares are of 1."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mrc.capture.frames import I64
from mrc.report.units import count_text


@dataclass(frozen=True, slots=True)
class Times:
    """Samples of a time in nanoseconds, by their order; None where there are none."""

    samples: int
    min_ns: int | None = None
    p50_ns: int | None = None
    p95_ns: int | None = None
    p99_ns: int | None = None
    max_ns: int | None = None

    @classmethod
    def of(cls, ns: I64) -> Times:
        if not len(ns):
            return cls(0)
        middle, most, nearly = (round(float(each)) for each in np.percentile(ns, (50, 95, 99)))
        return cls(len(ns), int(ns.min()), middle, most, nearly, int(ns.max()))


@dataclass(slots=True)
class PathReported:
    """What the requestor's trace reports of a path. `packets` is None without totals, times are None without a clock.

    `lost`, `trimmed`, `refused` transmissions were not taken back; `lost_in_both` of `lost` are also inferred.
    """

    packets: int | None
    lost: int
    lost_in_both: int
    trimmed: int
    refused: int
    state: str
    outs: int
    out_ns: int
    state_changes: list[dict[str, Any]]


@dataclass(slots=True)
class DirectionReported:
    """What the traces of the two ends tell of a direction; what the requestor says, from `lost` to
    `spurious_retransmissions`, is None without its trace, what the responder says without its."""

    requestor_trace: str | None = None
    responder_trace: str | None = None
    lost: int | None = None
    lost_in_both: int | None = None
    lost_inferred_only: int | None = None
    lost_reported_only: int | None = None
    losses_not_captured: int | None = None
    losses_by_trigger: dict[str, int] | None = None
    trimmed: int | None = None
    refused: int | None = None
    retransmissions: int | None = None
    spurious_retransmissions: int | None = None
    requests_received: int | None = None
    duplicates_received: int | None = None


@dataclass(slots=True)
class AnyPath:
    """A path of requests or of answers. `ev` is the EV (the UDP source port of RC), `route` its uSIDs as captured,
    `packets` those that were put on it; `rtt` is of the round trips that began with a request on it, or ended with an
    answer.
    `one_way_later_ns`: how much later than those of the quicker paths its packets come from one place of capture to the
    other, the median; the middle half of them lies within `one_way_spread_ns`. None unless two places saw them.
    """

    ev: int
    route: str
    plane: int | None
    packets: int = 0
    rtt: Times = field(default_factory=lambda: Times(0))
    one_way_later_ns: int | None = None
    one_way_spread_ns: int | None = None
    is_slower: bool = False

    @property
    def way(self) -> str:
        """The route, where it tells more than the EV."""
        return "" if self.route.startswith("EV=") else self.route


@dataclass(slots=True)
class PathFigures(AnyPath):
    """One path of the requests of one direction.

    `packets` are data packets put on it, retransmissions too; `bytes` of them on the wire, `payload_bytes` of
    payload. `resent` of them were sent again, on whichever path, `resent_in_vain` although they had arrived. `lost`,
    `trimmed`, `refused` of them did not arrive; `lost` and `loss_share` are None at the receiver's side, where what
    is lost is not seen. `marks` are SACKs with m = 1 or 2, `ce_packets` passed here marked.
    `state` is the last inferred; `out_ns` the time in ASSUMED_BAD, `outs` how often it went there.
    """

    bytes: int = 0
    payload_bytes: int = 0
    resent: int | None = 0
    resent_in_vain: int | None = 0
    lost: int | None = None
    loss_share: float | None = None
    trimmed: int = 0
    refused: int = 0
    bad_icrc_packets: int = 0
    first_bad_icrc_packet: int | None = None
    marks: int = 0
    ce_packets: int = 0
    nacks: dict[str, int] = field(default_factory=dict)
    probes: int = 0
    probes_answered: int = 0
    probe_rtt: Times = field(default_factory=lambda: Times(0))
    state: str | None = None
    outs: int | None = None
    out_ns: int | None = None
    state_changes: list[dict[str, Any]] = field(default_factory=list)
    first_use_ns: int | None = None
    last_use_ns: int | None = None
    first_lost_packet: int | None = None
    reported: PathReported | None = None

    def probes_text(self, capture_point: str) -> str:
        """Answered ones and all, for a table; `+` where answers may take another way than past the capture."""
        more = "+" if capture_point == "middle" and self.probes_answered < self.probes else ""
        return f"{self.probes_answered}{more}/{self.probes}"


@dataclass(slots=True)
class PlaneFigures:
    """Data packets of one plane of one direction; `share` is of the direction's payload bytes sent."""

    plane: int
    paths: int
    packets: int
    payload_bytes: int
    share: float
    lost: int | None
    goodput_gbps: float | None


@dataclass(frozen=True, slots=True)
class OperationFigures:
    """Messages of one `kind`; of those that are in the capture whole the sizes in bytes, None where there are none."""

    kind: str
    messages: int
    bytes_min: int | None = None
    bytes_p50: int | None = None
    bytes_max: int | None = None


@dataclass(slots=True)
class DirectionFigures:
    """Requests of one QP to its peer, and the answers."""

    source: list[str]
    destination: list[str]
    responder_qpn: int | None
    requestor_qpn: int | None
    transport: str
    capture_point: str
    capture_point_why: str
    unknowable: list[str]
    packets: int | None = 0
    bytes: int | None = 0
    payload_bytes: int | None = 0
    first_ns: int | None = None
    last_ns: int | None = None
    goodput_bytes: int = 0
    goodput_gbps: float | None = None
    lost: int | None = None
    lost_unsure: int = 0
    loss_share: float | None = None
    lost_found_by: dict[str, int] = field(default_factory=dict)
    missing_before_capture: int | None = None
    lost_behind_capture: int | None = None
    trimmed: int = 0
    refused: int = 0
    retransmissions: int | None = 0
    spurious_retransmissions: int | None = 0
    duplicates: int = 0
    copies_left_out: int = 0
    clock_offset_ns: int | None = None
    clock_offset_least_ns: int | None = None
    clock_offset_most_ns: int | None = None
    clock_drift_ns: int | None = None
    answers_ahead_ns: int | None = None
    unacknowledged: int = 0
    hole_psns: int = 0
    not_captured: int = 0
    bad_icrc_packets: int = 0
    sacks: int = 0
    acks: int = 0
    naks: dict[str, int] = field(default_factory=dict)
    nacks: dict[str, int] = field(default_factory=dict)
    marks: int = 0
    ce_packets: int = 0
    congestion_notifications: int = 0
    rtt: Times = field(default_factory=lambda: Times(0))
    probes: int = 0
    probes_answered: int = 0
    held_above_hole_max: int = 0
    reordered_packets: int = 0
    reorder_depth_max: int = 0
    messages: int = 0
    messages_unfinished: int = 0
    message_time: Times = field(default_factory=lambda: Times(0))
    operations: list[OperationFigures] = field(default_factory=list)
    idle_share: float | None = 0.0
    waiting_share: float | None = 0.0
    longest_stall_ns: int | None = 0
    longest_stall_after_packet: int | None = None
    in_flight_max: int = 0
    go_backs: int = 0
    read_requests: int = 0
    read_bytes: int = 0
    planes: list[PlaneFigures] = field(default_factory=list)
    paths: list[PathFigures] = field(default_factory=list)
    answer_paths: list[AnyPath] = field(default_factory=list)
    reported: DirectionReported | None = None
    mirrored: bool = False

    @property
    def name(self) -> str:
        """Short and for people: `fd00::1 > fd00::2 QP 0x000011`."""
        source = self.source[0] if self.source else "?"
        destination = self.destination[0] if self.destination else "?"
        qpn = "?" if self.responder_qpn is None else f"0x{self.responder_qpn:06x}"
        return f"{source} > {destination} QP {qpn}"

    @property
    def place(self) -> str:
        """Where the capture was taken, in words."""
        place = "both ends" if self.capture_point == "both" else self.capture_point
        return f"{place}, mirror" if self.mirrored else place

    @property
    def round_trips(self) -> Times:
        """For a table: none at the receiver, whose time from packet to SACK is its own."""
        return Times(0) if self.capture_point == "receiver" else self.rtt

    @property
    def lost_text(self) -> str:
        """The lost, for a table: at the receiver, those before the capture and those behind it."""
        more = f", up to {self.lost_unsure} more" if self.lost_unsure else ""
        if self.lost is not None:
            return count_text(self.lost, self.loss_share) + more
        if self.capture_point != "receiver":
            return "?"
        behind = f", {self.lost_behind_capture} behind" if self.lost_behind_capture else ""
        more += " behind" if more else ""
        before = "?" if self.missing_before_capture is None else str(self.missing_before_capture)
        return f"{before} before{behind}{more}"


@dataclass(frozen=True, slots=True)
class QpFigures:
    """Two QPs that talk to each other: the requests of one, and of the other where it sent any."""

    directions: list[DirectionFigures]
