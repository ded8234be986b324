# SPDX-License-Identifier: BSD-2-Clause
"""A command and all that it starts, which ends with it, in the background or not."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from mrc.errors import SystemRefused

_PR_SET_CHILD_SUBREAPER = 36
_GRACE_S = 2.0
_LOOK_S = 0.02
# Ctrl-C and Ctrl-\ are for the command, which is in the same terminal. These end it.
_PASSED_ON = (signal.SIGTERM, signal.SIGHUP)


def run_household(argv: Sequence[str]) -> int:
    """Run a command to its end, end what is left of what it started, and return its exit status.

    Processes that it leaves behind become children of this one, whatever sessions they have made. They get SIGTERM, and
    SIGKILL two seconds later. Raises SystemRefused when the command cannot be started.
    """
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    # All before the command is there: this process may be ended in that very moment. A function that does nothing
    # rather than SIG_IGN, which the command would inherit.
    process: subprocess.Popen[bytes] | None = None
    early: list[int] = []

    def pass_on(number: int, _: object) -> None:
        if process is None:
            early.append(number)
        else:
            _send(process.pid, number)

    for number in (signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, lambda *_: None)
    for number in _PASSED_ON:
        # What is ignored from the start, as `nohup` ignores SIGHUP, ends neither this process nor the command.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, pass_on)
    try:
        process = subprocess.Popen(argv)
    except OSError as error:
        raise SystemRefused(f"cannot start {argv[0]!r}: {error.strerror}") from None
    for missed in early:
        _send(process.pid, missed)
    try:
        status = process.wait()
    finally:
        _end_children()
    return 128 - status if status < 0 else status


def _end_children() -> None:
    """End every process that has become a child of this one, and those that come to it as their parents end."""
    kill_at = time.monotonic() + _GRACE_S
    asked: set[int] = set()
    while children := list(_children()):
        for child in children:
            if time.monotonic() >= kill_at:
                _send(child, signal.SIGKILL)
            elif child not in asked:
                asked.add(child)
                _send(child, signal.SIGTERM)
                _send(child, signal.SIGCONT)  # one that is stopped would not hear of it
        while True:
            try:
                if os.waitpid(-1, os.WNOHANG)[0] == 0:
                    break
            except ChildProcessError:
                break
        time.sleep(_LOOK_S)


def _children() -> Iterator[int]:
    me = os.getpid()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, IndexError, ValueError):
                if int((entry / "stat").read_text().rpartition(")")[2].split()[1]) == me:
                    yield int(entry.name)


def _send(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
