"""Output files that are whole or not there: written beside their name, and given it at the end."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mrc.errors import SystemRefused


@contextmanager
def whole_file(path: str | Path) -> Iterator[Path]:
    """Yield a path to write to; what was written there gets the name `path` when the block ends without an error.

    The path yielded is that of a new, empty file in the same directory, removed if the block fails or is interrupted;
    what was under `path` before is then untouched. A link is followed. What is no regular file (a pipe, a device) is
    written to as it is. Raises SystemRefused, which names `path`, for an OSError in the block.
    """
    wanted = Path(path)
    if wanted.exists() and not wanted.is_file():
        try:
            yield wanted
        except SystemRefused:
            raise
        except OSError as error:
            raise SystemRefused(error.errno, f"{wanted}: cannot be written: {_reason(error)}") from error
        return
    target = Path(os.path.realpath(wanted))
    temporary = target.with_name(f".{target.name[:200]}.{os.getpid()}.part")
    try:
        temporary.open("xb").close()
        if target.exists():
            with contextlib.suppress(OSError):
                shutil.copymode(target, temporary)
        yield temporary
        temporary.replace(target)
    except SystemRefused:
        raise
    except OSError as error:
        kept = "what was there is unchanged" if target.exists() else "no part of it is left"
        raise SystemRefused(error.errno, f"{wanted}: cannot be written: {_reason(error)}; {kept}") from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def write_whole(path: str | Path, content: str | bytes) -> int:
    """Write a file at once, text as UTF-8, or not at all; return its size in bytes. Raises SystemRefused."""
    data = content.encode() if isinstance(content, str) else content
    with whole_file(path) as part:
        part.write_bytes(data)
    return len(data)


def _reason(error: OSError) -> str:
    # Libraries reword the errors of system calls (pyarrow does), but keep the number.
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
