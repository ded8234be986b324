# SPDX-License-Identifier: BSD-2-Clause
"""Recordings made by hand, for what judges them: traffic of constant rates between moments, nothing measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mrc.drill.flow import FlowPlan
from mrc.drill.recording import EvChange, FlowRecord, Happening, PathSamples, Recording
from mrc.drill.series import ByteSeries

MS = 1_000_000
S = 1_000_000_000
T0 = 50 * S  # the clock does not begin at zero
MBIT = 1_000_000

# (until which second, Mbit/s)
Rates = Sequence[tuple[float, float]]


def at(seconds: float) -> int:
    return T0 + round(seconds * S)


def series(rates: Rates, step_ms: float = 1.0) -> ByteSeries:
    """Bytes at these rates, one after the other, sampled every `step_ms`; a rate of 0 is a stall."""
    step = round(step_ms * MS)
    times, totals = [at(0)], [0.0]
    for until, mbps in rates:
        while times[-1] < at(until):
            times.append(times[-1] + step)
            totals.append(totals[-1] + mbps * MBIT / 8 * step / S)
    return ByteSeries(times, [int(total) for total in totals])


def paths(
    planes: int, spines: int, packets_until: Sequence[tuple[float, Mapping[tuple[int, int], float]]]
) -> PathSamples:
    """A fabric's paths; `packets_until` says until which second how many packets a second each (plane, spine) gets."""
    named = [(plane, spine) for plane in range(planes) for spine in range(spines)]
    step = 5 * MS
    times, rows = [at(0)], [np.zeros(len(named))]
    for until, rate_of in packets_until:
        rate = np.array([rate_of.get(path, 0.0) for path in named])
        while times[-1] < at(until):
            times.append(times[-1] + step)
            rows.append(rows[-1] + rate * step / S)
    counts = np.array(rows).astype(np.int64)
    evs = tuple(plane << 24 | spine for plane, spine in named)
    return PathSamples(
        np.array(times), counts, np.zeros_like(counts), evs, tuple(p for p, _ in named), tuple(s for _, s in named)
    )


def flow(
    rates: Rates,
    *,
    name: str = "mrc",
    in_order: Rates | None = None,
    used: PathSamples | None = None,
    lost: Sequence[int] | None = None,
    changes: Sequence[EvChange] = (),
    counters: Mapping[str, int] | None = None,
    target: Mapping[str, Any] | None = None,
) -> FlowRecord:
    used = used or paths(1, 1, [(rates[-1][0], {(0, 0): 1000.0})])
    source = {
        "posted_writes": 10,
        "completed_writes": 10,
        "failed_writes": 0,
        "error": None,
        "counters": counters or {},
    }
    other = {"delivered_writes": 10, "wrong_bytes": 0, "misnumbered_writes": 0, "error": None, "counters": {}}
    return FlowRecord(
        plan=FlowPlan(name, "h0", "h1", 1),
        placed=series(rates),
        in_order=series(in_order or rates),
        paths=used,
        samples=[{"at_ns": at(0), "lost": list(lost or [0] * len(used.evs)), "cwnd_bytes": 100_000}],
        changes=changes,
        source=source,
        target=other | dict(target or {}),
    )


def recording(
    flows: Mapping[str, FlowRecord] | FlowRecord,
    happened: Sequence[tuple[float, str, str]],
    *,
    streams: Mapping[str, ByteSeries] | None = None,
    standstills: Sequence[tuple[int, int]] = (),
    extra: Mapping[str, Any] | None = None,
) -> Recording:
    """`happened`: (second, what, to which target), the beginning and end of flows among them."""
    named = {"mrc": flows} if isinstance(flows, FlowRecord) else flows
    events = [Happening(at(seconds), what, target) for seconds, what, target in happened]
    return Recording(named, streams or {}, events, standstills, extra or {})


def whole(
    begin: float, end: float, *between: tuple[float, str, str], name: str = "mrc"
) -> list[tuple[float, str, str]]:
    return [(begin, "begin", name), *between, (end, "end", name)]
