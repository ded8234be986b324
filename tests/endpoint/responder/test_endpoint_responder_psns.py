# SPDX-License-Identifier: BSD-2-Clause
"""The responder's PSN table (behaviour.md, Responder): what is written, acknowledged, SACKed and counted."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hand_peer import ACK, PSN_MASK, REGION_VA, SACK, HandPeer, Sent, of
from hypothesis import given
from hypothesis import strategies as st
from within import SEEN_FROM_WITHIN

from mrc.endpoint.config import QpConfig
from mrc.wire import octets

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


@SEEN_FROM_WITHIN
def test_the_bitmap_moves_before_the_payload_is_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where cack_psn stands when the copying begins. MRC-RESP-12."""
    hand = HandPeer(QpConfig(path_mtu=256))
    stood_at: list[int] = []
    place = octets.place

    def observed(address: int, source: memoryview, source_at: int, length: int) -> None:
        stood_at.append(hand.qp.responder.received.cack_psn - hand.peer_first_psn)
        place(address, source, source_at, length)

    monkeypatch.setattr(octets, "place", observed)
    hand.receive(*(hand.request(at, b"data", va=REGION_VA + 4 * at) for at in range(8)))
    assert hand.buffer[:32] == b"data" * 8
    assert stood_at == list(range(8))
