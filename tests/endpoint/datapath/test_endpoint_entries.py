# SPDX-License-Identifier: BSD-2-Clause
"""The endpoint's entries: receive, transmit, next_deadline, on_timer, create_qp (architecture: no I/O, no clock)."""

from __future__ import annotations

import pytest
from hand_peer import (
    ACK,
    MICROSECOND,
    MILLISECOND,
    PEER_FIRST_PSN,
    PEER_QPN,
    REGION_VA,
    HandPeer,
    data,
    icrc,
    numbers,
    of,
    peer_address,
)
from nacking import CONFIG, RTT, send, trained

from mrc.endpoint.completions import Completion, WorkStatus
from mrc.endpoint.config import EndpointConfig, PeerNodeConfig
from mrc.endpoint.congestion import factory_of
from mrc.endpoint.endpoint import Endpoint
from mrc.endpoint.memory import MemoryRegion
from mrc.endpoint.qp import QueuePair
from mrc.endpoint.qp_peer import QpPeer
from mrc.endpoint.work import WriteRequest
from mrc.errors import CallerError
from mrc.wire.transmit_batch import TransmitBatch


def _number(hand: HandPeer, ev: int) -> int:
    """Of this EV at the peer node."""
    assert hand.qp.peer_node is not None
    return int(hand.qp.peer_node.add_paths(hand.profile)[[path.ev for path in hand.profile].index(ev)])


# ------------------------------------------------------------------ deadlines


@pytest.mark.parametrize("timeout", [2 * MILLISECOND, 50 * MILLISECOND])
def test_the_next_deadline_is_the_earliest_of_all_qps_and_nodes(timeout: int) -> None:
    """ "When `on_timer` should be called next": a QP's tail probe after 10 ms, an EV probe fails after `timeout`."""
    nodes = PeerNodeConfig(ev_probe_timeout_ns=timeout)
    hand = HandPeer(CONFIG, endpoint=EndpointConfig(peer_nodes=nodes))
    other = hand.connect(CONFIG, qpn=PEER_QPN + 1)
    assert hand.endpoint.next_deadline() is None
    assert hand.qp.peer_node is not None
    hand.endpoint.probe_ev(hand.qp.peer_node, _number(hand, hand.profile[0].ev))
    hand.transmitted()
    assert hand.endpoint.next_deadline() == hand.now + timeout
    hand.post(256)
    hand.transmitted()
    both = min(hand.now + timeout, hand.now + 10 * MILLISECOND)
    assert hand.endpoint.next_deadline() == both
    hand.now += MILLISECOND
    hand.qp = other
    hand.post(256)
    hand.transmitted()
    assert hand.endpoint.next_deadline() == both
    alone = HandPeer(CONFIG)
    alone.post(256)
    alone.transmitted()
    assert alone.endpoint.next_deadline() == alone.now + 10 * MILLISECOND


def test_a_call_too_soon_does_nothing() -> None:
    """ "It may come early: a call too soon does nothing." """
    hand = trained()
    send(hand, 2)
    deadline = hand.endpoint.next_deadline()
    assert deadline is not None
    for early in (hand.now, deadline - 1):
        hand.now = early
        hand.endpoint.on_timer(early)
        assert hand.transmitted() == []
        assert hand.endpoint.next_deadline() == deadline
    hand.now = deadline
    hand.endpoint.on_timer(deadline)
    assert len(hand.transmitted()) == 1


def test_deadlines_of_a_qp_that_is_gone_are_gone() -> None:
    hand = trained()
    other = hand.connect(CONFIG, qpn=PEER_QPN + 1)
    send(hand, 1)
    hand.now += 10 * MICROSECOND
    first, hand.qp = hand.qp, other
    hand.post(256)
    hand.transmitted()
    hand.endpoint.destroy_qp(first)
    sent = hand.run(hand.now + 50 * MILLISECOND, stop_at_first=True)
    assert {packet["bth"]["dqp"] for packet in sent} == {PEER_QPN + 1}
    hand.endpoint.destroy_qp(other)
    assert hand.endpoint.next_deadline() is None
    hand.endpoint.on_timer(hand.now + 1000 * MILLISECOND)


