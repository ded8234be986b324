# SPDX-License-Identifier: BSD-2-Clause
"""Paths that die, heal, lose at random or are marked, under two endpoints in virtual time (behaviour.md, Paths)."""

from __future__ import annotations

from collections import Counter

import pytest
from sim_transfer import (
    CLEAN,
    DEAD,
    MICROSECOND,
    MILLISECOND,
    NODES,
    SECOND,
    Transfer,
    check_all_arrived,
    path,
    run,
    set_all_paths,
    start,
    transfer,
    two_hosts,
)

from mrc.endpoint.completions import WorkStatus
from mrc.endpoint.config import PathConfig, QpConfig
from mrc.endpoint.congestion import FixedWindow, FixedWindowConfig
from mrc.endpoint.memory import MemoryRegion
from mrc.endpoint.paths.states import EvState
from mrc.endpoint.qp_states import QpState
from mrc.endpoint.work import WriteRequest
from mrc.fabric import Clos
from mrc.sim import LinkModel, SimFabric
from mrc.wire.packet import decode_transport


def _count_data(fabric: SimFabric, since: int = 0) -> Counter[tuple[str, int]]:
    """Counts data packets by sender and EV from now on; the counter fills as the network runs."""
    counts: Counter[tuple[str, int]] = Counter()

    def observe(now: int, node: str, packet: bytes) -> None:
        if now >= since and 0xC6 <= packet[48] <= 0xCB:
            ev = (int.from_bytes(packet[:4], "big") & 0xFFFF) << 16 | int.from_bytes(packet[40:42], "big")
            counts[node, ev] += 1

    fabric.observers.append(observe)
    return counts


def _ev(plane: int, spine: int) -> int:
    return plane << 24 | spine


def _stream(fabric: SimFabric, until: int) -> list[Transfer]:
    """Keeps h0 writing until then: a write of 8 packets each 50 microseconds."""
    qp, _ = fabric.connect(*NODES, QpConfig(path_mtu=1024))
    transfers: list[Transfer] = []
    target = bytearray(8 * 1024)
    region = fabric.endpoints["h1"].memory.register(target, va=0)
    source = MemoryRegion(bytes(at & 0xFF for at in range(8 * 1024)), 0, 0, remote_write=False)
    each = Transfer("h0", qp, bytes(source.view), [], target, region)
    transfers.append(each)

    def post() -> None:
        qp.post_write(WriteRequest(len(each.sizes), source, 0, 8 * 1024, 0, region.rkey))
        each.sizes.append(8 * 1024)
        fabric.endpoints["h0"].wake(qp)
        if fabric.now + 50 * MICROSECOND < until:
            fabric.at(fabric.now + 50 * MICROSECOND, post)

    fabric.at(0, post)
    return transfers


def test_a_dead_path_gets_no_data_after_detection_and_returns_after_healing() -> None:
    """One of eight dies at 2 ms: probes alone go there until they are answered, then it carries its share again."""
    fabric = two_hosts(2, 4, 5)
    victim = path(fabric, "h0", 1, 2)
    dies, heals, ends = 2 * MILLISECOND, 25 * MILLISECOND, 60 * MILLISECOND
    transfers = _stream(fabric, ends)
    fabric.at(dies, lambda: victim.set(loss=1.0))
    fabric.at(heals, lambda: victim.set(loss=0.0))
    before = _count_data(fabric)
    detected = dies + 5 * MILLISECOND
    fabric.run(detected)
    assert before["h0", _ev(1, 2)] > 0
    after = _count_data(fabric)
    fabric.run(heals)
    assert after["h0", _ev(1, 2)] == 0
    assert set(after) == {("h0", _ev(plane, spine)) for plane in (0, 1) for spine in range(4)} - {("h0", _ev(1, 2))}
    # The planes keep their shares: plane 1's three EVs carry as much as plane 0's four.
    planes = [sum(count for (_, ev), count in after.items() if ev >> 24 == plane) for plane in (0, 1)]
    assert abs(planes[0] - planes[1]) <= 0.02 * sum(planes)
    fabric.run(ends - 20 * MILLISECOND)
    healed = _count_data(fabric)
    fabric.run(ends)
    assert run(fabric, transfers, ends + SECOND)
    shares = [healed["h0", _ev(plane, spine)] for plane in (0, 1) for spine in range(4)]
    assert min(shares) > 0
    assert max(shares) < 1.2 * min(shares)
    (each,) = transfers
    assert {status for _, status, _ in each.completions} == {WorkStatus.SUCCESS}
    assert bytes(each.target) == each.data
    assert each.qp.counters.retransmitted_packets < 200


