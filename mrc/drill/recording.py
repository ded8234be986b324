# SPDX-License-Identifier: BSD-2-Clause
"""What was seen while a drill ran: the only thing its judgement and its plot are made from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from mrc.drill.flow import FlowPlan
from mrc.drill.job_record import JobRecord
from mrc.drill.series import ByteSeries
from mrc.errors import CallerError
from mrc.trace import vocabulary

I64 = npt.NDArray[np.int64]

# Longer than this and what was seen is the machine's doing as well.
LONGEST_STANDSTILL_NS = 40_000_000
LONGEST_ACTION_NS = 40_000_000
# Of a run, what its processes may wait for a processor.
MOST_WAITED = 0.1

# What a script does, in the words of the vocabulary: to the fabric, and to flows.
CUT, HEAL, IMPAIR, CLEAR = (
    each.word for each in (vocabulary.CUT, vocabulary.HEAL, vocabulary.IMPAIR, vocabulary.CLEAR)
)
BEGIN, END = vocabulary.BEGIN.word, vocabulary.END_OF_FLOW.word


@dataclass(frozen=True, slots=True)
class Happening:
    """A `fabric` or `drill` event of the vocabulary that the script caused: `what` is its word.

    It was done to `target` at `at_ns`, which took the kernel `took_ns`.
    """

    at_ns: int
    what: str
    target: str
    took_ns: int = 0


@dataclass(frozen=True, slots=True)
class EvChange:
    """An EV of a flow went from one state to another; names as in mrc.trace.vocabulary."""

    at_ns: int
    ev: int
    old: str
    new: str
    cause: str


@dataclass(frozen=True, slots=True)
class PathSamples:
    """Data packets put on each path of a flow so far, and its state as an index into EV_STATES of mrc.trace.vocabulary.

    Rows are moments, columns paths: `evs[column]`, in `plane[column]` by `spine[column]`.
    """

    at_ns: I64
    packets: I64
    states: I64
    evs: tuple[int, ...]
    planes: tuple[int, ...]
    spines: tuple[int, ...]

    def column(self, ev: int) -> int:
        """Raises CallerError for an EV the flow does not have."""
        if ev not in self.evs:
            raise CallerError(f"the flow has no EV {ev:#010x}")
        return self.evs.index(ev)

    def packets_between(self, from_ns: int, until_ns: int) -> npt.NDArray[np.float64]:
        """Packets put on each path in an interval; between samples in proportion."""
        counts = [
            np.interp([from_ns, until_ns], self.at_ns, self.packets[:, column]) for column in range(len(self.evs))
        ]
        return np.array([after - before for before, after in counts])

    def shares(self, from_ns: int, until_ns: int) -> npt.NDArray[np.float64]:
        """Of the packets sent in an interval the share that was put on each path; all 0 when none were sent."""
        each = self.packets_between(from_ns, until_ns)
        return each / (each.sum() or 1.0)

    def share(self, ev: int, from_ns: int, until_ns: int) -> float:
        """Of the packets sent in an interval the share that was put on one EV; 0 when none were sent."""
        return float(self.shares(from_ns, until_ns)[self.column(ev)])


@dataclass(frozen=True, slots=True)
class FlowRecord:
    """One flow. `placed` counts bytes written into the target's memory in any order, `in_order` those before which
    nothing was missing, both seen at the target. `source` and `target` are what the two ends said in the end."""

    plan: FlowPlan
    placed: ByteSeries
    in_order: ByteSeries
    paths: PathSamples
    samples: Sequence[Mapping[str, Any]]
    changes: Sequence[EvChange]
    source: Mapping[str, Any]
    target: Mapping[str, Any]

    def count(self, name: str) -> int:
        """A counter of the source's QP."""
        return int(self.source["counters"].get(name, 0))

    def target_count(self, name: str) -> int:
        """A counter of the target's QP."""
        return int(self.target["counters"].get(name, 0))


