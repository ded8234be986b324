# SPDX-License-Identifier: BSD-2-Clause
"""What several commands share: values with units, JSON on stdout, signals, the fabric an endpoint runs on."""

from __future__ import annotations

import contextlib
import json
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from mrc.errors import CallerError
from mrc.fabric.units import rate_bps, rate_text, share, size_bytes
from mrc.untrusted import printable_lines

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from mrc.fabric.host_view import Fabric

    Items = list[CompletionItem[str]]

F = TypeVar("F", bound=Callable[..., Any])

_DURATION = re.compile(r"(\d+(?:\.\d+)?|\.\d+)\s*(ms|s|m|h)?\Z")
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_SECONDS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, None: 1.0}


class Size(click.ParamType[int]):
    """Bytes: `64MiB`, `1.5GB`, `4096`; from `least` to `most`."""

    name = "size"

    def __init__(self, least: int = 0, most: int | None = None) -> None:
        self._least = least
        self._most = most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        try:
            size = size_bytes(str(value))
        except CallerError as error:
            self.fail(str(error), param, ctx)
        if size < self._least or (self._most is not None and size > self._most):
            most = "" if self._most is None else f" to {_whole_size(self._most)}"
            self.fail(f"{value!r} is not from {_whole_size(self._least)}{most}", param, ctx)
        return size


def _whole_size(size: int) -> str:
    """Write bytes as they are typed, and exactly: `16KiB`, `256MB`."""
    for unit, length in (
        ("GiB", 1 << 30),
        ("GB", 10**9),
        ("MiB", 1 << 20),
        ("MB", 10**6),
        ("KiB", 1 << 10),
        ("KB", 1000),
    ):
        if size and size % length == 0:
            return f"{size // length}{unit}"
    return f"{size} bytes"


class Share(click.ParamType[float]):
    """A percentage: `0.5%` is 0.005. With `above_zero`, 0% is refused."""

    name = "percentage"

    def __init__(self, *, above_zero: bool = False) -> None:
        self._above_zero = above_zero

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        try:
            found = share(str(value))
        except CallerError as error:
            self.fail(str(error), param, ctx)
        if self._above_zero and found == 0:
            self.fail(f"{value!r} is not a percentage above 0% and up to 100%, such as 1% or 0.5%", param, ctx)
        return found


class Rate(click.ParamType[int]):
    """Bits a second: `1gbit`, `2.5gbit`, `800kbit`; from `least` to `most`."""

    name = "rate"

    def __init__(self, least: int = 0, most: int | None = None) -> None:
        self._least = least
        self._most = most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        try:
            rate = rate_bps(str(value))
        except CallerError as error:
            self.fail(str(error), param, ctx)
        if rate < self._least or (self._most is not None and rate > self._most):
            most = "" if self._most is None else f" to {rate_text(self._most)}"
            self.fail(f"{value!r} is not from {rate_text(self._least)}{most}", param, ctx)
        return rate


class Duration(click.ParamType[float]):
    """Seconds: `30s`, `500ms`, `2m`, `10`."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        match = _DURATION.match(str(value))
        if match is None:
            self.fail(f"{value!r} is not a duration such as 30s, 500ms or 2m", param, ctx)
        return float(match[1]) * _SECONDS[match[2]]


SIZE, SHARE, DURATION, RATE = Size(), Share(), Duration(), Rate()
LOSS = Share(above_zero=True)
MESSAGE_SIZE = Size(1, (1 << 31) - 1)
# The settings of congestion control (mrc.endpoint.congestion.nscc_config).
LINE_RATE = Rate(10**6, 10**13)


def complete_files(ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:
    """Offer files at a Tab, as the shell completes them. Other names: mrc.cli.completing."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]


