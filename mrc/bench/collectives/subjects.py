"""What is measured in each round: MRC, gloo over TCP and over MPTCP, and the writes of `mrc bench write`."""

from __future__ import annotations

import errno
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from mrc.bench.baselines.mptcp import check_mptcp, compile_mptcp_sockets, configure_path_manager
from mrc.bench.collectives.plan import CollectivesPlan
from mrc.bench.collectives.ranks import started
from mrc.bench.collectives.transports import GLOO, MRC
from mrc.bench.processes import START_TIMEOUT_S
from mrc.bench.settings import Settings
from mrc.bench.subject import Mrc, Subject
from mrc.errors import CallerError, PeerError, SystemRefused
from mrc.lab import Lab

GLOO_MPTCP, WRITE = "gloo-mptcp", "write"
BASELINES = (GLOO, GLOO_MPTCP, WRITE)
# What moves slower than this has stopped.
_LEAST_BYTES_A_SECOND = 2 << 20
_PATIENCE_S = 60.0
_END_S = 60.0
# Of `mrc bench write`: its default, and for how long one size is measured.
_LARGEST_WRITE = 1 << 20
_WRITE_SECONDS = 1.0

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
        with tempfile.TemporaryDirectory(prefix="mrc-bench-") as store:
            jobs = [plan.job(self._transport, rank, store) for rank in range(plan.ranks)]
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
        if find_spec("torch") is None:
            raise SystemRefused(
                errno.ENOENT,
                f"the baseline {self.name} needs PyTorch: pip install torch --index-url "
                "https://download.pytorch.org/whl/cpu",
            )

    def environment(self) -> dict[str, str]:
        return {"GLOO_SOCKET_IFNAME": "p0"}


class GlooMptcp(Gloo):
    """gloo over the kernel's MPTCP: each connection has a subflow in every plane."""

    def __init__(self, name: str, plan: CollectivesPlan, on_row: OnRow) -> None:
        super().__init__(name, plan, on_row)
        self._scratch = tempfile.TemporaryDirectory(prefix="mrc-bench-")
        self._library = Path(self._scratch.name, "mptcp-socket.so")

    def check(self) -> None:
        super().check()
        check_mptcp(self.name)

    def prepare(self, lab: Lab) -> None:
        compile_mptcp_sockets(self._library, self.name)
        planes = lab.topology.planes
        for host in lab.topology.hosts:
            # Any rank may be the one that listens.
            announced = lab.addresses(host)[1:]
            lab.inside(host, partial(configure_path_manager, announced, planes))

    def environment(self) -> dict[str, str]:
        return {**super().environment(), "LD_PRELOAD": str(self._library)}


class Writes:
    """`mrc bench write` from h0 to h1: what one QP moves, one way. It has a bus bandwidth and nothing else."""

    loss = 0.0
    name = WRITE

    def __init__(self, plan: CollectivesPlan, on_row: OnRow) -> None:
        self._plan = plan
        self._on_row = on_row

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
            figures = Mrc(WRITE, settings).run(lab)
            row = {
                "size_bytes": size,
                "count": count,
                "time_us": None,
                "algbw_gbytes_per_s": None,
                "busbw_gbytes_per_s": figures["goodput_gbps"] / 8,
                "wrong": None,
                "ranks_identical": None,
                "cpu_seconds": figures["cpu_seconds"],
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
        elif name == WRITE:
            subjects.append(Writes(plan, on_row))
        else:
            raise CallerError(f"there is no baseline {name!r}: there are {', '.join(BASELINES)}")
    return subjects
