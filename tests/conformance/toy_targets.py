# SPDX-License-Identifier: BSD-2-Clause
"""Small targets of the tests' own: what an adapter of somebody else's might be, and ways in which one goes wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mrc.conformance.packets import Crafted
from mrc.conformance.setup import Plane, Setup, TargetQpTerms, TesterQp
from mrc.conformance.target import Frame, Session, Target, TargetQp
from mrc.conformance.virtual import VirtualSession
from mrc.wire.profile import WireProfile

QPN = 0x123456
FIRST_PSN = 0xABCDEF
PLANES = tuple(
    Plane(plane, f"fd00:{plane}::1", f"fd00:{plane}::2", (plane << 24, plane << 24 | 1), (plane << 24,))
    for plane in range(2)
)

# What a toy does with a burst: it gets the session and the frames, and sends with `session.send`.
Behaviour = Callable[["ToySession", Sequence[Frame]], None]


class ToyQp(TargetQp):
    """It can carry packets and nothing else."""

    def __init__(self, setup: Setup) -> None:
        self.terms = TargetQpTerms(QPN, FIRST_PSN, 1024, 0x10000, 65536, 0x77, 8, 32, setup.agreed)


class ToySession(VirtualSession):
    mode = "stev"
    planes = PLANES

    def __init__(self, behaviour: Behaviour) -> None:
        super().__init__()
        self.behaviour = behaviour
        self.outbox: list[Frame] = []
        self.later: list[tuple[int, Frame]] = []
        self.seen = 0

    def send(self, packet: Crafted | bytes, plane: int = 0, after: int = 0) -> None:
        data = packet if isinstance(packet, bytes) else packet.frame()
        if after:
            self.later.append((self.now + after, Frame(plane, data)))
        else:
            self.outbox.append(Frame(plane, data))

    def connect(self, setup: Setup, tester: TesterQp) -> TargetQp:
        self.tester = tester
        return ToyQp(setup)

    def deliver(self, frames: Sequence[Frame], now: int) -> None:
        self.seen += len(frames)
        self.behaviour(self, frames)

    def collect(self, now: int) -> Sequence[Frame]:
        sent, self.outbox = self.outbox, []
        return sent

    def next_deadline(self) -> int | None:
        return min((when for when, _ in self.later), default=None)

    def on_timer(self, now: int) -> None:
        self.outbox += [frame for when, frame in self.later if when <= now]
        self.later = [each for each in self.later if each[0] > now]


class ToyTarget(Target):
    name = "toy"

    def __init__(self, behaviour: Behaviour) -> None:
        self._behaviour = behaviour

    def open(self, setup: Setup, wire: WireProfile, seed: int) -> Session:
        return ToySession(self._behaviour)


def silent(session: ToySession, frames: Sequence[Frame]) -> None:
    """A target that is dead."""


def raising(session: ToySession, frames: Sequence[Frame]) -> None:
    raise KeyError("a fault of the target's")


def dead() -> Target:
    return ToyTarget(silent)


def broken() -> Target:
    return ToyTarget(raising)


def no_target() -> object:
    return object()


def failing() -> Target:
    raise OSError("no such device")