def test_an_earlier_deadline_that_comes_later_is_kept() -> None:
    """Before any sample the tail probe is due 10 ms after it was sent; the first answer makes that 300 us."""
    hand = HandPeer(CONFIG)
    send(hand, 1)
    assert hand.endpoint.next_deadline() == hand.now + 10 * MILLISECOND
    hand.now += RTT
    hand.receive(hand.sack(0))
    send(hand, 1)
    assert hand.endpoint.next_deadline() == hand.now + 3 * RTT
    (probe,) = hand.run(hand.now + 3 * RTT)
    assert probe.at == hand.now


def test_all_timers_due_at_one_time_run_in_one_call() -> None:
    hand = HandPeer(CONFIG)
    qps = [hand.qp, *(hand.connect(CONFIG, qpn=PEER_QPN + at) for at in (1, 2))]
    for hand.qp in qps:
        hand.post(256)
    hand.transmitted()
    hand.now += 10 * MILLISECOND
    hand.endpoint.on_timer(hand.now)
    assert sorted(packet["bth"]["dqp"] - PEER_QPN for packet in hand.transmitted()) == [0, 1, 2]


# ------------------------------------------------------------------ batches out


def test_what_a_batch_holds_already_stays_as_it_is() -> None:
    """ "Fill `batch` with what may leave now ... and seal it. Returns the number of packets", the new ones."""
    hand = HandPeer(CONFIG)
    batch = TransmitBatch(8)
    hand.post(256 * 3)
    assert hand.endpoint.transmit(batch, hand.now) == 3
    before = [batch.packet(row) for row in range(3)]
    hand.post(256 * 2)
    assert hand.endpoint.transmit(batch, hand.now) == 2
    assert hand.endpoint.transmit(batch, hand.now) == 0
    packets = [batch.packet(row) for row in range(batch.count)]
    assert packets[:3] == before
    assert [packet[-4:] for packet in packets] == [icrc(packet[:-4]) for packet in packets]


@pytest.mark.parametrize("room", [1, 3, 64])
def test_a_batch_takes_what_fits_and_the_next_the_rest(room: int) -> None:
    """Whoever is ready: answers first, then data; nothing is lost between batches."""
    hand = HandPeer(CONFIG)
    hand.batch = TransmitBatch(room)
    hand.receive(*(hand.request(at, b"x", va=REGION_VA + at, bth={"ackreq": 1}) for at in range(5)))
    hand.post(256 * 10)
    sent = hand.transmitted()
    assert numbers(hand, sent) == list(range(10))
    assert of(sent, ACK)[-1].psn == PEER_FIRST_PSN + 4
    assert [packet.is_data for packet in sent] == sorted(packet.is_data for packet in sent)


def test_with_nobody_else_ready_a_share_is_no_limit() -> None:
    """EndpointConfig.fair_share is "before the next QP has its turn": one QP alone asks only at the end of its data."""
    hand = HandPeer(CONFIG, endpoint=EndpointConfig(seed=1, fair_share=4))
    hand.post(256 * 10)
    sent = data(hand.transmitted())
    assert [packet["bth"]["ackreq"] for packet in sent] == [0] * 9 + [1]


# ------------------------------------------------------------------ QPs


def _connect(endpoint: Endpoint, qp: QueuePair, hand: HandPeer) -> QueuePair:
    qp.to_init()
    qp.to_rtr(QpPeer(PEER_QPN + 7, PEER_FIRST_PSN, hand.profile, {plane: peer_address(plane) for plane in range(2)}))
    qp.to_rts()
    return qp


def test_numbers_are_drawn_until_one_is_free() -> None:
    """ "with a QPN ... drawn at random"; 24 bit, not below 0x10, and nobody else's."""
    one, two = Endpoint(), Endpoint()  # the same seed
    one.create_qp(qpn=0x10)
    drawn = one.create_qp().qpn
    two.create_qp(qpn=drawn)
    other = two.create_qp().qpn
    assert other != drawn
    assert sorted(two.qps) == sorted((drawn, other))
    assert 0x10 <= other < 1 << 24


