# SPDX-License-Identifier: BSD-2-Clause
"""Clusters against mrc.sim, which has an object for each packet and each link: the same, to the nanosecond."""

from __future__ import annotations

from dataclasses import replace

import pytest
from cluster_setups import FIXED, NSCC, all_to_all, busy, figures, in_mrc_sim, incast, permutation

from mrc.sim.cluster import Flows, Policies, Topology, run


@pytest.mark.parametrize(
    ("work", "policies"),
    [
        (permutation(16, 100_000), NSCC),
        (permutation(16, 100_000), FIXED),
        (incast(12, 60_000), NSCC),
        (all_to_all(8, 20_000), NSCC),
    ],
    ids=["permutation", "permutation, fixed window", "incast", "all to all"],
)
def test_the_same_flows_end_at_the_same_time(work: Flows, policies: Policies) -> None:
    hosts = max(int(work.source.max()), int(work.destination.max())) + 1
    setup = busy(Topology(hosts, planes=2, hosts_per_leaf=4, spines=4), work, policies)
    assert figures(run(setup)) == in_mrc_sim(setup)


def test_an_incast_that_is_trimmed_is_the_same_too() -> None:
    setup = replace(busy(Topology(16, planes=2, hosts_per_leaf=4, spines=4), incast(16, 100_000)), seed=3)
    setup = replace(setup, seed=0)
    found = figures(run(setup))
    assert found == in_mrc_sim(setup)
    assert found["trimmed"]
    assert found["marked"]
    assert found["again"]
