# SPDX-License-Identifier: BSD-2-Clause
"""Two endpoints over an unkind network: equal memory and every completion once, or an honest error.

Never a hang. All in virtual time and from seeds (architecture.md, rule 1); what is expected: behaviour.md,
Requestor and Paths.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sim_transfer import (
    DEAD,
    MICROSECOND,
    NODES,
    check_all_arrived,
    check_honest,
    path,
    run,
    start,
    transfer,
    two_hosts,
)

from mrc.endpoint.config import QpConfig
from mrc.sim import LinkModel, SimFabric

impairments = st.builds(
    LinkModel,
    delay_ns=st.sampled_from([0, 1_000, 10_000, 80_000]),
    jitter_ns=st.sampled_from([0, 30_000, 400_000]),
    loss=st.sampled_from([0.0, 0.0, 0.02, 0.2]),
    duplicate=st.sampled_from([0.0, 0.0, 0.1, 0.5]),
    reorder=st.sampled_from([0.0, 0.2, 1.0]),
    corrupt=st.sampled_from([0.0, 0.0, 0.05]),
    mark=st.sampled_from([0.0, 0.1, 1.0]),
)


@st.composite
def scenarios(draw: st.DrawFn) -> tuple[SimFabric, list[tuple[str, list[int]]], QpConfig]:
    """Two hosts with up to 8 paths, some impaired and some dead; writes of one or both sides over 1 to 3 QPs."""
    planes, spines = draw(st.integers(1, 2)), draw(st.integers(1, 4))
    mtu = draw(st.sampled_from([256, 512, 1024, 2048, 4096]))
    window = draw(st.sampled_from([1, 1, 8]))
    config = QpConfig(path_mtu=mtu, mpr=window, mpr_dest=window, timestamps=draw(st.booleans()))
    fabric = two_hosts(planes, spines, draw(st.integers(0, 1 << 20)), draw(impairments))
    for node in NODES:
        for plane in range(planes):
            for spine in range(spines):
                kind = draw(st.sampled_from(["default", "default", "own", "dead"]))
                if kind == "own":
                    path(fabric, node, plane, spine).model = draw(impairments)
                elif kind == "dead":
                    path(fabric, node, plane, spine).model = DEAD
    # Zero, one, odd and even, up to some tens of packets.
    size = st.sampled_from([0, 1, 3, mtu - 1, mtu, mtu + 1, 2 * mtu, 7 * mtu + 5, 40 * mtu])
    work = []
    for _ in range(draw(st.integers(1, 3))):
        for node in NODES:
            sizes = draw(st.lists(size, max_size=6))
            work.append((node, sizes))
    return fabric, work, config


@given(scenarios())
def test_any_network_ends_in_equal_memory_or_an_honest_error(
    scenario: tuple[SimFabric, list[tuple[str, list[int]]], QpConfig],
) -> None:
    fabric, work, config = scenario
    transfers = start(fabric, work, config)
    assert run(fabric, transfers), "still unfinished after a minute of virtual time"
    for each in transfers:
        check_honest(each)


@given(
    st.integers(0, 1 << 20),
    impairments,
    st.sampled_from([256, 4096]),
    st.lists(st.sampled_from([0, 1, 255, 256, 5000, 40_000]), min_size=1, max_size=8),
)
def test_every_write_arrives_over_paths_that_all_work_a_little(
    seed: int, impairment: LinkModel, mtu: int, sizes: list[int]
) -> None:
    """No dead path, at most a fifth lost on each: no error is honest here."""
    fabric = two_hosts(2, 4, seed, impairment)
    config = QpConfig(path_mtu=mtu, mpr=1, mpr_dest=1)
    transfers = start(fabric, [("h0", sizes), ("h1", sizes[::-1])], config)
    assert run(fabric, transfers)
    for each in transfers:
        check_all_arrived(each)


def _trace(seed: int) -> list[tuple[int, str, bytes]]:
    rough = LinkModel(delay_ns=10_000, loss=0.05, duplicate=0.05, reorder=0.5, jitter_ns=50_000, corrupt=0.02, mark=0.1)
    fabric = two_hosts(2, 2, seed, rough)
    seen: list[tuple[int, str, bytes]] = []
    fabric.observers.append(lambda now, node, packet: seen.append((now, node, packet)))
    transfers = start(fabric, [("h0", [50_000, 0, 7]), ("h1", [9_000])] * 2, QpConfig(path_mtu=1024))
    assert run(fabric, transfers)
    for each in transfers:
        check_all_arrived(each)
    return seen


def test_the_same_seed_gives_the_same_packets_at_the_same_times() -> None:
    first = _trace(7)
    assert len(first) > 150
    assert _trace(7) == first
    assert _trace(8) != first


def test_a_clean_network_retransmits_nothing() -> None:
    fabric = two_hosts(2, 4, 1)
    each = transfer(fabric, fabric.connect(*NODES)[0], "h0", [1_000_000, 0, 1])
    assert run(fabric, [each])
    check_all_arrived(each)
    counters = each.qp.counters.as_dict()
    assert "retransmitted_packets" not in counters
    assert counters["data_packets_sent"] == -(-1_000_000 // 4096) + 2


@pytest.mark.parametrize("jitter_us", [5, 50, 500])
def test_reordering_alone_loses_nothing_for_good(jitter_us: int) -> None:
    fabric = two_hosts(2, 4, 2, LinkModel(delay_ns=10_000, reorder=1.0, jitter_ns=jitter_us * MICROSECOND))
    each = transfer(fabric, fabric.connect(*NODES)[0], "h0", [2_000_000])
    assert run(fabric, [each])
    check_all_arrived(each)
