# SPDX-License-Identifier: BSD-2-Clause
"""A call that a thread of its own makes: what it returns and raises, and what an interrupt leaves of it."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from types import FrameType
from typing import Any

import pytest

import mrc.threads
from mrc.threads import in_thread


def test_what_it_returns_and_raises() -> None:
    assert in_thread(lambda: threading.current_thread() is threading.main_thread()) is False
    with pytest.raises(ZeroDivisionError):
        in_thread(lambda: 1 // 0)


def test_an_interrupt_comes_after_its_end() -> None:
    ended = []

    def interrupted() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.3)
        ended.append(True)

    with pytest.raises(KeyboardInterrupt):
        in_thread(interrupted)
    assert ended == [True]


def test_wherever_the_interrupt_comes() -> None:
    """It is raised at each instruction of the caller's in turn: the call is whole or has never begun."""
    outcomes: set[tuple[bool, bool]] = set()
    for place in range(1, 10_000):
        outcome = interrupted_at(place)
        outcomes.add(outcome[:2])
        if not outcome[2]:
            break
    # It was reached before the call began, after it had, and not at all.
    assert outcomes == {(False, False), (True, True)}


def interrupted_at(place: int) -> tuple[bool, bool, bool]:
    """Whether the call had begun and had ended when in_thread was over, and whether the place was reached."""
    begun, ended, passed = [], [], 0

    def call() -> None:
        begun.append(True)
        time.sleep(0.0002)
        ended.append(True)

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal passed
        if frame.f_code.co_filename != mrc.threads.__file__ or frame.f_code.co_name == "body":
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            passed += 1
            if passed == place:
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    try:
        sys.settrace(trace)
        in_thread(call)
        interrupted = False
    except KeyboardInterrupt:
        interrupted = True
    finally:
        sys.settrace(before)
    had = bool(begun), bool(ended)
    time.sleep(0.001)
    # Nothing goes on behind its back.
    assert (bool(begun), bool(ended)) == had
    return *had, interrupted