def test_qps_differ_in_numbers_and_first_psns() -> None:
    endpoint = Endpoint()
    qps = [endpoint.create_qp() for _ in range(50)]
    assert len({qp.qpn for qp in qps}) == len({qp.first_psn for qp in qps}) == 50
    assert max(qp.first_psn for qp in qps) < 1 << 24
    assert max(qp.first_psn for qp in qps) > 1 << 22
    assert max(qp.qpn for qp in qps) > 1 << 22


def test_endpoints_of_the_same_seed_do_the_same_and_others_do_not() -> None:
    """EndpointConfig.seed: a run can be repeated, packet by packet."""

    def sent(seed: int) -> list[bytes]:
        hand = HandPeer(CONFIG, seed=seed)
        hand.post(256 * 40)
        return [packet.whole for packet in hand.transmitted()]

    assert sent(5) == sent(5)
    assert sent(5) != sent(6)


def test_rotations_of_qps_are_not_in_step() -> None:
    """behaviour.md, Paths: the order "is pseudo-random and reshuffled, per QP, so that QPs do not march in step"."""
    hand = HandPeer(CONFIG, spines=16)
    orders = []
    for at in range(2):
        hand.qp = hand.connect(CONFIG, qpn=PEER_QPN + 1 + at)
        hand.post(256 * 32)
        orders.append([packet.ev for packet in data(hand.transmitted())])
    assert orders[0] != orders[1]
    assert sorted(orders[0]) == sorted(orders[1])


def test_the_controller_is_nscc_unless_another_is_named() -> None:
    """behaviour.md, Congestion control: "`nscc` is the default"."""
    hand = HandPeer(CONFIG)
    qp = _connect(hand.endpoint, hand.endpoint.create_qp(CONFIG), hand)
    named = _connect(hand.endpoint, hand.endpoint.create_qp(CONFIG, "nscc"), hand)
    assert qp.controller is named.controller
    assert qp.controller is not hand.qp.controller
    with pytest.raises(CallerError, match="there are fixed, none, nscc"):
        factory_of("cubic")


def test_a_qp_with_memory_of_its_own_opens_no_other() -> None:
    """ "`memory` is what the peer may write to, the endpoint's own table without"."""
    hand = HandPeer(CONFIG)
    own = hand.endpoint.create_memory()
    buffer = bytearray(16)
    region = own.register(buffer, va=REGION_VA)
    qp = _connect(hand.endpoint, hand.endpoint.create_qp(CONFIG, memory=own), hand)
    hand.qp = qp
    hand.exchange(hand.request(0, b"mine", rkey=region.rkey))
    assert bytes(buffer[:4]) == b"mine"
    hand.exchange(hand.request(1, b"other", rkey=hand.region.rkey))
    assert qp.counters.bad_rkey == 1
    assert not any(hand.buffer)


def test_completions_go_where_they_are_wanted() -> None:
    """ "`complete` gets its completions, without they are kept in `completions`"."""
    hand, got = HandPeer(CONFIG), list[Completion]()
    qp = _connect(hand.endpoint, hand.endpoint.create_qp(CONFIG, complete=got.append), hand)
    qp.post_write(WriteRequest(7, MemoryRegion(b"", 0, 0, remote_write=False), 0, 0, 0, 0))
    hand.endpoint.wake(qp)
    hand.transmitted()
    hand.qp = qp
    hand.receive(hand.ack(0))
    assert [(each.wr_id, each.status) for each in got] == [(7, WorkStatus.SUCCESS)]
    assert not hand.endpoint.completions


def test_r_keys_are_drawn_as_the_owner_says() -> None:
    """ "`draw_rkey` gives random 32-bit numbers for R_Keys"; 0 is not used, and none twice."""
    numbers_drawn = iter([0, 5, 5, 9])
    endpoint = Endpoint(draw_rkey=lambda: next(numbers_drawn))
    assert [endpoint.memory.register(bytearray(1)).rkey for _ in range(2)] == [5, 9]
    drawn = [Endpoint(EndpointConfig(seed=seed)).memory.register(bytearray(1)).rkey for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
