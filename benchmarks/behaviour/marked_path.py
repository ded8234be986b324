# SPDX-License-Identifier: BSD-2-Clause
"""One path of many is busy with other traffic and marked: the sender goes round it, and sends nothing twice."""

from __future__ import annotations

from dataclasses import dataclass

from behaviour.figures import GIGABIT, MICROSECOND, MILLISECOND, Experiment, Figures, goodput_gbps
from behaviour.go_back_n import GoBackNConfig, GoBackNFlow
from mrc.endpoint.config import QpConfig
from mrc.endpoint.congestion import FixedWindow, FixedWindowConfig
from mrc.fabric import Clos
from mrc.report.expectations import below
from mrc.sim.fabric import SimFabric
from mrc.sim.link import LinkModel

CLOS = Clos(planes=2, leaves=2, spines=16, hosts_per_leaf=2)
# A queue of 16 kB takes 5 us at this rate.
LINK = LinkModel(rate_bps=25 * GIGABIT, delay_ns=5 * MICROSECOND, queue_bytes=500_000, ecn_at_bytes=16_000)
WINDOW_PACKETS = 80
PLANE, SPINE = 1, 2
WARM_UP_NS, MEASURED_NS = 500 * MICROSECOND, 3 * MILLISECOND
# Windows of the other traffic, packets: 34 fill the link alone.
CROSS_WINDOWS = (1, 20, 34, 37, 40)


@dataclass(frozen=True, slots=True)
class Avoidance:
    """`load` is the data this sender puts on the busy link over what it puts on the others on average."""

    load: float
    cross_gbps: float
    marked: int
    dropped: int
    retransmitted: int
    queue_high_water_bytes: int
    gbps: float


def avoidance(cross_window: int, seed: int, measured_ns: int = MEASURED_NS) -> Avoidance:
    """One run: h0 sends to h2 over all paths, h1 to h3 over one of them."""
    cross = GoBackNFlow("h1", "h3", GoBackNConfig(window_packets=cross_window))
    fabric = SimFabric(CLOS, LINK, seed=seed, agents=cross.agents)
    qp, _ = fabric.connect("h0", "h2", QpConfig(), lambda sizes: FixedWindow(sizes, FixedWindowConfig(WINDOW_PACKETS)))
    stream = fabric.stream(qp)
    cross.start(fabric, PLANE * CLOS.spines + SPINE)
    paths = qp.paths
    if paths is None:
        raise RuntimeError("a connected QP has paths")
    busy = next(at for at, path in enumerate(paths.paths) if (path.plane, path.spine) == (PLANE, SPINE))
    fabric.run(WARM_UP_NS)
    before, cross_before = paths.packets.copy(), cross.delivered_bytes
    (gbps,) = goodput_gbps(fabric, [stream], WARM_UP_NS, WARM_UP_NS + measured_ns)
    carried = paths.packets - before
    link = fabric.uplink(PLANE, 0, SPINE)
    return Avoidance(
        float(carried[busy] * (len(carried) - 1) / (carried.sum() - carried[busy])),
        (cross.delivered_bytes - cross_before) * 8 / measured_ns,
        link.counters.marked,
        sum(each.counters.dropped for each in fabric.egresses.values()),
        qp.counters.retransmitted_packets,
        link.counters.queue_high_water_bytes,
        gbps,
    )


def run(seed: int) -> Figures:
    results = [(window, avoidance(window, seed)) for window in CROSS_WINDOWS]
    rows = [
        {
            "other_traffic_window_packets": window,
            "other_traffic_gbps": each.cross_gbps,
            "load_on_busy_link": each.load,
            "marked": each.marked,
            "retransmitted": each.retransmitted,
            "dropped": each.dropped,
            "queue_high_water_bytes": each.queue_high_water_bytes,
            "goodput_gbps": each.gbps,
        }
        for window, each in results
    ]
    bars = [
        below("packets sent twice, all runs", 1).of(sum(each.retransmitted for _, each in results)),
        below("load on the busiest link over that on the others", 0.6).of(results[-1][1].load),
    ]
    return Figures(rows, bars)


MARKED_PATH = Experiment(
    "marked-path",
    "A path that is marked",
    "2 x 16 paths of 25 Gbit/s, 46 us round trip. One sender sprays over all of them, 80 packets in flight; another "
    "host's RoCE flow with a window of its own takes one of them. Links mark from 16 kB of queue on (5 us) and drop at "
    "500 kB. The load on the busy link is the sprayed data on it over that on the other links, on average.",
    run,
)