@pytest.mark.parametrize("direction", ["both", "h0", "h1"])
@pytest.mark.parametrize("size", [1, 4096, 100_000, 3_000_000])
def test_a_spine_dead_from_the_first_packet(direction: str, size: int) -> None:
    """Forward, backward or both ways: everything arrives, and soon; a broken reverse path condemns no forward one."""
    for seed in range(3):
        fabric = two_hosts(2, 4, seed)
        for node in NODES if direction == "both" else (direction,):
            path(fabric, node, 0, 1).model = DEAD
        each = transfer(fabric, fabric.connect(*NODES)[0], "h0", [size])
        assert run(fabric, [each], 500 * MILLISECOND)
        check_all_arrived(each)
        if direction == "h1":
            assert each.qp.counters.retransmitted_packets == each.qp.counters.spurious_retransmissions


@pytest.mark.parametrize("size", [1, 100_000])
def test_a_whole_plane_dead_from_the_first_packet(size: int) -> None:
    """The plane's share goes to the other."""
    fabric = two_hosts(2, 4, 3)
    for node in NODES:
        for spine in range(4):
            path(fabric, node, 0, spine).model = DEAD
    each = transfer(fabric, fabric.connect(*NODES)[0], "h0", [size])
    assert run(fabric, [each], SECOND)
    check_all_arrived(each)


@pytest.mark.parametrize("mpr", [1, 8])
@pytest.mark.parametrize("silence_s", [0.1, 1.0, 3.0])
def test_a_silence_shorter_than_the_budget_is_survived(mpr: int, silence_s: float) -> None:
    """Every path dead in both directions, then all back: 7 linear and 7 exponential retries of 16.8 ms take 4.4 s."""
    fabric = two_hosts(2, 2, 11)
    config = QpConfig(path_mtu=1024, mpr=mpr, mpr_dest=mpr)
    each = transfer(fabric, fabric.connect(*NODES, config)[0], "h0", [60_000, 1, 0])
    set_all_paths(fabric, DEAD)
    fabric.run(int(silence_s * SECOND))
    set_all_paths(fabric, CLEAN)
    assert run(fabric, [each], 10 * SECOND)
    check_all_arrived(each)


def test_a_silence_for_ever_is_an_error_with_the_rest_flushed() -> None:
    fabric = two_hosts(2, 2, 12, DEAD)
    each = transfer(fabric, fabric.connect(*NODES)[0], "h0", [10, 0, 100_000])
    assert run(fabric, [each], 10 * SECOND)
    assert [status for _, status, _ in each.completions] == [
        WorkStatus.RETRY_EXCEEDED,
        WorkStatus.FLUSHED,
        WorkStatus.FLUSHED,
    ]
    assert each.qp.state == QpState.ERROR
    assert not any(each.target)


def test_a_dead_reverse_direction_is_an_error_though_all_has_arrived() -> None:
    """Nothing acknowledged completes, however well it arrived."""
    fabric = two_hosts(1, 2, 13)
    for spine in range(2):
        path(fabric, "h1", 0, spine).model = DEAD
    each = transfer(fabric, fabric.connect(*NODES)[0], "h0", [5000])
    assert run(fabric, [each], 10 * SECOND)
    assert each.completions[0][1] == WorkStatus.RETRY_EXCEEDED
    assert bytes(each.target) == each.expected()


def test_marks_on_every_path_slow_nothing_down() -> None:
    """SKIP on all: the rotation still finds one for each packet."""
    fabric = two_hosts(2, 2, 14, LinkModel(delay_ns=10_000, mark=1.0))
    each = transfer(fabric, fabric.connect(*NODES)[0], "h0", [1_000_000])
    assert run(fabric, [each], SECOND)
    check_all_arrived(each)
    assert "retransmitted_packets" not in each.qp.counters.as_dict()