def _complete_wire_profile(ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:
    """Offer KEY=, or files."""
    from dataclasses import fields

    from click.shell_completion import CompletionItem

    from mrc.wire.profile import WireProfile

    keys = [f"{each.name}=" for each in fields(WireProfile) if each.name.startswith(incomplete)]
    return [CompletionItem(key) for key in keys] or complete_files(ctx, param, incomplete)


def json_option(function: F) -> F:
    return click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")(function)


def fabric_option(function: F) -> F:
    return click.option(
        "--fabric",
        "fabric_file",
        envvar="MRC_FABRIC",
        show_envvar=True,
        metavar="FILE",
        shell_complete=complete_files,
        help="The fabric this host is on. `mrc lab exec` sets it.",
    )(function)


def wire_profile_option(function: F) -> F:
    return click.option(
        "--wire-profile",
        "wire_options",
        multiple=True,
        metavar="FILE|KEY=VALUE",
        shell_complete=_complete_wire_profile,
        help="Switches of the wire format on which sources disagree; may be repeated.",
    )(function)


def print_json(document: Any) -> None:
    click.echo(json.dumps(document, indent=2))


def note(message: str) -> None:
    """A line for people, on stderr."""
    click.echo(printable_lines(message), err=True)


def load_fabric(fabric_file: str | None) -> Fabric:
    """The fabric named by --fabric or MRC_FABRIC. Raises CallerError when there is none."""
    from mrc.fabric.host_view import Fabric

    if not fabric_file:
        raise CallerError(
            "no fabric: run this inside a lab (`mrc lab up`, then `mrc lab exec h0 -- mrc ...`) "
            "or name a fabric description with --fabric FILE"
        )
    return Fabric.load(fabric_file)


class _Ending:
    """The signal that came last, of those that end a command, and whether one came since the command began."""

    number: int = signal.SIGINT
    came = False


@contextmanager
def options_named() -> Iterator[None]:
    """Name options, which a user can type, in errors of the block that name the parameters they are passed as.

    A parameter without `_` in its name is an ordinary word too: it counts where the error begins with it.
    """
    try:
        yield
    except CallerError as error:
        text = str(error)
        for param in click.get_current_context().command.params:
            if isinstance(param, click.Option) and param.name and param.opts[0].startswith("--"):
                where = rf"\b{param.name}\b" if "_" in param.name else rf"\A{param.name}\b"
                text = re.sub(where, param.opts[0], text)
        raise CallerError(text) from error


def interrupt_on_signals(also: Callable[[], bool] = lambda: False) -> None:
    """From now on SIGTERM, and SIGHUP of a terminal that is closed, end the command as Ctrl-C does, so that what it
    opened is closed. Where SIGHUP is ignored from the start, as by `nohup`, it stays so.

    `also` is called first, from the signal handler. It returns whether it sees to the KeyboardInterrupt: an exception
    raised in a handler vanishes inside a library, and inside compiled code that the signal interrupted. Where one came
    before and its exception vanished, this raises it again.
    """

    def interrupt(signum: int, frame: object) -> None:
        _Ending.number, _Ending.came = signum, True
        if not also():
            raise KeyboardInterrupt

    for number in _ENDING:
        if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, interrupt)
    if _Ending.came:
        raise KeyboardInterrupt


def interrupted(message: str = "", number: int | None = None) -> click.exceptions.Exit:
    """What to raise where a command was interrupted: exit status 128 + the signal's number, as a shell has it.

    The one place that decides this status: 130 after Ctrl-C, 143 after SIGTERM, 129 after SIGHUP, for each command
    alike. `message` goes to stderr; `number` is the signal, by default the one that `interrupt_on_signals` took.
    """
    if message:
        note(message)
    return click.exceptions.Exit(128 + (_Ending.number if number is None else number))


def ignore_signals() -> None:
    """The command is over. Has no effect outside the main thread."""
    _Ending.came = False
    with contextlib.suppress(ValueError):
        for number in _ENDING:
            signal.signal(number, signal.SIG_IGN)
    # An interrupt that came while Python ran the text of a program, as it does to make the methods of a record, is
    # remembered: at the end it would count as one that nobody caught, and SIGINT would be the status. Such a run that
    # succeeds takes that back (run_eval_code_obj in CPython's pythonrun.c).
    exec("")
