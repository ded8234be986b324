# SPDX-License-Identifier: BSD-2-Clause
"""One finding, and the words that findings share."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from mrc.capture.analysis.direction import Direction
from mrc.capture.analysis.figures import AnyPath, DirectionFigures, PathFigures
from mrc.report.units import percent_text, plural

ERROR, WARNING, INFO = "error", "warning", "info"
SEVERITIES = (ERROR, WARNING, INFO)
# What a capture without findings was searched for. Its tables say what cannot be known at its place.
LOOKED_FOR = (
    "Looked for: QPs that ended in an error, losses and where they lie, dead, lossy, slow and corrupting paths, planes "
    "and switches, retransmissions in vain, stalls, marks and trims, ports that are down, unequal planes, probes "
    "without an answer, what the capture lacks or has twice, clocks that step. docs/analyze.md has every kind and its "
    "limits."
)


@dataclass(frozen=True, slots=True)
class Finding:
    """`kind` is a stable word; `text` says it with figures. `qp` is a direction's name, `ev` a path's, `evs`
    those of a plane or a switch; `packet` is the first to look at, `time_ns` its time since the capture's first;
    `weight` orders findings of one severity; `links` are those that losses may lie on, `a>b` as packets travel.
    `cause` is the place, in the list of findings, of the one that this follows from. `place` says where it happened,
    seen from the place of the capture, `look_next` what to look at then."""

    severity: str
    kind: str
    text: str
    qp: str | None = None
    ev: int | None = None
    packet: int | None = None
    time_ns: int | None = None
    weight: float = 0.0
    cause: int | None = None
    evs: tuple[int, ...] = ()
    links: tuple[str, ...] = ()
    place: str = ""
    look_next: str = ""


# Where no round trip was seen.
_PATIENCE_NS = 10_000_000
_LEAST_PATIENCE_NS = 200_000
_ROUND_TRIPS = 20


def patience_ns(figures: DirectionFigures) -> int:
    """From when on an answer is overdue, by the flow's own round trips: twenty times what nearly all of them take."""
    usual = figures.rtt.p99_ns
    if usual is None or figures.capture_point == "receiver":
        return _PATIENCE_NS
    return max(_LEAST_PATIENCE_NS, _ROUND_TRIPS * usual)


def path_name(path: AnyPath) -> str:
    """The EV, and where its uSIDs were seen, those."""
    ev = f"EV 0x{path.ev:08x}"
    return f"{ev} ({path.way})" if path.way else ev


def share_of(part: int, whole: int) -> str:
    return f"{part:,} of {plural(whole, 'packet')} ({percent_text(part / whole)})"


def at_packet(
    severity: str,
    kind: str,
    text: str,
    figures: DirectionFigures,
    packet: int,
    time_ns: int,
    path: PathFigures | None = None,
    weight: float = 0.0,
) -> Finding:
    ev = None if path is None else path.ev
    return Finding(severity, kind, text, figures.name, ev, int(packet), int(time_ns), weight)


def of_part(
    severity: str,
    kind: str,
    text: str,
    figures: DirectionFigures,
    packet: int,
    time_ns: int,
    evs: Collection[int],
    weight: float,
) -> Finding:
    """A finding about a plane or a switch."""
    at, parts = int(time_ns), tuple(sorted(evs))
    return Finding(severity, kind, text, figures.name, None, int(packet), at, weight, evs=parts)


def on_path(severity: str, kind: str, text: str, direction: Direction, path: PathFigures, weight: float) -> Finding:
    """A finding about a path, with the first packet lost on it where there is one."""
    requests = direction.fates.requests
    packet = path.first_lost_packet
    rows = requests[requests["number"] == packet] if packet is not None else requests[:0]
    time_ns = int(rows["time"][0]) if len(rows) else None
    return Finding(severity, kind, text, direction.figures.name, path.ev, packet, time_ns, weight)
