# SPDX-License-Identifier: BSD-2-Clause
"""Plots as the papers draw them: goodput over time with what happened marked, and paths as rows over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mrc.drill.moments import mark_moments
from mrc.drill.phases import Phase
from mrc.drill.recording import BEGIN, END, Recording
from mrc.drill.series import ByteSeries
from mrc.report import palette
from mrc.report.plots import legend
from mrc.trace.vocabulary import EV_STATES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_BIN_NS = 50_000_000
_HEADROOM = 1.2
# What is above the limit of the plot by less is the wobble of bins, not a burst.
_ABOVE = 1.05


def draw_goodput(
    recording: Recording,
    where: Figure | Axes,
    phases: Sequence[Phase] = (),
    together: Mapping[str, Sequence[str]] | None = None,
) -> None:
    """Draw the goodput of each flow and stream over time, and dotted what the links that are left carry.

    In axes of its own where `where` is a figure; then what happened is named above them. `together`: flows that are
    added up, and under which name. A kernel's stream is drawn up to what the links carry, with a triangle where it was
    above for a moment and a note of how far: what waited for a hole to close comes at once.
    """
    alone = hasattr(where, "add_subplot")
    axes: Any = where.add_subplot() if hasattr(where, "add_subplot") else where
    began, end = recording.began_ns, recording.ended_ns
    added = {flow for flows in (together or {}).values() for flow in flows}
    carried = _carried(recording, phases)
    for name, flow in recording.flows.items():
        if name not in added:
            _draw_series(axes, [flow.placed], began, end, name)
    for name, flows in (together or {}).items():
        _draw_series(axes, [recording.flows[flow].placed for flow in flows], began, end, name)
    if phases:
        edges = [began, *(phase.at_ns for phase in phases), end]
        levels = [1.0, *(phase.capacity for phase in phases)]
        axes.stairs(
            [carried * level for level in levels],
            [(edge - began) / 1e9 for edge in edges],
            baseline=None,
            color=palette.BLACK,
            linestyle=":",
            linewidth=1.0,
            label="what the links carry",
        )
    clipped = [_draw_series(axes, [stream], began, end, kind, carried) for kind, stream in recording.streams.items()]
    axes.set_xlabel("seconds")
    axes.set_ylabel("goodput, Mbit/s")
    axes.set_ylim(0, _HEADROOM * _highest_flow(recording, began, end))
    axes.set_xlim(0, (end - began) / 1e9)
    _note_clipped(axes, list(filter(None, clipped)))
    legend(axes)
    if alone:
        mark_moments([axes], recording.happenings, began)


def _carried(recording: Recording, phases: Sequence[Phase]) -> float:
    """What the links carry while all are up, Mbit/s: the goodput of the first flow before anything is done to them."""
    began, end = recording.began_ns, recording.ended_ns
    done = [each.at_ns for each in recording.happenings if each.what not in (BEGIN, END) and each.at_ns > began]
    first = phases[0].at_ns if phases else min(done, default=end)
    return recording.main.placed.rate_bps(min(began + 500_000_000, (began + first) // 2), first) / 1e6


def _highest_flow(recording: Recording, began: int, end: int) -> float:
    """The highest goodput of an MRC flow, Mbit/s."""
    return max(float(flow.placed.rates_bps(began, end, _BIN_NS)[1].max()) for flow in recording.flows.values()) / 1e6


def _draw_series(
    axes: Any, series: Sequence[ByteSeries], began: int, end: int, name: str, limit: float | None = None
) -> str | None:
    """Draw a line, up to `limit` Mbit/s. Return a note where it was clipped."""
    rates = [each.rates_bps(began, end, _BIN_NS) for each in series]
    seconds, total = (rates[0][0] - began) / 1e9, np.sum([rate for _, rate in rates], axis=0) / 1e6
    colour = palette.TRANSPORTS.get(name)
    label = name.upper() if name in palette.TRANSPORTS else name
    shown = total if limit is None else np.minimum(total, limit)
    axes.plot(seconds, shown, label=label, color=colour, linewidth=1.3)
    above = np.zeros(len(total), np.bool_) if limit is None else total > _ABOVE * limit
    if limit is None or not above.any():
        return None
    at = np.full(int(above.sum()), limit)
    axes.plot(seconds[above], at, linestyle="none", marker="^", markersize=4.5, color=colour, clip_on=False)
    return f"{label} {total.max():,.0f} Mbit/s"


def _note_clipped(axes: Any, clipped: Sequence[str]) -> None:
    if clipped:
        words = "triangles: clipped where bytes that had waited behind a hole came at once, at most "
        place = {"xycoords": "axes fraction", "textcoords": "offset points", "xytext": (0, -35)}
        axes.annotate(words + ", ".join(clipped), (1.0, 0.0), **place, ha="right", va="top", fontsize=7)


def draw_path_shares(
    axes: Any, recording: Recording, flow: str, evs: Sequence[int], labels: Sequence[str], rest: Sequence[int] = ()
) -> None:
    """Of a flow's packets the share on each of some EVs over time, and the mean of those on the `rest`."""
    paths = recording.flows[flow].paths
    began, end = recording.began_ns, recording.ended_ns
    edges = np.arange(began, end + 1, _BIN_NS)
    counts = np.array([np.interp(edges, paths.at_ns, paths.packets[:, c]) for c in range(len(paths.evs))])
    sent = np.diff(counts, axis=1)
    total = np.maximum(sent.sum(axis=0), 1e-9)
    middles = (edges[:-1] + _BIN_NS / 2 - began) / 1e9
    for ev, label in zip(evs, labels, strict=True):
        axes.plot(middles, sent[paths.column(ev)] / total * 100, label=label, linewidth=1.2)
    if rest:
        mean = sent[[paths.column(ev) for ev in rest]].mean(axis=0)
        axes.plot(
            middles, mean / total * 100, label="the others, mean", color=palette.BLACK, linestyle=":", linewidth=1.0
        )
    axes.set_xlim(0, (end - began) / 1e9)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("packets, %")
    legend(axes)


