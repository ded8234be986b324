# SPDX-License-Identifier: BSD-2-Clause
"""What an agent sends when, and what became of it: sans-IO, times in nanoseconds.

Probes go out in ticks. The results of a tick's probes are reported when all of them are decided, so that what came back
early is not heard of before what was lost. A probe is lost when it has not come back `timeout_ns` after it was sent
*and* everything that had arrived by then was looked at: an agent that was kept from running does not take that for
loss.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from mrc.errors import CallerError
from mrc.fabric.place import Place
from mrc.map.loops import Loop, loops_of, schedule

SECOND = 1_000_000_000
LEAST_RATE, MOST_RATE = 1, 10_000
# After a pause the probes that were due are not sent all at once.
_MOST_TICKS_AT_ONCE = 2
# Echoes that come after they were given up are recognised for so many probes.
_REMEMBERED = 4096


@dataclass(frozen=True, slots=True)
class ProberConfig:
    """`rate`: probes a second over all planes, 1..10000. A probe is given up after `timeout_ns`."""

    rate: int = 100
    tick_ns: int = SECOND // 10
    timeout_ns: int = SECOND // 2

    def __post_init__(self) -> None:
        if not LEAST_RATE <= self.rate <= MOST_RATE:
            raise CallerError(f"rate must be {LEAST_RATE}..{MOST_RATE} probes a second, got {self.rate}")
        if self.tick_ns <= 0 or self.timeout_ns <= 0:
            raise CallerError("tick and timeout must be above 0")


@dataclass(frozen=True, slots=True)
class Report:
    """What became of the probes of one tick, sent at `sent_ns`, by the numbers of their loops.

    `rtt_us`: of those in `back`, in order, -1 where it is not known. `void`: how many say nothing, because this host
    dropped or could not send them.
    """

    sent_ns: int
    back: tuple[int, ...]
    rtt_us: tuple[int, ...]
    lost: tuple[int, ...]
    void: int


@dataclass(slots=True)
class Counters:
    """Probes `sent`; echoes that came `late`, twice (`repeated`), or were not ours or damaged (`foreign`)."""

    sent: int = 0
    late: int = 0
    repeated: int = 0
    foreign: int = 0


@dataclass(slots=True)
class _Tick:
    sent_ns: int
    waiting: dict[int, int] = field(default_factory=dict)
    back: list[int] = field(default_factory=list)
    rtt_us: list[int] = field(default_factory=list)
    lost: list[int] = field(default_factory=list)
    void: int = 0


class Prober:
    """One host's probes over the planes of `places`. `loops` are numbered by their place."""

    def __init__(
        self, host: int, places: Sequence[Place], config: ProberConfig, chance: random.Random, now_ns: int
    ) -> None:
        self.loops: tuple[Loop, ...] = loops_of(host, places)
        self.counters = Counters()
        self._config = config
        self._number: Mapping[Loop, int] = {loop: number for number, loop in enumerate(self.loops)}
        self._schedule: Iterator[Loop] = schedule(host, places, chance)
        self._credited_ns = now_ns
        self._credit = 0
        self._sequence = 0
        self._ticks: deque[_Tick] = deque()
        self._tick_of: dict[int, _Tick] = {}
        self._given_up: deque[int] = deque(maxlen=_REMEMBERED)
        self._void_until_ns = 0

    def due(self, now_ns: int) -> list[tuple[int, Loop]]:
        """(sequence, loop) of each probe that is to be sent now."""
        # In billionths of a probe.
        self._credit += (now_ns - self._credited_ns) * self._config.rate
        self._credited_ns = now_ns
        most = max(2 * SECOND, self._config.rate * self._config.tick_ns * _MOST_TICKS_AT_ONCE)
        count, self._credit = divmod(min(self._credit, most), SECOND)
        if not count:
            return []
        tick = _Tick(now_ns)
        self._ticks.append(tick)
        batch = []
        for _ in range(count):
            loop = next(self._schedule)
            self._sequence += 1
            tick.waiting[self._sequence] = self._number[loop]
            self._tick_of[self._sequence] = tick
            batch.append((self._sequence, loop))
        self.counters.sent += count
        return batch

    def not_sent(self, sequence: int, *, port_is_down: bool) -> None:
        """The system did not take this probe: lost, where the port is down, or else of no meaning."""
        tick = self._tick_of.pop(sequence)
        number = tick.waiting.pop(sequence)
        if port_is_down:
            tick.lost.append(number)
        else:
            tick.void += 1

    def came_back(self, sequence: int, rtt_ns: int | None) -> None:
        """An echo that is certainly ours."""
        tick = self._tick_of.pop(sequence, None)
        if tick is None:
            if sequence in self._given_up:
                self._given_up.remove(sequence)
                self.counters.late += 1
            else:
                self.counters.repeated += 1
            return
        tick.back.append(tick.waiting.pop(sequence))
        tick.rtt_us.append(-1 if rtt_ns is None or rtt_ns < 0 else rtt_ns // 1000)

    def echoes_dropped(self, now_ns: int) -> None:
        """This host's receive buffer overflowed: what is still missing of the probes sent until now says nothing."""
        self._void_until_ns = now_ns

    def decided(self, drained_ns: int) -> list[Report]:
        """The ticks that are over. `drained_ns`: everything that had arrived by then was given to `came_back`."""
        reports = []
        while self._ticks and self._ticks[0].sent_ns + self._config.timeout_ns <= drained_ns:
            tick = self._ticks.popleft()
            is_void = tick.sent_ns <= self._void_until_ns
            for sequence, number in tick.waiting.items():
                del self._tick_of[sequence]
                self._given_up.append(sequence)
                if is_void:
                    tick.void += 1
                else:
                    tick.lost.append(number)
            reports.append(Report(tick.sent_ns, tuple(tick.back), tuple(tick.rtt_us), tuple(tick.lost), tick.void))
        return reports
