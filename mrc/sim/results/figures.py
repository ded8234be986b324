# SPDX-License-Identifier: BSD-2-Clause
"""Figures of one outcome: the row it has in a sweep, and what `mrc sim run` prints."""

from __future__ import annotations

from typing import Any

import numpy as np

from mrc.sim.cluster import Outcome
from mrc.sim.experiment import Experiment

_NS = 1_000_000_000


def fct_figures(fct_ns: np.ndarray[Any, Any]) -> dict[str, float | None]:
    """Quantiles of flow completion times, us; those of flows that did not complete (-1) are left out."""
    done = fct_ns[fct_ns >= 0]
    if not len(done):
        return {"fct_p50_us": None, "fct_p99_us": None, "fct_max_us": None, "fct_mean_us": None}
    p50, p99 = np.percentile(done, [50, 99])
    return {
        "fct_p50_us": round(float(p50) / 1e3, 3),
        "fct_p99_us": round(float(p99) / 1e3, 3),
        "fct_max_us": round(float(done.max()) / 1e3, 3),
        "fct_mean_us": round(float(done.mean()) / 1e3, 3),
    }


def figures(experiment: Experiment, outcome: Outcome) -> dict[str, Any]:
    """Counts, times in us and rates in Gbit/s over all flows. The same in every run of the same experiment.

    `goodput_gbps` is what all hosts together received, each byte once, until the last write that completed did, or to
    the end where some did not. `retransmitted_share` and the like are of the data packets sent.
    """
    flows, qps, links = outcome.flows, outcome.qps, outcome.links
    completed = flows.completed
    done = int((completed >= 0).sum())
    whole = done == len(completed)
    last_ns = int(completed.max()) if done and whole else outcome.end_ns
    first_ns = int(experiment.setup.flows.start_ns.min()) if len(completed) else 0
    placed = int(qps.placed_bytes.sum())
    data = int(qps.data_packets.sum())
    return {
        "flows": len(completed),
        "flows_done": done,
        "failed_flows": int((flows.status > 0).sum()),
        **fct_figures(flows.fct_ns),
        "end_us": outcome.end_ns / 1e3,
        "last_completion_us": round(last_ns / 1e3, 3),
        "placed_bytes": placed,
        "goodput_gbps": round(placed * 8 / max(1, last_ns - first_ns), 6),
        "data_packets": data,
        "retransmissions": int(qps.retransmissions.sum()),
        "spurious": int(qps.spurious.sum()),
        "timeouts": int(qps.timeouts.sum()),
        "probes": int(qps.probes.sum()),
        "trimmed": int(links.trimmed.sum()),
        "dropped": int(links.dropped.sum()),
        "lost": int(links.lost.sum()),
        "marked": int(links.marked.sum()),
        "largest_queue_bytes": int(links.largest_queue.max()) if len(links.largest_queue) else 0,
        "packet_hops": outcome.packet_hops,
    }


def job_figures(experiment: Experiment, outcome: Outcome) -> list[dict[str, Any]]:
    """By job: flows, completion times, and how long it took as a whole."""
    job = experiment.setup.flows.job
    found = []
    for number, name in enumerate(experiment.jobs):
        mine = job == number
        completed = outcome.flows.completed[mine]
        started = outcome.flows.started[mine]
        whole = len(completed) > 0 and bool((completed >= 0).all())
        found.append(
            {
                "job": name,
                "flows": int(mine.sum()),
                "flows_done": int((completed >= 0).sum()),
                "took_us": round(float(completed.max() - started.min()) / 1e3, 3) if whole else None,
                **fct_figures(outcome.flows.fct_ns[mine]),
            }
        )
    return found
