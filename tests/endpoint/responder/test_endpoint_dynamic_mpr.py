# SPDX-License-Identifier: BSD-2-Clause
"""Dynamic MPR at the responder: what SACKs advertise and what is honoured (behaviour.md, Responder)."""

from __future__ import annotations

import random

import pytest
from hand_peer import ACK, MILLISECOND, NACK, PSN_MASK, REGION_VA, SACK, HandPeer, Sent, of
from hypothesis import given
from hypothesis import strategies as st

from mrc.endpoint.config import Capability, EndpointConfig, QpConfig, ReceivingConfig
from mrc.errors import CallerError

DYNAMIC = Capability.DYNAMIC_MPR
HALF = 1 << 23


def _dynamic(units: int = 8, first_psn: int = 1000) -> HandPeer:
    config = QpConfig(path_mtu=256, mpr_dest=units, capabilities=DYNAMIC, sack_threshold_bytes=1 << 24)
    return HandPeer(config, capabilities=DYNAMIC, peer_first_psn=first_psn)


def _write(hand: HandPeer, number: int, **others: object) -> bytes:
    return hand.request(number, bytes((number & 0x7F | 0x80,)), va=REGION_VA + number, **others)  # type: ignore[arg-type]


def _in_order(hand: HandPeer, start: int, stop: int) -> list[Sent]:
    """Everything from `start` to `stop` in one batch, the last with AckReq."""
    packets = [_write(hand, number) for number in range(start, stop - 1)]
    return hand.exchange(*packets, _write(hand, stop - 1, bth={"ackreq": 1}))


def _edge(hand: HandPeer, sack: Sent) -> int:
    """The right edge a SACK tells: the last number that may be sent."""
    cack = (sack["seth"]["cack_psn"] - hand.peer_first_psn + HALF & PSN_MASK) - HALF
    return cack + 128 * sack["seth"]["mpr"]


def _taken(hand: HandPeer, number: int) -> bool:
    """Whether number `number` is in the window: else it is NACKed."""
    sent = hand.exchange(_write(hand, number, bth={"ackreq": 1}))
    assert len(of(sent, NACK)) + len(of(sent, SACK)) == 1
    return bool(of(sent, SACK))


@pytest.mark.parametrize(("ours", "theirs"), [(DYNAMIC, Capability(0)), (Capability(0), DYNAMIC)])
def test_mpr_is_0_where_it_is_not_dynamic_on_both_sides(ours: Capability, theirs: Capability) -> None:
    """wire.md section 6: "0 when dynamic MPR is off"."""
    hand = HandPeer(QpConfig(path_mtu=256, capabilities=ours), capabilities=theirs)
    assert _in_order(hand, 0, 1)[0]["seth"]["mpr"] == 0
    with pytest.raises(CallerError, match="DYNAMIC_MPR"):
        hand.qp.set_mpr(16)


@pytest.mark.parametrize("first_psn", [0, (1 << 24) - 5000])
def test_a_window_that_grew_takes_what_it_promised_and_remembers_it(first_psn: int) -> None:
    """255 units: 32,640 PSNs. What was held before the window grew is held still."""
    hand = _dynamic(1, first_psn)
    held = [3, 77, 127]
    hand.exchange(*(_write(hand, number) for number in held))
    assert not _taken(hand, 128)
    hand.qp.set_mpr(255)
    assert _taken(hand, 128)
    assert _taken(hand, 255 * 128 - 1)
    assert not _taken(hand, 255 * 128)
    (sack,) = hand.exchange(hand.probe())
    assert sack["seth"]["bitmap"] == 1 << 3
    assert sack["cc_state"]["ooo_count"] == 5
    rest = [number for number in range(129) if number not in (*held, 128)]
    (ack,) = of(hand.exchange(*(_write(hand, number) for number in rest)), ACK)
    assert (ack.psn - hand.peer_first_psn & PSN_MASK, ack["aeth"]["msn"]) == (128, 129)
    assert all(hand.buffer[:129])


def test_what_was_agreed_out_of_band_is_honoured_before_any_sack() -> None:
    hand = _dynamic(8)
    hand.qp.set_mpr(1)
    assert _taken(hand, 8 * 128 - 1)


def test_a_cut_takes_effect_however_small_the_steps_are() -> None:
    """One SACK a packet: once epsn has moved by what was cut, the window is the smaller one."""
    hand = _dynamic(3)
    hand.qp.set_mpr(1)
    told = [of(_in_order(hand, number, number + 1), SACK)[0]["seth"]["mpr"] for number in range(300)]
    assert told[0] == 3
    assert told == sorted(told, reverse=True)
    assert told[256:] == [1] * 44


