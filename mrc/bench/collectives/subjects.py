# SPDX-License-Identifier: BSD-2-Clause
"""What is measured in each round: MRC, gloo over TCP and over MPTCP, and the writes of `mrc bench write`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from statistics import mean
from typing import Any

from mrc.bench.collectives.plan import CollectivesPlan
from mrc.bench.collectives.ranks import started
from mrc.bench.collectives.transports import GLOO, MRC
from mrc.bench.mptcp import MptcpSockets
from mrc.bench.processes import SCRATCH
from mrc.bench.settings import Settings
from mrc.bench.subject import RECEIVER, SENDER, Mrc, Subject
from mrc.bench.torch_build import need_torch
from mrc.child import START_TIMEOUT_S
from mrc.errors import CallerError, PeerError
from mrc.lab import Lab
from mrc.lab.scratch import ScratchDirectory

GLOO_MPTCP, WRITE, WRITE_BOTH = "gloo-mptcp", "write", "write-both-ways"
BASELINES = (GLOO, GLOO_MPTCP, WRITE, WRITE_BOTH)
# What moves slower than this has stopped.
_LEAST_BYTES_A_SECOND = 2 << 20
_PATIENCE_S = 60.0
_END_S = 60.0
# Of `mrc bench write`: its default, and for how long one size is measured.
_LARGEST_WRITE = 1 << 20
_WRITE_SECONDS = 2.0

Row = Mapping[str, Any]
OnRow = Callable[[str, Row], None]


class Collective:
    """The ranks in processes of their own, over one transport. `rows` of a run: one for each size and place."""

    loss = 0.0

    def __init__(self, name: str, plan: CollectivesPlan, on_row: OnRow, transport: str = MRC) -> None:
        self.name = name
        self._plan = plan
        self._on_row = on_row
        self._transport = transport
        # It lasts until the lab is down: an interrupt at the start of the ranks may leave one of them to the lab, and
        # a rank makes its store.
        self._scratch = ScratchDirectory(SCRATCH)
        self._runs = 0

    def check(self) -> None:
        """What it needs came with this package."""

    def prepare(self, lab: Lab) -> None:
        """Nothing: it runs on the fabric as it is."""

    def environment(self) -> dict[str, str]:
        return {}

    def run(self, lab: Lab) -> Mapping[str, Any]:
        try:
            return self._run(lab)
        except PeerError as error:
            raise PeerError(f"{self.name}: {error}") from error

    def _run(self, lab: Lab) -> Mapping[str, Any]:
        plan = self._plan
        self._runs += 1
        store = self._scratch.path / str(self._runs)
        store.mkdir(mode=0o700)
        jobs = [plan.job(self._transport, rank, str(store)) for rank in range(plan.ranks)]
        with started(lab, jobs, plan.places, self.environment()) as ranks:
            ranks.hear(START_TIMEOUT_S + _PATIENCE_S)
            rows = []
            for count in plan.counts:
                size = plan.kind.size(count, plan.itemsize, plan.ranks)
                calls = plan.warm_up + plan.iterations + plan.checks
                patience_s = _PATIENCE_S + plan.ranks * size * (calls + plan.checks) / _LEAST_BYTES_A_SECOND
                for place in plan.kind.places:
                    rows.append(row_of(plan, count, place, ranks.hear(patience_s)))
                    self._on_row(self.name, rows[-1])
            ranks.end(_END_S)
        return {"rows": rows}


def row_of(plan: CollectivesPlan, count: int, place: str, told: list[dict[str, Any]]) -> Row:
    """One line of the table from what each rank measured. The time is the mean over the ranks, as in nccl-tests."""
    size = plan.kind.size(count, plan.itemsize, plan.ranks)
    time_us = sum(each["time_us"] for each in told) / len(told)
    algbw = size / time_us / 1e3
    identical = len({tuple(each["sums"]) for each in told}) == 1 if plan.kind.same else None
    return {
        "size_bytes": size,
        "count": count,
        "place": place,
        "time_us": time_us,
        "algbw_gbytes_per_s": algbw,
        "busbw_gbytes_per_s": algbw * plan.kind.factor(plan.ranks),
        "wrong": sum(each["wrong"] for each in told) if plan.checks else None,
        "ranks_identical": identical if plan.checks else None,
        "cpu_seconds": sum(each["cpu_seconds"] for each in told),
    }


class Gloo(Collective):
    """PyTorch's gloo over the kernel's TCP, in plane 0."""

    def __init__(self, name: str, plan: CollectivesPlan, on_row: OnRow) -> None:
        super().__init__(name, plan, on_row, GLOO)

    def check(self) -> None:
        need_torch(f"the baseline {self.name}")

    def environment(self) -> dict[str, str]:
        return {"GLOO_SOCKET_IFNAME": "p0"}


class GlooMptcp(Gloo):
    """gloo over the kernel's MPTCP: each connection has a subflow in every plane."""

    def __init__(self, name: str, plan: CollectivesPlan, on_row: OnRow) -> None:
        super().__init__(name, plan, on_row)
        self._sockets = MptcpSockets(f"the baseline {name}")

    def check(self) -> None:
        super().check()
        self._sockets.check()

    def prepare(self, lab: Lab) -> None:
        # Any rank may be the one that listens.
        self._sockets.prepare(lab, lab.topology.hosts)

    def environment(self) -> dict[str, str]:
        return {**super().environment(), **self._sockets.environment}


class Writes:
    """`mrc bench write`: what one QP moves from h0 to h1, or one each way at the same time, as in most operations.

    It has a bus bandwidth and nothing else: that of one way.
    """

    loss = 0.0

    def __init__(self, name: str, plan: CollectivesPlan, on_row: OnRow) -> None:
        self.name = name
        self._plan = plan
        self._on_row = on_row
        self._ways = [(SENDER, RECEIVER), (RECEIVER, SENDER)] if name == WRITE_BOTH else [(SENDER, RECEIVER)]

    def check(self) -> None:
        """What it needs came with this package."""

    def prepare(self, lab: Lab) -> None:
        """Nothing: it runs on the fabric as it is."""

    def run(self, lab: Lab) -> Mapping[str, Any]:
        plan = self._plan
        rows: list[Row] = []
        for count in plan.counts:
            size = plan.kind.size(count, plan.itemsize, plan.ranks)
            settings = Settings(size=min(size, _LARGEST_WRITE), seconds=_WRITE_SECONDS)
            found = Mrc(self.name, settings).run_ways(lab, self._ways)
            row = {
                "size_bytes": size,
                "count": count,
                "time_us": None,
                "algbw_gbytes_per_s": None,
                "busbw_gbytes_per_s": mean(figures["goodput_gbps"] for figures in found) / 8,
                "wrong": None,
                "ranks_identical": None,
                "cpu_seconds": sum(figures["cpu_seconds"] for figures in found),
            }
            rows += [row | {"place": place} for place in plan.kind.places]
            self._on_row(self.name, row)
        return {"rows": rows}


def make_subjects(plan: CollectivesPlan, on_row: OnRow) -> list[Subject]:
    """MRC and the plan's baselines. Raises CallerError for one there is not."""
    subjects: list[Subject] = [Collective(MRC, plan, on_row)]
    for name in plan.baselines:
        if name == GLOO:
            subjects.append(Gloo(name, plan, on_row))
        elif name == GLOO_MPTCP:
            subjects.append(GlooMptcp(name, plan, on_row))
        elif name in (WRITE, WRITE_BOTH):
            subjects.append(Writes(name, plan, on_row))
        else:
            raise CallerError(f"there is no baseline {name!r}: there are {', '.join(BASELINES)}")
    return subjects
