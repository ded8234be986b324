# SPDX-License-Identifier: BSD-2-Clause
"""A ring of leaves in virtual time: which links packets of each EV cross, and what a cut leaves of them."""

from __future__ import annotations

import pytest

from mrc.endpoint.config import QpConfig
from mrc.fabric.shapes.ring import Ring
from mrc.sim import LinkModel, SimFabric

GIGABIT, MICROSECOND, SECOND = 1_000_000_000, 1_000, 1_000_000_000
MODEL = LinkModel(rate_bps=10 * GIGABIT, delay_ns=MICROSECOND)


def _crossed(fabric: SimFabric) -> dict[tuple[str, str], int]:
    return {key: egress.counters.packets for key, egress in fabric.egresses.items() if egress.counters.packets}


@pytest.mark.parametrize("leaves", [3, 4, 5])
def test_a_write_goes_around_both_ways(leaves: int) -> None:
    fabric = SimFabric(Ring(planes=1, leaves=leaves), MODEL, seed=1)
    qp, _ = fabric.connect("h0", "h1", QpConfig(path_mtu=1024))
    transfer = fabric.write(qp, 1 << 20)
    assert fabric.run(SECOND, lambda: transfer.done)
    crossed = _crossed(fabric)
    data = crossed["h0-p0l0", "p0l0"]
    short, long = crossed["p0l0-p0l1", "p0l1"], crossed[f"p0l0-p0l{leaves - 1}", f"p0l{leaves - 1}"]
    assert short + long == data
    assert min(short, long) > data // 4
    for leaf in range(1, leaves - 1):
        # What goes the long way crosses every other link.
        assert crossed[f"p0l{leaf}-p0l{leaf + 1}", f"p0l{leaf}"] == long


def test_hosts_of_one_leaf_stay_on_it() -> None:
    fabric = SimFabric(Ring(planes=1, hosts_per_leaf=2), MODEL, seed=1)
    qp, _ = fabric.connect("h0", "h1", QpConfig(path_mtu=1024))
    transfer = fabric.write(qp, 1 << 16)
    assert fabric.run(SECOND, lambda: transfer.done)
    assert {link for link, _ in _crossed(fabric)} == {"h0-p0l0", "h1-p0l0"}


def test_a_cut_link_sends_everything_the_other_way() -> None:
    fabric = SimFabric(Ring(planes=1), MODEL, seed=1)
    qp, _ = fabric.connect("h0", "h2", QpConfig(path_mtu=1024))
    first = fabric.write(qp, 1 << 20)
    assert fabric.run(SECOND, lambda: first.done)
    fabric.cut("p0l1-p0l2")
    second = fabric.write(qp, 4 << 20)
    assert fabric.run(fabric.now + SECOND, lambda: second.done)
    before = _crossed(fabric)
    third = fabric.write(qp, 1 << 20)
    assert fabric.run(fabric.now + SECOND, lambda: third.done)
    after = _crossed(fabric)
    assert after["p0l0-p0l3", "p0l3"] - before["p0l0-p0l3", "p0l3"] >= 1024
    # A probe or two still ask whether the link is back.
    assert after["p0l0-p0l1", "p0l1"] - before["p0l0-p0l1", "p0l1"] < 100
