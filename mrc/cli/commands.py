# SPDX-License-Identifier: BSD-2-Clause
"""A group of commands whose errors are one line on stderr, and whose output is either written whole or a failure."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
from collections.abc import Iterator
from typing import Any

import click

from mrc.cli.common import ignore_signals, interrupted
from mrc.errors import CallerError, MrcError, SystemRefused
from mrc.untrusted import printable_lines

# No room, no quota, a limit on file sizes, a broken disk: whatever was being written, it is no fault of the code.
_DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)

# The scripts of `mrc completion` set it at each Tab. click looks at it before it looks at the command line.
COMPLETE_VARIABLE = "_MRC_COMPLETE"


class ErrorGroup(click.Group):
    """Errors of the package and a full disk become one line on stderr and exit status 1.

    An interruption becomes exit status 128 + the signal's number.
    """

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        # Prints --help and --version.
        with _errors_reported():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        with _errors_reported():
            try:
                result = super().invoke(ctx)
            except KeyboardInterrupt:
                raise
            except BaseException:
                # How the command ended counts, also where nobody reads on.
                with contextlib.suppress(BrokenPipeError):
                    flush_output()
                raise
            flush_output()
            return result


@contextlib.contextmanager
def _errors_reported() -> Iterator[None]:
    try:
        yield
    except MrcError as error:
        raise click.ClickException(printable_lines(str(error))) from error
    except OSError as error:
        if error.errno not in _DISK_ERRORS:
            raise
        raise click.ClickException(f"{error.filename or 'output'} cannot be written: {error.strerror}") from error
    except KeyboardInterrupt:
        # Where a command has nothing to add. The reader may be a pager that wants nothing now: nobody waits for it.
        ignore_signals()
        discard_output()
        raise interrupted("interrupted") from None


class _ClosedOutput(io.TextIOBase):
    """In place of a standard output that is closed."""

    encoding = "utf-8"

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        raise CallerError("standard output is closed: print to a file (> FILE) or throw it away (> /dev/null)")


def open_what_is_closed() -> None:
    """Have descriptors 0 to 2 taken where the command was started without them: the next file or socket would get the
    number, and what is printed, here or by a program that is started, would go there."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            null = os.open(os.devnull, os.O_RDWR)
            if null != number:
                os.dup2(null, number)
                os.close(null)
            os.set_inheritable(number, True)
            setattr(sys, name, _ClosedOutput() if name == "stdout" else open(number, "w" if number else "r"))  # noqa: SIM115


class _Stderr(io.TextIOWrapper):
    """Standard error that never fails. A full disk, a closed terminal or a closed pipe loses the line, and the command
    goes on. `lost` is the first error, or None.

    The errors are caught here and not in the raw stream below the buffer. An interrupt inside a raw write of ours would
    leave the written bytes in the buffer, and they would be written again.
    """

    lost: OSError | None = None

    def write(self, text: str, /) -> int:
        try:
            return super().write(text)
        except OSError as error:
            self.lost = self.lost or error
            return len(text)

    def flush(self) -> None:
        try:
            super().flush()
        except OSError as error:
            self.lost = self.lost or error


def check_stderr() -> None:
    """Raise SystemRefused if a line on standard error was lost. For a command that is useless without its line."""
    lost = getattr(sys.stderr, "lost", None)
    if lost is not None:
        raise SystemRefused(
            lost.errno or 0, f"standard error cannot be written: {lost.strerror}: send it to a file or a terminal"
        )


def buffer_output() -> None:
    """Give stdout and stderr a buffer, flushed at each line, where Python was started with none (-u, PYTHONUNBUFFERED).
    Make stderr a stream that never fails.

    Without a buffer Python writes once and drops the rest of a partial write, as when a signal stops the program during
    the write.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(getattr(stream, "buffer", None), io.RawIOBase):
            buffered = open(  # noqa: SIM115 - for as long as the program runs
                stream.fileno(), "w", buffering=1, encoding=stream.encoding, errors=stream.errors, closefd=False
            )
            setattr(sys, name, buffered)
    said = sys.stderr
    if isinstance(getattr(getattr(said, "buffer", None), "raw", None), io.FileIO):
        below = io.BufferedWriter(io.FileIO(said.fileno(), "w", closefd=False))
        sys.stderr = _Stderr(below, encoding=said.encoding, errors=said.errors, line_buffering=True)


def flush_output() -> None:
    if sys.stdout is not None:
        sys.stdout.flush()


def discard_output() -> None:
    """What stdout still holds, and cannot be written or is not wanted, is given up: Python would try when it ends."""
    if sys.stdout is not None:
        with contextlib.suppress(io.UnsupportedOperation):  # in memory
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
