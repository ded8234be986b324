# SPDX-License-Identifier: BSD-2-Clause
"""A path that loses a fifth of its packets: the EV on it goes, one from the reserve takes its place."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from mrc.drill.drill import PAYLOAD_SHARE, Drill, Figures
from mrc.drill.flow import FlowPlan
from mrc.drill.moments import mark_moments
from mrc.drill.phases import MS, RECOVERY_NS, SETTLED_NS
from mrc.drill.plots import draw_goodput, draw_path_shares, draw_states
from mrc.drill.recording import BEGIN, CLEAR, END, IMPAIR, FlowRecord, Happening, Recording
from mrc.drill.stage import Stage
from mrc.errors import PeerError
from mrc.fabric import Clos
from mrc.report.expectations import at_least, at_most, exactly
from mrc.wire.usid import ev_of_path, path_of_ev

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PLANES, SPINES = 2, 8
ACTIVE_PER_PLANE = 6
HOST_RATE_BPS = 60_000_000
LOSS = 0.2
_FLOW = "mrc"
_BAD_AT_S, _BAD_FOR_S, _WELL_FOR_S = 1.5, 3.5, 1.5
# An EV in use gets about 100 packets in so long, one of the reserve none.
_LOOK_S, _FEW_PACKETS = 0.4, 20
# A disturbed machine can take the chosen EV out of use just before its path turns lossy. Then another is chosen.
_CHOICES, _POLL_S = 5, 0.05


def _perform(stage: Stage) -> None:
    stage.limit_hosts(rate_bps=HOST_RATE_BPS, queue_bytes=500_000)
    stage.open(
        [
            FlowPlan(
                _FLOW,
                "h0",
                "h1",
                stage.seed,
                active=PLANES * ACTIVE_PER_PLANE,
                line_rate_bps=PLANES * HOST_RATE_BPS,
                max_cwnd_packets=72,
            )
        ]
    )
    stage.begin()
    stage.until(_BAD_AT_S - _LOOK_S)
    before = stage.packets(_FLOW)
    stage.until(_BAD_AT_S)
    drawn = random.Random(stage.seed)
    for choice in range(_CHOICES):
        now = stage.packets(_FLOW)
        in_use = [ev for ev, count in now.items() if count - before[ev] >= _FEW_PACKETS]
        if not in_use:
            raise PeerError(f"no EV carried {_FEW_PACKETS} packets in {_LOOK_S} s: the flow stands still")
        ev = drawn.choice(in_use)
        plane, spine = path_of_ev(ev)
        link, toward = f"p{plane}l0-p{plane}s{spine}", f"p{plane}s{spine}"
        lost, bad_at_s = stage.lost(_FLOW)[ev], stage.at_s
        stage.impair(link, loss=LOSS, toward=toward)
        if choice == _CHOICES - 1 or _meets_loss(stage, ev, now[ev], lost):
            break
        before = stage.packets(_FLOW)
        stage.clear(link, toward=toward)
        stage.until(stage.at_s + _LOOK_S)
    stage.until(bad_at_s + _BAD_FOR_S)
    stage.clear(link, toward=toward)
    stage.until(bad_at_s + _BAD_FOR_S + _WELL_FOR_S)


def _meets_loss(stage: Stage, ev: int, packets: int, lost: int) -> bool:
    """Whether this EV still carries the flow: it loses a packet, or gets as many as one in use does."""
    until_s = stage.at_s + _LOOK_S
    while stage.at_s < until_s:
        stage.until(stage.at_s + _POLL_S)
        if stage.lost(_FLOW)[ev] > lost:
            return True
    return stage.packets(_FLOW)[ev] - packets >= _FEW_PACKETS


def _last(recording: Recording, what: str) -> Happening:
    """The last of these: what was tried on an EV that had just gone out of use does not count."""
    return next(each for each in reversed(recording.happenings) if each.what == what)


def lossy_ev(recording: Recording) -> int:
    """The EV whose path was made lossy."""
    link = _last(recording, IMPAIR).target
    plane, _, spine = link.rpartition("-")[2][1:].partition("s")
    return ev_of_path(int(plane), int(spine))


def _bad_ns(recording: Recording) -> int:
    """When the path could first lose a packet: when the kernel was asked, which may answer much later."""
    impaired = _last(recording, IMPAIR)
    return impaired.at_ns - impaired.took_ns


def replacement(recording: Recording) -> int | None:
    """The other EV of the same plane whose share of the packets grew most when the path turned lossy; None when none
    grew."""
    paths = recording.main.paths
    lossy = paths.column(lossy_ev(recording))
    bad, well = _bad_ns(recording), _last(recording, CLEAR).at_ns
    grown = paths.shares(bad, well) - paths.shares(bad - int(_LOOK_S * 1e9), bad)
    others = [c for c in range(len(paths.evs)) if paths.planes[c] == paths.planes[lossy] and c != lossy]
    best = max(others, key=lambda column: grown[column], default=lossy)
    return paths.evs[best] if grown[best] > 0 else None


def _measure(recording: Recording) -> Figures:
    flow, lossy = recording.main, lossy_ev(recording)
    bad, well, end = _bad_ns(recording), _last(recording, CLEAR).at_ns, recording.time(END)
    # An attempt on another EV before it costs next to nothing, but is no part of the whole fabric.
    whole = flow.placed.rate_bps(recording.time(BEGIN) + SETTLED_NS, recording.time(IMPAIR))
    left = next(
        (each.at_ns for each in flow.changes if _condemned(each.ev, each.new, lossy) and each.at_ns > bad), None
    )
    settled = (left or bad) + RECOVERY_NS
    fair = 1 / (PLANES * ACTIVE_PER_PLANE)
    other = replacement(recording)
    plane = flow.paths.planes[flow.paths.column(lossy)]
    during = flow.paths.packets_between(settled, well)
    of_plane = sum(count for count, its in zip(during, flow.paths.planes, strict=True) if its == plane)
    return {
        "goodput_whole_mbps": whole / 1e6,
        "share_of_links_before": whole / (PLANES * HOST_RATE_BPS * PAYLOAD_SHARE),
        "left_after_ms": None if left is None else (left - bad) / MS,
        "packets_lost_on_it": _lost(flow, lossy),
        "share_on_it_of_fair": flow.paths.share(lossy, settled, well) / fair,
        "share_its_replacement_gained_of_fair": None
        if other is None
        else _gained(flow, other, bad, settled, well) / fair,
        "replacements_on_another_plane": _replaced_elsewhere(flow, lossy, other),
        "share_of_its_plane": float(of_plane / during.sum()) if during.sum() else None,
        "least_share_kept": flow.placed.rate_bps(bad + RECOVERY_NS, well) / whole,
        "share_afterwards": flow.placed.rate_bps(well, end) / whole,
        "local_ack_timeouts": flow.count("local_ack_timeouts"),
    }


def _gained(flow: FlowRecord, ev: int, bad_ns: int, settled_ns: int, well_ns: int) -> float:
    """How much more of the packets this EV gets than it got just before."""
    return flow.paths.share(ev, settled_ns, well_ns) - flow.paths.share(ev, bad_ns - int(_LOOK_S * 1e9), bad_ns)


def _condemned(ev: int, new: str, lossy: int) -> bool:
    return ev == lossy and new == "ASSUMED_BAD"


def _lost(flow: FlowRecord, ev: int) -> int:
    return int(flow.samples[-1]["lost"][flow.paths.column(ev)])


def _replaced_elsewhere(flow: FlowRecord, lossy: int, other: int | None) -> int | None:
    if other is None:
        return None
    return int(flow.paths.planes[flow.paths.column(other)] != flow.paths.planes[flow.paths.column(lossy)])


def _draw(recording: Recording, figure: Figure) -> None:
    lossy, other = lossy_ev(recording), replacement(recording)
    evs = [lossy] + ([] if other is None else [other])
    labels = ["the lossy EV", "its replacement"][: len(evs)]
    states, shares, goodput = figure.subplots(3, 1, sharex=True, height_ratios=[1, 2, 2])
    draw_states(states, recording, _FLOW, evs, labels)
    draw_path_shares(shares, recording, _FLOW, evs, labels)
    draw_goodput(recording, goodput)
    mark_moments([states, shares, goodput], recording.happenings, recording.began_ns)


LOSSY_PATH = Drill(
    name="lossy-path",
    summary="one EV's path loses 20 % of its packets for a while",
    shape=Clos(planes=PLANES, spines=SPINES),
    seconds=_BAD_AT_S + _BAD_FOR_S + _WELL_FOR_S,
    perform=_perform,
    measure=_measure,
    draw=_draw,
    expectations=(
        at_most("left_after_ms", 250, "from the first chance to lose a packet until the EV is ASSUMED_BAD"),
        at_most("packets_lost_on_it", 30, "over the whole drill; staying on it would lose two hundred"),
        at_most("share_on_it_of_fair", 0.2, "of an active EV's share it carries from then on"),
        at_least("share_its_replacement_gained_of_fair", 0.5, "an EV of the reserve carries it instead"),
        exactly("replacements_on_another_plane", 0, "the replacement is of the same plane"),
        at_least("least_share_kept", 0.97, "of the goodput, from 100 ms after the path turned lossy on"),
        exactly("local_ack_timeouts", 0, "no loss had to wait for a coarse timer"),
    ),
)
