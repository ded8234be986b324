# SPDX-License-Identifier: BSD-2-Clause
"""Starts ranks in a lab's hosts, as forks of a process that has imported torch already (torch_ready.py)."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from mrc.lab import Lab

READY = Path(__file__).with_name("torch_ready.py")
LOOK_S = 0.01


class Rank:
    """A running rank, as subprocess.Popen has it."""

    def __init__(self, ready: Ready, pid: int, output: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._ready = ready
        self._output = open(output, "rb")  # noqa: SIM115
        self._written: str | None = None

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = self._ready.code(self.pid)
        return self.returncode

    def kill(self) -> None:
        if self.poll() is None:
            os.kill(self.pid, 9)

    def communicate(self, timeout: float | None = None) -> tuple[str, None]:
        """What it wrote, once it has ended."""
        end = None if timeout is None else time.monotonic() + timeout
        while self.poll() is None:
            if end is not None and time.monotonic() > end:
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0)
            time.sleep(LOOK_S)
        if self._written is None:
            with self._output:
                self._output.seek(0)
                self._written = self._output.read().decode()
        return self._written, None


class Ready:
    """The process that forks ranks."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._asking, asked = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with asked:
            argv = [sys.executable, "-W", "ignore", str(READY), str(asked.fileno())]
            self._process = subprocess.Popen(argv, pass_fds=[asked.fileno()])
        self._codes: dict[int, int] = {}

    def start(self, host: str, argv: Sequence[str], env: Mapping[str, str]) -> Rank:
        """A rank on a host."""
        with tempfile.TemporaryFile() as file:
            output = os.dup(file.fileno())
        namespace = self._lab.open_namespace(host)
        request = json.dumps({"argv": list(argv), "env": dict(env)}).encode()
        socket.send_fds(self._asking, [request], [output, namespace])
        os.close(namespace)
        while "code" in (told := json.loads(self._asking.recv(1000))):
            self._codes[told["pid"]] = told["code"]
        return Rank(self, told["pid"], output)

    def code(self, pid: int) -> int | None:
        """The exit code of a rank that has ended."""
        while pid not in self._codes:
            try:
                told = json.loads(self._asking.recv(1000, socket.MSG_DONTWAIT))
            except BlockingIOError:
                return None
            self._codes[told["pid"]] = told["code"]
        return self._codes[pid]

    def close(self) -> None:
        self._asking.close()
        self._process.wait(60)
