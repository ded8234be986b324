# SPDX-License-Identifier: BSD-2-Clause
"""The processes of the ranks, started on the hosts of a lab and read line by line."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from typing import Any

from mrc.bench.collectives.plan import Job
from mrc.bench.collectives.transports import load
from mrc.child import Child, forked, listen, python
from mrc.errors import PeerError
from mrc.lab import Lab
from mrc.lab.children import start_on

# For how long the other ranks may say what they know once one has failed.
_LAST_WORDS_S = 6.0


class _Rank:
    """One process and the documents that it has printed."""

    def __init__(self, number: int, child: Child) -> None:
        self.number = number
        self.child = child
        self.lines: list[dict[str, Any]] = []
        self._end: str | None = None

    @property
    def error(self) -> tuple[bool, str] | None:
        """Whether another rank's end has ended it, and what it said; None while it goes on, or has lines left."""
        for line in self.lines:
            if "error" in line:
                return bool(line["lost"]), str(line["error"])
        if not self.child.silent or self.lines:
            return None
        if self._end is None:
            self._end = self.child.why()
        return False, self._end

    @property
    def ended_well(self) -> bool:
        """Whether it has ended with status 0, and without a word of an error."""
        return self.child.status() == 0 and not any("error" in line for line in self.lines)


class Ranks:
    """All ranks of one run."""

    def __init__(self, ranks: Sequence[_Rank]) -> None:
        self._ranks = ranks

    def hear(self, timeout_s: float) -> list[dict[str, Any]]:
        """The next line of every rank. Raises PeerError when one has failed, or says nothing for `timeout_s`."""
        self._read_until(lambda rank: bool(rank.lines), timeout_s)
        failed = [rank for rank in self._ranks if rank.error is not None]
        if failed:
            self._read_until(lambda rank: rank.error is not None, _LAST_WORDS_S, patient=True)
            raise self._failure()
        silent = [rank for rank in self._ranks if not rank.lines]
        if silent:
            numbers = ", ".join(str(rank.number) for rank in silent)
            raise PeerError(f"nothing was heard of rank {numbers} for {timeout_s:.0f} s")
        return [rank.lines.pop(0) for rank in self._ranks]

    def end(self, timeout_s: float) -> None:
        """Wait until all processes have ended well. Raises PeerError otherwise."""
        self._read_until(lambda rank: rank.child.silent, timeout_s)
        for rank in self._ranks:
            if not rank.child.silent:
                raise PeerError(f"{rank.child.name} did not end within {timeout_s:.0f} s")
            if rank.child.status() != 0:
                raise self._failure()

    def _failure(self) -> PeerError:
        """The error of the rank that began it: one that lost another one is a consequence."""
        errors = [(rank, error) for rank in self._ranks if (error := rank.error) is not None]
        rank, (_, text) = min(errors, key=lambda each: (each[0].ended_well, each[1][0]))
        return PeerError(f"{rank.child.name} failed: {text}")

    def _read_until(self, satisfied: Callable[[_Rank], bool], timeout_s: float, *, patient: bool = False) -> None:
        """Read until every rank is satisfied. Not `patient`: or one has failed."""
        deadline = time.monotonic() + timeout_s
        while not all(satisfied(rank) for rank in self._ranks):
            if not patient and any(rank.error is not None for rank in self._ranks if not satisfied(rank)):
                return
            going = [rank.child for rank in self._ranks if not rank.child.silent]
            if not going or not listen(going, max(0.0, deadline - time.monotonic())):
                return
            for rank in self._ranks:
                rank.lines += rank.child.heard()


@contextmanager
def started(lab: Lab, jobs: Sequence[Job], places: Sequence[str], environment: Mapping[str, str]) -> Iterator[Ranks]:
    """A process for each job, on its place; all of them are over when the block is.

    They are forks of this one, which imports what they need once. A library that is loaded by LD_PRELOAD needs an
    interpreter of its own.
    """
    start: Callable[..., subprocess.Popen[Any]] = subprocess.Popen
    if "LD_PRELOAD" not in environment:
        start = forked
        for transport in {job.transport for job in jobs}:
            load(transport)
    with ExitStack() as stack:
        ranks = []
        for job, host in zip(jobs, places, strict=True):
            argv = python("mrc.bench.collectives.rank", json.dumps(asdict(job)))
            env = {**os.environ, **environment}
            child = start_on(lab, host, f"rank {job.rank} on {host}", argv, env, start=start, talks=True)
            ranks.append(_Rank(job.rank, stack.enter_context(child)))
        yield Ranks(ranks)
