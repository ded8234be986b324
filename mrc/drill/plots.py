"""Plots as the papers draw them: goodput over time with what happened marked, and paths as rows over time."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mrc.drill.phases import Phase
from mrc.drill.recording import CLEAR, CUT, HEAL, IMPAIR, Happening, Recording
from mrc.drill.series import ByteSeries
from mrc.report.plots import legend
from mrc.trace.vocabulary import EV_STATES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_BIN_NS = 50_000_000
_HEADROOM = 1.2
COLOURS = {"mrc": "#0b5fa5", "mptcp": "#d9822b", "tcp": "#8a8a8a"}
_BROKEN, _MENDED = ("#b3261e", "-"), ("#2e7d32", "--")
_MARKS = {CUT: _BROKEN, HEAL: _MENDED, IMPAIR: _BROKEN, CLEAR: _MENDED}
_TOGETHER_NS = 100_000_000


def draw_goodput(
    recording: Recording,
    where: Figure | Axes,
    phases: Sequence[Phase] = (),
    together: Mapping[str, Sequence[str]] | None = None,
) -> None:
    """Goodput of each flow and stream over time, what happened, and dotted what the links that are left carry.

    In axes of its own where `where` is a figure. `together`: flows that are added up, and under which name.
    """
    axes: Any = where.add_subplot() if hasattr(where, "add_subplot") else where
    began, end = recording.began_ns, recording.ended_ns
    added = {flow for flows in (together or {}).values() for flow in flows}
    for name, flow in recording.flows.items():
        if name not in added:
            _draw_series(axes, [flow.placed], began, end, name)
    for name, flows in (together or {}).items():
        _draw_series(axes, [recording.flows[flow].placed for flow in flows], began, end, name)
    for kind, stream in recording.streams.items():
        _draw_series(axes, [stream], began, end, kind)
    if phases:
        whole = recording.main.placed.rate_bps(began + 500_000_000, phases[0].at_ns) / 1e6
        edges = [began, *(phase.at_ns for phase in phases), end]
        levels = [1.0, *(phase.capacity for phase in phases)]
        axes.stairs(
            [whole * level for level in levels],
            [(edge - began) / 1e9 for edge in edges],
            baseline=None,
            color="black",
            linestyle=":",
            linewidth=1.0,
            label="what the links carry",
        )
    mark_happenings(axes, recording, began)
    axes.set_xlabel("seconds")
    axes.set_ylabel("goodput, Mbit/s")
    axes.set_ylim(0, _HEADROOM * _highest_flow(recording, began, end))
    axes.set_xlim(0, (end - began) / 1e9)
    legend(axes)


def _highest_flow(recording: Recording, began: int, end: int) -> float:
    """The highest goodput of an MRC flow, Mbit/s. A stream of the kernel's may be above for a moment: what waited for a
    hole to close comes at once."""
    return max(float(flow.placed.rates_bps(began, end, _BIN_NS)[1].max()) for flow in recording.flows.values()) / 1e6


def _draw_series(axes: Any, series: Sequence[ByteSeries], began: int, end: int, name: str) -> None:
    rates = [each.rates_bps(began, end, _BIN_NS) for each in series]
    middles, total = rates[0][0], np.sum([rate for _, rate in rates], axis=0)
    label = name.upper() if name in COLOURS else name
    axes.plot((middles - began) / 1e9, total / 1e6, label=label, color=COLOURS.get(name), linewidth=1.3)


def mark_happenings(axes: Any, recording: Recording, began: int) -> None:
    """A line at each moment something was broken (red) or mended (green, dashed), with the first target's name."""
    mark_moments(axes, recording.happenings, began)


def mark_moments(axes: Any, happenings: Sequence[Happening], began: int, unnamed: Collection[str] = ()) -> None:
    """Mark these moments alone, without names for what is in `unnamed`."""
    last: tuple[str, int] | None = None
    for each in happenings:
        if each.what not in _MARKS:
            continue
        if last is not None and last[0] == each.what and each.at_ns - last[1] < _TOGETHER_NS:
            last = (each.what, each.at_ns)
            continue
        last = (each.what, each.at_ns)
        colour, style = _MARKS[each.what]
        at = (each.at_ns - began) / 1e9
        axes.axvline(at, color=colour, linestyle=style, linewidth=0.9)
        if each.what in unnamed:
            continue
        axes.annotate(
            f"{each.what} {each.target}",
            (at, 1.0),
            xycoords=("data", "axes fraction"),
            xytext=(2, -3),
            textcoords="offset points",
            rotation=90,
            va="top",
            fontsize=6.5,
            color=colour,
        )


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
        axes.plot(middles, mean / total * 100, label="the others, mean", color="black", linestyle=":", linewidth=1.0)
    axes.set_xlim(0, (end - began) / 1e9)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("packets, %")
    legend(axes)


_STATE_COLOURS = {"GOOD": "#7fbf7f", "SKIP": "#f2c14e", "ASSUMED_BAD": "#c0392b", "DENIED": "#555555"}


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
                [((start - began) / 1e9, (stop - start) / 1e9)], (row - 0.4, 0.8), facecolors=_STATE_COLOURS[state]
            )
            seen.add(state)
    axes.set_yticks(range(len(evs)), labels)
    axes.set_ylim(len(evs) - 0.5, -0.5)
    legend(axes, [Patch(color=_STATE_COLOURS[state], label=state) for state in EV_STATES if state in seen])


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
    axes.plot((paths.at_ns - began) / 1e6, mean, color="black", linestyle=":", label="the others, mean")
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
