# SPDX-License-Identifier: BSD-2-Clause
"""Cables between switches that go down under load: how long data goes on being sent for them."""

from __future__ import annotations

import numpy as np

from behaviour.figures import Experiment, Figures, Value
from mrc.report.expectations import exactly
from mrc.sim.cluster import run as simulate
from mrc.sim.experiment import ExperimentFile

CUT = (1, 8, 32)
HOSTS = 1024
TEXT = """\
name: cut-cables
topology: {{hosts: {hosts}, planes: 4, hosts_per_leaf: 32, spines: 32}}
links:
  hosts: {{rate: 100gbit, trim_at: 150KB, queue: 200KB}}
  fabric: {{rate: 100gbit, ecn_low: 50KB, ecn_high: 100KB, trim_at: 150KB, queue: 200KB}}
workloads: [{{kind: permutation, shift: 512, bytes: 2MB}}]
failures: [{{kind: cut, at: 20us, target: {cables} fabric-links}}]
policies: {{evs: 128, controller_settings: {{base_rtt: 6us, trimming: true}}}}
"""


def row(cables: int, seed: int) -> dict[str, Value]:
    """What one run comes to: times in us, the longest wait in round trips as well."""
    outcome = simulate(
        ExperimentFile.parsed(TEXT.format(hosts=HOSTS, cables=cables)).with_seed(seed).experiment().setup
    )
    fct, outages = outcome.flows.fct_ns, outcome.outages
    rtt = float(np.median(outcome.qps.rtt))
    found, until_last = outages.first_found - outages.down, outages.last_sent - outages.first_found
    return {
        "cables": cables,
        "writes_done": int((fct >= 0).sum()),
        "median_write_us": float(np.median(fct)) / 1e3,
        "slowest_write_us": float(fct.max()) / 1e3,
        "rtt_us": rtt / 1e3,
        "directions": len(found),
        "found_after_us_least": float(found.min()) / 1e3,
        "found_after_us_most": float(found.max()) / 1e3,
        "then_used_us_median": float(np.median(until_last)) / 1e3,
        "then_used_us_most": float(until_last.max()) / 1e3,
        "then_used_rtts_most": float(until_last.max()) / rtt,
        "over_two_rtts": int((until_last > 2 * rtt).sum()),
        "lost_per_qp_and_direction": int(outcome.links.lost.sum()) / int(outages.qps.sum()),
        "sent_on_by_its_finder_ns": int(outages.sent_on.max()),
    }


def run(seed: int) -> Figures:
    rows = [row(cables, seed) for cables in CUT]
    lacking = sum(HOSTS - int(each["writes_done"]) for each in rows)
    sent_on = max(int(each["sent_on_by_its_finder_ns"]) for each in rows)
    bars = [
        exactly("writes that did not complete, all runs", 0).of(lacking),
        exactly("longest that a QP sent data for a dead path after it had found a loss there itself, ns", 0).of(
            sent_on
        ),
    ]
    return Figures(rows, bars)


CUT_CABLES = Experiment(
    "cut-cables",
    "Cables that are cut under load",
    "1,024 hosts in pairs write 2 MB each over four planes of 32 spines, 128 EVs a QP, in the simulator of clusters "
    "(docs/simulation.md); at 20 us some cables between leaves and spines are cut for good. Figures are of the two "
    "directions of each: when, after the cut, the first QP finds a loss there, and for how long then any QP still "
    "sends data for it. The round trip is the median of all QPs under this load.",
    run,
)
