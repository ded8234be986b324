# SPDX-License-Identifier: BSD-2-Clause
"""SACKs at both ends: made while 512 packets arrive, and taken in by who sent them."""

from __future__ import annotations

from typing import Any

import pytest
from endpoints import Pair, without

from mrc.wire.received_batch import ReceivedBatch

WINDOW = 512
ROUNDS = 30


@pytest.mark.parametrize("loss", [0.0, 0.02], ids=["all_arrive", "2_percent_lost"])
def test_512_packets_received_and_acknowledged(benchmark: Any, loss: float) -> None:
    def fresh() -> tuple[tuple[Any, ...], dict[str, Any]]:
        pair = Pair(WINDOW)
        return (pair, without(pair.data(), loss)), {}

    answers = benchmark.pedantic(lambda pair, data: pair.sacks(data), setup=fresh, rounds=ROUNDS)
    assert sum(batch.count for batch in answers) > 8


@pytest.mark.parametrize("loss", [0.0, 0.02], ids=["all_arrive", "2_percent_lost"])
def test_sacks_for_512_packets_taken_in(benchmark: Any, loss: float) -> None:
    pairs: list[Pair] = []

    def fresh() -> tuple[tuple[Any, ...], dict[str, Any]]:
        pair = Pair(WINDOW)
        answers = pair.sacks(without(pair.data(), loss))
        pairs.append(pair)
        return (pair, answers), {}

    def take(pair: Pair, answers: list[ReceivedBatch]) -> None:
        for batch in answers:
            pair.now += 1000
            pair.sender.receive(batch, pair.now)

    benchmark.pedantic(take, setup=fresh, rounds=ROUNDS)
    assert pairs[-1].sender.total_counters().sacks_received > 4