def test_random_loss_on_every_path_leaves_ev_min_active_in_use() -> None:
    """So random loss on every path slows nothing down."""
    fabric = two_hosts(2, 4, 15, LinkModel(delay_ns=10_000, loss=0.05))
    config = QpConfig(paths=PathConfig(ev_min_active=4))
    each = transfer(fabric, fabric.connect(*NODES, config)[0], "h0", [4_000_000])
    least = 8

    def watch() -> None:
        nonlocal least
        assert each.qp.paths is not None
        least = min(least, int((each.qp.paths.state <= 1).sum()))
        fabric.at(fabric.now + 100 * MICROSECOND, watch)

    fabric.at(0, watch)
    assert run(fabric, [each], 5 * SECOND)
    check_all_arrived(each)
    assert 4 <= least < 8


def test_two_qps_and_both_directions_do_not_disturb_each_other() -> None:
    """MRC-QP-06."""
    fabric = two_hosts(2, 4, 16, LinkModel(delay_ns=10_000, loss=0.01, reorder=0.3, jitter_ns=20_000))
    transfers = start(fabric, [("h0", [300_000, 1]), ("h1", [200_000]), ("h0", [0] * 20), ("h1", [4096] * 20)])
    assert run(fabric, transfers)
    for each in transfers:
        check_all_arrived(each)


def test_what_the_network_carries_is_whole_packets() -> None:
    """Every packet both sides send reads back from its bytes without a fault."""
    fabric = two_hosts(2, 2, 17, LinkModel(delay_ns=10_000, loss=0.1))
    opcodes: Counter[int] = Counter()

    def observe(_: int, __: str, packet: bytes) -> None:
        decoded = decode_transport(packet[48:])
        assert decoded.malformed is None
        opcodes[decoded.layers[0][1]["opcode"]] += 1

    fabric.observers.append(observe)
    transfers = start(fabric, [("h0", [200_000, 5]), ("h1", [10_000])])
    assert run(fabric, transfers)
    assert set(opcodes) >= {0xC6, 0xC7, 0xC8, 0xCA, 0xD1, 0xDC}


def test_the_last_good_path_comes_back_though_answers_go_on_dying() -> None:
    """Of two paths one lost a packet and is being probed when the other's cable is cut. Only probes get through then,
    and every second answer takes the dead plane until the responder's own probes tell it. MRC-PATH-29, MRC-PATH-31."""
    # A packet of 4 KiB takes 34 microseconds at 1 Gbit/s: more than half of the time was used, on average.
    assert sum(map(_arrived_with_one_path_dead, (5, 6, 7))) > 3 * 6_000


def _arrived_with_one_path_dead(seed: int) -> int:
    """Packets of data that arrive in 400 ms."""
    fabric = SimFabric(Clos(planes=2, leaves=2, spines=1), LinkModel(rate_bps=1_000_000_000, delay_ns=5_000), seed=seed)
    qp, peer = fabric.connect("h0", "h1", QpConfig(), lambda sizes: FixedWindow(sizes, FixedWindowConfig(30)))
    fabric.stream(qp)
    fabric.run(5 * MILLISECOND)
    fabric.impair("p1l0-p1s0", loss=1.0)
    assert qp.paths is not None
    good = qp.paths.paths.index(next(each for each in qp.paths.paths if each.ev == _ev(1, 0)))
    assert fabric.run(SECOND, lambda: qp.paths.state[good] == EvState.ASSUMED_BAD)
    fabric.impair("p1l0-p1s0", loss=0.0)
    fabric.cut("p0l0-p0s0")
    cut_at, had = fabric.now, peer.counters.requests_received
    fabric.run(cut_at + 400 * MILLISECOND, lambda: qp.state == QpState.ERROR)
    assert qp.state == QpState.RTS
    assert qp.paths.state[good] in (EvState.GOOD, EvState.SKIP)
    return peer.counters.requests_received - had
