# SPDX-License-Identifier: BSD-2-Clause
"""Answers that find little room in the batch to be sent: all of them leave, in order, and never more than fit."""

from __future__ import annotations

import pytest
from hand_peer import ACK, FIRST, NACK, PSN_MASK, SACK, HandPeer, data, of
from several import Several

from mrc.endpoint.config import EndpointConfig, QpConfig
from mrc.wire.packet import decode_transport
from mrc.wire.transmit_batch import TransmitBatch

WINDOW = 128  # mpr 1
CONFIG = QpConfig(path_mtu=256, mpr_dest=1)


def _many(hand: HandPeer, nacks: int, sacks: int) -> None:
    """So many requests beyond the window, and so many new ones that ask for an acknowledgement."""
    hand.receive(
        *(hand.request(WINDOW + at, b"x") for at in range(1, nacks)),
        hand.request(WINDOW + 200, b"x"),
        *(hand.request(at, b"x", bth={"ackreq": 1}) for at in range(sacks)),
    )


def _sent(hand: HandPeer, batch: TransmitBatch, start: int = 0) -> list[tuple[int, int]]:
    """(opcode, the PSN it is about) of the rows of a batch from `start` on."""
    found = []
    for row in range(start, batch.count):
        layers = dict(decode_transport(batch.packet(row)[48:]).layers)
        opcode, psn = layers["bth"]["opcode"], layers["bth"]["psn"]
        if opcode == SACK:
            psn += layers["seth"]["ack_psn_offset"]
        found.append((opcode, (psn - hand.peer_first_psn) & PSN_MASK))
    return found


@pytest.mark.parametrize("room", [1, 2, 3, 4, 5, 7, 15, 16, 17])
def test_nacks_then_sacks_then_one_ack_however_many_fit_at_once(room: int) -> None:
    """NACKs first, so that a hole is not blamed on the path; 4 NACKs, 11 SACKs, an ACK."""
    hand = HandPeer(CONFIG)
    _many(hand, 4, 11)
    batches = []
    batch = TransmitBatch(room)
    while hand.endpoint.transmit(batch, hand.now):
        batches.append(_sent(hand, batch))
        batch.clear()
    answers = [answer for sent in batches for answer in sent]
    assert [opcode for opcode, _ in answers] == [NACK] * 4 + [SACK] * 11 + [ACK]
    assert sorted(psn for opcode, psn in answers if opcode == NACK) == [
        WINDOW + 1,
        WINDOW + 2,
        WINDOW + 3,
        WINDOW + 200,
    ]
    assert [psn for opcode, psn in answers if opcode == SACK] == list(range(11))
    assert answers[-1] == (ACK, 10)
    assert all(len(sent) == room for sent in batches[:-1])
    assert hand.counters["nacks_sent"] == 4
    assert hand.counters["sacks_sent"] == 11
    assert hand.counters["acks_sent"] == 1


def test_a_batch_that_holds_packets_already_takes_as_many_answers_as_have_room() -> None:
    hand = HandPeer(CONFIG)
    batch = TransmitBatch(9)
    hand.receive(*(hand.probe(at) for at in range(3)))
    assert hand.endpoint.transmit(batch, hand.now) == 3
    _many(hand, 2, 8)
    assert hand.endpoint.transmit(batch, hand.now) == 6
    assert [opcode for opcode, _ in _sent(hand, batch, 3)] == [NACK] * 2 + [SACK] * 4
    batch.clear()
    assert hand.endpoint.transmit(batch, hand.now) == 5
    assert [opcode for opcode, _ in _sent(hand, batch)] == [SACK] * 4 + [ACK]


def test_the_answers_of_several_qps_and_data_behind_them_leave_at_once() -> None:
    """Three QPs, each with three SACKs, an ACK and four packets of data: 24 in one batch."""
    several = Several(3, 1 << 20, own=True, config=CONFIG)
    hand = several.hand
    for at in range(3):
        several.of(at)
        hand.receive(*(hand.request(number, b"x", bth={"ackreq": 1}) for number in range(3)))
        hand.post(4 * 256)
    batch = TransmitBatch(128)
    assert hand.endpoint.transmit(batch, hand.now) == 24
    assert hand.endpoint.transmit(batch, hand.now) == 0


def test_a_fair_share_counts_answers_and_data_alike() -> None:
    """Two QPs, eight packets a turn: five SACKs and an ACK leave room for two of data, then it is the other's turn."""
    several = Several(2, 1 << 20, own=True, config=CONFIG, fair_share=8)
    hand = several.hand
    for at in range(2):
        several.of(at)
        hand.receive(*(hand.request(number, b"x", bth={"ackreq": 1}) for number in range(5)))
        hand.post(20 * 256)
    sent = hand.transmitted()
    assert [several.which(packet)[0] for packet in sent[:16]] == [0] * 8 + [1] * 8
    assert len(data(sent[:8])) == 2
    assert len(data(sent)) == 40


