# SPDX-License-Identifier: BSD-2-Clause
"""Runs torch's DistributedTest cases over a backend, all ranks on this machine: what the tests and the recording share.

`python torch_cases_run.py gloo` writes again which cases pass over gloo (torch_cases_of_gloo.txt); with another
backend and names of cases it prints what becomes of each.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from queue import Empty, Queue
from typing import Any, Self, TextIO

PROGRAM = Path(__file__).with_name("torch_cases.py")
RECORDED = Path(__file__).with_name("torch_cases_of_gloo.txt")
SIZE = 4
CASE_S = 120.0
START_S = 240.0
AFTER_FAILURE_S = 3.0


class Ranks:
    """The processes of one job, which run one case after another."""

    def __init__(self, folder: Path, size: int) -> None:
        environment = os.environ | {
            "MRC_BIND": "127.0.0.1",
            "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
            "GLOO_SOCKET_IFNAME": "lo",
            "MASTER_PORT": str(free_port()),
            "MKL_NUM_THREADS": "1",
        }
        environment.pop("MRC_FABRIC", None)
        self._log = folder / "stderr"
        self._answers: list[Queue[dict[str, Any] | None]] = [Queue() for _ in range(size)]
        pairs = [socket.socketpair() for _ in range(size)]
        theirs = [pair[1].fileno() for pair in pairs]
        argv = [sys.executable, "-W", "ignore", str(PROGRAM), str(folder), *map(str, theirs)]
        # What cases print belongs to nobody.
        with self._log.open("a") as log:
            process = subprocess.Popen(
                argv, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=theirs,
                start_new_session=True,
            )  # fmt: skip
        self._process = process
        self._lines = []
        for (mine, other), answers in zip(pairs, self._answers, strict=True):
            other.close()
            self._lines.append(mine.makefile("rw"))
            mine.close()
            threading.Thread(target=self._listen, args=(self._lines[-1], answers), daemon=True).start()

    @staticmethod
    def _listen(lines: TextIO, answers: Queue[dict[str, Any] | None]) -> None:
        with contextlib.suppress(OSError):
            for line in lines:
                answers.put(json.loads(line))
        answers.put(None)

    def names(self) -> list[str]:
        found = [self._answer(rank, START_S) for rank in range(len(self._lines))]
        if any(each is None for each in found):
            raise RuntimeError(f"a rank did not start:\n{self._log.read_text()[-5000:]}")
        assert found[0] is not None
        names: list[str] = found[0]["names"]
        return names

    def run(self, backend: str, name: str) -> list[dict[str, Any]]:
        """What became of it at each rank."""
        for lines in self._lines:
            print(json.dumps([backend, name]), file=lines, flush=True)
        answers: dict[int, dict[str, Any]] = {}
        by = time.monotonic() + CASE_S
        while len(answers) < len(self._lines) and time.monotonic() < by:
            for rank in set(range(len(self._lines))) - set(answers):
                answer = self._answer(rank, 0.01)
                if answer is not None:
                    answers[rank] = answer
                    if answer["outcome"] == "failed":
                        # The others wait for it, or say why they failed as well.
                        by = min(by, time.monotonic() + AFTER_FAILURE_S)
        lost = {"name": name, "outcome": "failed", "why": "no answer in time, or the process has ended", "seconds": 0.0}
        return [answers.get(rank, lost) for rank in range(len(self._lines))]

    def _answer(self, rank: int, patience_s: float) -> dict[str, Any] | None:
        try:
            return self._answers[rank].get(timeout=patience_s)
        except Empty:
            return None

    def close(self) -> None:
        # The first process has ended where it has forked them all.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


class Cases:
    """Runs cases, one after another, in processes that go on until one fails. A context manager."""

    def __init__(self, size: int = SIZE) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._size = size
        self._started = 0
        self._ranks: Ranks | None = None
        self._names: list[str] = []

    def outcomes(self, backend: str, wanted: Iterable[str] | None) -> Iterator[tuple[str, str, str]]:
        """Name, outcome and why of each case; None: of all. A failure ends the processes, and others go on."""
        if wanted is None:
            self._running()
            wanted = self._names
        for name in wanted:
            answers = self._running().run(backend, name)
            failed = [each for each in answers if each["outcome"] == "failed"]
            if failed:
                self._end()
                yield name, "failed", "\n".join(each["why"] for each in failed)
            else:
                skipped = next((each for each in answers if each["outcome"] == "skipped"), None)
                seconds = f"{max(each['seconds'] for each in answers):.2f} s"
                yield name, "skipped" if skipped else "passed", skipped["why"] if skipped else seconds

    def _running(self) -> Ranks:
        if self._ranks is None:
            self._started += 1
            folder = Path(self._folder.name, str(self._started))
            folder.mkdir()
            self._ranks = Ranks(folder, self._size)
            self._names = self._ranks.names()
        return self._ranks

    def _end(self) -> None:
        if self._ranks is not None:
            self._ranks.close()
            self._ranks = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._end()
        self._folder.cleanup()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def recorded() -> list[str]:
    """The cases that pass over gloo, as recorded."""
    return [line for line in RECORDED.read_text().splitlines() if line and not line.startswith("#")]


def record() -> None:
    import torch

    with Cases() as cases:
        passed = [name for name, outcome, _ in cases.outcomes("gloo", None) if outcome == "passed"]
    head = (
        f"# torch {torch.__version__.partition('+')[0]}, gloo, {SIZE} ranks: the cases of DistributedTest that pass.\n"
    )
    head += "# Written by `python tests/torch_backend/torch_cases_run.py gloo`.\n"
    RECORDED.write_text(head + "\n".join(passed) + "\n")
    print(f"{len(passed)} cases pass: {RECORDED}")


if __name__ == "__main__":
    if sys.argv[1:] == ["gloo"]:
        record()
    else:
        with Cases() as cases:
            for name, outcome, why in cases.outcomes(sys.argv[1], sys.argv[2:] or recorded()):
                print(name, outcome, why, flush=True)
