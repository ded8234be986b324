# SPDX-License-Identifier: BSD-2-Clause
"""Two flows and one path: a flow that has no other takes it, and one that sprays over all of them makes room."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mrc.drill.drill import PAYLOAD_SHARE, Drill, Figures
from mrc.drill.flow import FlowPlan
from mrc.drill.links import counted
from mrc.drill.moments import mark_moments
from mrc.drill.phases import SETTLED_NS
from mrc.drill.plots import draw_goodput, draw_path_shares
from mrc.drill.recording import BEGIN, END, Recording
from mrc.drill.stage import Stage
from mrc.fabric import Clos
from mrc.report.expectations import at_least, at_most, exactly
from mrc.wire.usid import ev_of_path

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PLANES, SPINES = 2, 8
HOST_RATE_BPS = 40_000_000
# A plane's eight uplinks have room for four times what a host sends.
UPLINK_RATE_BPS = 20_000_000
MARKED_FROM_BYTES, QUEUE_BYTES = 16_000, 200_000
SPRAYED, FORCED = "sprayed", "forced"
_PLANE, _SPINE = 0, 3
_BUSY = ev_of_path(_PLANE, _SPINE)
_BUSY_LINK, _BUSY_SPINE = f"p{_PLANE}l0-p{_PLANE}s{_SPINE}", f"p{_PLANE}s{_SPINE}"
# NSCC lets so much queue up. The first flow's window fits: its own links hold it back, not the marks.
BASE_RTT_NS = 30_000_000
_COMES_AT_S, _GOES_AT_S, _SECONDS = 1.5, 4.5, 6.5


def _perform(stage: Stage) -> None:
    stage.limit_hosts(rate_bps=HOST_RATE_BPS, queue_bytes=500_000)
    for link in stage.lab.topology.fabric_links():
        stage.lab.impair(
            link.name,
            toward=link.upper,
            rate_bps=UPLINK_RATE_BPS,
            queue_bytes=QUEUE_BYTES,
            ecn_at_bytes=MARKED_FROM_BYTES,
        )
    stage.open(
        [
            FlowPlan(
                SPRAYED,
                "h0",
                "h2",
                stage.seed,
                line_rate_bps=PLANES * HOST_RATE_BPS,
                base_rtt_ns=BASE_RTT_NS,
                max_cwnd_packets=56,
            ),
            FlowPlan(
                FORCED,
                "h1",
                "h3",
                stage.seed + 1,
                evs=(_BUSY,),
                line_rate_bps=UPLINK_RATE_BPS,
                base_rtt_ns=BASE_RTT_NS,
                max_cwnd_packets=16,
                depth=4,
            ),
        ]
    )
    stage.begin(SPRAYED)
    stage.until(_COMES_AT_S)
    stage.begin(FORCED)
    stage.until(_GOES_AT_S)
    stage.end(FORCED)
    stage.until(_SECONDS)
    stage.extra["busy_link"] = counted(stage.lab, _BUSY_LINK, _BUSY_SPINE)


def _measure(recording: Recording) -> Figures:
    sprayed, forced = recording.flows[SPRAYED], recording.flows[FORCED]
    begun = recording.time(BEGIN, SPRAYED) + SETTLED_NS
    comes, goes, end = recording.time(BEGIN, FORCED), recording.time(END, FORCED), recording.time(END, SPRAYED)
    settled = comes + SETTLED_NS
    alone = sprayed.placed.rate_bps(begun, comes)
    link = recording.extra["busy_link"]
    return {
        "goodput_alone_mbps": alone / 1e6,
        "share_of_links_before": alone / (PLANES * HOST_RATE_BPS * PAYLOAD_SHARE),
        "load_before_of_fair": _load(recording, begun, comes),
        "load_meanwhile_of_fair": _load(recording, settled, goes),
        "load_afterwards_of_fair": _load(recording, goes + SETTLED_NS, end),
        "share_kept": sprayed.placed.rate_bps(settled, goes) / alone,
        "forced_goodput_of_uplink": forced.placed.rate_bps(settled, goes) / UPLINK_RATE_BPS,
        "marked_packets": link["marked_packets"],
        "dropped_packets": link["queue_dropped_packets"],
        "local_ack_timeouts": sprayed.count("local_ack_timeouts") + forced.count("local_ack_timeouts"),
    }


def _load(recording: Recording, from_ns: int, until_ns: int) -> float:
    """Of a path's fair share of the sprayed flow's packets, what the busy one got."""
    return recording.flows[SPRAYED].paths.share(_BUSY, from_ns, until_ns) * PLANES * SPINES


def _draw(recording: Recording, figure: Figure) -> None:
    shares, goodput = figure.subplots(2, 1, sharex=True)
    others = [ev for ev in recording.flows[SPRAYED].paths.evs if ev != _BUSY]
    draw_path_shares(shares, recording, SPRAYED, [_BUSY], ["the shared path"], rest=others)
    draw_goodput(recording, goodput)
    mark_moments([shares, goodput], recording.happenings, recording.began_ns)


BALANCE = Drill(
    name="balance",
    summary="a second flow, forced onto one path, moves the first one off it",
    shape=Clos(planes=PLANES, spines=SPINES, hosts_per_leaf=2),
    seconds=_SECONDS,
    perform=_perform,
    measure=_measure,
    draw=_draw,
    needs_bpf=True,
    expectations=(
        at_most("load_meanwhile_of_fair", 0.65, "of a path's fair share: what the first flow puts on the shared one"),
        at_least("load_afterwards_of_fair", 0.85, "the same once the second flow has gone"),
        at_least("share_kept", 0.94, "of the first flow's goodput, from 0.5 s after the second came on"),
        at_least("forced_goodput_of_uplink", 0.7, "of the shared uplink's rate is the second flow's goodput"),
        at_least("marked_packets", 1, "the uplink marked: that is what moves the first flow"),
        exactly("dropped_packets", 0, "and dropped nothing"),
        exactly("local_ack_timeouts", 0, "nobody waited for a coarse timer"),
    ),
)
