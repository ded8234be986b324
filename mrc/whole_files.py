# SPDX-License-Identifier: BSD-2-Clause
"""Output files that are whole or not there: written beside their name, and given it at the end."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mrc.errors import SystemRefused


class WholeFile:
    """A file on its way to be the whole file `path`: write to `part`, then `commit` or `discard`.

    `part` is a new, empty file in the same directory, not seen under `path` before `commit`; what was there stays until
    then. A link is followed. What is no regular file (a pipe, a device) is written to as it is. Raises SystemRefused.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        self._target = self.part = self._path
        self._as_it_is = self._path.exists() and not self._path.is_file()
        if self._as_it_is:
            return
        self._target = Path(os.path.realpath(self._path))
        part = self._target.with_name(f".{self._target.name[:200]}.{os.getpid()}.part")
        try:
            part.open("xb").close()
        except OSError as error:
            raise self.refused(error) from error
        self.part = part
        if self._target.exists():
            with contextlib.suppress(OSError):
                part.chmod(stat.S_IMODE(self._target.stat().st_mode))

    def commit(self) -> None:
        """Give it the name. Raises SystemRefused."""
        if self.part != self._target:
            try:
                self.part.replace(self._target)
            except OSError as error:
                raise self.refused(error) from error

    def discard(self) -> None:
        """Remove what has no name yet. Safe to call twice, and after `commit`."""
        if self.part != self._target:
            with contextlib.suppress(OSError):
                self.part.unlink(missing_ok=True)

    def refused(self, error: OSError) -> SystemRefused:
        """Make an error that says which file cannot be written, why, and what is there."""
        # Libraries reword the errors of system calls (pyarrow does), but keep the number.
        text = f"{self._path}: cannot be written: {_reason(error)}"
        if not self._as_it_is:
            text += "; what was there is unchanged" if self._target.exists() else "; no part of it is left"
        return SystemRefused(error.errno, text)


@contextmanager
def whole_file(path: str | Path) -> Iterator[Path]:
    """Yield a path to write to; what was written there gets the name `path` when the block ends without an error.

    See `WholeFile`. Raises SystemRefused, which names `path`, for an OSError in the block.
    """
    file = WholeFile(path)
    try:
        yield file.part
        file.commit()
    except SystemRefused:
        raise
    except OSError as error:
        raise file.refused(error) from error
    finally:
        file.discard()


def write_whole(path: str | Path, content: str | bytes) -> int:
    """Write a file at once, text as UTF-8, or not at all; return its size in bytes. Raises SystemRefused.

    Halves of surrogate pairs, which names of files may hold, are written as escapes.
    """
    data = content.encode(errors="backslashreplace") if isinstance(content, str) else content
    with whole_file(path) as part:
        part.write_bytes(data)
    return len(data)


def _reason(error: OSError) -> str:
    return os.strerror(error.errno) if error.errno else str(error)


class LineFile:
    """A file that is read while it grows, line by line: on a full disk the lines before the one that failed are whole.

    Raises SystemRefused, which names `path`, when it cannot be made or a line does not fit.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = path
        self._size = 0
        try:
            self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise SystemRefused(error.errno, f"{path}: cannot be written: {_reason(error)}") from error

    def write(self, line: str) -> None:
        """Append one line, without its line feed."""
        data = line.encode() + b"\n"
        written = 0
        try:
            while written < len(data):
                written += os.write(self._descriptor, data[written:])
        except OSError as error:
            with contextlib.suppress(OSError):  # no file, or one that is gone
                os.ftruncate(self._descriptor, self._size)
            raise SystemRefused(
                error.errno, f"{self._path}: cannot be written: {_reason(error)}; the lines before are whole"
            ) from error
        self._size += written

    def close(self) -> None:
        os.close(self._descriptor)
