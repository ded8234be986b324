# SPDX-License-Identifier: BSD-2-Clause
"""Programs that tests start. Commands of this package are forks of an interpreter that has imported what they run on:
most of them spend more on their imports than on anything else.

What a new interpreter is needed for starts one: LD_PRELOAD, a limit on memory, a signal while it begins. Such tests use
subprocess, or have the command started by another program (`prlimit`, `sh`).
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mrc.lab.namespace import in_namespace

MRC = (sys.executable, "-m", "mrc")
_ANSWER_BYTES = 4096
# What an interpreter, or a library while it is loaded, reads of its environment.
_READ_AT_THE_START = ("PYTHON", "LD_", "MRC_CORE", "LC_", "LANG", "TZ", "OMP_", "OPENBLAS_")


def start(
    argv: Sequence[str | Path], *, limits: Mapping[int, int] | None = None, **options: Any
) -> subprocess.Popen[Any]:
    """Start a program; `options` are those of subprocess.Popen, which this stands in for.

    A module of this package, named by `-m`, starts as a fork where the options and its environment leave that open. It
    may have lower `limits` of what it may use, by the numbers of setrlimit(2).
    """
    words = [os.fspath(word) for word in argv]
    of_this_package = words[:2] == list(MRC[:2]) and words[2].partition(".")[0] == "mrc"
    if of_this_package and options.keys() <= _Fork.OPTIONS and _server().environment == _read(options.get("env")):
        return _Fork(words, limits or {}, **options)
    assert not limits, "only forks have limits of their own"
    return subprocess.Popen(words, **options)


def run(
    argv: Sequence[str | Path],
    *,
    capture_output: bool = False,
    check: bool = False,
    timeout: float | None = None,
    **options: Any,
) -> subprocess.CompletedProcess[Any]:
    """Run a program until it ends, as subprocess.run does; how it starts is as in `start`."""
    if capture_output:
        options |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with start(argv, **options) as program:
        try:
            out, err = program.communicate(timeout=timeout)
        except BaseException:
            program.kill()
            raise
    done = subprocess.CompletedProcess(program.args, program.returncode, out, err)
    if check:
        done.check_returncode()
    return done


def _read(environment: Mapping[str, str] | None) -> dict[str, str]:
    """What an interpreter reads of an environment; None: of this process's own."""
    variables = os.environ if environment is None else environment
    read = {name: value for name, value in variables.items() if name.startswith(_READ_AT_THE_START)}
    read.pop("PYTHONUNBUFFERED", None)  # which a fork heeds
    return read


class _Fork(subprocess.Popen[Any]):
    """A command of this package that the server has forked, and a child of this process."""

    OPTIONS = frozenset(("stdin", "stdout", "stderr", "text", "bufsize", "env", "cwd", "start_new_session"))

    def __init__(self, argv: list[str], limits: Mapping[int, int], **options: Any) -> None:
        self._limits = limits
        self._new_session = bool(options.get("start_new_session", False))
        super().__init__(argv, **options)

    def _execute_child(self, argv: list[str], *details: Any) -> None:
        """What Popen calls to start the program. `details`, as in Python 3.11 to 3.14: executable, preexec_fn,
        close_fds, pass_fds, cwd, env, startupinfo, creationflags, shell, then the ends of its pipes."""
        folder, environment, ends = details[4], details[5], details[9:15]
        to_read, _, _, to_write, _, to_complain = ends
        streams = [own if own != -1 else number for number, own in enumerate((to_read, to_write, to_complain))]
        try:
            self.pid = _server().start(
                {
                    "argv": argv,
                    "folder": os.path.abspath(folder or "."),
                    "environment": dict(os.environ if environment is None else environment),
                    "session": self._new_session,
                    "limits": list(self._limits.items()),
                },
                streams,
            )
            self._child_created = True
        finally:
            self._close_pipe_fds(*ends)  # type: ignore[attr-defined]


class _Server:
    """The interpreter that forks. It ends when this process does."""

    def __init__(self) -> None:
        self.environment = _read(None)
        self._lock = threading.Lock()
        self._ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            # Without the folder of the tests on its path. Its output is nobody's: forks have streams of their own.
            argv = [sys.executable, "-P", str(Path(__file__).with_name("fork_server.py"))]
            network = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
            try:
                # Where the tests run, also when the first command is started from a thread in a lab.
                self._process = in_namespace(
                    network, lambda: subprocess.Popen(argv, stdin=theirs.fileno(), stdout=subprocess.DEVNULL)
                )
            finally:
                os.close(network)

    def close(self) -> None:
        self._ours.close()
        self._process.wait()

    def start(self, request: dict[str, Any], streams: list[int]) -> int:
        """Fork a command in the namespace of this thread, with these streams: its process id."""
        network = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        with self._lock:
            mask = os.umask(0)
            os.umask(mask)
            request |= {
                "processors": sorted(os.sched_getaffinity(0)),
                "blocked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ())),
                "umask": mask,
            }
            try:
                socket.send_fds(self._ours, [json.dumps(request).encode()], [network, *streams])
                answer = self._ours.recv(_ANSWER_BYTES).decode()
            finally:
                os.close(network)
        if not answer:
            raise OSError(f"the fork server has ended: {self._process.poll()}")
        return int(answer)


_lock = threading.Lock()
_started: list[_Server] = []


def _server() -> _Server:
    with _lock:
        if not _started:
            _started.append(_Server())
            atexit.register(_started[0].close)
        return _started[0]
