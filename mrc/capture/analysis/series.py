# SPDX-License-Identifier: BSD-2-Clause
"""What the graphs of a report show, thinned out so that a page of a million packets stays small.

Lines are binned over the time of the direction; of points so many are kept, evenly. Numbers go as base64 of
little-endian arrays: a time is a 32-bit count of 2^-32 of the direction's span.
"""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import numpy.typing as npt

from mrc.capture.analysis.comparison import Comparison
from mrc.capture.analysis.direction import Direction
from mrc.capture.analysis.fabric_events import FabricEvents
from mrc.capture.analysis.fates import ARRIVED, LOST, SPURIOUS, TRIMMED
from mrc.capture.analysis.figures import PathFigures
from mrc.capture.analysis.path_states import ASSUMED_BAD, SKIP
from mrc.capture.analysis.records import NACK
from mrc.capture.analysis.reported import HOLE, LOCAL_ACK_TIMEOUT, PATH_TIMER
from mrc.capture.analysis.reported import NACK as NACKED
from mrc.capture.analysis.slow_paths import slow_by_round_trips
from mrc.capture.frames import I64, Bools

GOODPUT_BINS, RTT_BINS, LOSS_BINS, STATE_BINS = 400, 300, 100, 400
# Of the bins of goodput so many are one window: the line is its mean, the band its least and its most.
_WINDOWS = 25
DENIED = "DENIED"
PATHS_DRAWN, LANES_DRAWN, EVENTS_DRAWN = 4, 48, 400
# Of all round trips of a moment.
QUANTILES = (("p50", 0.5), ("p90", 0.9), ("p99", 0.99))

# Marks that are conclusions; the others are packets as they were captured.
INFERRED = ("lost", "trimmed", "spurious retransmission")
TRIGGERS = (HOLE, PATH_TIMER, LOCAL_ACK_TIMEOUT, NACKED, "other")

Values = npt.NDArray[Any]


def series(
    direction: Direction, most_points: int, reported: Comparison | None = None, events: FabricEvents | None = None
) -> dict[str, Any]:
    """Make the graphs of one direction, with about `most_points` points in the graph of time and sequence.

    With `reported`, what the requestor's trace reports lies over what is inferred. A `label` says which is which.
    `events` are marked in all graphs.
    """
    scale = _Scale(direction)
    return {
        "start_s": scale.start / 1e9,
        "span_s": scale.span / 1e9,
        "sequence": _sequence(direction, scale, most_points, reported),
        "goodput": _goodput(direction, scale),
        "rtt": _rtt(direction, scale),
        "losses": _losses(direction, scale),
        "states": _states(direction, scale, reported),
        "events": _events(scale, events),
    }