def draw_states(axes: Any, recording: Recording, flow: str, evs: Sequence[int], labels: Sequence[str]) -> None:
    """The states of some EVs of a flow as bars over time, an EV a row."""
    from matplotlib.patches import Patch

    record = recording.flows[flow]
    began, end = recording.began_ns, recording.ended_ns
    seen = set()
    for row, ev in enumerate(evs):
        edges, states = [began], ["GOOD"]
        for change in record.changes:
            if change.ev == ev and began <= change.at_ns < end:
                edges.append(change.at_ns)
                states.append(change.new)
        edges.append(end)
        for start, stop, state in zip(edges[:-1], edges[1:], states, strict=True):
            axes.broken_barh(
                [((start - began) / 1e9, (stop - start) / 1e9)], (row - 0.4, 0.8), facecolors=palette.EV_STATES[state]
            )
            seen.add(state)
    axes.set_yticks(range(len(evs)), labels)
    axes.set_ylim(len(evs) - 0.5, -0.5)
    legend(axes, [Patch(color=palette.EV_STATES[state], label=state) for state in EV_STATES if state in seen])


def draw_starts(axes: Any, recording: Recording, flows: Sequence[str]) -> None:
    """Bytes in order since each flow's own start."""
    for name in flows:
        series = recording.flows[name].in_order
        began, end = recording.time("begin", name), recording.time("end", name)
        at = np.arange(began, end, 2_000_000)
        axes.plot((at - began) / 1e6, series.bytes_at(at) / (1 << 20), label=name, linewidth=1.3)
    axes.set_ylabel("MiB in order")
    axes.set_xlim(0, 500)
    axes.set_ylim(0, 8)
    legend(axes)


def draw_dead_paths(axes: Any, recording: Recording, flow: str, evs: Sequence[int]) -> None:
    """Packets put on some EVs since the flow's start."""
    paths = recording.flows[flow].paths
    began = recording.time("begin", flow)
    for ev in evs:
        axes.plot((paths.at_ns - began) / 1e6, paths.packets[:, paths.column(ev)], label=f"dead EV {ev:#010x}")
    alive = [column for column, ev in enumerate(paths.evs) if ev not in evs]
    mean = paths.packets[:, alive].mean(axis=1)
    axes.plot((paths.at_ns - began) / 1e6, mean, color=palette.BLACK, linestyle=":", label="the others, mean")
    axes.set_xlabel("ms since the first packet")
    axes.set_ylabel("packets put on it")
    axes.set_ylim(0, 30)
    legend(axes)


def draw_windows(axes: Any, recording: Recording, flows: Sequence[str]) -> None:
    """The congestion windows of some flows over time."""
    began = recording.began_ns
    for name in flows:
        samples = recording.flows[name].samples
        at = [(sample["at_ns"] - began) / 1e9 for sample in samples]
        axes.plot(at, [sample["cwnd_bytes"] / 1000 for sample in samples], label=name, linewidth=0.8)
    axes.set_xlabel("seconds")
    axes.set_ylabel("window, kB")
    axes.set_ylim(bottom=0)
    legend(axes, size=7)
