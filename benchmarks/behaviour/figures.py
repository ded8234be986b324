# SPDX-License-Identifier: BSD-2-Clause
"""What an experiment hands back: a table of figures and what came of the bars they are held against."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from mrc.report.expectations import Check
from mrc.sim.fabric import SimFabric
from mrc.sim.transfers import Stream

Value = int | float | str
MICROSECOND, MILLISECOND = 1_000, 1_000_000
GIGABIT = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Plot:
    """A line for each of `lines` (column names) over the column `x`."""

    x: str
    x_label: str
    y_label: str
    lines: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Figures:
    """`rows` share their keys; units are in the keys."""

    rows: Sequence[Mapping[str, Value]]
    bars: Sequence[Check]
    plot: Plot | None = None

    @property
    def passed(self) -> bool:
        return all(bar.holds for bar in self.bars)


@dataclass(frozen=True, slots=True)
class Experiment:
    """`run(seed)` makes the figures; `setup` says in sentences what is measured."""

    name: str
    title: str
    setup: str
    run: Callable[[int], Figures] = field(repr=False)


def goodput_gbps(fabric: SimFabric, streams: Sequence[Stream], since: int, until: int) -> list[float]:
    """Payload bits each stream put into its peer's memory between two times (ns), each byte once, per ns."""
    fabric.run(since)
    before = [stream.delivered_bytes for stream in streams]
    fabric.run(until)
    return [
        (stream.delivered_bytes - start) * 8 / (until - since) for stream, start in zip(streams, before, strict=True)
    ]
