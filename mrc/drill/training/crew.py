# SPDX-License-Identifier: BSD-2-Clause
"""The ranks of one transport, a process on each host, as the drill's script sees them."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from mrc.child import forked
from mrc.drill.job_record import JobRecord, RankRecord
from mrc.drill.remote import program
from mrc.drill.stage import Stage
from mrc.drill.training.plan import PERCEPTRON, TRANSFORMER, RankPlan
from mrc.errors import PeerError
from mrc.untrusted import own_json

_READY_TIMEOUT_S = 60.0
_JOIN_TIMEOUT_S = 60.0
_POLL_S = 0.02
# One thread of arithmetic for each rank: it makes the order of sums the same every time, and a host has one processor.
_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


class Crew:
    """One program on each host for all jobs of a transport, which are run one after the other and train `model`."""

    def __init__(
        self,
        stage: Stage,
        transport: str,
        directory: Path,
        environment: Mapping[str, str] | None = None,
        model: str = PERCEPTRON,
    ) -> None:
        self.transport = transport
        self._model = model
        self._stage = stage
        self._directory = directory
        self._jobs = 0
        self._answers: list[dict[str, Any] | None] = []
        hosts = stage.lab.topology.hosts
        env = {**os.environ, **_ONE_THREAD, **(environment or {})}
        start: Callable[..., subprocess.Popen[Any]] = subprocess.Popen
        if model == TRANSFORMER and "LD_PRELOAD" not in env:
            # What most of a rank's start is, for all of them: they are forks of this process. Numpy's threads are as
            # many as where it was imported, so that ranks which compute with numpy need interpreters of their own.
            import torch.distributed  # noqa: F401

            import mrc.drill.training.rank
            import mrc.drill.training.transformer  # noqa: F401

            start = forked
        self._programs = [
            program(stage.lab, host, "mrc.drill.training.rank", transport, model, environment=env, start=start)
            for host in hosts
        ]
        for each in self._programs:
            stage.employ(each)

    def wait_ready(self) -> None:
        """Until all have imported what they need. Raises PeerError."""
        for each in self._programs:
            each.line(_READY_TIMEOUT_S)

    def begin(self, plan: RankPlan) -> int:
        """Start a job; the plan's rank, store, address and model are set here. Returns when its first step began,
        ns. Raises PeerError when the ranks do not find each other."""
        self._jobs += 1
        store = self._directory / f"{self.transport}-{self._jobs}"
        store.mkdir(mode=0o700)
        for rank, (host, each) in enumerate(zip(self._stage.lab.topology.hosts, self._programs, strict=True)):
            address = self._stage.lab.addresses(host)[0]
            own = replace(
                plan, transport=self.transport, rank=rank, store=str(store), address=address, model=self._model
            )
            each.say(own.to_json())
        self._answers = [None] * len(self._programs)
        began = [each.hear(_JOIN_TIMEOUT_S) for each in self._programs]
        for answer in began:
            if "error" in answer:
                raise PeerError(f"the ranks over {self.transport} did not find each other: {answer['error']}")
        return max(int(answer["began_ns"]) for answer in began)

    def until(self, due_ns: int) -> bool:
        """Wait until a moment, or until all ranks are done: whether the moment came first. Raises PeerError."""
        while time.monotonic_ns() < due_ns:
            if self._done():
                return False
            self._stage.tell_time()
            time.sleep(max(0.0, min(_POLL_S, (due_ns - time.monotonic_ns()) / 1e9)))
        return True

    def _done(self) -> bool:
        for rank, each in enumerate(self._programs):
            if self._answers[rank] is None and (line := each.next_line(0.0)) is not None:
                self._answers[rank] = own_json(line)
        return None not in self._answers

    def result(self, weather: str, timeout_s: float) -> JobRecord:
        """What the job was, once it is over. Raises PeerError when it is not after so long."""
        if self.until(time.monotonic_ns() + round(timeout_s * 1e9)):
            raise PeerError(f"the job over {self.transport} was not over after another {timeout_s:.0f} s")
        return JobRecord(self.transport, weather, [RankRecord.from_json(answer) for answer in self._answers if answer])
