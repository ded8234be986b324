# SPDX-License-Identifier: BSD-2-Clause
"""Batches in which new packets, old ones and ones beyond the window are mixed (behaviour.md, Responder)."""

from __future__ import annotations

import pytest
from hand_peer import ACK, NACK, PSN_MASK, REGION_VA, SACK, HandPeer, of

from mrc.endpoint.config import QpConfig

WINDOW = 384  # mpr 3
CONFIG = QpConfig(path_mtu=256, mpr_dest=3)


def _write(hand: HandPeer, number: int) -> bytes:
    return hand.request(number, bytes((number & 0x7F | 0x80,)) * 4, va=REGION_VA + 4 * (number % WINDOW))


def _cack(hand: HandPeer) -> tuple[int, int]:
    """(cack_psn as a number, ooo_count) by a probe."""
    (sack,) = of(hand.exchange(hand.probe()), SACK)
    return (sack["seth"]["cack_psn"] - hand.peer_first_psn) & PSN_MASK, sack["cc_state"]["ooo_count"]


@pytest.mark.parametrize("run", [254, 255, 256, 257, 258, 383])
def test_a_hole_that_closes_before_a_long_run_moves_the_left_edge_over_all_of_it(run: int) -> None:
    """And up to the next hole only: number `run` + 1 is missing, the one after it is there."""
    hand = HandPeer(CONFIG)
    beyond = [run + 2] if run + 2 < WINDOW else []
    hand.receive(*(_write(hand, number) for number in [*range(1, run + 1), *beyond]))
    hand.transmitted()
    (ack,) = of(hand.exchange(_write(hand, 0)), ACK)
    assert (ack.psn - hand.peer_first_psn, ack["aeth"]["msn"]) == (run, run + 1)
    assert _cack(hand) == (run, len(beyond))
    assert all(hand.buffer[4 * number] == number & 0x7F | 0x80 for number in range(run + 1))


def test_a_batch_longer_than_the_window_in_order_is_taken_whole() -> None:
    """Each packet moves the window before the next is judged."""
    hand = HandPeer(CONFIG)
    (ack,) = of(hand.exchange(*(_write(hand, number) for number in range(WINDOW + 3))), ACK)
    assert ack.psn - hand.peer_first_psn == WINDOW + 2
    assert "psn_out_of_window" not in hand.counters


def test_a_batch_that_fills_the_window_and_goes_on_beyond_it() -> None:
    """Above a hole: those in the window are taken, each one beyond it is NACKed PSN_OOR_WINDOW and counted.

    What closes the hole comes last, so it moves the window for none of them.
    """
    hand = HandPeer(CONFIG)
    sent = hand.exchange(*(_write(hand, number) for number in [*range(1, WINDOW + 3), 0]))
    (ack,) = of(sent, ACK)
    assert ack.psn - hand.peer_first_psn == WINDOW - 1
    assert [nack["neth"]["nack_psn"] - hand.peer_first_psn for nack in of(sent, NACK)] == [
        WINDOW,
        WINDOW + 1,
        WINDOW + 2,
    ]
    assert hand.counters["psn_out_of_window"] == 3
    assert hand.counters["bytes_placed"] == 4 * WINDOW


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2)])
def test_what_is_answered_with_a_sack_is_so_whatever_else_is_in_the_batch(order: tuple[int, ...]) -> None:
    """A trigger, one that is beyond the window and one at half the circle behind, in any order."""
    hand = HandPeer(CONFIG)
    hand.exchange(_write(hand, 0))
    trigger = hand.request(1, b"now!", bth={"ackreq": 1})
    # The trigger has moved epsn from 1 to 2 for what comes after it (MRC-RESP-20).
    beyond, oldest = (1 + (order.index(0) < order.index(at)) for at in (1, 2))
    packets = (trigger, _write(hand, WINDOW + beyond), _write(hand, oldest - (1 << 23)))
    sent = hand.exchange(*(packets[at] for at in order))
    (sack,) = of(sent, SACK)
    assert (sack["seth"]["cack_psn"] - hand.peer_first_psn, sack["seth"]["bitmap"]) == (1, 0)
    assert [nack["neth"]["nack_psn"] - hand.peer_first_psn for nack in of(sent, NACK)] == [WINDOW + beyond]
    assert hand.counters["psn_out_of_range"] == 1