class _Scale:
    """The time of a direction, from its first packet to its last."""

    def __init__(self, direction: Direction) -> None:
        times = [rows["time"] for rows in (direction.requests, direction.answers) if len(rows)]
        self.start = min((int(each[0]) for each in times), default=0)
        self.span = max(1, max((int(each[-1]) for each in times), default=0) - self.start)

    def packed(self, time: I64) -> str:
        return _packed((time - self.start) / self.span * 0xFFFFFFFF, "<u4")

    def bins(self, time: I64, count: int) -> I64:
        return np.clip((time - self.start) * count // self.span, 0, count - 1)


def _events(scale: _Scale, events: FabricEvents | None) -> list[dict[str, Any]]:
    """What was done to the fabric while the direction was busy; of too many, as many as are drawn, evenly."""
    begin, end = scale.start, scale.start + scale.span
    within = [] if events is None else [(time, each) for time, each in events.meanwhile if begin <= time <= end]
    return [
        {
            "x": within[index][0] / 1e9,
            "event": within[index][1].event,
            "label": f"{within[index][1].event} {within[index][1].target}",
            "text": within[index][1].words,
        }
        for index in _thinned(len(within), EVENTS_DRAWN)
    ]


def _packed(values: Values, kind: str) -> str:
    return base64.b64encode(np.clip(values, 0, 0xFFFFFFFF).astype(kind).tobytes()).decode()


def _thinned(count: int, most: int) -> I64:
    return np.arange(count) if count <= most else np.linspace(0, count - 1, most).astype(np.int64)


def _sequence(direction: Direction, scale: _Scale, most: int, reported: Comparison | None) -> list[dict[str, Any]]:
    known, answers = direction.fates, direction.answers
    requests, seqs = known.requests, known.acknowledged.seqs
    edges = known.acknowledged.edge
    base = int(min((each[0] for each in (requests["seq"], edges) if len(each)), default=0))

    def points(name: str, time: I64, seq: I64, share: float, numbers: I64 | None = None) -> None:
        order = np.argsort(time, kind="stable")
        chosen = order[_thinned(len(order), int(most * share))]
        if not len(chosen):
            return
        entry = {
            "name": name,
            "x": scale.packed(time[chosen]),
            "y": _packed(seq[chosen] - base, "<u4"),
            "count": len(order),
        }
        if numbers is not None:
            entry["n"] = _packed(numbers[chosen], "<u4")
        made.append(entry)

    def chosen(name: str, which: Bools, share: float) -> None:
        rows = requests[which]
        points(name, rows["time"], rows["seq"], share, rows["number"])

    made: list[dict[str, Any]] = []
    resent = ~known.first | requests["rtx"]
    chosen("sent", ~resent, 0.4)
    at, passed = known.acknowledged.at, known.acknowledged.edge_passed(seqs)
    early = at < passed
    points("selectively acknowledged", at[early], seqs[early], 0.1)
    points("cumulatively acknowledged", known.acknowledged.edge_time, edges, 0.15)
    chosen("lost", known.are(LOST), 0.1)
    chosen("trimmed", known.are(TRIMMED), 0.05)
    chosen("sent again", resent & ~known.are(SPURIOUS), 0.1)
    chosen("spurious retransmission", known.are(SPURIOUS), 0.05)
    refusals = answers[answers["kind"] == NACK]
    points("NACK", refusals["time"], refusals["trigger"], 0.05, refusals["number"])
    if reported is None or reported.requestor is None:
        return made
    for line in made:
        if line["name"] in INFERRED:
            line["label"] = f"{line['name']} (inferred)"

    def overlaid(name: str, label: str, transmissions: I64, share: float) -> None:
        rows = requests[transmissions]
        before = len(made)
        points(name, rows["time"], rows["seq"], share, rows["number"])
        for line in made[before:]:
            line["label"] = label

    triggers = np.array([_trigger(each.trigger) for each in reported.requestor.losses])
    for trigger in TRIGGERS:
        which = reported.transmission[(triggers == trigger) & (reported.transmission >= 0)]
        overlaid(f"reported {trigger}", f"lost (reported: {trigger})", which, 0.05)
    overlaid("reported spurious", "spurious retransmission (reported)", reported.spurious, 0.05)
    return made


def _trigger(name: str) -> str:
    name = name.partition(":")[0]
    return name if name in TRIGGERS else "other"


def _goodput(direction: Direction, scale: _Scale) -> list[dict[str, Any]]:
    known = direction.fates
    arrived = known.are(ARRIVED)
    requests, at = known.requests[arrived], known.delivered_at[arrived]
    count = _goodput_bins(direction)
    plane_of = {ev: -1 if plane is None else plane for ev, plane in direction.planes.items()}
    evs, where = np.unique(requests["ev"], return_inverse=True)
    plane = np.array([plane_of.get(ev, -1) for ev in evs.tolist()], np.int64)[where] if len(evs) else where
    width_ns = scale.span / count
    bins = scale.bins(at, count)

    def line(name: str, which: Bools) -> dict[str, Any]:
        raw = np.bincount(bins[which], requests["payload"][which], minlength=count) * 8 / width_ns
        mean, least, most = _smoothed(raw, _window(count))
        return {"name": name, "y": _packed(mean, "<f4"), "low": _packed(least, "<f4"), "high": _packed(most, "<f4")}

    planes = sorted(set(plane.tolist()))
    made = [line(f"plane {number}" if number >= 0 else "all", plane == number) for number in planes]
    return [*made, line("all planes", plane >= -1)] if len(planes) > 1 else made


def _goodput_bins(direction: Direction) -> int:
    return min(GOODPUT_BINS, max(1, int(direction.fates.are(ARRIVED).sum()) // 4))


def _window(bins: int) -> int:
    """An odd number of bins."""
    return max(1, bins // _WINDOWS) | 1


def goodput_window(direction: Direction) -> tuple[float, int]:
    """(seconds of a bin, bins of a window) of the graph of goodput."""
    count = _goodput_bins(direction)
    return _Scale(direction).span / 1e9 / count, _window(count)


def rtt_bin_s(direction: Direction) -> float:
    """Seconds of a bin of the graph of round trips."""
    return _Scale(direction).span / 1e9 / _rtt_bins(direction)


def _rtt_bins(direction: Direction) -> int:
    return min(RTT_BINS, max(1, len(direction.fates.round_trips.ns) // 4))


def _smoothed(raw: Values, window: int) -> tuple[Values, Values, Values]:
    """The mean, the least and the most of the bins within a window around each; at both ends of those there are."""
    half = window // 2
    beyond = np.pad(raw.astype(np.float64), half, constant_values=np.nan)
    around = np.lib.stride_tricks.sliding_window_view(beyond, window)
    return np.nanmean(around, axis=1), np.nanmin(around, axis=1), np.nanmax(around, axis=1)


def _slowest(paths: list[PathFigures]) -> list[PathFigures]:
    """Those whose round trips are slow, the slowest first, as many as are drawn."""
    slow = [path for path, _ in slow_by_round_trips(paths)]
    return sorted(slow, key=lambda path: -(path.rtt.p50_ns or 0))[:PATHS_DRAWN]


def _rtt(direction: Direction, scale: _Scale) -> list[dict[str, Any]]:
    """Quantiles of all round trips, and the medians of paths that are slow: paths alike would be a tangle of lines."""
    trips = direction.fates.round_trips
    if not len(trips.ns):
        return []
    count = _rtt_bins(direction)
    bins = scale.bins(trips.time, count)
    everything = np.ones(len(bins), np.bool_)
    made = [_quantile(name, share, everything, bins, trips.ns, count) for name, share in QUANTILES]
    ev = direction.fates.requests["ev"][trips.transmission]
    made += [
        _quantile(f"p50 of {_label(path)}", 0.5, ev == path.ev, bins, trips.ns, count)
        for path in _slowest(direction.figures.paths)
    ]
    return made


def _quantile(name: str, share: float, which: Bools, bins: I64, ns: I64, count: int) -> dict[str, Any]:
    """The quantile of each bin in microseconds, NaN for an empty one."""
    order = np.lexsort((ns[which], bins[which]))
    sorted_ns, sorted_bins = ns[which][order], bins[which][order]
    begins = np.searchsorted(sorted_bins, np.arange(count), "left")
    ends = np.searchsorted(sorted_bins, np.arange(count), "right")
    place = begins + ((ends - begins) * share).astype(np.int64)
    values = sorted_ns[np.minimum(place, np.maximum(ends - 1, 0))] / 1e3
    octets = np.where(ends > begins, values, np.nan).astype("<f4").tobytes()
    return {"name": name, "y": base64.b64encode(octets).decode()}


def loss_bin_s(direction: Direction) -> float:
    """Seconds of a bin of the graph of losses."""
    return _Scale(direction).span / 1e9 / _loss_bins(direction)


def _loss_bins(direction: Direction) -> int:
    return min(LOSS_BINS, max(1, len(direction.fates.requests) // 20))


def has_losses(direction: Direction) -> bool:
    """Whether anything was lost or trimmed, as far as can be known where this was captured."""
    known = direction.fates
    can_tell = direction.figures.capture_point != "receiver" and direction.figures.transport == "mrc"
    return can_tell and bool((known.are(LOST) | known.are(TRIMMED)).any())


def _losses(direction: Direction, scale: _Scale) -> list[dict[str, Any]]:
    """Of the data packets sent in each bin how many percent were lost, and trimmed; NaN where none was sent."""
    if not has_losses(direction):
        return []
    known, count = direction.fates, _loss_bins(direction)
    bins = scale.bins(known.requests["time"], count)
    sent = np.bincount(bins, minlength=count)
    made = []
    for name, which in (("lost", known.are(LOST)), ("trimmed", known.are(TRIMMED))):
        if which.any():
            share = np.bincount(bins[which], minlength=count) * 100 / np.maximum(sent, 1)
            octets = np.where(sent > 0, share, np.nan).astype("<f4").tobytes()
            made.append({"name": name, "y": base64.b64encode(octets).decode()})
    return made


def _states(direction: Direction, scale: _Scale, reported: Comparison | None) -> list[dict[str, Any]]:
    """Return for each path the share of each bin that it spent in ASSUMED_BAD (or DENIED) and in SKIP, 0 to 255.

    Where the requestor's trace and the capture share a clock, the reported lane of a path lies below the inferred one.
    """
    reported_paths = reported.requestor.paths if reported is not None and reported.requestor is not None else {}
    start_ns = reported.start_ns if reported is not None else None
    with_reported = {ev for ev, path in reported_paths.items() if path.changes} if start_ns is not None else set()
    paths = [path for path in direction.figures.paths if path.ev in direction.histories or path.ev in with_reported]
    paths.sort(key=lambda path: (-(path.outs or 0), -path.marks))
    made = []
    most = LANES_DRAWN // 2 if with_reported else LANES_DRAWN
    for path in sorted(paths[:most], key=lambda path: path.ev):
        history = direction.histories.get(path.ev)
        inferred = [(each.time, each.state) for each in history.changes] if history is not None else []
        name = _label(path)
        made.append({"name": f"{name} (inferred)" if with_reported else name, **_lane(inferred, scale)})
        if with_reported and start_ns is not None:
            changes = reported_paths[path.ev].changes if path.ev in reported_paths else []
            lane = _lane([(time - start_ns, new) for time, _, new, _ in changes], scale)
            made.append({"name": f"{name} (reported)", **lane})
    return made


def _lane(changes: list[tuple[int, str]], scale: _Scale) -> dict[str, Any]:
    time = np.array([time for time, _ in changes], np.int64)
    until = np.append(time[1:], scale.start + scale.span)
    lane: dict[str, Any] = {}
    for key, states in (("bad", (ASSUMED_BAD, DENIED)), ("skip", (SKIP,))):
        of_state = np.array([state in states for _, state in changes], np.bool_)
        lane[key] = _packed(_shares(time[of_state], until[of_state], scale), "u1")
    return lane


def _shares(begin: I64, end: I64, scale: _Scale) -> Values:
    """How much of each bin these spans cover, 0 to 255; any at all shows."""
    edges = scale.start + np.arange(STATE_BINS + 1) * scale.span / STATE_BINS
    order = np.argsort(begin)
    begin, end = begin[order].astype(np.float64), np.maximum(end, begin)[order].astype(np.float64)
    whole = np.append(0.0, np.cumsum(end - begin))
    if not len(begin):
        return np.zeros(STATE_BINS)
    # Time covered up to each edge: the spans do not overlap.
    index = np.searchsorted(begin, edges, "right")
    partly = np.maximum(0.0, end[np.maximum(index - 1, 0)] - edges) * (index > 0)
    covered = np.diff(whole[index] - partly)
    share = covered / (scale.span / STATE_BINS)
    # A bin covered wholly may come out a hair above 1.
    return np.where(covered > 0, np.clip(np.ceil(share * 255), 24, 255), 0)


def _label(path: PathFigures) -> str:
    return f"{path.route} 0x{path.ev:08x}" if path.route and not path.route.startswith("EV=") else f"EV 0x{path.ev:08x}"
