# SPDX-License-Identifier: BSD-2-Clause
"""One self-contained page: findings, QPs, and for each direction its figures and graphs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from mrc.capture.analysis.analysis import Analysis
from mrc.capture.analysis.comparison import Comparison
from mrc.capture.analysis.direction import Direction
from mrc.capture.analysis.fabric_events import FabricEvents
from mrc.capture.analysis.figures import DirectionFigures, DirectionReported, PathFigures, PathReported
from mrc.capture.analysis.finding import LOOKED_FOR, Finding
from mrc.capture.analysis.path_findings import CHANCE_WORDS
from mrc.capture.analysis.series import goodput_window, has_losses, loss_bin_s, rtt_bin_s, series
from mrc.capture.analysis.traffic import traffic_text
from mrc.capture.texts import seconds_text
from mrc.report.html import Cell, Table, page
from mrc.report.units import (
    count_text,
    gbps_text,
    measured_s_text,
    microseconds_text,
    number_text,
    percent_text,
    size_text,
)

# Directions with graphs, and points in all their graphs of time and sequence together: 16 bytes each on the page.
DIRECTIONS_DRAWN, _POINTS = 12, 300_000
_MOST_POINTS_EACH = 150_000
_DIRECTIONS_LISTED, _PATHS_LISTED, _BARS, _FINDINGS_LISTED = 200, 256, 48, 200
_EVENTS_LISTED = 400


def report(
    name: str,
    analysis: Analysis,
    found: list[Finding],
    compared: Sequence[Comparison] = (),
    events: FabricEvents | None = None,
) -> str:
    """The page as text. `name` is the capture's, `compared` what traces tell beside it, `events` what was done to the
    fabric meanwhile."""
    reported = {id(each.direction): each for each in compared}
    heaviest = sorted(analysis.directions, key=lambda each: -each.weight)
    drawn = heaviest[:DIRECTIONS_DRAWN]
    points = min(_MOST_POINTS_EACH, _POINTS // max(1, len(drawn)))
    return page(
        "mrc.capture.analysis",
        "page.html",
        script="page.js",
        data=[series(each, points, reported.get(id(each)), events) for each in drawn],
        name=name,
        lead=_lead(analysis),
        chance_words=CHANCE_WORDS,
        looked_for=LOOKED_FOR,
        found=found,
        findings_listed=_FINDINGS_LISTED,
        where=lambda each: _where(each, analysis.digits),
        events=_events(events, analysis.digits),
        qps=_qps([each.figures for each in heaviest]),
        directions=[_direction(each, reported.get(id(each))) for each in drawn],
        undrawn=len(heaviest) - len(drawn),
    )


def _lead(analysis: Analysis) -> str:
    when = ""
    if analysis.start_ns is not None:
        when = f", from {datetime.fromtimestamp(analysis.start_ns // 1_000_000_000, UTC):%Y-%m-%d %H:%M:%S} UTC"
    took = seconds_text(analysis.duration_ns, analysis.digits)
    return f"{analysis.packets:,} packets in {took} s{when}; {analysis.roce_packets:,} of RoCEv2 or MRC"


def _where(each: Finding, digits: int) -> str:
    where = [each.qp or "", f"packet {each.packet}" if each.packet else ""]
    where.append(f"{seconds_text(each.time_ns, digits)} s" if each.time_ns is not None else "")
    return ", ".join(filter(None, where))


def _events(events: FabricEvents | None, digits: int) -> Table | None:
    if events is None:
        return None
    rows: list[list[Cell]] = [["before", each.words] for each in events.in_force]
    rows += [[seconds_text(time, digits), each.words] for time, each in events.meanwhile]
    return Table(["time s", "done to the fabric"], rows, 2, mono=1, most=_EVENTS_LISTED) if rows else None


def _qps(directions: list[DirectionFigures]) -> Table:
    headings = ["requests", "seen at", "packets", "delivered", "Gbit/s", "lost", "resent"]
    headings += ["spurious", "marks", "trims", "RTT µs", "p99", "messages"]
    rows: list[list[Cell]] = []
    for each in directions:
        marks = each.marks + each.congestion_notifications
        done = each.messages - each.messages_unfinished
        row: list[Cell] = [f"{each.name} ({each.transport})", each.place, each.packets]
        row += [
            size_text(each.goodput_bytes),
            gbps_text(each.goodput_gbps),
            each.lost_text,
            each.retransmissions,
        ]
        row += [each.spurious_retransmissions, marks, each.trimmed]
        trips = each.round_trips
        row += [microseconds_text(trips.p50_ns), microseconds_text(trips.p99_ns), done]
        rows.append(row)
    return Table(headings, rows, 2, most=_DIRECTIONS_LISTED)


@dataclass(frozen=True)
class _Figure:
    """A place where the script draws, or bars."""

    name: str
    title: str
    words: str


@dataclass(frozen=True)
class _Bar:
    """Of a path: what was lost and trimmed of its packets, in percent of the longest bar."""

    label: str
    lost: float
    trimmed: float
    words: str


@dataclass(frozen=True)
class _Bars:
    bars: list[_Bar]
    most: str


def _direction(direction: Direction, reported: Comparison | None) -> dict[str, Any]:
    """What the template says of a direction."""
    figures = direction.figures
    at_receiver = figures.capture_point == "receiver"
    where = figures.place if figures.capture_point == "both" else f"the {figures.place}"
    notes = f"Captured at {where}: {figures.capture_point_why}."
    if figures.capture_point == "unknown":
        notes = "Where this was captured is unknown."
    notes += "".join(f" Not to be known from here: {words}." for words in figures.unknowable)
    has_paths = figures.transport == "mrc" and any(path.packets for path in figures.paths)
    return {
        "name": figures.name,
        "notes": notes,
        "facts": _facts(figures),
        "paths": _paths(figures.paths, figures.capture_point) if has_paths else None,
        "reported": [] if figures.reported is None else _reported(figures, figures.reported),
        "figures": _figures(direction, reported, at_receiver),
        "loss": _loss(figures.paths),
    }


def _figures(direction: Direction, reported: Comparison | None, at_receiver: bool) -> list[_Figure]:
    is_mrc = direction.figures.transport == "mrc"
    drag = "Drag to zoom, double-click for all."
    reply = "Time from packet to SACK: at the receiver, its own" if at_receiver else "Round trips"
    every = (
        _Figure(
            "sequence", "Time and sequence", f"What was sent, what came of it, and what was acknowledged when. {drag}"
        ),
        _Figure(
            "goodput",
            "Goodput per plane",
            f"Payload bytes of packets that arrived, when they were acknowledged. {_goodput_words(direction)}",
        ),
        _Figure(
            "rtt",
            reply,
            "Data packets and the SACKs they triggered: quantiles of all paths together in bins of "
            f"{measured_s_text(rtt_bin_s(direction))}, and the median of each path that is slow. "
            if is_mrc
            else "Packets that ask for an answer, and the answer. ",
        ),
        _Figure(
            "losses",
            "Loss over time",
            f"Of the data packets sent in each of the equal bins of {measured_s_text(loss_bin_s(direction))}, "
            "the share that was lost, or trimmed. A bin without packets is a gap. ",
        ),
        _Figure("loss", "Loss per path", "Share of the data packets put on a path that were lost, or trimmed. "),
        _Figure(
            "states",
            "Path states as inferred" if reported is None else "Path states, inferred and reported",
            "Darker: more of the time. Marked or trimmed: SKIP until used; lost: ASSUMED_BAD until probed or used. "
            + ("" if reported is None else "Reported: as the endpoint's trace says. "),
        ),
    )
    shown = _shown(direction, reported) | ({"loss"} if is_mrc and not at_receiver else set())
    return [each for each in every if each.name in shown]


def _goodput_words(direction: Direction) -> str:
    width_s, window = goodput_window(direction)
    if window == 1:
        return f"In bins of {measured_s_text(width_s)}."
    bins = f"{window} bins"
    return f"Line: the mean of {bins} of {measured_s_text(width_s)}. Band: the least and the most of these {bins}."


def _shown(direction: Direction, reported: Comparison | None) -> set[str]:
    shown = {"sequence", "goodput"} if len(direction.requests) else {"sequence"}
    if len(direction.fates.round_trips.ns):
        shown.add("rtt")
    if has_losses(direction):
        shown.add("losses")
    of_reported = (
        reported.requestor.paths.values() if reported and reported.requestor and reported.start_ns is not None else ()
    )
    if direction.histories or any(path.changes for path in of_reported):
        shown.add("states")
    return shown


def _facts(figures: DirectionFigures) -> Table:
    """What the tables have no column for."""
    # Where ooo_count is always 0, a responder does not fill it in.
    took, held = figures.message_time, figures.held_above_hole_max
    facts: list[list[Cell]] = [
        ["addresses", f"{', '.join(figures.source) or '?'} > {', '.join(figures.destination) or '?'}"],
        ["QPNs", f"{_qpn(figures.requestor_qpn)} > {_qpn(figures.responder_qpn)}"],
        ["SACKs, ACKs", f"{figures.sacks:,}, {figures.acks:,}"],
        ["most in flight", f"{figures.in_flight_max:,} PSNs"],
        [
            "out of order",
            f"{figures.reordered_packets:,} packets here, at most {figures.reorder_depth_max:,} PSNs late"
            + (f"; the responder held up to {held:,}" if held else ""),
        ],
        ["carried", traffic_text(figures.operations)],
        [
            "messages",
            f"{figures.messages:,}, {figures.messages_unfinished:,} unfinished; "
            f"half done in {microseconds_text(took.p50_ns)} µs, 99 % in {microseconds_text(took.p99_ns)} µs",
        ],
        [
            "of the time",
            f"{_share(figures.waiting_share)} waiting for answers, {_share(figures.idle_share)} with nothing to send",
        ],
        [
            "planes",
            "; ".join(
                f"plane {plane.plane}: {plane.packets:,} packets, {percent_text(plane.share)} of the bytes"
                for plane in figures.planes
            ),
        ],
        ["lost, noticed by", ", ".join(f"{what} {count:,}" for what, count in figures.lost_found_by.items())],
        ["NACKs, NAKs", ", ".join(f"{name} {count:,}" for name, count in (figures.nacks | figures.naks).items())],
        ["probes", f"{figures.probes_answered:,} of {figures.probes:,} answered" if figures.probes else ""],
    ]
    return Table([], [fact for fact in facts if fact[1]], 2)


def _share(share: float | None) -> str:
    return "?" if share is None else percent_text(share)


def _qpn(qpn: int | None) -> str:
    return "?" if qpn is None else f"0x{qpn:06x}"


def _lost(path: PathFigures) -> str | None:
    return None if path.lost is None else count_text(path.lost, path.loss_share)


def _paths(paths: list[PathFigures], capture_point: str) -> Table:
    at_receiver = capture_point == "receiver"
    both = any(path.one_way_later_ns is not None for path in paths)
    headings = ["EV", "route", "plane", "packets", "bytes", "lost", "trims", "of it resent", "in vain", "marks"]
    headings += ["RTT µs", "p99", *(["later µs"] if both else []), "probes", "out", "out ms", "state"]
    rows: list[list[Cell]] = []
    for path in paths:
        row: list[Cell] = [f"0x{path.ev:08x}", path.way, path.plane, path.packets, size_text(path.payload_bytes)]
        row += [_lost(path), path.trimmed, path.resent, path.resent_in_vain, path.marks]
        row += [None, None] if at_receiver else [*map(microseconds_text, (path.rtt.p50_ns, path.rtt.p99_ns))]
        row += [microseconds_text(path.one_way_later_ns, ",.1f")] if both else []
        row += [path.probes_text(capture_point)]
        row += (
            [None, None, None]
            if at_receiver
            else [path.outs, number_text(None if path.out_ns is None else path.out_ns / 1e6, ",.1f"), path.state]
        )
        rows.append(row)
    return Table(headings, rows, 2, mono=2, most=_PATHS_LISTED)


def _loss(paths: list[PathFigures]) -> dict[str, _Bars | None]:
    """Bars of what is inferred; below them, where there is a trace, bars of what it reports."""
    if all(path.reported is None for path in paths):
        return {"inferred": _bars(paths)}
    reported = [_as_reported(path, path.reported) for path in paths if path.reported is not None]
    most = max(map(_bad, [*paths, *reported]))
    return {"inferred": _bars(paths, most), "reported": _bars(reported, most)}


def _as_reported(path: PathFigures, reported: PathReported) -> PathFigures:
    return PathFigures(path.ev, path.route, path.plane, path.packets, lost=reported.lost, trimmed=reported.trimmed)


def _reported(figures: DirectionFigures, reported: DirectionReported) -> list[Table]:
    """Tables: inferred beside reported, of the direction and of its paths."""
    triggers = ", ".join(f"{name} {count:,}" for name, count in (reported.losses_by_trigger or {}).items())
    rows: list[list[Cell]] = [
        ["lost", figures.lost, reported.lost, triggers],
        ["the same transmissions", reported.lost_in_both, reported.lost_in_both, ""],
        ["trimmed", figures.trimmed, reported.trimmed, ""],
        ["refused", figures.refused, reported.refused, ""],
        ["sent again", figures.retransmissions, reported.retransmissions, ""],
        ["spurious", figures.spurious_retransmissions, reported.spurious_retransmissions, "as the requestor noticed"],
        ["came twice", None, reported.duplicates_received, "as the responder counted"],
    ]
    tables = [Table(["", "inferred", "reported", "reported in detail"], rows, 1)]
    paths = [(path, path.reported) for path in figures.paths if path.reported is not None]
    if paths:
        headings = ["EV", "lost inferred", "reported", "both", "out inferred", "reported", "state inferred", "reported"]
        of_paths: list[list[Cell]] = [
            [f"0x{path.ev:08x}", path.lost, says.lost, says.lost_in_both, path.outs, says.outs, path.state, says.state]
            for path, says in paths
        ]
        tables.append(Table(headings, of_paths, 1, mono=1, most=_PATHS_LISTED))
    return tables


def _bars(paths: list[PathFigures], full: float = 0.0) -> _Bars | None:
    """`full` is the share that fills a bar; 0 for the largest here. None where nothing was lost or trimmed."""
    used = [path for path in paths if path.packets]
    chosen = used if len(used) <= _BARS else sorted(used, key=lambda path: -_bad(path))[:_BARS]
    most = max((_bad(path) for path in chosen), default=0)
    if not most:
        return None
    most = full or most
    bars = []
    for path in chosen:
        lost, trimmed = path.lost or 0, path.trimmed
        words = f"{percent_text(_bad(path))}: {lost:,} lost" + (f", {trimmed:,} trimmed" if trimmed else "")
        whole = path.packets * most / 100
        label = path.way or f"EV 0x{path.ev:08x}"
        bars.append(_Bar(label, lost / whole, trimmed / whole, f"{words} of {path.packets:,}"))
    return _Bars(bars, percent_text(most))


def _bad(path: PathFigures) -> float:
    return ((path.lost or 0) + path.trimmed) / path.packets if path.packets else 0.0
