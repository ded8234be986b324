# SPDX-License-Identifier: BSD-2-Clause
"""Threads that are started, or refused with a reason, and none of which ends unnoticed or is left at work."""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import TypeVar

from mrc.errors import SystemRefused

# How long a command may take to close what it has open, s. After that SIGALRM ends it.
_CLOSING_S = 30

T = TypeVar("T")


def start_thread(target: Callable[..., object], *args: object, name: str) -> threading.Thread:
    """Start a daemon thread that runs `target(*args)`. Raises SystemRefused where this process may have no more."""
    thread = threading.Thread(target=target, args=args, name=name, daemon=True)
    try:
        thread.start()
    except RuntimeError:
        raise SystemRefused(
            errno.EAGAIN,
            "the system allows this process no further thread: raise the limit (`ulimit -u`, the cgroup's pids.max)",
        ) from None
    return thread


def in_thread(function: Callable[[], T]) -> T:
    """What `function` returns, or raises, when a thread of its own runs it.

    An interrupt meanwhile, as Ctrl-C, is raised when `function` has ended or before it has begun: signal handlers run
    in the main thread, so none ends it halfway. Only a second interrupt, while the first one waits for that, is raised
    at once.
    Raises SystemRefused as `start_thread` does.
    """
    outcome: list[T] = []
    failure: list[BaseException] = []
    ended = threading.Event()
    # Of who comes first: the thread, or an interrupt, after which the thread runs nothing.
    claim = threading.Lock()

    def body() -> None:
        if not claim.acquire(blocking=False):
            return
        try:
            outcome.append(function())
        except BaseException as error:
            failure.append(error)
        finally:
            ended.set()

    try:
        start_thread(body, name="mrc one call").join()
    except BaseException:
        if not claim.acquire(blocking=False):
            ended.wait()
        raise
    if failure:
        raise failure.pop()
    return outcome[0]


class _Failure:
    """The first exception that ended a thread of this command, where it was not foreseen."""

    seen: BaseException | None = None


def a_thread_failed() -> bool:
    """Whether `end_with_any_thread` has seen a thread fail."""
    return _Failure.seen is not None


def end_with_any_thread() -> None:
    """From now on an exception that ends a thread is shown and ends the command, as SIGTERM does.

    A server that has lost the thread that accepts connections looks well and serves nobody.
    """

    def ended(arguments: threading.ExceptHookArgs) -> None:
        sys.__excepthook__(arguments.exc_type, arguments.exc_value or arguments.exc_type(), arguments.exc_traceback)
        if _Failure.seen is None:
            _Failure.seen = arguments.exc_value or arguments.exc_type()
            name = "?" if arguments.thread is None else arguments.thread.name
            print(f"Error: the thread {name!r} ended unexpectedly: the command ends", file=sys.stderr, flush=True)
            signal.alarm(_CLOSING_S)
            os.kill(os.getpid(), signal.SIGTERM)

    threading.excepthook = ended
