# SPDX-License-Identifier: BSD-2-Clause
"""Runs torch's DistributedTest cases over a backend, all ranks on this machine: what the tests and the recording share.

`python torch_cases_run.py gloo` writes again which cases pass over gloo (torch_cases_of_gloo.txt); with another
backend and names of cases it prints what becomes of each.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from queue import Empty, Queue
from typing import Any

PROGRAM = Path(__file__).with_name("torch_cases.py")
RECORDED = Path(__file__).with_name("torch_cases_of_gloo.txt")
SIZE = 4
CASE_S = 120.0
START_S = 240.0
AFTER_FAILURE_S = 3.0


class Ranks:
    """The processes of one job, which run one case after another."""

    def __init__(self, backend: str, folder: Path, size: int = SIZE) -> None:
        environment = os.environ | {
            "MRC_BIND": "127.0.0.1",
            "GLOO_SOCKET_IFNAME": "lo",
            "MASTER_PORT": str(free_port()),
            "OMP_NUM_THREADS": "1",
            "MKL_NUM_THREADS": "1",
        }
        environment.pop("MRC_FABRIC", None)
        self._log = folder / "stderr"
        self._answers: list[Queue[dict[str, Any] | None]] = []
        self._processes: list[subprocess.Popen[str]] = []
        for rank in range(size):
            argv = [sys.executable, "-W", "ignore", str(PROGRAM), backend, str(rank), str(size), str(folder)]
            with self._log.open("a") as log:
                process = subprocess.Popen(
                    argv, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
                )
            answers: Queue[dict[str, Any] | None] = Queue()
            threading.Thread(target=self._listen, args=(process, answers), daemon=True).start()
            self._processes.append(process)
            self._answers.append(answers)

    @staticmethod
    def _listen(process: subprocess.Popen[str], answers: Queue[dict[str, Any] | None]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            answers.put(json.loads(line))
        answers.put(None)

    def names(self) -> list[str]:
        found = [self._answer(rank, START_S) for rank in range(len(self._processes))]
        if any(each is None for each in found):
            raise RuntimeError(f"a rank did not start:\n{self._log.read_text()[-5000:]}")
        assert found[0] is not None
        names: list[str] = found[0]["names"]
        return names

    def run(self, name: str) -> list[dict[str, Any]]:
        """What became of it at each rank."""
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.write(f"{name}\n")
            process.stdin.flush()
        answers: dict[int, dict[str, Any]] = {}
        by = time.monotonic() + CASE_S
        while len(answers) < len(self._processes) and time.monotonic() < by:
            for rank in set(range(len(self._processes))) - set(answers):
                answer = self._answer(rank, 0.01)
                if answer is not None:
                    answers[rank] = answer
                    if answer["outcome"] == "failed":
                        # The others wait for it, or say why they failed as well.
                        by = min(by, time.monotonic() + AFTER_FAILURE_S)
        lost = {"name": name, "outcome": "failed", "why": "no answer in time, or the process has ended", "seconds": 0.0}
        return [answers.get(rank, lost) for rank in range(len(self._processes))]

    def _answer(self, rank: int, patience_s: float) -> dict[str, Any] | None:
        try:
            return self._answers[rank].get(timeout=patience_s)
        except Empty:
            return None

    def close(self) -> None:
        for process in self._processes:
            process.kill()
            process.communicate()


def outcomes(backend: str, wanted: Iterable[str] | None, size: int = SIZE) -> Iterator[tuple[str, str, str]]:
    """Name, outcome and why of each case; None: of all. A failure ends the processes, and others go on."""
    with tempfile.TemporaryDirectory() as folder:
        ranks, started = Ranks(backend, Path(folder), size), 0
        try:
            known = ranks.names()
            for name in known if wanted is None else wanted:
                if ranks is None:
                    started += 1
                    again = Path(folder, str(started))
                    again.mkdir()
                    ranks = Ranks(backend, again, size)
                    ranks.names()
                answers = ranks.run(name)
                failed = [each for each in answers if each["outcome"] == "failed"]
                if failed:
                    ranks.close()
                    ranks = None  # type: ignore[assignment]
                    yield name, "failed", "\n".join(each["why"] for each in failed)
                else:
                    skipped = next((each for each in answers if each["outcome"] == "skipped"), None)
                    seconds = f"{max(each['seconds'] for each in answers):.2f} s"
                    yield name, "skipped" if skipped else "passed", skipped["why"] if skipped else seconds
        finally:
            if ranks is not None:
                ranks.close()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def recorded() -> list[str]:
    """The cases that pass over gloo, as recorded."""
    return [line for line in RECORDED.read_text().splitlines() if line and not line.startswith("#")]


def record() -> None:
    import torch

    passed = [name for name, outcome, _ in outcomes("gloo", None) if outcome == "passed"]
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
        for name, outcome, why in outcomes(sys.argv[1], sys.argv[2:] or recorded()):
            print(name, outcome, why, flush=True)
