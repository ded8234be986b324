# SPDX-License-Identifier: BSD-2-Clause
"""Seven senders to one receiver, and a flow past them that shares everything with them but the last hop."""

from __future__ import annotations

from dataclasses import dataclass

from behaviour.figures import GIGABIT, MICROSECOND, MILLISECOND, Experiment, Figures, goodput_gbps
from mrc.endpoint.config import QpConfig
from mrc.endpoint.congestion import Configured, Nscc, NsccConfig
from mrc.fabric import Clos
from mrc.report.expectations import at_least, below
from mrc.sim.fabric import SimFabric
from mrc.sim.link import LinkModel

# h0 to h3 on leaf 0, h4 to h7 on leaf 1, h8 to h11 on leaf 2.
CLOS = Clos(planes=2, leaves=3, spines=4, hosts_per_leaf=4)
RATE_BPS = 25 * GIGABIT
# Marked from 20 % and trimmed from 100 % of a path's 144 kB on.
LINK = LinkModel(
    rate_bps=RATE_BPS, delay_ns=5 * MICROSECOND, queue_bytes=500_000, ecn_at_bytes=29_000, trim_at_bytes=144_000
)
BASE_RTT_NS = 47 * MICROSECOND
SENDERS, TARGET = ("h0", "h1", "h2", "h4", "h5", "h6", "h10"), "h8"
VICTIM = ("h7", "h9")
START_NS, WARM_UP_NS, MEASURED_NS = 500 * MICROSECOND, 2 * MILLISECOND, 4 * MILLISECOND


@dataclass(frozen=True, slots=True)
class Incast:
    """Goodputs in Gbit/s: the victim's from the incast's first packet on, and in its first part; the others' later."""

    victim: float
    victim_start: float
    target: float
    least_sender: float
    most_sender: float
    trimmed: int
    dropped: int
    last_hop_high_water_bytes: int


def incast(senders: tuple[str, ...], seed: int, measured_ns: int = MEASURED_NS) -> Incast:
    """One run with these senders to the target, NSCC everywhere."""
    fabric = SimFabric(CLOS, LINK, seed=seed, coalesce_ns=2 * MICROSECOND)
    controller = Configured(Nscc, NsccConfig(line_rate_bps=CLOS.planes * RATE_BPS, base_rtt=BASE_RTT_NS, trimming=True))
    victim = fabric.stream(fabric.connect(*VICTIM, QpConfig(), controller)[0])
    fabric.run(START_NS)
    streams = [fabric.stream(fabric.connect(sender, TARGET, QpConfig(), controller)[0]) for sender in senders]
    (at_start,) = goodput_gbps(fabric, [victim], START_NS, WARM_UP_NS)
    goodputs = goodput_gbps(fabric, [victim, *streams], WARM_UP_NS, WARM_UP_NS + measured_ns)
    last_hops = [fabric.link(f"{TARGET}-p{plane}l2", TARGET).counters for plane in range(CLOS.planes)]
    start_ns = WARM_UP_NS - START_NS
    return Incast(
        (at_start * start_ns + goodputs[0] * measured_ns) / (start_ns + measured_ns),
        at_start,
        sum(goodputs[1:]),
        min(goodputs[1:], default=0.0),
        max(goodputs[1:], default=0.0),
        sum(link.counters.trimmed for link in fabric.egresses.values()),
        sum(link.counters.dropped for link in fabric.egresses.values()),
        max(counters.queue_high_water_bytes for counters in last_hops),
    )


def run(seed: int) -> Figures:
    alone, together = incast((), seed), incast(SENDERS, seed)
    rows = [
        {
            "senders": senders,
            "victim_gbps": each.victim,
            "victim_first_1500_us_gbps": each.victim_start,
            "target_gbps": each.target,
            "least_sender_gbps": each.least_sender,
            "most_sender_gbps": each.most_sender,
            "trimmed": each.trimmed,
            "dropped": each.dropped,
            "last_hop_high_water_bytes": each.last_hop_high_water_bytes,
        }
        for senders, each in ((0, alone), (len(SENDERS), together))
    ]
    lost = 100 * (1 - together.victim / alone.victim)
    bars = [
        below("goodput the victim loses, %", 2).of(lost),
        at_least("target's goodput, Gbit/s of the 48 two ports carry", 43).of(together.target),
    ]
    return Figures(rows, bars)


INCAST = Experiment(
    "incast",
    "Seven to one, and a victim",
    "12 hosts on 3 leaves, 2 planes x 4 spines, 25 Gbit/s, 47 us round trip, NSCC on all flows; switches mark from "
    "29 kB of queue on (not on the last hop) and trim from 144 kB on. Six hosts on two other leaves and one on its "
    "own send to h8 without end; h7 sends to h9, which is on the leaf of h8. The victim's goodput is counted from the "
    "first packet of the incast on, and its loss against the same run without the seven.",
    run,
)