@given(st.integers(0, 1 << 32), st.sampled_from([0, (1 << 24) - 300]))
def test_whatever_is_set_when_every_edge_told_is_honoured(seed: int, first_psn: int) -> None:
    """The requestor keeps the highest edge told; the mpr field of a SACK is never 0. MRC-MPR-02, MRC-MPR-03."""
    chance = random.Random(seed)
    hand = _dynamic(chance.randrange(1, 5), first_psn)
    edge, sent_up_to = hand.config.mpr_dest * 128 - 1, 0
    for _ in range(6):
        if chance.random() < 0.5:
            hand.qp.set_mpr(chance.randrange(1, 6))
        count = min(chance.randrange(1, 200), edge + 1 - sent_up_to)
        if count:
            (sack,) = of(_in_order(hand, sent_up_to, sent_up_to + count), SACK)
            sent_up_to += count
            assert sack["seth"]["mpr"] >= 1
            edge = max(edge, _edge(hand, sack))
    assert hand.counters.get("psn_out_of_window", 0) == 0
    if edge >= sent_up_to:
        assert _taken(hand, edge)


@pytest.mark.parametrize("units", [0, 256, -1])
def test_an_mpr_beyond_1_to_255_is_refused(units: int) -> None:
    """0 would read as "not in use"."""
    with pytest.raises(CallerError):
        _dynamic().qp.set_mpr(units)


def test_a_node_that_holds_little_grants_little_and_honours_what_it_granted() -> None:
    """Two units for all QPs that receive: with a second one each SACK tells of one, and no edge retreats."""
    hand = _dynamic()
    budget = hand.endpoint.receive_budget
    budget.set_capacity(2 * 128)
    (sack,) = of(_in_order(hand, 0, 1), SACK)
    # The eight units agreed on at first stand until the left edge has come near enough.
    assert sack["seth"]["mpr"] == 8
    first_edge = 8 * 128 - 1
    assert _taken(hand, first_edge)
    for number in range(1, first_edge):
        hand.receive(_write(hand, number))
    (sack,) = of(_in_order(hand, first_edge + 1, first_edge + 2), SACK)
    assert sack["seth"]["mpr"] == 2
    budget.on_requests(0x77, hand.now)
    edge = _edge(hand, sack)
    (sack,) = of(_in_order(hand, first_edge + 2, first_edge + 3), SACK)
    assert _edge(hand, sack) >= edge
    following = range(first_edge + 3, first_edge + 260)
    for number in following:
        hand.receive(_write(hand, number))
    (sack,) = of(_in_order(hand, following.stop, following.stop + 1), SACK)
    assert sack["seth"]["mpr"] == 1


@pytest.mark.parametrize(("own", "waiting", "told"), [(0, 768, 64), (100, 768, 100), (10, 768, 64), (10, 0, 10)])
def test_every_sack_tells_the_larger_penalty_of_the_node_and_the_qp(own: int, waiting: int, told: int) -> None:
    """wire.md 6: rcv_cwnd_pen. 256 packets beyond the 512 that may wait are half of the most: 64."""
    hand = _dynamic()
    hand.qp.set_receiver_penalty(own, restore=own > 0)
    hand.endpoint.receive_budget.on_backlog(waiting)
    (sack,) = of(_in_order(hand, 0, 1), SACK)
    assert (sack["cc_state"]["rcv_cwnd_pen"], sack["cc_state"]["restore_cwnd"]) == (told, int(own > 0))


def test_an_edge_that_no_sack_told_is_not_granted() -> None:
    """128 packets in order have an ACK and no SACK: after a cut the edge is that of 8 units from the first PSN on."""
    hand = _dynamic()
    assert of(hand.exchange(*(_write(hand, number) for number in range(128))), SACK) == []
    hand.qp.set_mpr(1)
    (sack,) = of(hand.exchange(hand.probe()), SACK)
    assert sack["seth"]["mpr"] == 7


def test_a_qp_that_receives_again_has_its_share_of_the_buffers() -> None:
    """behaviour.md, Dynamic MPR: "The QPs that received requests in the last second share that evenly"."""
    node = EndpointConfig(seed=1, receiving=ReceivingConfig(most_packets=16 * 128))
    config = QpConfig(path_mtu=256, mpr_dest=1, capabilities=DYNAMIC)
    hand = HandPeer(config, capabilities=DYNAMIC, endpoint=node)
    first, second = hand.qp, hand.connect(config, qpn=0x77)
    granted = []
    for after, qp, number in ((700, first, 0), (700, first, 1), (1, second, 0)):
        hand.now += after * MILLISECOND
        hand.qp = qp
        qp.set_mpr(255)
        (sack,) = of(_in_order(hand, number, number + 1), SACK)
        granted.append(sack["seth"]["mpr"])
    # Both were connected less than a second ago; then one alone has received; then both have.
    assert granted == [8, 16, 8]
