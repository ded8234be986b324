# SPDX-License-Identifier: BSD-2-Clause
"""Harmless and hostile traffic of one rate in turn, beside the same writes over one QP."""

from __future__ import annotations

import random
import signal
import socket
import sys
import tempfile
import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from hostile.flood import PROGRAM, outcome
from hostile.kinds import KINDS, PAYLOAD_BYTES, RECEIVER, SENDER, Kind
from hostile.overheard import overhear
from mrc.bench.compiler import compile_program
from mrc.bench.lab_run import machine
from mrc.bench.prepared import harmless, through_the_fabric, write_packets
from mrc.bench.subject import PATIENCE_S
from mrc.child import Child, python
from mrc.errors import PeerError
from mrc.fabric import Clos
from mrc.lab import Lab
from mrc.lab.children import start_on

LAB_NAME = "hostile"
# Two hosts on each leaf: the attacker is a neighbour of the end it attacks, one hop away.
SHAPE = Clos(hosts_per_leaf=2)
_ENDS = {RECEIVER: ("h2", "h3"), SENDER: ("h0", "h1")}  # whom it attacks, and from where
_WRITER = Path(__file__).with_name("writer.py")
_WHO = "the flood"
_DIFFERENT = 1024  # packets of a flood, sent in turn
_HARMLESS_BYTES = 40 + 40 + 8 + 12 + 4 + 16 + PAYLOAD_BYTES + 4  # as a hostile request, outer header and all
_DISCARD = 9
_WRITE_BYTES, _PATH_MTU = 256 << 10, 4096
_SETTLE_S = 0.2  # of each flood before it counts
_REST_S = 1.0  # between floods: what one left in queues is not held against the next


@dataclass(frozen=True, slots=True)
class HostilePlan:
    """`rounds` times each of `kinds` for `seconds` at `rate` packets a second, harmless ones for as long before it."""

    kinds: tuple[Kind, ...]
    rate: int
    seconds: float
    rounds: int


@dataclass(frozen=True, slots=True)
class Measured:
    """Goodput under harmless packets and under hostile ones right after, and the rates that were reached."""

    harmless_gbps: float
    hostile_gbps: float
    harmless_kpps: float
    hostile_kpps: float
    failed: str | None = None

    @property
    def ratio(self) -> float:
        return self.hostile_gbps / self.harmless_gbps if self.harmless_gbps else 0.0


@dataclass(slots=True)
class Found:
    """All that was measured, by kind, and the receivers' counters of each session."""

    of_kind: dict[str, list[Measured]] = field(default_factory=dict)
    counters: list[dict[str, int]] = field(default_factory=list)


class _Session:
    """One pair of processes that write and receive, and floods beside them."""

    def __init__(self, lab: Lab, plan: HostilePlan, program: Path, scratch: Path, writer: Child) -> None:
        self._lab = lab
        self._plan = plan
        self._program = program
        self._packets = scratch / "packets"
        self._progress = scratch / "progress"
        self._writer = writer

    def measure(self, kind: Kind) -> Measured:
        """Harmless, then hostile packets. A QP that does not survive has moved nothing, and says why."""
        harmless_gbps, harmless_kpps = self._under(kind.target, None)
        hostile_gbps, hostile_kpps = self._under(kind.target, kind)
        failed = None
        if self._writer.ended:
            failed, hostile_gbps = self._writer.errors or "the writer ended", 0.0
        return Measured(harmless_gbps, hostile_gbps, harmless_kpps, hostile_kpps, failed)

    def _under(self, target: str, kind: Kind | None) -> tuple[float, float]:
        """(goodput in Gbit/s, thousand packets a second that were sent)."""
        host, neighbour = _ENDS[target]
        write_packets(self._packets, self._flood_of(host, neighbour, kind))
        time.sleep(_REST_S)
        argv = [str(self._program), str(self._packets), str(self._plan.rate), str(self._plan.seconds)]
        with start_on(self._lab, neighbour, _WHO, argv) as flood:
            began = time.monotonic_ns() + int(_SETTLE_S * 1e9)
            flooded = outcome(flood, self._plan.seconds + PATIENCE_S)
            ended = time.monotonic_ns()
        return self._goodput(began, ended), flooded.kpps

    def _flood_of(self, host: str, neighbour: str, kind: Kind | None) -> list[bytes]:
        source = self._lab.addresses(neighbour)[0]
        if kind is None:
            return [harmless(source, self._lab.addresses(host)[0], _DISCARD, _HARMLESS_BYTES)] * _DIFFERENT
        # Afresh for each flood: in a minute the QP gets as far as the PSNs that are far off when a session begins.
        heard = overhear(self._lab, _ENDS[SENDER][0], "p0")
        chance = random.Random(kind.name)
        shape, number = self._lab.topology, self._lab.topology.hosts.index(host)
        way = shape.template_between(number, number)
        return [through_the_fabric(kind.make(heard, chance), source, way, 0) for _ in range(_DIFFERENT)]

    def _goodput(self, began: int, ended: int) -> float:
        lines = [line.split() for line in self._progress.read_text().splitlines()]
        times, bits = [int(line[0]) for line in lines], [int(line[1]) for line in lines]

        def at(when: int) -> int:
            place = bisect_right(times, when)
            return bits[place - 1] if place else 0

        return (at(ended) - at(began)) / (ended - began)


