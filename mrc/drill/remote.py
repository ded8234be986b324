# SPDX-License-Identifier: BSD-2-Clause
"""The programs of a drill as their controller sees them: hosts that take commands, and streams of the kernel's."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from mrc.child import START_TIMEOUT_S, Child, forked, python
from mrc.errors import PeerError
from mrc.lab import Lab
from mrc.lab.children import start_on

_ANSWER_TIMEOUT_S = 20.0


def program(
    lab: Lab,
    host: str,
    module: str,
    *arguments: str,
    environment: Mapping[str, str] | None = None,
    start: Callable[..., subprocess.Popen[Any]] = subprocess.Popen,
) -> Child:
    """`python -m MODULE ARGUMENTS...` on a host of the lab. `environment` None: this process's; `start` as in Child."""
    name = f"{module.rpartition('.')[2]} on {host}"
    return start_on(lab, host, name, python(module, *arguments), environment, start=start, talks=True)


class RemoteHost:
    """A `mrc.drill.host`: its samples lie in `samples`, its trace in `trace` if it writes one."""

    def __init__(self, lab: Lab, host: str, directory: Path, *, traced: bool) -> None:
        self.samples = directory / f"{host}.jsonl"
        self.trace = directory / f"{host}.sqlog" if traced else None
        arguments = [str(self.samples)] + ([str(self.trace)] if self.trace is not None else [])
        # What it imports, for all hosts: they are forks of this process.
        import numpy.random  # noqa: F401

        import mrc.drill.ends
        import mrc.net.node
        import mrc.net.node_device
        import mrc.trace.writer  # noqa: F401
        from mrc.net.forks import import_for_endpoints

        import_for_endpoints()
        self.program = program(lab, host, "mrc.drill.host", *arguments, start=forked)

    def wait_started(self) -> None:
        self.program.line(START_TIMEOUT_S)

    def ask(self, do: str, **details: Any) -> Any:
        """Give a command and return its answer. Raises PeerError when it refuses or is gone."""
        self.program.say({"do": do, **details})
        answer = self.program.hear(_ANSWER_TIMEOUT_S)
        if "error" in answer:
            raise PeerError(f"{self.program.name}: {answer['error']}")
        return answer["ok"]


class Stream:
    """A byte stream of kind tcp or mptcp from one host to another, from `start` on."""

    def __init__(self, lab: Lab, kind: str, source: str, target: str, directory: Path) -> None:
        self.samples = directory / f"{kind}.samples"
        self._lab, self._kind, self._source = lab, kind, source
        self._address = lab.addresses(target)[0]
        self.server = program(lab, target, "mrc.drill.stream", "serve", kind, str(self.samples))

    def start(self, seconds: float) -> Child:
        """The program that connects and sends for so long. Raises PeerError when the receiving end did not start."""
        port = self.server.line(START_TIMEOUT_S)
        told = ("send", self._kind, self._address, port, str(seconds))
        return program(self._lab, self._source, "mrc.drill.stream", *told)
