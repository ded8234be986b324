# SPDX-License-Identifier: BSD-2-Clause
"""Names of links, switches and planes, held to the numbers of the topology."""

from __future__ import annotations

import numpy as np
import pytest

from mrc.errors import CallerError
from mrc.sim.cluster import Target, Topology
from mrc.sim.experiment import names

TWO = Topology(hosts=12, planes=2, hosts_per_leaf=4, spines=3)
THREE = Topology(hosts=16, planes=2, hosts_per_leaf=2, spines=2, tiers=3, leaves_per_pod=4, cores_per_spine=3)
DICE = np.random.default_rng(1)


@pytest.mark.parametrize("topology", [TWO, THREE], ids=["two tiers", "three tiers"])
def test_every_cable_is_found_by_its_name(topology: Topology) -> None:
    all_names = names.cable_names(topology)
    assert len(set(all_names)) == topology.cables
    for number, name in enumerate(all_names):
        assert names.targets(topology, name, DICE) == [(Target.CABLE, number)]


@pytest.mark.parametrize("topology", [TWO, THREE], ids=["two tiers", "three tiers"])
def test_the_cables_of_a_plane_are_those_whose_name_has_it(topology: Topology) -> None:
    all_names = names.cable_names(topology)
    for plane in range(topology.planes):
        found = names.cables_of(topology, (Target.PLANE, plane))
        assert [all_names[cable] for cable in found] == [name for name in all_names if f"-p{plane}" in name]


def test_the_cables_of_a_switch() -> None:
    all_names = names.cable_names(THREE)
    ((target, which),) = names.targets(THREE, "p1s3", DICE)
    assert (target, which) == (Target.SWITCH, THREE.spine_switch(1, 1, pod=1))
    ends = {all_names[cable] for cable in names.cables_of(THREE, (target, which))}
    assert ends == {f"p1l{leaf}-p1s3" for leaf in range(4, 8)} | {f"p1s3-p1c{core}" for core in range(3, 6)}


def test_some_of_a_class_are_drawn_without_repeats() -> None:
    found = names.targets(TWO, "5 fabric-links", np.random.default_rng(1))
    assert len(set(found)) == 5
    assert {target for target, _ in found} == {Target.CABLE}
    assert all(TWO.host_cables <= which < TWO.cables for _, which in found)
    assert len(names.targets(TWO, "50% host-links", DICE)) == 12


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("p0l0-p0s3", "no p0s3: spines are p0s0 to p0s2"),
        ("p0l0-p1s0", "its ends are in different planes"),
        ("p2l0-p2s0", "planes are p0 to p1"),
        ("h4-p0l0", "h4 is on p0l1"),
        ("h12-p0l0", "hosts are h0 to h11"),
        ("p0s0-p0l0", "lower end first"),
        ("p0c0", "there are no core switches"),
        ("plane:2", "planes are plane:0 to plane:1"),
        ("7 spines", "there are 6"),
        ("200% spines", "at most 100%"),
        ("everything", "no 'everything' here"),
    ],
)
def test_a_name_that_is_none_says_what_there_is(text: str, says: str) -> None:
    with pytest.raises(CallerError, match=says):
        names.targets(TWO, text, DICE)
