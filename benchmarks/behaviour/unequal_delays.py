# SPDX-License-Identifier: BSD-2-Clause
"""Paths whose delays differ by a factor of four: how often does the sender take late for lost?"""

from __future__ import annotations

from dataclasses import dataclass

from behaviour.figures import GIGABIT, MICROSECOND, MILLISECOND, Experiment, Figures, Value
from mrc.endpoint.config import QpConfig
from mrc.endpoint.congestion import FixedWindow, FixedWindowConfig
from mrc.fabric import Clos
from mrc.report.expectations import below
from mrc.sim.fabric import SimFabric
from mrc.sim.link import LinkModel

CLOS = Clos(planes=2, leaves=2, spines=4)
HOST_LINK = LinkModel(rate_bps=25 * GIGABIT, delay_ns=0)
FAST_NS, FACTOR = 10 * MICROSECOND, 4
WINDOW_PACKETS = 100
DURATION_NS = 100 * MILLISECOND
SLOW_PATHS = (1, 2, 3)


@dataclass(frozen=True, slots=True)
class Spurious:
    """`needless` counts what the peer received twice; `counted` is the sender's own count."""

    sent: int
    needless: int
    counted: int
    needless_after_half: int
    gbps: float


def spurious(slow_paths: int, seed: int, duration_ns: int = DURATION_NS) -> Spurious:
    """One run in which the first `slow_paths` spines of each plane take four times as long, both ways."""
    fabric = SimFabric(CLOS, LinkModel(rate_bps=25 * GIGABIT, delay_ns=FAST_NS), host_link=HOST_LINK, seed=seed)
    for plane in range(CLOS.planes):
        for leaf in range(CLOS.leaves):
            for spine in range(slow_paths):
                fabric.impair(f"p{plane}l{leaf}-p{plane}s{spine}", delay_ns=FACTOR * FAST_NS)
    qp, peer = fabric.connect(
        "h0", "h1", QpConfig(), lambda sizes: FixedWindow(sizes, FixedWindowConfig(WINDOW_PACKETS))
    )
    stream = fabric.stream(qp)
    fabric.run(duration_ns // 2)
    at_half = peer.counters.duplicates_received
    fabric.run(duration_ns)
    counters = qp.counters
    return Spurious(
        counters.data_packets_sent,
        peer.counters.duplicates_received,
        counters.spurious_retransmissions,
        peer.counters.duplicates_received - at_half,
        stream.delivered_bytes * 8 / duration_ns,
    )


def row(slow_paths: int, seed: int) -> dict[str, Value]:
    each = spurious(slow_paths, seed)
    return {
        "slow_paths": CLOS.planes * slow_paths,
        "paths": CLOS.planes * CLOS.spines,
        "sent": each.sent,
        "needless": each.needless,
        "needless_percent": 100 * each.needless / each.sent,
        "needless_second_half": each.needless_after_half,
        "counted_spurious": each.counted,
        "goodput_gbps": each.gbps,
    }


def run(seed: int) -> Figures:
    rows = [row(slow_paths, seed) for slow_paths in SLOW_PATHS]
    worst = max(float(each["needless_percent"]) for each in rows)
    return Figures(rows, [below("needless retransmissions, % of packets sent, worst mix", 0.1).of(worst)])


UNEQUAL_DELAYS = Experiment(
    "unequal-delays",
    "Paths whose delays differ by a factor of four",
    "One sender, 2 x 4 paths of 25 Gbit/s, of which some take 80 us one way and the others 20 us; 100 packets in "
    "flight, 100 ms, nothing is lost. Needless is what the receiver got twice, from the first packet on.",
    run,
)
