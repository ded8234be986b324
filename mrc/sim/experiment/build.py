# SPDX-License-Identifier: BSD-2-Clause
"""What a file describes, as a setup that can be simulated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from mrc.records import record
from mrc.sim.cluster import Setup, Topology
from mrc.sim.experiment import values
from mrc.sim.experiment.failures import FailureList
from mrc.sim.experiment.jobs import Jobs
from mrc.sim.experiment.links import link
from mrc.sim.experiment.policies import policies
from mrc.sim.experiment.problems import Blame

_FAILURES = 3


@record(frozen=True, slots=True, eq=False)
class Experiment:
    """`setup` is what is simulated. `jobs` are the names of its jobs: Flows.job has their numbers."""

    name: str
    setup: Setup
    jobs: tuple[str, ...]


def build(name: str, said: Mapping[str, Any], files: Mapping[str, str], blame: Blame) -> Experiment:
    """Make the setup of a document that follows the schema. Raises FileProblems."""
    with blame.at(("topology",)):
        topology = Topology(**said["topology"])
    links = said.get("links", {})
    made = {}
    for tier in ("hosts", "fabric"):
        with blame.at(("links", tier)):
            made[tier] = link(links.get(tier, {}))
    seed = said.get("seed", 0)
    jobs = Jobs(said["workloads"], topology, files, seed, blame)
    flows = jobs.flows(said.get("placement", "packed"))
    failures = FailureList(topology, (made["hosts"].loss, made["fabric"].loss))
    for number, failure in enumerate(said.get("failures", [])):
        with blame.at(("failures", number)):
            failures.add(failure, np.random.default_rng((seed, _FAILURES, number)))
    line_rate_bps = topology.planes * made["hosts"].rate_bps
    policy = policies(said.get("policies", {}), files, line_rate_bps, blame)
    with blame.at(()):
        setup = Setup(
            topology=topology,
            flows=flows,
            host_link=made["hosts"],
            fabric_link=made["fabric"],
            failures=failures.failures.checked(topology),
            policies=policy,
            seed=seed,
            end_ns=values.time_ns(said.get("end", "1s")),
            sample_ns=values.time_ns(said.get("sample", 0)),
        )
    return Experiment(name, setup, jobs.names)
