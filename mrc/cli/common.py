# SPDX-License-Identifier: BSD-2-Clause
"""What several commands share: values with units, JSON on stdout, signals, the fabric an endpoint runs on."""

from __future__ import annotations

import contextlib
import json
import re
import signal
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any, TypeVar, cast

import click

from mrc.errors import CallerError, SystemRefused
from mrc.fabric.units import rate_bps, rate_text, share, size_bytes
from mrc.untrusted import printable_lines

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from mrc.fabric.host_view import Fabric

    Items = list[CompletionItem[str]]

F = TypeVar("F", bound=Callable[..., Any])
V = TypeVar("V")

_DURATION = re.compile(r"(\d+(?:\.\d+)?|\.\d+)\s*(ms|s|m|h)?\Z")
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_SECONDS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, None: 1.0}


class Parsed(click.ParamType[V]):
    """A value that `read` makes of a text. What is of the `kind` already, such as a default, stays as it is."""

    kind: type | tuple[type, ...] = ()

    @abstractmethod
    def read(self, text: str) -> V:
        """Raises CallerError, whose words become a usage error."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> V:
        if isinstance(value, self.kind):
            return cast("V", value)
        try:
            return self.read(str(value))
        except CallerError as error:
            self.fail(str(error), param, ctx)


class _Bounded(Parsed[int]):
    """A quantity from `least` to `most`; `shown` writes it as a user types it."""

    kind = int
    quantity: Callable[[str], int]
    shown: Callable[[int], str]

    def __init__(self, least: int = 0, most: int | None = None) -> None:
        self._least = least
        self._most = most

    def read(self, text: str) -> int:
        found = self.quantity(text)
        if found < self._least or (self._most is not None and found > self._most):
            most = "" if self._most is None else f" to {self.shown(self._most)}"
            raise CallerError(f"{text!r} is not from {self.shown(self._least)}{most}")
        return found


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


class Size(_Bounded):
    """Bytes: `64MiB`, `1.5GB`, `4096`; from `least` to `most`."""

    name = "size"
    quantity = staticmethod(size_bytes)
    shown = staticmethod(_whole_size)


class Rate(_Bounded):
    """Bits a second: `1gbit`, `2.5gbit`, `800kbit`; from `least` to `most`."""

    name = "rate"
    quantity = staticmethod(rate_bps)
    shown = staticmethod(rate_text)


class Share(Parsed[float]):
    """A percentage: `0.5%` is 0.005. With `above_zero`, 0% is refused."""

    name = "percentage"
    kind = float

    def __init__(self, *, above_zero: bool = False) -> None:
        self._above_zero = above_zero

    def read(self, text: str) -> float:
        found = share(text)
        if self._above_zero and found == 0:
            raise CallerError(f"{text!r} is not a percentage above 0% and up to 100%, such as 1% or 0.5%")
        return found


class Duration(Parsed[float]):
    """Seconds: `30s`, `500ms`, `2m`, `10`."""

    name = "duration"
    kind = float

    def read(self, text: str) -> float:
        match = _DURATION.match(text)
        if match is None:
            raise CallerError(f"{text!r} is not a duration such as 30s, 500ms or 2m")
        return float(match[1]) * _SECONDS[match[2]]


class Names(Parsed[tuple[str, ...]]):
    """`udp,tcp`: names of `known`, each once; the word `every`, if there is one, stands alone for all."""

    name = "names"
    kind = tuple

    def __init__(self, known: Iterable[str], every: str = "") -> None:
        self._known = tuple(known)
        self._every = every

    def read(self, text: str) -> tuple[str, ...]:
        names = tuple(name.strip() for name in text.split(",") if name.strip())
        if self._every and names == (self._every,):
            return self._known
        for name in names:
            if name not in self._known:
                alone = f"; {self._every} stands alone" if self._every else ""
                raise CallerError(f"{name!r} is not one of {', '.join(self._known)}{alone}")
        return tuple(dict.fromkeys(names))


SIZE, SHARE, DURATION, RATE = Size(), Share(), Duration(), Rate()
LOSS = Share(above_zero=True)
PATH_MTUS = click.Choice(["256", "512", "1024", "2048", "4096"])
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


def options_of(options: Iterable[Callable[[F], F]]) -> Callable[[F], F]:
    """Give a command these options; the last of them is the first in --help."""

    def add(function: F) -> F:
        for option in options:
            function = option(function)
        return function

    return add


def opened_capture(file: str) -> IO[bytes]:
    """A file to read, - for standard input. Raises SystemRefused."""
    try:
        return click.open_file(file, "rb")
    except OSError as error:
        raise SystemRefused(f"{file}: cannot be opened: {error.strerror}") from error


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
def usage_errors(before: str = "") -> Iterator[None]:
    """Make a CallerError of the block a usage error, with these words in front: the command line is wrong."""
    try:
        yield
    except CallerError as error:
        raise click.UsageError(f"{before}{error}") from None


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
