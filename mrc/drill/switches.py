# SPDX-License-Identifier: BSD-2-Clause
"""Drills that break whole switches: a leaf, which takes a plane with it, and one spine of eight."""

from __future__ import annotations

from mrc.drill.drill import Drill, Figures
from mrc.drill.host_links import EXPECTED
from mrc.drill.phases import (
    RECOVERY_NS,
    RESTORATION_NS,
    Phase,
    before_figures,
    phase_figures,
    phases_of,
    stall_figures,
    whole_rate_bps,
)
from mrc.drill.plots import draw_goodput
from mrc.drill.recording import Recording
from mrc.drill.rivals import HOSTS_PER_LEAF, set_up
from mrc.drill.stage import Stage
from mrc.fabric import Clos
from mrc.report.expectations import at_least, at_most

_FAIL_AT_S, _HEAL_AT_S, _SECONDS = 2.0, 4.0, 6.0


def _fail(stage: Stage, switch: str, host_rate_bps: int) -> None:
    set_up(stage, host_rate_bps, spine=switch if switch in stage.lab.topology.spine_switches else None)
    stage.begin(stream_seconds=_SECONDS)
    stage.until(_FAIL_AT_S)
    stage.cut(switch)
    stage.until(_HEAL_AT_S)
    stage.heal(switch)
    stage.until(_SECONDS)


# ---------------------------------------------------------------------- a leaf

_LEAF = "p0l1"
_LEAF_PLANES = 4
_LEAF_RATE_BPS = 30_000_000


def _leaf_phases(recording: Recording) -> list[Phase]:
    return phases_of(recording, [(_LEAF_PLANES - 1) / _LEAF_PLANES, 1.0])


def _leaf_figures(recording: Recording) -> Figures:
    return phase_figures(recording, _leaf_phases(recording), _LEAF_PLANES * _LEAF_RATE_BPS) | stall_figures(recording)


LEAF_FAIL = Drill(
    name="leaf-fail",
    summary="the leaf of the target's port in one plane of four dies, and comes back",
    shape=Clos(planes=_LEAF_PLANES, spines=2, hosts_per_leaf=HOSTS_PER_LEAF),
    seconds=_SECONDS,
    perform=lambda stage: _fail(stage, _LEAF, _LEAF_RATE_BPS),
    measure=_leaf_figures,
    draw=lambda recording, figure: draw_goodput(recording, figure, _leaf_phases(recording)),
    expectations=EXPECTED,
)

# ---------------------------------------------------------------------- a spine

_SPINE = "p0s0"
_SPINES = 8
_SPINE_PLANES = 2
_SPINE_RATE_BPS = 60_000_000


def _spine_phases(recording: Recording) -> list[Phase]:
    return phases_of(recording, [1.0, 1.0])


def _spine_figures(recording: Recording) -> Figures:
    failed, healed = _spine_phases(recording)
    placed, whole = recording.main.placed, whole_rate_bps(recording)
    return {
        **before_figures(recording, _SPINE_PLANES * _SPINE_RATE_BPS),
        "share_lost": 1 - placed.rate_bps(failed.at_ns + RECOVERY_NS, failed.until_ns) / whole,
        "share_restored": placed.rate_bps(healed.at_ns + RESTORATION_NS, healed.until_ns) / whole,
        **stall_figures(recording),
    }


SPINE_FAIL = Drill(
    name="spine-fail",
    summary="one spine of eight in one plane of two dies, and comes back",
    shape=Clos(planes=_SPINE_PLANES, spines=_SPINES, hosts_per_leaf=HOSTS_PER_LEAF),
    seconds=_SECONDS,
    perform=lambda stage: _fail(stage, _SPINE, _SPINE_RATE_BPS),
    measure=_spine_figures,
    draw=lambda recording, figure: draw_goodput(recording, figure, _spine_phases(recording)),
    expectations=(
        at_most("share_lost", 0.02, "of the goodput, from 100 ms after the failure on"),
        at_least("share_restored", 0.95, "from 1 s after the repair on, of the goodput before the failure"),
        at_most("mrc_stall_ms", 100, "the longest time without a byte in order"),
    ),
)
