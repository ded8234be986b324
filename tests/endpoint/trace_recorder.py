# SPDX-License-Identifier: BSD-2-Clause
"""A tracer that keeps what it is told, and holds each event to the table (mrc.trace.vocabulary) as it comes."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hand_peer import HandPeer

from mrc.trace.vocabulary import EVENTS, EventType


@dataclass(frozen=True)
class Recorded:
    """One event as it was told."""

    name: str
    at: int
    qpn: int | None
    data: dict[str, Any]

    def __getitem__(self, field: str) -> Any:
        return self.data[field]


class Recorder:
    """`clock` is the endpoint's; it may be set after the endpoint was made."""

    def __init__(self, clock: Callable[[], int] = lambda: 0) -> None:
        self.clock = clock
        self.recorded: list[Recorded] = []

    def now(self) -> int:
        return self.clock()

    def event(self, kind: EventType, at_ns: int, qpn: int | None, values: tuple[object, ...], /) -> None:
        assert EVENTS[kind.name] is kind
        data = dict(zip((field.name for field in kind.fields), values, strict=True))
        for field in kind.fields:
            assert field.allows(data[field.name]), f"{kind.name}: {field.name} = {data[field.name]!r}"
        # Plain JSON: nothing becomes another on the way to a file and back.
        assert json.loads(json.dumps([at_ns, qpn, data])) == [at_ns, qpn, data]
        assert not self.recorded or at_ns >= self.recorded[-1].at
        self.recorded.append(Recorded(kind.name, at_ns, qpn, data))

    def take(self, *names: str) -> list[Recorded]:
        """What was told since the last call, of these names where some are given; the rest is forgotten."""
        told, self.recorded = self.recorded, []
        return [each for each in told if not names or each.name in names]


def traced(config: Any = None, **others: Any) -> tuple[HandPeer, Recorder]:
    """A QP in RTS whose peer is the test, and what it tells."""
    recorder = Recorder(lambda: 1_000_000)  # where a HandPeer's clock begins
    hand = HandPeer(config, tracer=recorder, **others)
    recorder.clock = lambda: hand.now
    return hand, recorder
