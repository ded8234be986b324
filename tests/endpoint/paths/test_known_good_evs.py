# SPDX-License-Identifier: BSD-2-Clause
"""Which EVs of a plane are known good, and how many are taken (behaviour.md, Reverse EVs)."""

from __future__ import annotations

import pytest

from mrc.endpoint.config import PeerNodeConfig
from mrc.endpoint.parts.numbers import column
from mrc.endpoint.paths.reverse import ReverseEvs


def _picked(reverse: ReverseEvs, numbers: list[int], at: int) -> list[int]:
    columns, chosen = column(len(numbers)), column(at + len(numbers), 77)
    for place, number in enumerate(numbers):
        columns[place] = number
    count = reverse.pick(columns, len(numbers), chosen, at)
    assert [chosen[place] for place in range(at)] == [77] * at
    return [numbers[chosen[at + place]] for place in range(count)]


@pytest.mark.parametrize("at", [0, 1, 3])
@pytest.mark.parametrize("most", [1, 2, 3, 4])
@pytest.mark.parametrize("times", [(10, 20, 30, 40), (40, 30, 20, 10), (20, 40, 10, 30), (30, 10, 40, 20)])
def test_those_confirmed_last_are_taken_the_latest_first(times: tuple[int, ...], most: int, at: int) -> None:
    reverse = ReverseEvs(PeerNodeConfig(reverse_evs_per_plane=most), 8)
    for number, now in zip((2, 3, 5, 7), times, strict=True):
        reverse.confirm(number, now)
    latest = sorted((2, 3, 5, 7), key=lambda number: -reverse.confirmed_at[number])
    assert _picked(reverse, [0, 1, 2, 3, 5, 7], at) == latest[:most]


def test_what_is_known_stays_when_there_are_further_evs() -> None:
    reverse = ReverseEvs(PeerNodeConfig())
    reverse.grow(2)
    reverse.confirm(0, 5)
    reverse.lose(1)
    reverse.users[0] += 1
    reverse.grow(2)
    assert _picked(reverse, [0, 1, 2, 3], 0) == [0]
    assert _picked(reverse, [1, 2, 3], 0) == [2, 3]
    assert [reverse.may_carry(number) for number in range(4)] == [True, False, False, False]


def test_an_ev_that_no_qp_uses_carries_nothing() -> None:
    reverse = ReverseEvs(PeerNodeConfig(), 2)
    reverse.users[1] += 1
    assert [reverse.may_carry(number) for number in range(2)] == [False, True]
    reverse.deny(1, 1)
    assert not reverse.may_carry(1)
