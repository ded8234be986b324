# SPDX-License-Identifier: BSD-2-Clause
"""A flow that starts on a fabric a tenth of whose paths are dead already, beside one that started when all was well."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mrc.drill.drill import PAYLOAD_SHARE, Drill, Figures
from mrc.drill.flow import FlowPlan
from mrc.drill.phases import MS, RECOVERY_NS
from mrc.drill.plots import draw_dead_paths, draw_starts
from mrc.drill.recording import BEGIN, CUT, END, FlowRecord, Recording
from mrc.drill.stage import Stage
from mrc.fabric import Clos
from mrc.report.expectations import at_least, at_most, exactly
from mrc.wire.usid import ev_of_path

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PLANES, SPINES = 4, 10
DEAD = PLANES * SPINES // 10
HOST_RATE_BPS = 30_000_000
FIRST_BYTES = 4 << 20
WHOLE, HURT = "all paths whole", "a tenth dead"
_FLOW_S, _PAUSE_S = 1.5, 0.5


def _perform(stage: Stage) -> None:
    stage.limit_hosts(rate_bps=HOST_RATE_BPS, queue_bytes=500_000)
    plans = [
        FlowPlan(name, "h0", "h1", stage.seed, line_rate_bps=PLANES * HOST_RATE_BPS, max_cwnd_packets=72)
        for name in (WHOLE, HURT)
    ]
    stage.open(plans)
    stage.begin(WHOLE)
    stage.until(_FLOW_S)
    stage.end(WHOLE)
    stage.until(_FLOW_S + _PAUSE_S / 2)
    random = np.random.default_rng(stage.seed)
    for plane, spine in enumerate(random.choice(SPINES, DEAD).tolist()):
        stage.cut(f"p{plane}l0-p{plane}s{spine}")
    stage.until(_FLOW_S + _PAUSE_S)
    stage.begin(HURT)
    stage.until(2 * _FLOW_S + _PAUSE_S)


def dead_evs(recording: Recording) -> list[int]:
    """The EVs over the cables that were cut."""
    ends = [each.target.rpartition("-")[2][1:].partition("s") for each in recording.happenings if each.what == CUT]
    return [ev_of_path(int(plane), int(spine)) for plane, _, spine in ends]


def first_bytes_ms(flow: FlowRecord, began_ns: int) -> float | None:
    """From a flow's start until `FIRST_BYTES` are there without a gap."""
    there = np.flatnonzero(flow.in_order.total >= FIRST_BYTES)
    return (int(flow.in_order.at_ns[there[0]]) - began_ns) / MS if len(there) else None


def _measure(recording: Recording) -> Figures:
    whole, hurt = recording.flows[WHOLE], recording.flows[HURT]
    whole_began, hurt_began = recording.time(BEGIN, WHOLE), recording.time(BEGIN, HURT)
    whole_end, hurt_end = recording.time(END, WHOLE), recording.time(END, HURT)
    usual = whole.placed.rate_bps(whole_began + RECOVERY_NS, whole_end)
    took, wants = first_bytes_ms(hurt, hurt_began), first_bytes_ms(whole, whole_began)
    return {
        "goodput_whole_mbps": usual / 1e6,
        "share_of_links_before": usual / (PLANES * HOST_RATE_BPS * PAYLOAD_SHARE),
        "first_4mib_whole_ms": wants,
        "first_4mib_hurt_ms": took,
        "slowdown_of_first_4mib": None if took is None or wants is None else took / wants,
        "dead_paths": len(dead_evs(recording)),
        "latest_use_of_a_dead_path_ms": _latest_use_ms(recording, hurt_began),
        "share_kept": hurt.placed.rate_bps(hurt_began + RECOVERY_NS, hurt_end) / usual,
        "local_ack_timeouts": hurt.count("local_ack_timeouts"),
    }


def _latest_use_ms(recording: Recording, began_ns: int) -> float:
    """From the start until the last packet on a path that was dead. Samples are 5 ms apart."""
    paths = recording.flows[HURT].paths
    latest = 0.0
    for ev in dead_evs(recording):
        counts = paths.packets[:, paths.column(ev)]
        still = paths.at_ns[counts < counts[-1]]
        latest = max(latest, (int(still[-1]) - began_ns) / MS if len(still) else 0.0)
    return latest


def _draw(recording: Recording, figure: Figure) -> None:
    starts, dead = figure.subplots(2, 1, sharex=True)
    draw_starts(starts, recording, (WHOLE, HURT))
    draw_dead_paths(dead, recording, HURT, dead_evs(recording))


STARTUP = Drill(
    name="startup",
    summary="a tenth of the paths is dead before a flow's first packet",
    shape=Clos(planes=PLANES, spines=SPINES),
    seconds=2 * _FLOW_S + _PAUSE_S,
    perform=_perform,
    measure=_measure,
    draw=_draw,
    expectations=(
        exactly("dead_paths", DEAD, "one in each plane, of ten"),
        at_most("latest_use_of_a_dead_path_ms", 200, "from the first packet until no dead path gets data any more"),
        at_most("slowdown_of_first_4mib", 1.5, "of the time the first 4 MiB take where nothing is dead"),
        at_least("share_kept", 0.95, "of the goodput where nothing is dead, from 100 ms after the first packet on"),
        exactly("local_ack_timeouts", 0, "no loss had to wait for a coarse timer"),
    ),
)
