# SPDX-License-Identifier: BSD-2-Clause
"""Ctrl-C while an ordinary user's command goes into namespaces of its own and begins there again.

No traceback of what it imports."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import NoReturn

import pytest
from patience import PATIENCE_S

from mrc.cli import isolation


def _blocked() -> set[signal.Signals | int]:
    return set(signal.pthread_sigmask(signal.SIG_BLOCK, ()))


def test_an_interrupt_waits_until_the_command_has_begun_again(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bool] = []

    def execve(*_: object) -> NoReturn:
        seen.append(signal.SIGINT in _blocked())
        raise OSError

    monkeypatch.setattr(isolation, "isolated_command", list)
    monkeypatch.setattr(os, "geteuid", lambda: 1)
    monkeypatch.setattr(os, "execve", execve)
    with pytest.raises(OSError):
        isolation.isolate(["demo"])
    assert seen == [True]
    assert signal.SIGINT not in _blocked()


def test_a_command_that_was_interrupted_before_it_began_ends_without_a_word() -> None:
    program = (
        "import os, signal, sys\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})\n"
        "os.kill(os.getpid(), signal.SIGINT)\n"
        "os.execv(sys.executable, [sys.executable, '-m', 'mrc', '--version'])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=PATIENCE_S, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, b"", b"")
