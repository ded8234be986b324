# SPDX-License-Identifier: BSD-2-Clause
"""Drills that break single cables between leaves and spines. The fabric has room: nothing need be lost for long."""

from __future__ import annotations

import random

from mrc.drill.drill import Drill, Figures
from mrc.drill.phases import (
    MS,
    RECOVERY_NS,
    RESTORATION_NS,
    before_figures,
    phases_of,
    stall_figures,
    whole_rate_bps,
)
from mrc.drill.plots import draw_goodput
from mrc.drill.recording import CUT, END, HEAL, Recording
from mrc.drill.rivals import HOSTS_PER_LEAF, set_up
from mrc.drill.stage import Stage
from mrc.fabric import Clos
from mrc.report.expectations import at_least, at_most
from mrc.wire.usid import ev_of_path

PLANES, SPINES = 2, 8
HOST_RATE_BPS = 60_000_000
_SHAPE = Clos(planes=PLANES, spines=SPINES, hosts_per_leaf=HOSTS_PER_LEAF)
_FAIL_AT_S = 1.5

# ---------------------------------------------------------------------- one a second

_CUTS = 5
_FAIL_STEP_S = 1.0
_HEAL_AT_S = _FAIL_AT_S + _CUTS * _FAIL_STEP_S
_FAIL_SECONDS = _HEAL_AT_S + 2.5


def _links_to_fail(seed: int) -> list[str]:
    """Cables of both planes and leaves in turn. The first is the one that the kernel's streams cross."""
    spines = random.Random(seed).sample(range(1, SPINES), _CUTS - 1)
    return [f"p{number % 2}l{number // 2 % 2}-p{number % 2}s{spine}" for number, spine in enumerate([0, *spines])]


def _fail(stage: Stage) -> None:
    set_up(stage, HOST_RATE_BPS, spine="p0s0")
    stage.begin(stream_seconds=_FAIL_SECONDS)
    links = _links_to_fail(stage.seed)
    for number, link in enumerate(links):
        stage.until(_FAIL_AT_S + number * _FAIL_STEP_S)
        stage.cut(link)
    stage.until(_HEAL_AT_S)
    stage.heal(*links)
    stage.until(_FAIL_SECONDS)


def _fail_figures(recording: Recording) -> Figures:
    placed, whole = recording.main.placed, whole_rate_bps(recording)
    *failed, healed = phases_of(recording, [1.0] * (_CUTS + 1))
    return {
        **before_figures(recording, PLANES * HOST_RATE_BPS),
        "links_failed": len(failed),
        "least_share_kept": min(placed.rate_bps(phase.at_ns + RECOVERY_NS, phase.until_ns) / whole for phase in failed),
        "latest_use_of_a_dead_path_ms": _latest_use_ms(recording),
        "share_restored": placed.rate_bps(healed.at_ns + RESTORATION_NS, healed.until_ns) / whole,
        **stall_figures(recording),
    }


def _latest_use_ms(recording: Recording) -> float | None:
    """After its link was cut, how long a path still got packets at most. Samples are 5 ms apart."""
    paths = recording.main.paths
    healed = recording.time(HEAL)
    latest = 0.0
    for each in recording.happenings:
        if each.what != CUT:
            continue
        plane, spine = _path_of(each.target)
        column = paths.column(ev_of_path(plane, spine))
        during = (paths.at_ns > each.at_ns) & (paths.at_ns < healed)
        counts = paths.packets[during, column]
        if not len(counts):
            return None
        still = paths.at_ns[during][counts < counts[-1]]
        latest = max(latest, (int(still[-1]) - each.at_ns) / MS if len(still) else 0.0)
    return latest


def _path_of(link: str) -> tuple[int, int]:
    spine = link.rpartition("-")[2]
    plane, _, number = spine[1:].partition("s")
    return int(plane), int(number)


FABRIC_LINK_FAIL = Drill(
    name="fabric-link-fail",
    summary="one leaf-spine cable fails every second, then all are mended",
    shape=_SHAPE,
    seconds=_FAIL_SECONDS,
    perform=_fail,
    measure=_fail_figures,
    draw=lambda recording, figure: draw_goodput(recording, figure, phases_of(recording, [1.0] * (_CUTS + 1))),
    expectations=(
        at_least("least_share_kept", 0.95, "of the goodput, from 100 ms after each failure on"),
        at_most("latest_use_of_a_dead_path_ms", 100, "until no path over the cable gets data any more"),
        at_least("share_restored", 0.95, "from 1 s after the repair on, of the goodput before the first failure"),
        at_most("mrc_stall_ms", 100, "the longest time without a byte in order"),
    ),
)

# ---------------------------------------------------------------------- one that flaps

_LINK, _PATH = "p0l0-p0s0", ev_of_path(0, 0)
_FLAPS = 5
_DOWN_S, _UP_S = 0.3, 0.6
_FLAP_SECONDS = _FAIL_AT_S + _FLAPS * (_DOWN_S + _UP_S) + 1.2


def _flap(stage: Stage) -> None:
    set_up(stage, HOST_RATE_BPS, spine="p0s0")
    stage.begin(stream_seconds=_FLAP_SECONDS)
    for number in range(_FLAPS):
        down_at = _FAIL_AT_S + number * (_DOWN_S + _UP_S)
        stage.until(down_at)
        stage.cut(_LINK)
        stage.until(down_at + _DOWN_S)
        stage.heal(_LINK)
    stage.until(_FLAP_SECONDS)


def _flap_figures(recording: Recording) -> Figures:
    placed, whole = recording.main.placed, whole_rate_bps(recording)
    cut, healed, end = recording.time(CUT), recording.times(HEAL)[-1], recording.time(END)
    return {
        **before_figures(recording, PLANES * HOST_RATE_BPS),
        "share_while_flapping": placed.rate_bps(cut, healed) / whole,
        "share_restored": placed.rate_bps(healed + RESTORATION_NS // 2, end) / whole,
        "share_on_the_path_restored": recording.main.paths.share(_PATH, healed + RESTORATION_NS // 2, end)
        * PLANES
        * SPINES,
        **stall_figures(recording),
    }


FABRIC_LINK_FLAP = Drill(
    name="fabric-link-flap",
    summary="one leaf-spine cable goes down and comes back, again and again",
    shape=_SHAPE,
    seconds=_FLAP_SECONDS,
    perform=_flap,
    measure=_flap_figures,
    draw=draw_goodput,
    expectations=(
        at_least("share_while_flapping", 0.95, "of the goodput before, while the cable flaps"),
        at_least("share_restored", 0.95, "from 0.5 s after the last repair on, of the goodput before"),
        at_least("share_on_the_path_restored", 0.5, "by then the path carries at least half of its share again"),
        at_most("mrc_stall_ms", 100, "the longest time without a byte in order"),
    ),
)
