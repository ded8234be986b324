# SPDX-License-Identifier: BSD-2-Clause
"""One path of many loses a fifth of its packets: how long does it carry data after the first loss was noticed?"""

from __future__ import annotations

from dataclasses import dataclass

from behaviour.figures import GIGABIT, MICROSECOND, MILLISECOND, Experiment, Figures
from mrc.endpoint.config import QpConfig
from mrc.endpoint.congestion import FixedWindow, FixedWindowConfig
from mrc.fabric import Clos
from mrc.report.expectations import below
from mrc.sim.fabric import SimFabric
from mrc.sim.link import LinkModel, SimPacket
from mrc.wire.opcodes import REQUEST_OPCODES
from mrc.wire.rows import BTH_AT

CLOS = Clos(planes=2, leaves=2, spines=4)
LINK = LinkModel(rate_bps=25 * GIGABIT, delay_ns=5 * MICROSECOND)
LOSS = 0.2
PLANE, SPINE = 1, 2
WARM_UP_NS = 100 * MICROSECOND
RUNS = 12
# Probes may bring the path back after a path timer, which is at least 1 ms: look before that.
WATCHED_NS = 900 * MICROSECOND


@dataclass(frozen=True, slots=True)
class Departure:
    """Times in ns: from the first packet lost to its detection, and from there to the last data put on the path.

    `rtt_ns` is the smoothed round trip at detection; `still_used` counts data packets put on the path after it.
    """

    lost_to_detected_ns: int
    detected_to_last_use_ns: int
    still_used: int
    rtt_ns: int


def departure(seed: int) -> Departure:
    """One run."""
    fabric = SimFabric(CLOS, LINK, seed=seed)
    qp, _ = fabric.connect("h0", "h1", QpConfig(), lambda sizes: FixedWindow(sizes, FixedWindowConfig(60)))
    fabric.stream(qp)
    fabric.run(WARM_UP_NS)
    lossy = fabric.uplink(PLANE, 0, SPINE)
    used: list[int] = []

    def note(packet: SimPacket, number: int) -> bool:
        if packet.data[BTH_AT] in REQUEST_OPCODES:
            used.append(fabric.now)
        return False

    lossy.lose_if = note
    lossy.set(loss=LOSS)
    paths = qp.paths
    if paths is None:
        raise RuntimeError("a connected QP has paths")
    index = next(at for at, path in enumerate(paths.paths) if (path.plane, path.spine) == (PLANE, SPINE))
    first_lost: list[int] = []

    def lost() -> bool:
        if lossy.counters.lost and not first_lost:
            first_lost.append(fabric.now)
        return bool(paths.lost[index])

    fabric.run(WARM_UP_NS + 100 * MILLISECOND, lost)
    detected, rtt = fabric.now, qp.requestor.rtt.srtt
    fabric.run(detected + WATCHED_NS)
    after = [when for when in used if when > detected]
    return Departure(detected - first_lost[0], max(after, default=detected) - detected, len(after), rtt)


def run(seed: int) -> Figures:
    rows = []
    for number in range(RUNS):
        each = departure(seed + number)
        rows.append(
            {
                "seed": seed + number,
                "rtt_us": each.rtt_ns / 1000,
                "lost_to_detected_rtts": each.lost_to_detected_ns / each.rtt_ns,
                "detected_to_last_use_rtts": each.detected_to_last_use_ns / each.rtt_ns,
                "data_after_detection": each.still_used,
            }
        )
    longest = max(row["detected_to_last_use_rtts"] for row in rows)
    return Figures(
        rows, [below("round trips from the first detected loss to the last data on the path", 2).of(longest)]
    )


LOSSY_PATH = Experiment(
    "lossy-path",
    "A path that loses a fifth of its packets",
    "One sender, 2 x 4 paths of 25 Gbit/s, 46 us round trip, 60 packets in flight; from some moment on one leaf-spine "
    "link loses 20 %. From the moment the sender first takes a packet on that path for lost, data still put on "
    "the link is watched, for 900 us (a probe may bring the path back after a path timer, 1 ms at the least).",
    run,
)
