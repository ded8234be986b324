# SPDX-License-Identifier: BSD-2-Clause
"""A responder that has no room: NO_BITMAP, NO_PKT_BUFFER, NO_RESOURCE (behaviour.md, Responder)."""

from __future__ import annotations

import random

import pytest
from hand_peer import ACK, NACK, ONLY_IMMEDIATE, REGION_VA, HandPeer, Sent, of
from hypothesis import given
from hypothesis import strategies as st

from mrc.endpoint.config import QpConfig, ResponderConfig
from mrc.endpoint.qp_states import QpState
from mrc.errors import CallerError


def _limited(**limits: int) -> HandPeer:
    config = QpConfig(path_mtu=256, mpr_dest=1, responder=ResponderConfig(**limits))  # type: ignore[arg-type]
    hand = HandPeer(config)
    for number in range(64):
        hand.qp.post_receive(number)
    return hand


def _write(hand: HandPeer, number: int, **others: object) -> bytes:
    return hand.request(number, bytes((number | 0x80,)) * 4, va=REGION_VA + 4 * number, **others)  # type: ignore[arg-type]


def _immediate(hand: HandPeer, number: int, rqmsn: int) -> bytes:
    return _write(hand, number, op=ONLY_IMMEDIATE, rqmsn=rqmsn)


def _nacked(hand: HandPeer, sent: list[Sent]) -> list[tuple[int, int]]:
    """(number, reason) of each NACK."""
    return [(nack["neth"]["nack_psn"] - hand.peer_first_psn, nack["neth"]["reason"]) for nack in of(sent, NACK)]


def _written(hand: HandPeer) -> list[int]:
    return [number for number in range(128) if any(hand.buffer[4 * number : 4 * number + 4])]


def _bitmap(hand: HandPeer) -> tuple[int, int, int]:
    """(cack as a number, bitmap, rcvd_bytes) by a probe."""
    (sack,) = hand.exchange(hand.probe())
    return sack["seth"]["cack_psn"] - hand.peer_first_psn, sack["seth"]["bitmap"], sack["cc_state"]["rcvd_bytes"]


@pytest.mark.parametrize("limit", ["max_span", "max_held_packets", "max_stashed_immediates"])
def test_the_packet_that_closes_the_hole_is_let_through_even_with_no_room_at_all(limit: str) -> None:
    """Or nothing would ever move again."""
    hand = _limited(**{limit: 0})
    sent = hand.exchange(*(_immediate(hand, at, at) for at in range(10)))
    assert _nacked(hand, sent) == []
    assert of(sent, ACK)[0].psn == hand.peer_first_psn + 9
    assert _nacked(hand, hand.exchange(_immediate(hand, 11, 11)))[0][0] == 11
    assert _nacked(hand, hand.exchange(_immediate(hand, 10, 10), _immediate(hand, 11, 11))) == []
    assert len(hand.endpoint.completions) == 12


def test_a_refused_packet_is_not_counted_as_received() -> None:
    """rcvd_bytes is "the running total of new untrimmed packets"; one that is refused is new again when it returns."""
    hand = _limited(max_held_packets=0)
    packet = _write(hand, 1)
    size = int.from_bytes(packet[44:46], "big") + 40
    for _ in range(10):
        hand.exchange(packet)
    assert _bitmap(hand) == (-1, 0, 0)
    hand.exchange(_write(hand, 0), packet)
    assert _bitmap(hand) == (1, 0, -(-2 * size // 256))
    assert hand.counters["bytes_placed"] == 8


def test_a_refused_request_is_not_looked_at() -> None:
    """Its R_Key is checked when there is room for it."""
    hand = _limited(max_span=1)
    hand.exchange(_write(hand, 5, rkey=0xBAD))
    assert hand.qp.state == QpState.RTS


@given(st.integers(0, 1 << 32))
def test_one_batch_says_what_the_same_packets_one_by_one_say(seed: int) -> None:
    """However packets are gathered into batches, the same ones are refused."""
    chance = random.Random(seed)
    limits = {
        "max_span": chance.randrange(1, 20),
        "max_held_packets": chance.randrange(8),
        "max_stashed_immediates": chance.randrange(4),
    }
    order = [number for number in range(24) for _ in range(chance.choice((1, 1, 2)))]
    order.sort(key=lambda number: number + chance.random() * 6)
    together, one_by_one = _limited(**limits), _limited(**limits)
    at = 0
    while at < len(order):
        count = chance.randrange(1, 9)
        chunk = order[at : at + count]
        at += count
        all_at_once = together.exchange(*(_immediate(together, number, number) for number in chunk))
        singly = [answer for n in chunk for answer in one_by_one.exchange(_immediate(one_by_one, n, n))]
        assert _nacked(together, all_at_once) == _nacked(one_by_one, singly)
        assert _written(together) == _written(one_by_one)
        assert _bitmap(together) == _bitmap(one_by_one)
    assert len(together.endpoint.completions) == len(one_by_one.endpoint.completions)


@pytest.mark.parametrize("limit", ["max_span", "max_held_packets", "max_stashed_immediates"])
def test_a_limit_cannot_be_negative(limit: str) -> None:
    with pytest.raises(CallerError, match=limit):
        ResponderConfig(**{limit: -1})  # type: ignore[arg-type]
