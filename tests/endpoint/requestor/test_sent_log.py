# SPDX-License-Identifier: BSD-2-Clause
"""The log of transmissions grows while more of them are unsettled than it has room for, up to a bound."""

from __future__ import annotations

from mrc.endpoint.requestor.sent import SentPackets

FIRST, WINDOW = 100, 16
MOST = 4 * (WINDOW + 1)


def test_it_grows_and_keeps_what_it_has() -> None:
    sent = SentPackets(WINDOW, FIRST)
    for number in range(WINDOW):
        assert sent.make_log_room(1) >= 1
        sent.transmit_one(1000 + number, number, 10 * number)
    # All of them again and again, before the first is settled: it stays at the head.
    for number in range(WINDOW, MOST):
        assert sent.make_log_room(1) >= 1
        sent.lose(number - WINDOW + 1)
        sent.transmit_again_one(FIRST + (number - WINDOW + 1) % WINDOW, 1000 + number, number, 10 * number)
    assert sent.transmitted(0) == (FIRST, 0, 0)
    assert sent.transmitted(MOST - 1)[1:] == (MOST - 1, 10 * (MOST - 1))
    assert sent.outstanding == WINDOW
    assert sent.bytes_outstanding() == 1000 + sum(1000 + number for number in range(MOST - WINDOW + 1, MOST))
    assert sent.bytes_outstanding() == sent.settle_all()
    assert sent.bytes_outstanding() == 0


def test_it_does_not_grow_without_end() -> None:
    sent = SentPackets(WINDOW, FIRST)
    sent.transmit_one(1, 0, 0)
    made = 1
    while sent.make_log_room(1) > 0:
        if made > 1:
            sent.lose(made - 1)
        sent.transmit_again_one(FIRST + 1, 1, 0, made)
        made += 1
    # A power of two that has each PSN of the window, and one more, four times.
    assert made == 128
    sent.settle(0)
    assert sent.make_log_room(1) > 0