def test_a_nak_goes_last_and_counts_each_time() -> None:
    """What came before the offender is answered first."""
    hand = HandPeer(CONFIG, endpoint=EndpointConfig(seed=1))
    for times in (1, 2):
        if times == 2:
            hand.qp = hand.connect(CONFIG, qpn=0x77)
        _many(hand, 3, 3)
        hand.receive(hand.request(3, bytes(10), op=FIRST, dmalen=600))
        *before, nak = hand.transmitted()
        assert [ack.psn - hand.peer_first_psn for ack in of(before, ACK)] == [2]
        assert (nak.opcode, nak.psn - hand.peer_first_psn, nak["aeth"]["syndrome"]) == (ACK, 3, 0x61)
        assert hand.counters["naks_sent"] == times


def test_acks_and_requests_are_counted_batch_after_batch() -> None:
    hand = HandPeer(CONFIG)
    for batch in range(3):
        hand.exchange(*(hand.request(4 * batch + at, b"x") for at in range(4)))
        assert hand.counters["acks_sent"] == batch + 1
        assert hand.counters["requests_received"] == 4 * (batch + 1)


def test_duplicates_are_counted_batch_after_batch_and_nothing_else_is_one() -> None:
    """Old ones, ones above a hole, and beside them packets beyond the window."""
    hand = HandPeer(CONFIG)
    hand.exchange(hand.request(0, b"x"), hand.request(1, b"x"), hand.request(5, b"x"))
    for times in (1, 2, 3):
        beyond = [hand.request(WINDOW + 50 + at, b"x") for at in range(4)]
        hand.exchange(hand.request(0, b"x"), hand.request(1, b"x"), hand.request(5, b"x"), *beyond)
        assert hand.counters["duplicates_old"] == 2 * times
        assert hand.counters["duplicates_above_epsn"] == times
        assert hand.counters["psn_out_of_window"] == 4 * times


@pytest.mark.parametrize("room", [1, 2, 4, 5, 7, 8, 10, 14])
def test_answers_that_gathered_over_several_batches_leave_in_that_order(room: int) -> None:
    """Four batches of requests, three SACKs and a NACK each, before anything could be sent."""
    hand = HandPeer(CONFIG)
    for first in (0, 3, 6, 9):
        asking = [hand.request(first + at, b"x", bth={"ackreq": 1}) for at in range(3)]
        hand.receive(*asking, hand.request(WINDOW + 20 + first, b"x"))
    batch = TransmitBatch(room)
    answers: list[tuple[int, int]] = []
    while hand.endpoint.transmit(batch, hand.now):
        answers += _sent(hand, batch)
        batch.clear()
    assert answers == [
        *((NACK, WINDOW + 20 + first) for first in (0, 3, 6, 9)),
        *((SACK, number) for number in range(12)),
        (ACK, 11),
    ]


@pytest.mark.parametrize("taken", [0, 1, 5, 9])
def test_an_ack_leaves_if_there_is_room_for_one(taken: int) -> None:
    hand = HandPeer(CONFIG)
    batch = TransmitBatch(10)
    hand.receive(*(hand.probe(at) for at in range(taken)))
    assert hand.endpoint.transmit(batch, hand.now) == taken
    hand.receive(hand.request(0, b"x"))
    assert hand.endpoint.transmit(batch, hand.now) == 1
    assert _sent(hand, batch, taken) == [(ACK, 0)]


def test_a_nak_that_may_have_been_lost_is_said_again_and_counted_again() -> None:
    """Once a batch of requests that come although the QP is over."""
    hand = HandPeer(CONFIG)
    for times in (1, 2, 3):
        (nak,) = hand.exchange(*(hand.request(at, b"x", rkey=1) for at in range(3)))
        assert (nak.opcode, nak.psn - hand.peer_first_psn, nak["aeth"]["syndrome"]) == (ACK, 0, 0x62)
        assert hand.counters["naks_sent"] == times


@pytest.mark.parametrize("held", [0, 1, 4])
@pytest.mark.parametrize("room", [1, 2, 3, 4, 5])
def test_a_nak_comes_last_however_few_fit_at_once(room: int, held: int) -> None:
    """Three SACKs, an ACK and the NAK behind them, in batches that hold `held` packets of another QP already."""
    hand = HandPeer(CONFIG)
    hand.receive(
        *(hand.request(at, b"x", bth={"ackreq": 1}) for at in range(3)),
        hand.request(3, b"x", rkey=hand.region.rkey ^ 1),
    )
    answers = []
    batch = TransmitBatch(held + room)
    other = HandPeer(CONFIG)
    for _ in range(5):
        other.receive(*(other.probe(at) for at in range(held)))
        assert other.endpoint.transmit(batch, other.now) == held
        assert hand.endpoint.transmit(batch, hand.now) <= room
        answers += _sent(hand, batch, held)
        batch.clear()
    assert answers == [(SACK, 0), (SACK, 1), (SACK, 2), (ACK, 2), (ACK, 3)]
    assert (hand.counters["acks_sent"], hand.counters["naks_sent"]) == (1, 1)
