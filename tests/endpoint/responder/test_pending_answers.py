# SPDX-License-Identifier: BSD-2-Clause
"""Answers that wait to be sent (mrc.endpoint.responder.answers)."""

from __future__ import annotations

from mrc.endpoint.responder.answers import PendingAnswers
from mrc.endpoint.responder.request_checks import Answer


def _answer(number: int) -> Answer:
    answer = Answer()
    answer.begin(number, number + 1, number % 2 == 1, number & 0xFFFF, 3, 10 * number)
    answer.entropy, answer.tx_timestamp, answer.unit_ns, answer.rtx = (
        (1 << 32) - 1 - number,
        number,
        128,
        number % 3 == 0,
    )
    return answer


def _fields(answer: Answer) -> tuple[int, ...]:
    held = answer.psn, answer.highest, answer.marked, answer.probe_id, answer.reason, answer.arrived_at
    return *held, answer.entropy, answer.tx_timestamp, answer.unit_ns, answer.rtx


def _taken(pending: PendingAnswers, count: int) -> list[tuple[int, ...]]:
    found = []
    for _ in range(count):
        answer = Answer()
        pending.pop(answer)
        found.append(_fields(answer))
    return found


def test_what_waits_comes_out_as_it_was_and_in_order() -> None:
    """Also when the ring has to grow in the midst of it, with its oldest not at its beginning."""
    pending = PendingAnswers()
    for number in range(6):
        pending.add(_answer(number))
    assert _taken(pending, 4) == [_fields(_answer(number)) for number in range(4)]
    for number in range(6, 40):
        pending.add(_answer(number))
    assert pending.count == 36
    assert _taken(pending, 36) == [_fields(_answer(number)) for number in range(4, 40)]
    assert pending.count == 0


def test_under_a_flood_the_oldest_give_way() -> None:
    pending = PendingAnswers()
    for number in range(3000):
        pending.add(_answer(number))
    assert pending.count == 1024
    assert _taken(pending, 1024) == [_fields(_answer(number)) for number in range(3000 - 1024, 3000)]
