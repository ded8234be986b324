# SPDX-License-Identifier: BSD-2-Clause
"""Writes that a run left undone: which, and when the run ended. They are a result, and no success."""

from __future__ import annotations

import numpy as np

from mrc.report.units import plural
from mrc.sim.cluster import Outcome
from mrc.sim.cluster.setup import Ints
from mrc.sim.experiment import Experiment

_SHOWN = 4


def unfinished(experiment: Experiment, outcome: Outcome) -> list[str]:
    """A sentence for each kind of write that did not complete; none where all did."""
    found = outcome.flows
    end = f"{outcome.end_ns / 1e3:,.1f} us"
    failed = np.flatnonzero(found.status > 0)
    running = np.flatnonzero((found.started >= 0) & (found.status < 0))
    waiting = np.flatnonzero(found.started < 0)
    later = experiment.setup.flows.start_ns[waiting] > outcome.end_ns
    kinds = {
        "failed: no retries were left (policies.qp.exponential_retries)": failed,
        f"had not completed at {end}": running,
        f"had not begun at {end}, which is before their time": waiting[later],
        f"had not begun at {end}: what they wait for has not arrived": waiting[~later],
    }
    return [
        f"{plural(len(rows), 'write')} {what}: {_which(rows, experiment)}" for what, rows in kinds.items() if len(rows)
    ]


def _which(rows: Ints, experiment: Experiment) -> str:
    """`row 3 of incast-0, host 4 to host 0; ...; 7 more`."""
    flows, jobs = experiment.setup.flows, experiment.jobs
    shown = [
        f"row {row} of {jobs[int(flows.job[row])] if len(flows.job) else 'flows'}, host {flows.source[row]} to host "
        f"{flows.destination[row]}"
        for row in rows[:_SHOWN].tolist()
    ]
    if len(rows) > _SHOWN:
        shown.append(f"{len(rows) - _SHOWN:,} more")
    return "; ".join(shown)
