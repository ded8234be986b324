# SPDX-License-Identifier: BSD-2-Clause
"""Peers that wait for a processor: what arrives late is not lost (behaviour.md, Loss, Retry budget, Dynamic MPR).

A starved receiver reads what has arrived only now and then. No link loses anything here, so every retransmission is
spurious, and so is every retry that is drawn.
"""

from __future__ import annotations

import pytest
from sim_transfer import MILLISECOND, SECOND, Transfer, check_all_arrived, run, transfer

from mrc import CORE
from mrc.core import COMPILED
from mrc.endpoint.config import EndpointConfig, ReceivingConfig
from mrc.endpoint.congestion import Configured, FixedWindow, FixedWindowConfig, Nscc
from mrc.endpoint.memory import MemoryRegion
from mrc.endpoint.qp import QueuePair
from mrc.endpoint.work import WriteRequest
from mrc.fabric import Clos
from mrc.net.tuning import USER_SPACE_NSCC, transfer_config
from mrc.sim import LinkModel, SimFabric

MIB = 1 << 20
CONFIG = transfer_config(path_mtu=4096)
SHAPE = Clos(2, 2, 4)
FEW = 8 * MIB // 4096 // 50  # 2 % of the packets


def _starved(host: str, every_ns: int, clos: Clos = SHAPE, most_packets: int | None = None) -> SimFabric:
    """A clean fabric in which this host looks at what arrived `every_ns` after the first packet of it."""
    config = EndpointConfig(receiving=ReceivingConfig(most_packets=most_packets))
    fabric = SimFabric(clos, LinkModel(delay_ns=10_000), config=config, seed=1)
    fabric.hosts[host]._coalesce_ns = every_ns
    return fabric


def _one_write(fabric: SimFabric, size: int) -> Transfer:
    qp, _ = fabric.connect("h0", "h1", CONFIG, controller=Configured(Nscc, USER_SPACE_NSCC))
    return transfer(fabric, qp, "h0", [size])


@pytest.mark.parametrize("host", ["h0", "h1"])
@pytest.mark.parametrize("every_ms", [30, 100, 200, 500] if CORE.kind == COMPILED else [200])
def test_who_reads_now_and_then_costs_no_retransmissions(host: str, every_ms: int) -> None:
    """Round trips are as long as one end sleeps, and longer than the local ACK timeout of 134 ms too."""
    fabric = _starved(host, every_ms * MILLISECOND)
    each = _one_write(fabric, 8 * MIB)
    assert run(fabric, [each], 120 * SECOND)
    check_all_arrived(each)
    assert each.qp.counters.retransmitted_packets <= FEW


def test_a_receiver_that_is_away_for_ten_seconds_loses_no_qp() -> None:
    """behaviour.md, Retry budget: a transfer's timeouts have 13 retries, which take 18 s."""
    fabric = _starved("h1", 10 * SECOND)
    each = _one_write(fabric, 2 * MIB)
    fabric.run(1 * MILLISECOND)
    fabric.hosts["h1"]._coalesce_ns = 0
    assert not run(fabric, [each], 9 * SECOND)
    assert run(fabric, [each], 60 * SECOND)
    check_all_arrived(each)


@pytest.mark.skipif(
    CORE.kind != COMPILED, reason="8,192 packets: once is enough, what they are held to is NSCC's figures"
)
def test_one_quick_answer_does_not_make_a_busy_peer_look_congested() -> None:
    """A receiver answers the first packets at once, and from then on reads what has arrived each millisecond. 8,192
    packets in 15 ms are some 600 in each: a window that is held against the first answers does not become so large."""
    fabric = _starved("h1", 0)
    each = _one_write(fabric, 32 * MIB)
    fabric.run(200_000)
    fabric.hosts["h1"]._coalesce_ns = 1 * MILLISECOND
    assert run(fabric, [each], 15 * MILLISECOND)
    check_all_arrived(each)


def _most_on_the_way(most_packets: int | None) -> int:
    """Packets that eight senders with wide windows have outstanding towards h8, once it has answered them."""
    fabric = _starved("h8", 2 * MILLISECOND, Clos(2, 2, 4, hosts_per_leaf=8), most_packets)
    qps: list[QueuePair] = []
    size = 24 * MIB
    for number in range(8):
        host = f"h{number}"
        qp, _ = fabric.connect(
            host, "h8", CONFIG, controller=lambda sizes: FixedWindow(sizes, FixedWindowConfig(1 << 18))
        )
        region = fabric.endpoints["h8"].memory.register(bytearray(size), va=0)
        qp.post_write(WriteRequest(0, MemoryRegion(bytes(size), 0, 0, remote_write=False), 0, size, 0, region.rkey))
        fabric.endpoints[host].wake(qp)
        qps.append(qp)
    first_grant = CONFIG.mpr * 128
    most = 0

    def look() -> bool:
        nonlocal most
        if all(qp.requestor.sent.una - qp.first_psn > first_grant for qp in qps):
            most = max(most, sum(qp.outstanding for qp in qps))
        return any(qp.requestor.sent.una - qp.first_psn > 2 * first_grant for qp in qps)

    assert fabric.run(60 * SECOND, look)
    return most


def test_what_all_senders_may_have_on_the_way_is_bounded() -> None:
    """Dynamic MPR: eight senders share 2,048 packets, two units of 128 PSNs each; the field rounds up by up to 127."""
    assert 0 < _most_on_the_way(2048) <= 2048 + 8 * 127


@pytest.mark.skipif(CORE.kind != COMPILED, reason="once is enough: it shows that the bound is what bounds them")
def test_without_a_bound_they_have_several_times_as_much() -> None:
    assert _most_on_the_way(None) > 8 * 1024
