# SPDX-License-Identifier: BSD-2-Clause
"""Spurious retransmissions: what the sender notices, what the receiver got twice, and what the network knows."""

from __future__ import annotations

from collections import defaultdict

import pytest
from sim_transfer import (
    CLEAN,
    DEAD,
    MICROSECOND,
    MILLISECOND,
    check_all_arrived,
    path,
    run,
    set_all_paths,
    transfer,
    two_hosts,
)

from mrc.endpoint.config import QpConfig
from mrc.endpoint.qp import QueuePair
from mrc.net.transfer.report import TransferReport
from mrc.sim import LinkModel, SimFabric
from mrc.sim.host import SimHost
from mrc.sim.link import SimPacket
from mrc.wire.packet import decode_transport

_BTH_AT = 48  # behind the inner IPv6 header (40 bytes) and UDP (8), wire.md section 2
_WRITES = [100_000] * 4


class Network:
    """Remembers every data packet that h0 sent, in order, and which of them came to h1."""

    def __init__(self, fabric: SimFabric, monkeypatch: pytest.MonkeyPatch) -> None:
        self._sent: dict[int, list[bytes]] = defaultdict(list)
        self._arrived: set[int] = set()
        fabric.observers.append(self._observe)
        receive = SimHost.receive

        def noting(host: SimHost, packet: SimPacket, port: int) -> None:
            self._arrived.add(id(packet.data))
            receive(host, packet, port)

        monkeypatch.setattr(SimHost, "receive", noting)

    def _observe(self, now: int, host: str, data: bytes) -> None:
        layers = dict(decode_transport(data[_BTH_AT:]).layers)
        if host == "h0" and "tseth" in layers and "reth" in layers:
            self._sent[layers["bth"]["psn"]].append(data)

    @property
    def resent(self) -> int:
        return sum(len(each) - 1 for each in self._sent.values())

    @property
    def spurious(self) -> int:
        """Retransmissions of a packet of which an earlier transmission came, sooner or later."""
        came = [[id(data) in self._arrived for data in each] for each in self._sent.values()]
        return sum(any(each[:number]) for each in came for number in range(1, len(each)))


def _reported(qp: QueuePair, duplicates: int | None) -> TransferReport:
    return TransferReport(counters=qp.counters.as_dict(), duplicates_received=duplicates)


def _transferred(
    fabric: SimFabric, monkeypatch: pytest.MonkeyPatch, silence_ns: int = 0
) -> tuple[Network, QueuePair, QueuePair]:
    """400,000 bytes from h0 to h1; whatever h1 sends for `silence_ns` is lost, once its first answers have come."""
    network = Network(fabric, monkeypatch)
    qp, peer = fabric.connect("h0", "h1", QpConfig(path_mtu=1024), controller="fixed")
    each = transfer(fabric, qp, "h0", _WRITES)
    if silence_ns:
        # Path timers say nothing of a peer that was never heard.
        fabric.run(fabric.now + 10 * MILLISECOND, lambda: qp.counters.sacks_received > 0)
        set_all_paths(fabric, DEAD, senders=("h1",))
        fabric.run(fabric.now + silence_ns)
        set_all_paths(fabric, CLEAN, senders=("h1",))
    assert run(fabric, [each])
    check_all_arrived(each)
    fabric.run(fabric.now + 100 * MILLISECOND)  # until everything that was sent has come or is lost
    return network, qp, peer


def test_answers_that_are_lost_make_spurious_retransmissions_that_only_the_receiver_knows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Answers are lost for longer than a local ACK timeout: what is sent again had arrived, and no SACK says so."""
    network, qp, peer = _transferred(two_hosts(), monkeypatch, 40 * MILLISECOND)
    noticed, duplicates = qp.counters.spurious_retransmissions, peer.counters.duplicates_received
    # No data packet was lost: all that was sent again came twice.
    assert network.resent == network.spurious == qp.counters.retransmitted_packets == duplicates > 0
    assert noticed < duplicates
    report = _reported(qp, duplicates)
    assert report.to_json()["spurious_retransmissions"] == network.spurious
    assert report.to_json()["duplicates_received"] == network.spurious
    # Without the receiver's count there is only what the sender noticed.
    assert _reported(qp, None).to_json()["spurious_retransmissions"] == noticed
    assert _reported(qp, None).to_json()["duplicates_received"] is None


def test_packets_that_are_overtaken_make_spurious_retransmissions(monkeypatch: pytest.MonkeyPatch) -> None:
    fabric = two_hosts(seed=1)
    late = LinkModel(delay_ns=10 * MICROSECOND, reorder=0.05, jitter_ns=2 * MILLISECOND)
    set_all_paths(fabric, late, senders=("h0",))
    network, qp, peer = _transferred(fabric, monkeypatch)
    duplicates = peer.counters.duplicates_received
    assert network.spurious == network.resent == duplicates > 0
    assert qp.counters.spurious_retransmissions <= duplicates
    assert _reported(qp, duplicates).spurious_retransmissions == network.spurious


@pytest.mark.parametrize("seed", range(3))
def test_where_data_is_lost_too_no_more_is_reported_than_is_true(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    fabric = two_hosts(seed=seed)
    path(fabric, "h0", 0, 1).model = LinkModel(delay_ns=CLEAN.delay_ns, loss=0.2)
    network, qp, peer = _transferred(fabric, monkeypatch, MILLISECOND)
    duplicates = peer.counters.duplicates_received
    assert qp.counters.retransmitted_packets == network.resent > network.spurious
    # What lies between is spurious and was itself lost on its way.
    reported = _reported(qp, duplicates).spurious_retransmissions
    assert max(duplicates, qp.counters.spurious_retransmissions) == reported <= network.spurious
    assert duplicates > 0


def test_a_network_that_doubles_packets_makes_no_retransmission_spurious() -> None:
    """Nothing was sent again, so nothing was sent again needlessly, however often packets came."""
    report = TransferReport(counters={"data_packets_sent": 9}, duplicates_received=5)
    assert report.spurious_retransmissions == 0
    assert report.to_json()["duplicates_received"] == 5
