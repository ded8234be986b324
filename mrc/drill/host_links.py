# SPDX-License-Identifier: BSD-2-Clause
"""Drills that break the cables between hosts and leaves: a NIC's ports."""

from __future__ import annotations

from mrc.drill.drill import Drill, Figures
from mrc.drill.phases import Phase, phase_figures, phases_of, stall_figures
from mrc.drill.plots import draw_goodput
from mrc.drill.recording import Recording
from mrc.drill.rivals import HOSTS_PER_LEAF, host_ports, set_up
from mrc.drill.stage import Stage
from mrc.fabric import Clos
from mrc.report.expectations import at_least, at_most

PLANES = 4
HOST_RATE_BPS = 30_000_000
_SHAPE = Clos(planes=PLANES, spines=2, hosts_per_leaf=HOSTS_PER_LEAF)

EXPECTED = (
    at_least("least_share_kept", 0.95, "from 100 ms after each failure on, of what the planes that are left carry"),
    at_most("slowest_recovery_ms", 100, "until 50 ms at that rate begin"),
    at_most("slowest_restoration_ms", 1000, "from each repair until 100 ms at the rate of what is whole begin"),
    at_least("share_restored", 0.95, "from 1 s after the last repair on, of the goodput before the first failure"),
    at_most("mrc_stall_ms", 100, "the longest time without a byte in order"),
)

# ---------------------------------------------------------------------- ports fail one by one

_FAILED = (0, 1, 2)
_FAIL_AT_S, _STEP_S, _HEAL_AT_S, _FAIL_SECONDS = 1.5, 1.0, 4.5, 8.0


def _fail(stage: Stage) -> None:
    set_up(stage, HOST_RATE_BPS)
    stage.begin(stream_seconds=_FAIL_SECONDS)
    # Ports of the source and of the target in turn: the one sees its carrier go, the other is notified.
    ports = [host_ports(plane, number % 2) for number, plane in enumerate(_FAILED)]
    for number, each in enumerate(ports):
        stage.until(_FAIL_AT_S + number * _STEP_S)
        stage.cut(*each)
    for number, each in enumerate(ports):
        stage.until(_HEAL_AT_S + number * _STEP_S)
        stage.heal(*each)
    stage.until(_FAIL_SECONDS)


def _fail_phases(recording: Recording) -> list[Phase]:
    down = [*range(1, len(_FAILED) + 1), *range(len(_FAILED) - 1, -1, -1)]
    return phases_of(recording, [(PLANES - count) / PLANES for count in down])


def _fail_figures(recording: Recording) -> Figures:
    return phase_figures(recording, _fail_phases(recording), PLANES * HOST_RATE_BPS) | stall_figures(recording)


NIC_LINK_FAIL = Drill(
    name="nic-link-fail",
    summary="three of a NIC's four ports fail, one a second, and come back",
    shape=_SHAPE,
    seconds=_FAIL_SECONDS,
    perform=_fail,
    measure=_fail_figures,
    draw=lambda recording, figure: draw_goodput(recording, figure, _fail_phases(recording)),
    expectations=EXPECTED,
)

# ---------------------------------------------------------------------- half of the ports flap at once

_FLAPPING = (0, 1)
_FLAPS = 3
_DOWN_S, _UP_S = 0.8, 1.2
_FLAP_SECONDS = _FAIL_AT_S + _FLAPS * (_DOWN_S + _UP_S) + 0.8


def _flap(stage: Stage) -> None:
    set_up(stage, HOST_RATE_BPS)
    stage.begin(stream_seconds=_FLAP_SECONDS)
    ports = [port for plane in _FLAPPING for port in host_ports(plane, 0)]
    for number in range(_FLAPS):
        down_at = _FAIL_AT_S + number * (_DOWN_S + _UP_S)
        stage.until(down_at)
        stage.cut(*ports)
        stage.until(down_at + _DOWN_S)
        stage.heal(*ports)
    stage.until(_FLAP_SECONDS)


def _flap_phases(recording: Recording) -> list[Phase]:
    return phases_of(recording, [(PLANES - len(_FLAPPING)) / PLANES, 1.0] * _FLAPS)


def _flap_figures(recording: Recording) -> Figures:
    return phase_figures(recording, _flap_phases(recording), PLANES * HOST_RATE_BPS) | stall_figures(recording)


NIC_LINK_FLAP = Drill(
    name="nic-link-flap",
    summary="half of a NIC's ports go down at once and come back, again and again",
    shape=_SHAPE,
    seconds=_FLAP_SECONDS,
    perform=_flap,
    measure=_flap_figures,
    draw=lambda recording, figure: draw_goodput(recording, figure, _flap_phases(recording)),
    expectations=EXPECTED,
)
