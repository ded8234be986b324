# SPDX-License-Identifier: BSD-2-Clause
"""Drawn clusters and workloads, and what can be done to one without changing what comes of it but as said."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from mrc.endpoint.config import EXPONENTIAL_RETRIES_FOREVER, QpConfig
from mrc.sim.cluster import ClusterLink, Flows, Outcome, Policies, Setup, Topology, run

GBIT = 10**9
SECOND = 10**9
QP = QpConfig(exponential_retries=EXPONENTIAL_RETRIES_FOREVER)


@dataclass(frozen=True)
class Times:
    """When each flow started, arrived and completed, ns."""

    started: list[int]
    arrived: list[int]
    completed: list[int]

    @classmethod
    def of(cls, outcome: Outcome, rows: slice = slice(None)) -> Times:
        found = outcome.flows
        return cls(*(column[rows].tolist() for column in (found.started, found.arrived, found.completed)))

    def shifted(self, by_ns: int) -> Times:
        return Times(*([at + by_ns for at in each] for each in (self.started, self.arrived, self.completed)))

    def halved(self) -> Times:
        assert all(at % 2 == 0 for each in (self.started, self.arrived, self.completed) for at in each)
        return Times(*([at // 2 for at in each] for each in (self.started, self.arrived, self.completed)))


def times(setup: Setup) -> Times:
    """All flows of the worlds here complete."""
    outcome = run(setup)
    assert (outcome.flows.completed >= 0).all()
    return Times.of(outcome)


def later(flows: Flows, by_ns: int) -> Flows:
    return replace(flows, start_ns=flows.start_ns + by_ns)


def joined(*parts: Flows) -> Flows:
    columns = ("source", "destination", "bytes", "start_ns")
    return Flows(*(np.concatenate([getattr(part, name) for part in parts]) for name in columns))


def _pick(random: np.random.Generator, *choices: object) -> object:
    return choices[int(random.integers(len(choices)))]


def topology(random: np.random.Generator) -> Topology:
    """Of two tiers or three, 4 to 24 hosts."""
    hosts_per_leaf, planes, spines = (int(random.integers(1, most)) for most in (4, 3, 5))
    if random.integers(4) == 0:
        return Topology(8 * hosts_per_leaf, planes, hosts_per_leaf, 2, tiers=3, leaves_per_pod=2, cores_per_spine=2)
    leaves = 4 * int(random.integers(1, 3))
    return Topology(leaves * hosts_per_leaf, planes, hosts_per_leaf, spines)


def link(random: np.random.Generator) -> ClusterLink:
    """With and without drops, trims, marks by chance and losses."""
    ecn = bool(random.integers(2))
    trim_at = _pick(random, None, 20_000, 60_000)
    return ClusterLink(
        rate_bps=int(random.choice([10, 25, 100, 400])) * GBIT,
        delay_ns=int(random.integers(0, 2_000)),
        queue_bytes=int(random.choice([100_000, 1_000_000])),
        trim_at_bytes=None if trim_at is None else int(str(trim_at)),
        ecn_low_bytes=15_000 if ecn else None,
        ecn_high_bytes=60_000 if ecn else None,
        loss=float(random.choice([0.0, 0.0, 0.0, 0.01])),
    )


def flows(random: np.random.Generator, hosts: int, most_bytes: int) -> Flows:
    """2 to 12 writes, several between the same hosts now and then, some of them long after the others."""
    count = int(random.integers(2, 13))
    source = random.integers(0, hosts, count)
    destination = (source + random.integers(1, hosts, count)) % hosts
    start = random.integers(0, 20_000, count) + random.choice([0, 0, 0, 1_500_000, 40_000_000], count)
    return Flows(source, destination, random.integers(1, most_bytes, count), start)


def policies(random: np.random.Generator) -> Policies:
    evs = _pick(random, None, 1, 2, 4)
    return Policies(
        qp=QP,
        evs=None if evs is None else int(str(evs)),
        ev_choice=str(_pick(random, "spread", "random", "first")),
        controller=str(_pick(random, "uet-1.0-nscc", "fixed")),
    )


def world(number: int, most_bytes: int = 100_000) -> Setup:
    """Anything."""
    random = np.random.default_rng(number)
    shape = topology(random)
    return Setup(
        shape, flows(random, shape.hosts, most_bytes), link(random), link(random), policies=policies(random),
        seed=number, end_ns=100 * SECOND,
    )  # fmt: skip


def steady(setup: Setup) -> Setup:
    """Without what is drawn for each packet: losses, and marks between two thresholds."""

    def still(each: ClusterLink) -> ClusterLink:
        return replace(each, loss=0.0, ecn_low_bytes=each.ecn_high_bytes)

    return replace(setup, fabric_link=still(setup.fabric_link), host_link=still(setup.host_link))
