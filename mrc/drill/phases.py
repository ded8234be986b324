# SPDX-License-Identifier: BSD-2-Clause
"""Figures of failures and repairs: what is left after each, how soon, and how soon it is all back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mrc.drill.drill import PAYLOAD_SHARE, Figures
from mrc.drill.recording import BEGIN, CUT, END, HEAL, Happening, Recording
from mrc.drill.series import ByteSeries
from mrc.errors import CallerError

MS = 1_000_000
SETTLED_NS = 500 * MS  # from the first write on until goodput counts as that of the whole fabric
RECOVERY_NS = 100 * MS  # within which a failure is to be got over
RESTORATION_NS = 1000 * MS  # within which what was repaired is to be in use again
TOLERANCE = 0.95  # of what the links that are left carry
_RECOVERY_WINDOW_NS = 50 * MS
_ONE_MOMENT_NS = 100 * MS
_RESTORATION_WINDOW_NS = 100 * MS


@dataclass(frozen=True, slots=True)
class Phase:
    """From `at_ns` until `until_ns` the fabric could carry `capacity` (0..1) of what it does when whole."""

    at_ns: int
    until_ns: int
    capacity: float


def phases_of(recording: Recording, capacities: Sequence[float]) -> list[Phase]:
    """The recording divided at each moment something was cut or healed (several at once are one moment).

    `capacities` are those after each. Raises CallerError for another number of moments.
    """
    moments: list[int] = []
    last: Happening | None = None
    for each in recording.happenings:
        if each.what not in (CUT, HEAL):
            continue
        if last is None or each.what != last.what or each.at_ns - last.at_ns > _ONE_MOMENT_NS:
            moments.append(each.at_ns)
        last = each
    if len(moments) != len(capacities):
        raise CallerError(f"{len(moments)} failures and repairs were recorded, {len(capacities)} were expected")
    edges = [*moments, recording.time(END)]
    return [Phase(at, until, capacity) for at, until, capacity in zip(edges[:-1], edges[1:], capacities, strict=True)]


def whole_rate_bps(recording: Recording) -> float:
    """Goodput of the main flow before the first failure."""
    first = min(each.at_ns for each in recording.happenings if each.what == CUT)
    return recording.main.placed.rate_bps(recording.time(BEGIN) + SETTLED_NS, first)


def before_figures(recording: Recording, links_bps: float) -> Figures:
    """Goodput of the main flow before the first failure, where the links of its host carry `links_bps`."""
    whole = whole_rate_bps(recording)
    return {"goodput_whole_mbps": whole / 1e6, "share_of_links_before": whole / (links_bps * PAYLOAD_SHARE)}


def phase_figures(recording: Recording, phases: Sequence[Phase], links_bps: float) -> Figures:
    """For the main flow, over all phases; a share is of what the capacity leaves of the goodput before the failure."""
    placed = recording.main.placed
    whole = whole_rate_bps(recording)
    kept: list[float] = []
    recoveries: list[float | None] = []
    restorations: list[float | None] = []
    before = 1.0
    for phase in phases:
        wanted = TOLERANCE * phase.capacity * whole
        if phase.capacity <= before and phase.capacity < 1:
            kept.append(placed.rate_bps(phase.at_ns + RECOVERY_NS, phase.until_ns) / (phase.capacity * whole))
            recoveries.append(_reached_ms(placed, phase, wanted, _RECOVERY_WINDOW_NS))
        else:
            restorations.append(_reached_ms(placed, phase, wanted, _RESTORATION_WINDOW_NS))
        before = phase.capacity
    last = phases[-1]
    return before_figures(recording, links_bps) | {
        "least_share_kept": min(kept, default=None),
        "slowest_recovery_ms": _slowest(recoveries),
        "slowest_restoration_ms": _slowest(restorations),
        "share_restored": placed.rate_bps(last.at_ns + RESTORATION_NS, last.until_ns) / whole,
    }


def _reached_ms(placed: ByteSeries, phase: Phase, rate_bps: float, width_ns: int) -> float | None:
    after = placed.reached_after_ns(phase.at_ns, phase.until_ns, rate_bps, width_ns)
    return None if after is None else after / MS


def _slowest(times: Sequence[float | None]) -> float | None:
    """None when one was never reached, or there is none."""
    known = [time for time in times if time is not None]
    return max(known) if known and len(known) == len(times) else None


def stall_figures(recording: Recording) -> Figures:
    """How long each transport brought no byte in order, from the first cut until the end of the recording."""
    cut, end = recording.time(CUT), recording.time(END)
    stalls: Figures = {"mrc_stall_ms": recording.main.in_order.longest_stall_ns(cut, end) / MS}
    for kind, series in recording.streams.items():
        stalls[f"{kind}_stall_ms"] = series.longest_stall_ns(cut, end) / MS
    return stalls
