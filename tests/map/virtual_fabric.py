# SPDX-License-Identifier: BSD-2-Clause
"""Agents on a fabric in virtual time: probes by the real schedule, parts that lose them, results to the inference."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from mrc.fabric import Shape
from mrc.fabric.names import leaf_name, spine_name
from mrc.map.faults import SECOND, Fault
from mrc.map.inference import FabricInference
from mrc.map.loops import Loop, loops_of, schedule

TICK_NS = SECOND // 10
# An agent tells what came of a tick's probes when all of them are decided: its timeout and a tick later.
DELAY_NS = 6 * TICK_NS


def passages(loop: Loop) -> Iterator[tuple[str, str]]:
    """(what, toward) of each part on the way of a loop: see `walk`."""
    return walk(loop.host, loop.usids)


def walk(source: int, usids: Sequence[int]) -> Iterator[tuple[str, str]]:
    """(what, toward) of each part that a packet of host `source` passes, in order (uSIDs: wire.md section 11).

    A cable by its name and the end travelled toward, a switch by its name and "".
    """
    here = f"h{source}"
    for usid in usids:
        nibble, plane, number = usid >> 12, usid >> 8 & 0xF, usid & 0xFF
        there = leaf_name(plane, number) if nibble == 1 else spine_name(plane, number) if nibble == 2 else f"h{number}"
        # Hosts before leaves before spines, as in the alphabet.
        lower, upper = sorted((here, there))
        yield f"{lower}-{upper}", there
        if there[0] == "p":
            yield there, ""
        here = there


@dataclass
class VirtualFabric:
    """`loss` maps (part, toward) to the share it loses; a cable in both directions under (name, "")."""

    shape: Shape
    seed: int = 0
    rate: int = 100
    silent: set[int] = field(default_factory=set)
    late_ns: dict[int, int] = field(default_factory=dict)
    stray: float = 0.0
    loss: dict[tuple[str, str], float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.now = 1000 * SECOND
        self.inference = FabricInference()
        self.changes: list[tuple[int, Fault]] = []
        self._numbers: dict[Loop, tuple[int, int]] = {}
        self._schedules: dict[int, Iterator[Loop]] = {}
        self._waiting: list[tuple[int, int, list[tuple[int, int]], list[tuple[int, int]]]] = []
        self._ways: dict[Loop, list[tuple[str, str]]] = {}
        self._offsets: dict[int, int] = {}
        for host in range(self.shape.host_count):
            ports = [self.shape.place(host, plane) for plane in range(self.shape.planes)]
            loops = loops_of(host, ports)
            self._numbers |= dict(zip(loops, self.inference.declare(loops), strict=True))
            self._schedules[host] = schedule(host, ports, self.chance)
            self._offsets[host] = self.chance.randrange(TICK_NS)
            for loop in loops:
                self._ways[loop] = list(passages(loop))

    def rates(self) -> dict[Loop, list[float]]:
        """The shares that parts on its way lose, of each loop that passes such a part."""
        rates = {}
        for loop, way in self._ways.items():
            keys = [key for part, toward in way for key in {(part, toward), (part, "")} if self.loss.get(key)]
            if keys:
                rates[loop] = [self.loss[key] for key in keys]
        return rates

    def run(self, seconds: float, until: Callable[[], bool] = lambda: False, evaluate_every: int = 2) -> None:
        """Let time pass, until `until` says so."""
        end = self.now + round(seconds * SECOND)
        tick = 0
        rates, draw = self.rates(), self.chance.random
        while self.now < end:
            for host, ways in self._schedules.items():
                if host in self.silent:
                    continue
                sent = self.now + self._offsets[host]
                back: list[tuple[int, int]] = []
                lost: list[tuple[int, int]] = []
                for _ in range(self.rate // 10):
                    loop = next(ways)
                    came = all(draw() >= rate for rate in rates.get(loop, ()))
                    came = came and not (self.stray and draw() < self.stray)
                    (back if came else lost).append(self._numbers[loop])
                due = sent + DELAY_NS + self.late_ns.get(host, 0)
                self._waiting.append((due, sent, back, lost))
            self.now += TICK_NS
            ready = [each for each in self._waiting if each[0] <= self.now]
            self._waiting = [each for each in self._waiting if each[0] > self.now]
            for _, sent, back, lost in ready:
                self.inference.add(sent, back, lost=False)
                self.inference.add(sent, lost, lost=True)
            tick += 1
            if tick % evaluate_every == 0:
                self.changes += [(self.now, fault) for fault in self.inference.evaluate(self.now)]
                if until():
                    return

    @property
    def accused(self) -> set[str]:
        """Every name that was ever accused."""
        return {fault.name for _, fault in self.changes}

    @property
    def open(self) -> set[str]:
        return {fault.name for fault in self.inference.faults}
