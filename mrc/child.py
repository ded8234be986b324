# SPDX-License-Identifier: BSD-2-Clause
"""A program that this one starts, talks with line by line, and ends."""

from __future__ import annotations

import contextlib
import gc
import io
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from io import FileIO
from typing import Any, NoReturn

from mrc.errors import PeerError
from mrc.opened import Closing
from mrc.threads import in_thread
from mrc.untrusted import own_json

START_TIMEOUT_S = 30.0
_LET_GO_S = 5.0
_END_S = 10.0
_READ = 1 << 16


def python(module: str, *arguments: str) -> list[str]:
    """The command that runs a module of this package with the interpreter at work here."""
    return [sys.executable, "-m", module, *arguments]


def forked(argv: Sequence[str], *, env: Mapping[str, str] | None = None, **options: Any) -> subprocess.Popen[Any]:
    """Start a command of `python` as a fork of this process, in place of subprocess.Popen.

    The fork has all modules that this process has imported: most programs of this package spend more on their imports
    than on anything else. Its arguments, environment, streams, signals and exit status are those of a new interpreter,
    and it has no other descriptors. Two things differ: functions registered with atexit do not run, and variables that
    the dynamic linker or a library reads while it is loaded (LD_PRELOAD, OMP_NUM_THREADS) have no effect.
    """
    # Popen makes the pipes, the session and the streams. Its fork never comes to exec.
    return subprocess.Popen(list(argv), env=env, preexec_fn=partial(become, list(argv), env), **options)


# The parent's streams: if they were freed in the fork, they would write there what the parent has yet to write.
_of_the_parent: list[Any] = []


def become(argv: list[str], environment: Mapping[str, str] | None) -> NoReturn:
    """Run `argv`, a command of `python`, in this process, which was just forked and has its streams; end it."""
    status = 1
    try:
        # Sockets and pipes of the parent, and the pipe on whose end Popen waits.
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))
        # The collector would close descriptors of objects that the parent no longer uses.
        gc.freeze()
        _signals_of_a_new_process()
        if environment is not None:
            os.environ.clear()
            os.environ.update(environment)
        _of_the_parent.extend((sys.stdin, sys.__stdin__, sys.stdout, sys.__stdout__, sys.stderr, sys.__stderr__))
        sys.stdin = sys.__stdin__ = open(0, closefd=False)  # type: ignore[misc]  # noqa: SIM115
        sys.stdout = sys.__stdout__ = _output(1, "strict", os.isatty(1))  # type: ignore[misc]
        sys.stderr = sys.__stderr__ = _output(2, "backslashreplace", True)  # type: ignore[misc]
        sys.excepthook, threading.excepthook = sys.__excepthook__, threading.__excepthook__
        sys.orig_argv, sys.argv = argv, argv[2:]
        status = _outcome(argv[2])
    finally:
        os._exit(status)


def _output(descriptor: int, errors: str, by_line: bool) -> io.TextIOWrapper:
    """As a new interpreter opens it: where PYTHONUNBUFFERED is set, nothing waits to be written."""
    at_once = bool(os.environ.get("PYTHONUNBUFFERED"))
    stream = open(descriptor, "wb", buffering=0 if at_once else -1, closefd=False)  # noqa: SIM115
    return io.TextIOWrapper(stream, errors=errors, line_buffering=by_line, write_through=at_once)


def _signals_of_a_new_process() -> None:
    """As exec and Python leave them: handlers are gone, and what is ignored stays ignored."""
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)):
            default = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
            signal.signal(number, default)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_IGN)


def _outcome(module: str) -> int:
    """Run a module as `python -m` does: its exit status."""
    from runpy import run_module

    status = 0
    try:
        run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as ending:
        if isinstance(ending.code, str):
            print(ending.code, file=sys.stderr)
        status = ending.code if isinstance(ending.code, int) else int(ending.code is not None)
    except KeyboardInterrupt:
        traceback.print_exc()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except BaseException:
        traceback.print_exc()
        status = 1
    try:
        sys.stdout.flush()
    except OSError:
        return 120  # as Python ends where it cannot write
    return status


