# SPDX-License-Identifier: BSD-2-Clause
"""Goodput over random loss on every path: selective retransmission and spraying against go-back-N on one path."""

from __future__ import annotations

from behaviour.figures import GIGABIT, MICROSECOND, MILLISECOND, Experiment, Figures, Plot, goodput_gbps
from behaviour.go_back_n import GoBackNConfig, GoBackNFlow
from mrc.endpoint.config import QpConfig
from mrc.endpoint.congestion import FixedWindow, FixedWindowConfig
from mrc.fabric import Clos
from mrc.report.expectations import at_least, below
from mrc.sim.fabric import SimFabric
from mrc.sim.link import LinkModel

WINDOW_PACKETS = 100
CLOS = Clos(planes=2, leaves=2, spines=16)
LINK = LinkModel(rate_bps=100 * GIGABIT, delay_ns=10 * MICROSECOND)
LOSSES = (0.0, 0.001, 0.005, 0.01, 0.02, 0.05)
WARM_UP_NS, MEASURED_NS = 2 * MILLISECOND, 10 * MILLISECOND


def lose_everywhere(fabric: SimFabric, chance: float) -> None:
    """Each packet, data or control, is lost with this chance once on its way: between its leaf and the spine."""
    for link in fabric.shape.fabric_links():
        fabric.link(link.name, link.upper).set(loss=chance)


def mrc_goodput(chance: float, seed: int, measured_ns: int = MEASURED_NS) -> float:
    """Gbit/s of payload at this loss, the window fixed at WINDOW_PACKETS."""
    fabric = SimFabric(CLOS, LINK, seed=seed)
    lose_everywhere(fabric, chance)
    qp, _ = fabric.connect("h0", "h1", QpConfig(), lambda sizes: FixedWindow(sizes, FixedWindowConfig(WINDOW_PACKETS)))
    stream = fabric.stream(qp)
    return goodput_gbps(fabric, [stream], WARM_UP_NS, WARM_UP_NS + measured_ns)[0]


def go_back_n_goodput(chance: float, seed: int, measured_ns: int = MEASURED_NS) -> float:
    """Gbit/s of go-back-N on one path, with this window and these links."""
    flow = GoBackNFlow("h0", "h1", GoBackNConfig(window_packets=WINDOW_PACKETS))
    fabric = SimFabric(CLOS, LINK, seed=seed, agents=flow.agents)
    lose_everywhere(fabric, chance)
    flow.start(fabric)
    fabric.run(WARM_UP_NS)
    before = flow.delivered_bytes
    fabric.run(WARM_UP_NS + measured_ns)
    return (flow.delivered_bytes - before) * 8 / measured_ns


def run(seed: int) -> Figures:
    rows = []
    clean = mrc_goodput(0.0, seed), go_back_n_goodput(0.0, seed)
    for chance in LOSSES:
        mrc, gbn = (mrc_goodput(chance, seed), go_back_n_goodput(chance, seed)) if chance else clean
        rows.append(
            {
                "loss_percent": 100 * chance,
                "mrc_gbps": mrc,
                "mrc_share": mrc / clean[0],
                "go_back_n_gbps": gbn,
                "go_back_n_share": gbn / clean[1],
            }
        )
    (at_one,) = (row for row in rows if row["loss_percent"] == 1)
    bars = [
        at_least("MRC's share of its loss-free goodput at 1 % loss", 0.98).of(at_one["mrc_share"]),
        below("go-back-N's share of its loss-free goodput at 1 % loss", 0.70).of(at_one["go_back_n_share"]),
    ]
    lines = {"mrc_share": "MRC", "go_back_n_share": "go-back-N"}
    return Figures(rows, bars, Plot("loss_percent", "loss, %", "share of the loss-free goodput", lines))


LOSS = Experiment(
    "loss",
    "Goodput over random loss",
    "One sender, one receiver, 2 x 16 paths of 100 Gbit/s and 81 us round trip, 100 packets in flight at most. Each "
    "packet, data and answers alike, is lost with the same chance on its way. Goodput is payload in the peer's memory, "
    "each byte once, per time; the share is of the same sender's goodput at no loss. Go-back-N sends on one path.",
    run,
)
