# SPDX-License-Identifier: BSD-2-Clause
"""The programs of a drill as their controller sees them: hosts that take commands, and streams of the kernel's."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mrc.errors import PeerError
from mrc.lab import Lab
from mrc.untrusted import own_json

_START_TIMEOUT_S = 30.0
_ANSWER_TIMEOUT_S = 20.0
_END_TIMEOUT_S = 5.0


class Program:
    """`python -m MODULE ARGUMENTS...` on a host of the lab, in a session of its own so that Ctrl-C is the controller's.

    A context manager; leaving it ends the program. Its errors go to `errors`, a file. `environment` None: this
    process's.
    """

    def __init__(
        self,
        lab: Lab,
        host: str,
        module: str,
        arguments: list[str],
        errors: Path,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.name = f"{module.rpartition('.')[2]} on {host}"
        self._errors = errors
        self._rest = b""
        with open(errors, "wb") as stderr:
            self._process: subprocess.Popen[bytes] = lab.popen(
                host,
                [sys.executable, "-m", module, *arguments],
                environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                start_new_session=True,
            )

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    def line(self, timeout_s: float) -> str:
        """The next line it prints. Raises PeerError when it ends or says nothing for so long."""
        line = self.next_line(timeout_s)
        if line is None:
            raise PeerError(f"{self.name} {self._why(False, timeout_s)}")
        return line

    def next_line(self, timeout_s: float) -> str | None:
        """The next line it prints, None when it says nothing for so long. Raises PeerError when it ends."""
        assert self._process.stdout is not None
        descriptor, deadline = self._process.stdout.fileno(), time.monotonic() + timeout_s
        while b"\n" not in self._rest:
            readable, _, _ = select.select([descriptor], (), (), max(0.0, deadline - time.monotonic()))
            if not readable:
                return None
            data = os.read(descriptor, 1 << 16)
            if not data:
                raise PeerError(f"{self.name} {self._why(True, timeout_s)}")
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode()

    def send(self, line: str) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line.encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise PeerError(f"{self.name} {self._why(True, 0.0)}") from None

    def _why(self, ended: bool, timeout_s: float) -> str:
        if not ended:
            return f"did not answer within {timeout_s:.0f} s"
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_TIMEOUT_S)
        said = self._errors.read_text(errors="replace").strip().splitlines()
        return f"ended: {said[-1] if said else f'exit status {self._process.returncode}'}"

    def hang_up(self) -> None:
        """Close its input and output, which asks it to end; `close` waits until it has. Safe to call twice."""
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()

    def close(self) -> None:
        """End it if it has not ended: by the end of its input, then by signals. Safe to call twice."""
        process = self._process
        self.hang_up()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_END_TIMEOUT_S)
            return
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_END_TIMEOUT_S)
            return
        process.kill()
        process.wait()

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class RemoteHost(Program):
    """A `mrc.drill.host`: its samples lie in `samples`, its trace in `trace` if it writes one."""

    def __init__(self, lab: Lab, host: str, directory: Path, *, traced: bool) -> None:
        self.host = host
        self.samples = directory / f"{host}.jsonl"
        self.trace = directory / f"{host}.sqlog" if traced else None
        arguments = [str(self.samples)] + ([str(self.trace)] if self.trace is not None else [])
        super().__init__(lab, host, "mrc.drill.host", arguments, directory / f"{host}.err")

    def wait_started(self) -> None:
        self.line(_START_TIMEOUT_S)

    def ask(self, do: str, **details: Any) -> Any:
        """Give a command and return its answer. Raises PeerError when it refuses or is gone."""
        self.send(json.dumps({"do": do, **details}))
        answer = own_json(self.line(_ANSWER_TIMEOUT_S))
        if "error" in answer:
            raise PeerError(f"{self.name}: {answer['error']}")
        return answer["ok"]


class Stream:
    """A byte stream of kind tcp or mptcp from one host to another, from `start` on. A context manager."""

    def __init__(self, lab: Lab, kind: str, source: str, target: str, directory: Path) -> None:
        self.kind = kind
        self.samples = directory / f"{kind}.samples"
        self._lab, self._source, self._directory = lab, source, directory
        self._address = lab.addresses(target)[0]
        self._programs = [
            Program(
                lab,
                target,
                "mrc.drill.stream",
                ["serve", kind, str(self.samples)],
                directory / f"{kind}-serve.err",
            )
        ]

    def start(self, seconds: float) -> None:
        """Connect and send for so long. Raises PeerError when the receiving end did not start."""
        port = self._programs[0].line(_START_TIMEOUT_S)
        arguments = ["send", self.kind, self._address, port, str(seconds)]
        errors = self._directory / f"{self.kind}-send.err"
        self._programs.append(Program(self._lab, self._source, "mrc.drill.stream", arguments, errors))

    def hang_up(self) -> None:
        for program in self._programs:
            program.hang_up()

    def close(self) -> None:
        """End both programs. Safe to call twice."""
        for program in reversed(self._programs):
            program.close()

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
