# SPDX-License-Identifier: BSD-2-Clause
"""How long no data arrives when a path is cut in the middle of a transfer."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, BinaryIO

from mrc.bench.subject import RECEIVER, Streaming
from mrc.child import START_TIMEOUT_S
from mrc.errors import PeerError
from mrc.lab import Lab

WATCHED_S = 3.0  # after the cut
_FLOWING_S = 0.5  # before it
_LOOK_EVERY_S = 0.001
# Fewer bytes between two looks are probes, acknowledgements and neighbour discovery.
_LEAST_DATA = 1024
_STARTED_BYTES = 1 << 20
# A pause at the end of watching that is no longer than this, or than twice the longest before it, is one of many.
_SHORT_S = 0.1


@dataclass(frozen=True, slots=True)
class Stall:
    """The longest time without data, and whether data came again."""

    seconds: float
    resumed: bool


class Cut:
    """A subject's stream, from under which the receiver's cable of plane 0 is cut.

    The plain addresses the baselines use are of plane 0: whichever spine they go through, that cable is on their way.
    """

    def __init__(self, subject: Streaming) -> None:
        self._subject = subject
        self.name = subject.name
        self.loss = subject.loss

    def check(self) -> None:
        self._subject.check()

    def prepare(self, lab: Lab) -> None:
        self._subject.prepare(lab)

    def run(self, lab: Lab) -> Mapping[str, Any]:
        cable = lab.links_of(RECEIVER)[0].name
        lab.prepare(cable)
        with self._subject.stream(lab), lab.inside(RECEIVER, _table) as table:
            try:
                stall = _watch(table, lambda: lab.cut(cable), self.name)
            finally:
                lab.heal(cable)
        return {"stall_ms": stall.seconds * 1e3, "resumed": stall.resumed, "watched_ms": WATCHED_S * 1e3}


def _watch(table: BinaryIO, cut: Callable[[], object], who: str) -> Stall:
    """Wait until data flows, cut, and look on."""
    began_bytes, deadline = _arrived(table), time.monotonic() + START_TIMEOUT_S
    while _arrived(table) - began_bytes < _STARTED_BYTES:
        if time.monotonic() > deadline:
            raise PeerError(f"{who} was to be cut in the middle of a transfer, but sent nothing")
        time.sleep(_LOOK_EVERY_S)
    time.sleep(_FLOWING_S)
    looks: list[tuple[float, int]] = []
    cut()
    began = time.monotonic()
    while (now := time.monotonic()) - began < WATCHED_S:
        looks.append((now, _arrived(table)))
        time.sleep(_LOOK_EVERY_S)
    return longest_stall(looks)


def longest_stall(looks: Sequence[tuple[float, int]]) -> Stall:
    """Of looks (seconds, bytes that had arrived by then).

    It reaches from the first look at a state to the last look at it: a look that came late makes no stall.
    """
    longest = 0.0
    since = looks[0][0]
    for (before, had), (now, has) in pairwise(looks):
        if has - had >= _LEAST_DATA:
            longest = max(longest, before - since)
            since = now
    last = looks[-1][0] - since
    return Stall(max(longest, last), resumed=last <= max(2 * longest, _SHORT_S))


def received_bytes(lab: Lab) -> int:
    """All that has arrived at the receiving host's interfaces, headers and all."""
    with lab.inside(RECEIVER, _table) as table:
        return _arrived(table)


def _table() -> BinaryIO:
    """Of the interfaces of this thread's namespace; any thread may read it."""
    return open("/proc/thread-self/net/dev", "rb", buffering=0)


def _arrived(table: BinaryIO) -> int:
    """Over all interfaces."""
    table.seek(0)
    return sum(int(line.partition(b":")[2].split()[0]) for line in table.read().splitlines() if b":" in line)
