# SPDX-License-Identifier: BSD-2-Clause
"""What happens to the fabric, from the file's words to the columns of a simulation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from mrc.errors import CallerError
from mrc.sim.cluster import Action, Failures, Target, Topology
from mrc.sim.experiment import names, values

_MOST_EVENTS = 1 << 20
_DIRECTIONS = {"up": Target.UPWARD, "down": Target.DOWNWARD, "both": Target.CABLE}


class FailureList:
    """Collects events; `failures` has them as columns. `base_loss`: what links lose where a failure has ended."""

    def __init__(self, topology: Topology, base_loss: tuple[float, float]) -> None:
        self._topology = topology
        self._base_loss = base_loss
        self._rows: list[tuple[int, int, int, int, float]] = []

    def add(self, said: Mapping[str, Any], random: np.random.Generator) -> None:
        """Take in one failure of the file. Raises CallerError."""
        at = values.time_ns(said.get("at", 0))
        lasts = values.time_ns(said["for"]) if "for" in said else None
        kind = said["kind"]
        if kind == "random-cuts":
            self._random_cuts(said, at, lasts or 0, random)
            return
        hits = names.targets(self._topology, said["target"], random)
        if kind == "cut":
            for hit in hits:
                self._cut(hit, at, lasts)
        elif kind == "flap":
            down, every = values.time_ns(said["down"]), values.time_ns(said["every"])
            if down >= every:
                raise CallerError(f"every must be longer than down, got {said['every']} and {said['down']}")
            for hit in hits:
                for turn in range(said["times"]):
                    self._cut(hit, at + turn * every, down)
        else:
            self._lose(hits, at, lasts, said)

    @property
    def failures(self) -> Failures:
        time, target, which, action, value = zip(*sorted(self._rows), strict=True) if self._rows else [()] * 5
        return Failures(
            np.array(time, np.int64),
            np.array(target, np.int64),
            np.array(which, np.int64),
            np.array(action, np.int64),
            np.array(value, np.float64),
        )

    def _add(self, at: int, target: Target, which: int, action: Action, value: float = 0.0) -> None:
        self._rows.append((at, int(target), which, int(action), value))
        if len(self._rows) > _MOST_EVENTS:
            raise CallerError(f"more than {_MOST_EVENTS:,} events")

    def _cut(self, hit: names.Hit, at: int, lasts: int | None) -> None:
        self._add(at, *hit, Action.DOWN)
        if lasts is not None:
            self._add(at + lasts, *hit, Action.UP)

    def _lose(self, hits: list[names.Hit], at: int, lasts: int | None, said: Mapping[str, Any]) -> None:
        direction, loss = _DIRECTIONS[said.get("direction", "both")], values.share(said["loss"])
        for hit in hits:
            for cable in names.cables_of(self._topology, hit):
                self._add(at, direction, cable, Action.LOSS, loss)
                if lasts is not None:
                    base = self._base_loss[cable >= self._topology.host_cables]
                    self._add(at + lasts, direction, cable, Action.LOSS, base)

    def _random_cuts(self, said: Mapping[str, Any], at: int, lasts: int, random: np.random.Generator) -> None:
        target, numbers = names.members(self._topology, said["of"])
        every, until = values.time_ns(said["every"]), values.time_ns(said["until"])
        if not numbers:
            raise CallerError(f"of: there are no {said['of']}")
        if every < 1:
            raise CallerError("every must be at least 1ns")
        if until <= at:
            raise CallerError(f"until must be after at, got {said['until']}")
        whole: dict[int, int] = {}
        while (at := at + max(1, int(random.exponential(every)))) < until:
            which = numbers[int(random.integers(len(numbers)))]
            # What is down already is not cut again: it would come up too soon.
            if at >= whole.get(which, 0):
                self._cut((target, which), at, lasts)
                whole[which] = at + lasts
