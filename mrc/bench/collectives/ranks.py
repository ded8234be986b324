# SPDX-License-Identifier: BSD-2-Clause
"""The processes of the ranks, started on the hosts of a lab and read line by line."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from typing import Any

from mrc.bench.collectives.plan import Job
from mrc.bench.processes import running
from mrc.errors import PeerError
from mrc.lab import Lab
from mrc.untrusted import own_json

# For how long the other ranks may say what they know once one has failed.
_LAST_WORDS_S = 6.0


class _Rank:
    """One process and the lines that it has printed."""

    def __init__(self, number: int, host: str, process: subprocess.Popen[str]) -> None:
        self.number = number
        self.host = host
        self.process = process
        self.lines: list[dict[str, Any]] = []
        self.ended = False
        self._unread = b""
        self._end: str | None = None

    @property
    def descriptor(self) -> int:
        assert self.process.stdout is not None
        return self.process.stdout.fileno()

    def read(self) -> None:
        """Take what is there, past the stream's own buffer, which a selector knows nothing of."""
        data = os.read(self.descriptor, 1 << 16)
        self.ended = not data
        *lines, self._unread = (self._unread + data).split(b"\n")
        self.lines += [own_json(line) for line in lines]

    @property
    def error(self) -> tuple[bool, str] | None:
        """Whether another rank's end has ended it, and what it said; None while it goes on, or has lines left."""
        for line in self.lines:
            if "error" in line:
                return bool(line["lost"]), str(line["error"])
        if not self.ended or self.lines:
            return None
        if self._end is None:
            self._end = self._how_it_ended()
        return False, self._end

    @property
    def ended_well(self) -> bool:
        """Whether it has ended with status 0, and without a word of an error."""
        return self.ended and not any("error" in line for line in self.lines) and self.process.wait() == 0

    def _how_it_ended(self) -> str:
        assert self.process.stderr is not None
        code = self.process.wait()
        said = self.process.stderr.read().strip().splitlines()
        how = f"ended by signal {-code}" if code < 0 else f"exit status {code}"
        return f"{how}: {said[-1].strip()}" if said else how


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
        self._read_until(lambda rank: rank.ended, timeout_s)
        for rank in self._ranks:
            if not rank.ended:
                raise PeerError(f"rank {rank.number} on {rank.host} did not end within {timeout_s:.0f} s")
            if rank.process.wait() != 0:
                raise self._failure()

    def _failure(self) -> PeerError:
        """The error of the rank that began it: one that lost another one is a consequence."""
        errors = [(rank, error) for rank in self._ranks if (error := rank.error) is not None]
        rank, (_, text) = min(errors, key=lambda each: (each[0].ended_well, each[1][0]))
        return PeerError(f"rank {rank.number} on {rank.host} failed: {text}")

    def _read_until(self, satisfied: Callable[[_Rank], bool], timeout_s: float, *, patient: bool = False) -> None:
        """Read until every rank is satisfied. Not `patient`: or one has failed."""
        deadline = time.monotonic() + timeout_s
        with selectors.DefaultSelector() as selector:
            for rank in self._ranks:
                if not rank.ended:
                    selector.register(rank.descriptor, selectors.EVENT_READ, rank)
            while not all(satisfied(rank) for rank in self._ranks):
                if not patient and any(rank.error is not None for rank in self._ranks if not satisfied(rank)):
                    return
                left = deadline - time.monotonic()
                if left <= 0 or not selector.get_map():
                    return
                for key, _ in selector.select(left):
                    key.data.read()
                    if key.data.ended:
                        selector.unregister(key.fd)


@contextmanager
def started(lab: Lab, jobs: Sequence[Job], places: Sequence[str], environment: Mapping[str, str]) -> Iterator[Ranks]:
    """A process for each job, on its place; all of them are over when the block is."""
    with ExitStack() as stack:
        ranks = []
        for job, host in zip(jobs, places, strict=True):
            argv = [sys.executable, "-m", "mrc.bench.collectives.rank", json.dumps(asdict(job))]
            options: dict[str, Any] = {"env": {**os.environ, **environment}, "stdin": subprocess.PIPE}
            process = stack.enter_context(running(lab, host, argv, **options))
            ranks.append(_Rank(job.rank, host, process))
        yield Ranks(ranks)