def run_hostile(plan: HostilePlan, on_measured: Callable[[int, Kind, Measured], None]) -> Found:
    """Build the lab and measure in it. Raises MrcError when it cannot be built or harmless packets are too much."""
    found = Found({kind.name: [] for kind in plan.kinds})
    with tempfile.TemporaryDirectory(prefix="mrc-hostile-") as scratch, Lab.up(LAB_NAME, SHAPE) as lab:
        program = Path(scratch, "flood")
        compile_program(PROGRAM, program, _WHO)
        sinks = [lab.inside(host, partial(_discarding, lab.addresses(host)[0])) for host, _ in _ENDS.values()]
        try:
            for number in range(plan.rounds):
                left = list(plan.kinds if number % 2 == 0 else reversed(plan.kinds))
                while left:
                    _run_session(lab, plan, program, Path(scratch), left, number, found, on_measured)
        finally:
            for sink in sinks:
                sink.close()
    return found


def _run_session(
    lab: Lab,
    plan: HostilePlan,
    program: Path,
    scratch: Path,
    left: list[Kind],
    number: int,
    found: Found,
    on_measured: Callable[[int, Kind, Measured], None],
) -> None:
    """Measure the kinds in `left` and take them out of it, until one ends the QP."""
    (scratch / "progress").write_text("")
    with start_on(lab, _ENDS[RECEIVER][0], "mrc bench serve", python("mrc", "bench", "serve", "--json")) as server:
        writing = [sys.executable, str(_WRITER), server.started(), str(scratch / "progress")]
        with start_on(lab, _ENDS[SENDER][0], "the writer", [*writing, str(_WRITE_BYTES), str(_PATH_MTU)]) as writer:
            session = _Session(lab, plan, program, scratch, writer)
            while left:
                measured = session.measure(left[0])
                kind = left.pop(0)
                found.of_kind[kind.name].append(measured)
                on_measured(number, kind, measured)
                if measured.failed is not None:
                    if not measured.harmless_gbps:
                        raise PeerError(f"nothing was written under harmless packets: {measured.failed}")
                    break
        server.process.send_signal(signal.SIGTERM)
        sessions = server.outcome(PATIENCE_S, 128 + signal.SIGTERM)["sessions"]
        found.counters += [each["counters"] for one in sessions for each in one["measurements"] if "counters" in each]


def _discarding(address: str) -> socket.socket:
    """A socket nobody reads from: harmless packets end here, as cheaply as packets can."""
    sock = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    sock.bind((address, _DISCARD))
    return sock


def kinds_named(names: Sequence[str]) -> tuple[Kind, ...]:
    """Those of KINDS, all without names. Raises KeyError for a name that is none of them."""
    known = {kind.name: kind for kind in KINDS}
    return tuple(known[name] for name in names) or KINDS


def document(plan: HostilePlan, found: Found) -> dict[str, Any]:
    """Of each kind the median of the ratios of its goodput to that under harmless packets right before."""
    kinds: dict[str, Any] = {}
    for kind in plan.kinds:
        runs = found.of_kind[kind.name]
        ratios = [run.ratio for run in runs]
        kinds[kind.name] = {
            "says": kind.says,
            "target": kind.target,
            "ratio": round(median(ratios), 4),
            "ratio_spread": [round(min(ratios), 4), round(max(ratios), 4)],
            "failures": [run.failed for run in runs if run.failed is not None],
        }
        for name in ("harmless_gbps", "hostile_gbps", "harmless_kpps", "hostile_kpps"):
            kinds[kind.name][name] = round(median(getattr(run, name) for run in runs), 4)
    return {
        "kinds": kinds,
        "rate_kpps": plan.rate / 1e3,
        "seconds": plan.seconds,
        "rounds": plan.rounds,
        "machine": machine(),
    }
