# SPDX-License-Identifier: BSD-2-Clause
"""Clusters in virtual time: the endpoint itself on every host, a fabric made of columns, from two hosts to 131,072.

    setup = Setup(Topology(hosts=16, planes=2, hosts_per_leaf=4, spines=4), flows=permutation)
    outcome = run(setup, progress=print)

docs/simulation.md says what the model is, what it rounds and what it does not have.
"""

from mrc.sim.cluster.ev_choice import EvChoice, EvRequest
from mrc.sim.cluster.outcome import Conservation, Outcome, Progress
from mrc.sim.cluster.run import run
from mrc.sim.cluster.setup import (
    Action,
    ClusterLink,
    Failures,
    Flows,
    Policies,
    Setup,
    Target,
    Topology,
)
from mrc.sim.fault import SimulationFault

__all__ = [
    "Action",
    "ClusterLink",
    "Conservation",
    "EvChoice",
    "EvRequest",
    "Failures",
    "Flows",
    "Outcome",
    "Policies",
    "Progress",
    "Setup",
    "SimulationFault",
    "Target",
    "Topology",
    "run",
]
