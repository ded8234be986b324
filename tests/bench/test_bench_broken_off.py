# SPDX-License-Identifier: BSD-2-Clause
"""A measurement whose server refuses or ends: it ends too, at the next turn of the loop, with what was measured."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from patience import eventually

from mrc.bench.backwards import Asking
from mrc.bench.client import BenchClient, BenchOptions
from mrc.bench.latency import Pinger, ping
from mrc.bench.writes import Writing
from mrc.errors import PeerError


def test_writes_end_when_the_server_fails_to_write_back() -> None:
    def ask() -> dict[str, Any]:
        raise PeerError("a write failed")

    def run(until: Callable[[], bool]) -> None:
        for _ in range(10):
            assert not until()

    client = object.__new__(BenchClient)
    client._options = BenchOptions("write", (1,), 600.0, direction="both")
    client._loop = run  # type: ignore[method-assign]
    # It would go on for ten minutes.
    writing = cast(Writing, SimpleNamespace(begin=lambda: None, turn=lambda: False))
    asking = Asking(ask, lambda: None)
    try:
        eventually(asking._done.is_set)
        with pytest.raises(PeerError, match="a write failed"):
            client._turn_until_done(writing, asking, [])
    finally:
        asking.close()


class Answered:
    """A pinger whose pings are all answered."""

    has_room = is_quiet = True

    def arrived(self, number: int) -> bool:
        return True

    def take_completions(self) -> None:
        pass

    def write(self, number: int) -> None:
        pass


@pytest.mark.parametrize("turns", [1, 6])
def test_pings_that_were_answered_before_the_server_ended_are_kept(turns: int) -> None:
    def run(until: Callable[[], bool]) -> None:
        for _ in range(turns):
            assert not until()
        raise PeerError("the receiver has ended")

    pinged = ping(cast(Pinger, Answered()), run, 600.0)
    assert len(pinged.half_round_trips_us) == turns - 1
    assert pinged.interrupted
    assert str(pinged.failure) == "the receiver has ended"