@dataclass(frozen=True, slots=True)
class Machine:
    """What a machine did during a run, from its first happening to its last.

    `longest_gap_ns`: the longest time that it did not let one of the drill's processes run; `slowest`: what the script
    did that took the kernel longest; `socket_drops` and `waited` as in Recording.
    """

    longest_gap_ns: int
    slowest: Happening | None
    socket_drops: int
    waited: float

    @property
    def disturbance(self) -> str | None:
        """Why this run says little about the transport, if so."""
        slowest = self.slowest
        found = []
        if self.longest_gap_ns > LONGEST_STANDSTILL_NS:
            found.append(f"the machine stood still for {self.longest_gap_ns / 1e6:.0f} ms")
        if slowest is not None and slowest.took_ns > LONGEST_ACTION_NS:
            found.append(f"{slowest.what} {slowest.target} took the kernel {slowest.took_ns / 1e6:.0f} ms")
        if self.socket_drops:
            found.append(f"socket buffers overflowed and dropped {self.socket_drops} packets")
        if self.waited > MOST_WAITED:
            found.append(f"a host waited for a processor {self.waited:.0%} of the time")
        return ", ".join(found) or None

    def to_json(self) -> dict[str, Any]:
        return {
            "longest_gap_ms": round(self.longest_gap_ns / 1e6, 3),
            "slowest_action_ms": 0.0 if self.slowest is None else round(self.slowest.took_ns / 1e6, 3),
            "socket_drops": self.socket_drops,
            "waited_for_processor": round(self.waited, 4),
        }


@dataclass(frozen=True, slots=True)
class Recording:
    """One run of a drill. `streams` are the kernel's, by kind; `standstills` as Heartbeat notes them; `waited` is the
    share of its time, 0 to 1, that a host's loop waited for a processor, the largest of all hosts; `socket_drops` are
    packets that came while a socket's buffer was full; `jobs` are training jobs, one after the other; `extra` is what
    a drill itself noted, such as counters of links.
    """

    flows: Mapping[str, FlowRecord]
    streams: Mapping[str, ByteSeries]
    happenings: Sequence[Happening]
    standstills: Sequence[tuple[int, int]] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)
    socket_drops: int = 0
    waited: float = 0.0
    jobs: Sequence[JobRecord] = ()

    @property
    def main(self) -> FlowRecord:
        """The flow that is looked at: the first."""
        return next(iter(self.flows.values()))

    def times(self, what: str, target: str | None = None) -> list[int]:
        """When the script did this, to `target` if one is named."""
        return [each.at_ns for each in self.happenings if each.what == what and target in (None, each.target)]

    def time(self, what: str, target: str | None = None) -> int:
        """The first of these. Raises CallerError when there is none."""
        found = self.times(what, target)
        if not found:
            raise CallerError(f"the recording has no {what} of {target or 'anything'}")
        return found[0]

    @property
    def began_ns(self) -> int:
        """When the first flow began. Raises CallerError when none did."""
        return self.time(BEGIN)

    @property
    def ended_ns(self) -> int:
        """When the last flow was asked to end. Raises CallerError when none was."""
        self.time(END)
        return self.times(END)[-1]

    @property
    def machine(self) -> Machine:
        """What the machine did meanwhile that a transport cannot help."""
        slowest = max(self.happenings, key=lambda each: each.took_ns, default=None)
        gap_ns = 0
        if self.happenings:
            first, last = self.happenings[0].at_ns, self.happenings[-1].at_ns
            gap_ns = max((took for at, took in self.standstills if at > first and at - took < last), default=0)
        return Machine(gap_ns, slowest, self.socket_drops, self.waited)


def integrity(recording: Recording) -> dict[str, int]:
    """What must be 0 in every drill."""
    flows = list(recording.flows.values())
    errors = [end["error"] for flow in flows for end in (flow.source, flow.target)]
    return {
        "qp_errors": sum(error is not None for error in errors),
        "wrong_bytes": sum(int(flow.target["wrong_bytes"]) for flow in flows),
        "misnumbered_writes": sum(int(flow.target["misnumbered_writes"]) for flow in flows),
        "undelivered_writes": sum(
            abs(int(flow.source["posted_writes"]) - int(flow.target["delivered_writes"])) for flow in flows
        ),
    }
