# SPDX-License-Identifier: BSD-2-Clause
"""A capture taken in run by run, then analysed as a whole."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from mrc.capture.analysis.analysing import analyse
from mrc.capture.analysis.capture_point import MIDDLE
from mrc.capture.analysis.clock import Clock, Pause, Step, moved
from mrc.capture.analysis.copies import remove_copies
from mrc.capture.analysis.direction import Direction
from mrc.capture.analysis.endpoint_operations import EndpointOperation, endpoint_operations
from mrc.capture.analysis.figures import QpFigures
from mrc.capture.analysis.flows import Flow, Flows
from mrc.capture.analysis.forward_steps import set_forward, without_steps
from mrc.capture.analysis.mirrors import Mirror, Mirrors
from mrc.capture.analysis.records import OTHER, Fields
from mrc.capture.columns import NOT_THERE, RIGHT, WRONG, Columns
from mrc.capture.frames import I64

FIRST_KEPT = 5
# Digits of a second where times are whole milliseconds.
MILLISECONDS = 3
CUT_SHORT = "cut_short"
# With more wrong ICRCs than right ones it is the capture that is wrong: made before the ICRC was, or cut and mended.
_BELIEVED_SHARE = 0.5


@dataclass(slots=True)
class Some:
    """`packets` of a kind, and the `first` of them by number."""

    packets: int = 0
    first: list[int] = field(default_factory=list)

    def add(self, numbers: I64) -> None:
        self.packets += len(numbers)
        self.first += numbers[: FIRST_KEPT - len(self.first)].tolist()


@dataclass(frozen=True, slots=True)
class Analysis:
    """What a capture of `packets` packets, `roce_packets` of them RoCEv2 or MRC, says. Times in `directions` count from
    `start_ns` (since the epoch; None where the file has no times); `digits` of a second is
    what they have. `left_out` packets belong to no flow. In `clock_unsure` the clock may have been set. `cut_to`: the
    most bytes that the capture kept of a packet whose headers it did not keep whole."""

    packets: int
    roce_packets: int
    start_ns: int | None
    duration_ns: int
    digits: int
    without_time: int
    first_without_time: int | None
    clock_steps: list[Step]
    clock_unsure: list[Pause]
    has_coarse_times: bool
    icrc_right: int
    icrc_wrong: Some
    icrc_not_there: int
    icrcs_believed: bool
    malformed: dict[str, Some]
    cut_to: int
    left_out: int
    operations: list[EndpointOperation]
    mirrors: list[Mirror]
    directions: list[Direction]
    qps: list[QpFigures]


class Collector:
    """`take` every run of a capture in file order, then `finish`. Keeps some 80 bytes of each packet."""

    def __init__(self) -> None:
        self._flows, self._clock, self._mirrors = Flows(), Clock(), Mirrors()
        self._packets = self._roce = self._right = self._not_there = 0
        self._wrong = Some()
        self._malformed: dict[str, Some] = {}
        self._first_ns, self._last_ns = 0, 0
        self._cut_to = 0
        self._digits = 0

    def add(self, columns: Columns) -> None:
        if not len(columns):
            return
        fields = Fields(columns, self._clock)
        roce = columns.has("bth")
        self._mirrors.add(columns)
        self._packets += len(columns)
        self._digits = max(self._digits, columns.frames.digits)
        self._roce += int(roce.sum())
        self._first_ns = min(self._first_ns, int(fields.time.min()))
        self._last_ns = max(self._last_ns, int(fields.time.max()))
        icrc = columns.icrc
        self._right += int((icrc == RIGHT).sum())
        self._not_there += int((roce & (icrc == NOT_THERE)).sum())
        self._wrong.add(columns.first + np.flatnonzero(icrc == WRONG))
        for row, reason in sorted(columns.malformed.items()):
            word = reason.partition(":")[0]
            if word == CUT_SHORT:
                self._cut_to = max(self._cut_to, int(columns.frames.kept[row]))
            self._malformed.setdefault(word, Some()).add(np.array([columns.first + row]))
        if (fields.kind != OTHER).any():
            self._flows.add(columns, fields, columns.icrc == WRONG if self._believed else np.zeros(len(columns), bool))

    @property
    def _believed(self) -> bool:
        checked = self._right + self._wrong.packets
        return not checked or self._wrong.packets / checked <= _BELIEVED_SHARE

    def finish(self) -> Analysis:
        self._flows.finish()
        forward = set_forward(self._flows.all, self._clock.pauses)
        if forward.steps:
            without_steps(self._flows.all, self._flows.endpoint_operations.values(), forward.steps)
            self._last_ns = int(moved(np.array([self._last_ns]), forward.steps)[0])
        unsure = [pause.moved(forward.steps) for pause in forward.unsure]
        remove_copies(self._flows.all, self._clock.is_coarse)
        directions = [analyse(flow, self._last_ns, self._clock.is_coarse, unsure) for flow in self._flows.all]
        for direction in directions if self._mirrors.packets > self._roce // 2 else ():
            direction.figures.mirrored = True
        between = bool(directions) and all(each.figures.capture_point == MIDDLE for each in directions)
        return Analysis(
            self._packets,
            self._roce,
            self._clock.start_ns,
            self._last_ns - self._first_ns,
            MILLISECONDS if self._clock.is_coarse else self._digits,
            self._clock.missing,
            self._clock.first_missing,
            sorted([*self._clock.steps, *forward.steps]),
            unsure,
            self._clock.is_coarse,
            self._right,
            self._wrong,
            self._not_there,
            self._believed,
            self._malformed,
            self._cut_to,
            self._flows.left_out,
            endpoint_operations(self._flows.endpoint_operations, self._flows.all, unsure, between),
            self._mirrors.finish(),
            directions,
            _paired(self._flows.all, directions),
        )


def _paired(flows: list[Flow], directions: list[Direction]) -> list[QpFigures]:
    """Directions that are the two of one connection together, the heavier first; connections by weight."""
    waiting: dict[tuple[int | None, int | None], list[int]] = {}
    pairs: list[list[Direction]] = []
    position: dict[int, int] = {}
    for index, flow in enumerate(flows):
        mirrored = waiting.get((flow.requestor_qpn, flow.qpn), [])
        partner = next((other for other in mirrored if _mirrors(flows[other], flow)), None)
        if partner is not None and flow.qpn is not None:
            mirrored.remove(partner)
            pairs[position[partner]].append(directions[index])
            continue
        waiting.setdefault((flow.qpn, flow.requestor_qpn), []).append(index)
        position[index] = len(pairs)
        pairs.append([directions[index]])
    ordered = [sorted(pair, key=lambda each: -each.weight) for pair in pairs]
    ordered.sort(key=lambda pair: -sum(each.weight for each in pair))
    return [QpFigures([each.figures for each in pair]) for pair in ordered]


def _mirrors(one: Flow, other: Flow) -> bool:
    back = {(destination, source) for source, destination in other.pairs}
    return one.mrc == other.mrc and bool(back & set(one.pairs))