class Child(Closing):
    """A program that was started: its output, its input and its exit status. The end of a `with` block closes it.

    Errors call it `name`. `options` are those of subprocess.Popen, which `start` may stand in for.

    With `talks` its input is a pipe, at whose end it ends by itself, so that it ends with this process, however that
    does. It then has a session of its own, and Ctrl-C is this process's alone. Other programs read nothing, and Ctrl-C
    and the end of the terminal reach them too. What it says on stderr is kept for `why`, unless `options` have another
    place for it. `silent`: its output has ended. Any thread may kill `process`; one that waits for what it prints then
    finds it ended.
    """

    def __init__(
        self,
        name: str,
        argv: Sequence[str],
        start: Callable[..., subprocess.Popen[bytes]] = subprocess.Popen,
        *,
        talks: bool = False,
        **options: Any,
    ) -> None:
        self.name = name
        self.silent = "stdout" in options
        self._talks = talks
        self._asked_to_end = False
        self._said = ""
        self._unread = bytearray()
        self._errors = FileIO(os.memfd_create("mrc child"))
        streams = {
            "stdin": subprocess.PIPE if talks else subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": self._errors,
            "start_new_session": talks,
        }
        self.process: subprocess.Popen[bytes]

        def begin() -> None:
            self.process = start(argv, **(streams | options))

        # An interrupt in the midst of it would leave a program that nobody ends.
        try:
            in_thread(begin)
        except BaseException:
            if hasattr(self, "process"):
                self.close()
            else:
                self._errors.close()
            raise

    # ------------------------------------------------------------------ whether it is there

    @property
    def ended(self) -> bool:
        return self.process.poll() is not None

    def status(self) -> int | None:
        """Its exit status, below 0 the signal that ended it; None while it goes on.

        One whose output has ended gets a moment to end too.
        """
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(_LET_GO_S if self.silent else 0.0)
        return self.process.returncode

    @property
    def errors(self) -> str:
        """What it has said on stderr so far, the last 64 KiB of it."""
        if self._errors.closed:
            return self._said
        size = os.fstat(self._errors.fileno()).st_size
        return os.pread(self._errors.fileno(), _READ, max(0, size - _READ)).decode(errors="replace").strip()

    def why(self) -> str:
        """What it said last on stderr when it has ended, or how it ended."""
        status = self.status()
        said = self.errors.splitlines()
        if status is None:
            return "it still runs, and says nothing"
        if status < 0:
            return f"killed by signal {-status}"
        return said[-1] if said else f"exit status {status}"

    # ------------------------------------------------------------------ what it prints

    def fileno(self) -> int:
        """Of its output."""
        assert self.process.stdout is not None
        return self.process.stdout.fileno()

    def next_line(self, timeout_s: float | None) -> str | None:
        """The next line it prints, None when none comes for so long. Raises PeerError when it ends."""
        deadline = _deadline(timeout_s)
        while b"\n" not in self._unread:
            if not self._more(_left(deadline)):
                return None
        return self._taken(self._unread.index(b"\n") + 1).decode(errors="replace").rstrip("\n")

    def line(self, timeout_s: float | None) -> str:
        """The next line it prints. Raises PeerError when it ends or prints none for so long; None: wait for ever."""
        line = self.next_line(timeout_s)
        if line is None:
            raise PeerError(f"{self.name} said nothing for {timeout_s:.0f} s")
        return line

    def hear(self, timeout_s: float | None) -> Any:
        """The document in the next line it prints. Raises PeerError as `line` does."""
        return own_json(self.line(timeout_s))

    def heard(self) -> list[Any]:
        """The documents in the lines that have come and are not read yet."""
        return [own_json(line) for line in self._taken(self._unread.rfind(b"\n") + 1).splitlines()]

    def exactly(self, count: int) -> bytes:
        """The next bytes it prints, so many. Raises PeerError when it ends before."""
        while len(self._unread) < count:
            self._more(None)
        return self._taken(count)

    def started(self, sign: str = "", timeout_s: float = START_TIMEOUT_S) -> str:
        """The first line with `sign` in it that is not empty. Raises PeerError when it prints none in time."""
        deadline = _deadline(timeout_s)
        with contextlib.suppress(PeerError):
            while (left := _left(deadline)) != 0:
                line = self.line(left).strip()
                if line and sign in line:
                    return line
        raise self.not_started()

    def not_started(self) -> PeerError:
        """The error of a program that is not what it should be by now. The program is ended."""
        why = self.why() if self.silent or self.ended else "it said nothing"
        self.close()
        return PeerError(f"{self.name} did not start: {why}")

    def rest(self, timeout_s: float, status: int | None = 0) -> str:
        """All that it prints until it ends, with this exit status, None for any. Raises PeerError for another one, and
        when it does not end within so long."""
        deadline = _deadline(timeout_s)
        while not self.silent and listen([self], _left(deadline)):
            pass
        if not self.silent or not self._over_within(_left(deadline)):
            raise PeerError(f"{self.name} did not end within {timeout_s:.0f} s")
        if status not in (None, self.process.returncode):
            raise PeerError(f"{self.name} failed: {self.why()}")
        return self._taken(len(self._unread)).decode(errors="replace")

    def outcome(self, timeout_s: float, status: int = 0) -> dict[str, Any]:
        """The document that it prints before it ends with this exit status.

        Raises PeerError when it ends otherwise, prints something else, or does not end within so long.
        """
        try:
            document = own_json(self.rest(timeout_s, None))
        except ValueError:
            document = None
        if isinstance(document, dict) and isinstance(document.get("error"), str):
            raise PeerError(f"{self.name} failed: {document['error']}")
        if self.status() != status or not isinstance(document, dict):
            raise PeerError(f"{self.name} failed: {self.why()}")
        return document

    def take(self) -> None:
        """Read what is there, past the stream's own buffer, which poll(2) knows nothing of."""
        data = os.read(self.fileno(), _READ)
        self._unread += data
        self.silent = not data

    def _more(self, timeout_s: float | None) -> bool:
        if self.silent:
            raise self._over()
        return listen([self], timeout_s)

    def _over(self) -> PeerError:
        return PeerError(f"{self.name} ended: {self.why()}")

    def _taken(self, count: int) -> bytes:
        taken = bytes(self._unread[:count])
        del self._unread[:count]
        return taken

    # ------------------------------------------------------------------ talking to it and ending it

    def say(self, document: Any) -> None:
        """A line of JSON to it. Raises PeerError when it has ended."""
        stream = self.process.stdin
        assert stream is not None
        try:
            stream.write(json.dumps(document).encode() + b"\n")
            stream.flush()
        except BrokenPipeError:
            raise self._over() from None

    def hang_up(self) -> None:
        """Ask it to end: by the end of its input, or by SIGTERM where it has none. `close` waits until it has."""
        if self.process.stdin is not None:
            with contextlib.suppress(OSError):  # what is left to be written has no reader
                self.process.stdin.close()
        elif not self._asked_to_end:
            # Once: a second SIGTERM would interrupt what the first one has begun.
            self._asked_to_end = True
            self.process.terminate()

    def close(self) -> None:
        """Wait until it has ended, and see to it that it does. Safe to call twice."""
        self.hang_up()
        if self.process.stdout is not None:
            self.process.stdout.close()
        if self._talks and not self._over_within(_LET_GO_S):
            self.process.terminate()
        if not self._over_within(_END_S):
            self.process.kill()
            self.process.wait()
        self.silent, self._said = True, self.errors
        self._errors.close()

    def _over_within(self, timeout_s: float | None) -> bool:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout_s)
        return self.ended


def listen(children: Sequence[Child], timeout_s: float | None) -> bool:
    """Take what they print until one of them has printed something or closed its output: whether one has in time."""
    poll = select.poll()
    for child in children:
        poll.register(child.fileno(), select.POLLIN)
    ready = {descriptor for descriptor, _ in poll.poll(None if timeout_s is None else timeout_s * 1e3)}
    for child in children:
        if child.fileno() in ready:
            child.take()
    return bool(ready)


def _deadline(timeout_s: float | None) -> float | None:
    return None if timeout_s is None else time.monotonic() + timeout_s


def _left(deadline: float | None) -> float | None:
    """Seconds, 0 at least."""
    return None if deadline is None else max(0.0, deadline - time.monotonic())
