# SPDX-License-Identifier: BSD-2-Clause
"""The adversary as a random walk: rounds of seeded steps, each in a new world, until the adversary relents."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from adversary_network import MOST_IN_FLIGHT
from adversary_setting import MICROSECOND, MILLISECOND, draw_setting
from adversary_world import World

from mrc.endpoint.counters import Counters

PAUSES = (10 * MICROSECOND, 100 * MICROSECOND, 1 * MILLISECOND, 5 * MILLISECOND, 20 * MILLISECOND, 200 * MILLISECOND)
RUN_UP_ONE_IN = 50  # rounds that begin just before RQMSN and MSN wrap
UNKNOWN_REASONS = (0x00, 0x03, 0x0C, 0x18, 0xFF)  # wire.md section 7 has none of them
_LENGTHS = (0, 1, 255, 256, 257, 700, 1024, 1500, 2048)


class Walk:
    """Steps of one world, drawn from `chance`. How rough the network is changes from stretch to stretch; unless it is
    `deadly` nothing is done that a QP may not survive."""

    def __init__(self, world: World, chance: random.Random, *, deadly: bool = True) -> None:
        self.world = world
        self.deadly = deadly
        self.chance = chance
        self._actions: list[Callable[[], None]] = []
        self._weights: list[int] = []
        self._left = 0

    def step(self) -> None:
        if not self._left:
            self._begin_stretch()
        self._left -= 1
        action = self.chance.choices(self._actions, self._weights)[0]
        action()

    def _begin_stretch(self) -> None:
        """Some kinds of trouble rest for a while, the others come more often."""
        chance = self.chance
        self._left = chance.randrange(20, 200)
        table = [(action, weight) for action, weight, needed in self._table() if needed or chance.random() < 0.6]
        if not self.deadly:
            table = [(action, weight) for action, weight in table if action != self._doom]
        self._actions = [action for action, _ in table]
        self._weights = [weight for _, weight in table]

    def _table(self) -> Iterator[tuple[Callable[[], None], int, bool]]:
        """(what happens, how often, whether it always may)."""
        yield self._post, 60, True
        yield self._post_many, 6, True
        yield self._deliver, 60, True
        yield self._deliver_run, 60, True
        yield self._calm, 8, True
        yield self._pause, 16, True
        yield self._drop, 16, False
        yield self._duplicate, 12, False
        yield self._set_aside, 5, False
        yield self._let_go, 3, True
        yield self._corrupt, 10, False
        yield self._trim, 16, False
        yield self._mark, 12, False
        yield self._change_reasons, 16, False
        yield self._cut, 4, False
        yield self._heal, 3, True
        yield self._port, 4, False
        yield self._room, 4, False
        yield self._window, 6, False
        yield self._penalty, 4, False
        yield self._deny, 3, False
        yield self._probe, 2, False
        yield self._hold_back, 3, False
        yield self._doom, 1, False
        yield self._replace, 4, True

    def _node(self) -> int:
        return self.chance.randrange(2)

    def _pair(self) -> int:
        return self.chance.randrange(len(self.world.pairs))

    def _place(self) -> int:
        return self.chance.randrange(512)

    def _few(self) -> int:
        return 1 + min(int(self.chance.expovariate(0.3)), 60)

    def _post(self) -> None:
        chance = self.chance
        length = chance.choice(_LENGTHS) if chance.random() < 0.7 else chance.randrange(3000)
        wimm = self.world.setting.config.max_wimm > 0 and chance.random() < 0.35
        solicited = chance.random() < 0.4
        again = chance.randrange(1000) if chance.random() < 0.2 else None
        self.world.post(self._node(), self._pair(), length, immediate=wimm, solicited=solicited, again=again)

    def _post_many(self) -> None:
        """More than a window."""
        self.world.post(self._node(), self._pair(), self.chance.randrange(8_000, 60_000))

    def _deliver(self) -> None:
        self.world.deliver(self._node(), [self._place() for _ in range(self._few())])

    def _deliver_run(self) -> None:
        start = self._place() if self.chance.random() < 0.5 else 0
        self.world.deliver_run(self._node(), start, 4 * self._few(), backwards=self.chance.random() < 0.2)

    def _calm(self) -> None:
        self.world.calm(self.chance.randrange(1, 8))

    def _pause(self) -> None:
        duration = self.chance.choices(PAUSES, (8, 8, 6, 4, 3, 1))[0]
        self.world.pause(duration, late=self.chance.random() < 0.2)

    def _drop(self) -> None:
        self.world.drop(self._node(), self._place(), self._few())

    def _duplicate(self) -> None:
        self.world.network.duplicate(self._node(), self._place(), self._few())

    def _set_aside(self) -> None:
        self.world.network.set_aside(self._node(), self._place(), self._few())

    def _let_go(self) -> None:
        self.world.network.let_go(self._node())

    def _corrupt(self) -> None:
        self.world.network.corrupt(self._node(), self._place(), self.chance.randrange(1 << 16))

    def _trim(self) -> None:
        self.world.network.trim(self._node(), self._place(), self._few(), self.chance.random() < 0.3)

    def _mark(self) -> None:
        self.world.network.mark(self._node(), self._place(), self._few())

    def _change_reasons(self) -> None:
        """NACKs are few: those of all that is in flight."""
        self.world.change_reasons(self._node(), 0, MOST_IN_FLIGHT, self.chance.choice(UNKNOWN_REASONS))

    def _cut(self) -> None:
        self.world.cut(self._node(), self._node(), self.chance.randrange(8))

    def _heal(self) -> None:
        self.world.network.heal()

    def _port(self) -> None:
        self.world.set_port(self._node(), self._node(), self.chance.random() < 0.6)

    def _room(self) -> None:
        self.world.set_room(self._node(), self._node(), self.chance.random() < 0.6)

    def _window(self) -> None:
        self.world.set_window(self._node(), self._pair(), self.chance.choice((1, 1, 2, 3, 5)))

    def _penalty(self) -> None:
        self.world.set_penalty(self._node(), self._pair(), self.chance.choice((0, 0, 1, 64, 127)), self._node() > 0)

    def _deny(self) -> None:
        self.world.deny(self._node(), self._pair(), self.chance.randrange(64), self.chance.random() < 0.4)

    def _probe(self) -> None:
        self.world.probe_ev(self._node(), self.chance.randrange(64))

    def _hold_back(self) -> None:
        self.world.hold_back(self._node(), self.chance.random() < 0.4)

    def _doom(self) -> None:
        """Rarely, so that most QPs live long."""
        world, chance = self.world, self.chance
        node, pair = self._node(), self._pair()
        kind = chance.randrange(12)
        if kind == 0:
            world.error(node, pair)
        elif kind == 1:
            world.destroy(node, pair)
        elif kind == 2:
            world.post_bad(node, pair, chance.random() < 0.5)
        elif kind == 3 and world.setting.config.max_wimm:
            world.post(node, pair, 300, immediate=True, receive=False)

    def _replace(self) -> None:
        self.world.replace(self._pair())


@dataclass(slots=True)
class Coverage:
    """What was reached: steps, virtual time, how often each event happened, and each counter's total."""

    steps: int
    virtual_ns: int
    events: Counter[str]
    counters: Counters

    def add(self, world: World) -> None:
        self.virtual_ns += world.now
        self.events.update(world.events)
        self.counters.add(world.total_counters())


class RoundFailed(Exception):
    """A round broke off: its number, the step in it, and why."""

    def __init__(self, number: int, step: int, why: BaseException) -> None:
        super().__init__(f"{type(why).__name__}: {why}")
        self.number = number
        self.step = step


def run_round(
    seed: int,
    number: int,
    coverage: Coverage,
    log: Callable[[str], None] | None = None,
    known: Collection[str] | None = None,
) -> None:
    """One round, whose switches are those that are `known`; None: all. Raises RoundFailed."""
    chance = random.Random(f"{seed}/{number}")
    steps = chance.choice((50, 200, 200, 1000, 1000, 5000))
    step = 0
    try:
        world = World(draw_setting(chance, known), log)
        if not chance.randrange(RUN_UP_ONE_IN) and world.setting.config.max_wimm > 2:
            world.run_up(chance.randrange(2), 0, (1 << 16) - 10)
        walk = Walk(world, chance)
        if log is not None:
            log(f"{world.setting}")
        for step in range(steps):
            walk.step()
            if step % 16 == 0:
                world.check_memory()
            if step % 500 == 499:
                world.relent()
        world.relent()
    except Exception as error:
        raise RoundFailed(number, step, error) from error
    coverage.steps += steps
    coverage.add(world)
