# SPDX-License-Identifier: BSD-2-Clause
"""The responder's PSN table (behaviour.md, Responder): what is written, acknowledged, SACKed and counted."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hand_peer import ACK, PSN_MASK, REGION_VA, SACK, HandPeer, Sent, of
from hypothesis import given
from hypothesis import strategies as st

from mrc.endpoint.config import QpConfig

SMALL = QpConfig(path_mtu=256, mpr=1, mpr_dest=1)
HALF = 1 << 23
WINDOW = 128  # mpr 1


def _write(hand: HandPeer, number: int, **others: object) -> bytes:
    """An Only of 16 bytes: number `number` fills its own 16 bytes of the region with its low byte."""
    fill = bytes((number & 0xFF or 0xEE,)) * 16
    return hand.request(number, fill, va=REGION_VA + (number % WINDOW) * 16, **others)  # type: ignore[arg-type]


def _written(hand: HandPeer) -> set[int]:
    return {at for at in range(WINDOW) if any(hand.buffer[at * 16 : at * 16 + 16])}


def _cack(hand: HandPeer, packet: Sent) -> int:
    """The cack_psn of an ACK or SACK, as a number after the peer's first PSN (-1: nothing has arrived)."""
    psn = packet["seth"]["cack_psn"] if packet.opcode == SACK else packet.psn
    return ((psn - hand.peer_first_psn + HALF) & PSN_MASK) - HALF


@pytest.mark.parametrize("first_psn", [0, 1000, HALF - 3, (1 << 24) - 3])
def test_new_in_window_in_any_order_is_written_and_acked_when_the_left_edge_moves(first_psn: int) -> None:
    """Row 1. Also across the wrap of the PSN and at half of the circle.

    MRC-RESP-03, MRC-RESP-04, MRC-RESP-05, MRC-ACK-05, MRC-ACK-10, MRC-ACK-11.
    """
    hand = HandPeer(SMALL, peer_first_psn=first_psn)
    expected = {2: None, 1: None, 0: 2, 5: None, 3: 3, 4: 5}
    done: set[int] = set()
    for number, cack in expected.items():
        sent = hand.exchange(_write(hand, number))
        done.add(number)
        assert _written(hand) == done
        assert [_cack(hand, packet) for packet in of(sent, ACK)] == ([] if cack is None else [cack])
        assert not of(sent, SACK)  # nothing triggers one
    assert hand.counters["bytes_placed"] == 6 * 16


def test_the_same_packet_twice_in_one_batch_is_one_packet() -> None:
    hand = HandPeer(SMALL)
    sent = hand.exchange(_write(hand, 1), _write(hand, 1), _write(hand, 0), _write(hand, 0))
    (ack,) = of(sent, ACK)
    assert _cack(hand, ack) == 1
    assert ack["aeth"]["msn"] == 2
    assert hand.counters["bytes_placed"] == 32
    assert hand.counters["duplicates_above_epsn"] + hand.counters.get("duplicates_old", 0) == 2


def test_the_window_ends_mpr_times_128_psns_from_epsn() -> None:
    """Row 4: `>= epsn + window` is neither written nor acknowledged. MRC-RESP-08, MRC-RESP-11."""
    hand = HandPeer(SMALL)
    assert hand.exchange(_write(hand, WINDOW - 1)) == []
    assert _written(hand) == {WINDOW - 1}
    hand.buffer[:] = bytes(len(hand.buffer))
    for beyond in (WINDOW, WINDOW + 1, HALF - 1):
        sent = hand.exchange(_write(hand, beyond))
        assert not of(sent, ACK)
        assert not of(sent, SACK)
        assert _written(hand) == set()
    assert hand.counters["psn_out_of_window"] == 3
    # The edge moves with epsn.
    hand.exchange(_write(hand, 0))
    hand.buffer[:] = bytes(len(hand.buffer))
    hand.exchange(_write(hand, WINDOW))
    assert _written(hand) == {0}  # number 128 has the first slot again
    assert hand.counters["psn_out_of_window"] == 3


def test_at_half_the_circle_behind_nothing_is_answered() -> None:
    """Row 5: `<= epsn - 2^23` is only counted; one PSN nearer is an old duplicate. MRC-RESP-10."""
    hand = HandPeer(SMALL)
    hand.exchange(*(_write(hand, number) for number in range(4)))  # epsn is 4
    assert hand.exchange(_write(hand, 4 - HALF)) == []
    assert hand.counters["psn_out_of_range"] == 1
    sent = hand.exchange(_write(hand, 5 - HALF))
    assert [packet.opcode for packet in sent] in ([SACK, ACK], [ACK, SACK])
    (sack,) = of(sent, SACK)
    assert sack["seth"]["ack_psn_offset"] == 0  # too old for 16 bits
    assert hand.counters["duplicates_old"] == 1
    assert hand.counters["psn_out_of_range"] == 1


@given(st.integers(0, 1 << 32), st.sampled_from([0, HALF - 50, (1 << 24) - 50]))
def test_any_order_with_duplicates_in_batches_of_any_size(seed: int, first_psn: int) -> None:
    """Whatever the order, memory, cack_psn and the bitmap are those of the set that has arrived.

    MRC-SACK-06, MRC-SACK-13.
    """
    chance = random.Random(seed)
    hand = HandPeer(SMALL, peer_first_psn=first_psn)
    order = [number for number in range(60) for _ in range(chance.choice((0, 1, 1, 2)))]
    chance.shuffle(order)
    arrived: set[int] = set()
    messages = 0
    while order:
        count = chance.randrange(1, 9)
        chunk, order = order[:count], order[count:]
        sent = hand.exchange(
            *(_write(hand, number) for number in chunk[:-1]), _write(hand, chunk[-1], bth={"ackreq": 1})
        )
        before = next(number for number in range(-1, 61) if number + 1 not in arrived)
        arrived |= set(chunk)
        cack = next(number for number in range(-1, 61) if number + 1 not in arrived)
        assert _written(hand) == arrived
        sack = of(sent, SACK)[-1]
        assert _cack(hand, sack) == cack
        base = cack + sack["seth"]["sack_offset"]
        told = {base + bit for bit in range(64) if sack["seth"]["bitmap"] >> bit & 1}
        assert told == {number for number in arrived if number > cack}
        assert sack["cc_state"]["ooo_count"] == len(told)
        if cack > before:
            messages = cack + 1
            assert of(sent, ACK)[-1]["aeth"]["msn"] == messages
    total = sum(len(np.unique([at])) for at in arrived)
    assert hand.counters["bytes_placed"] == 16 * total
