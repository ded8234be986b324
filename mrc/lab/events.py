# SPDX-License-Identifier: BSD-2-Clause
"""The event log of a lab: what was done to it and when, in a file that several processes write and read at once.

One event is one line, written by one call at the end of the file (O_APPEND), so lines never mix. A process that is
killed, or a full disk, may leave the beginning of a line: the next writer ends that line first, and readers pass
over it. When the file has grown to MOST_BYTES it becomes `events.jsonl.1`, in place of an older one of that name, and
a new one begins: the log takes about twice MOST_BYTES at most, however long something flaps.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from mrc.errors import SystemRefused
from mrc.fabric.events import FabricEvent, parse_events, parse_line
from mrc.lab import state

FILE = "events.jsonl"
MOST_BYTES = 4 << 20
_POLL_S = 0.1
_CHUNK = 1 << 16


class EventLog:
    """The log of the lab `name`. Holds nothing open; from any thread or process."""

    def __init__(self, name: str, most_bytes: int = MOST_BYTES) -> None:
        self.path = state.directory(name) / FILE
        self._most_bytes = most_bytes

    @property
    def _older(self) -> Path:
        return self.path.with_name(f"{FILE}.1")

    def append(self, event: FabricEvent, tag: str = "") -> None:
        """Write one event. Raises SystemRefused when the lab is gone or the file cannot be written.

        With a `tag` the lab has to bear it: sockets into namespaces outlive a lab, and another may have its name.
        """
        if not self._is_of(tag):
            raise SystemRefused(f"lab {self.path.parent.name!r} was taken down meanwhile")
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        try:
            handle = os.open(self.path, flags, 0o644)
            try:
                if self._write(handle, event.to_line()) > self._most_bytes:
                    self._begin_anew(handle)
            finally:
                os.close(handle)
        except FileNotFoundError:
            raise SystemRefused(f"{self.path.parent} is gone: was this lab taken down meanwhile?") from None
        except OSError as error:
            raise SystemRefused(
                f"{event.event} {event.target} is done, but could not be written to {self.path}: {error.strerror}"
            ) from None

    def _is_of(self, tag: str) -> bool:
        try:
            return not tag or tag in self.path.with_name("lab.json").read_text()
        except OSError:
            return False

    def _write(self, handle: int, line: bytes) -> int:
        """Append `line`; the size of the file after it."""
        size = os.fstat(handle).st_size
        if size and os.pread(handle, 1, size - 1) != b"\n":
            line = b"\n" + line
        written = os.write(handle, line)
        if written < len(line):
            raise OSError(0, "only the beginning of the line could be written: is the disk full?")
        return size + written

    def _begin_anew(self, handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_EX)
        if os.stat(self.path).st_ino != os.fstat(handle).st_ino:
            return  # another process was first
        # The name always has a file. A writer that still has the old file open writes to the older one.
        new = self.path.with_name(f"{FILE}.new")
        os.close(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644))
        self._older.unlink(missing_ok=True)
        os.link(self.path, self._older)
        new.replace(self.path)

    def read(self) -> tuple[list[FabricEvent], int]:
        """All events that are kept, oldest first, and how many lines are damaged. Raises SystemRefused."""
        lines: list[bytes] = []
        seen = None
        # The older one last: what changes its name meanwhile is met twice, not missed.
        for path in (self.path, self._older):
            with suppress(FileNotFoundError), self._opened(path) as file:
                if (inode := os.fstat(file.fileno()).st_ino) != seen:
                    lines += file.read().splitlines()
                seen = inode
        return parse_events(lines)

    def follow(self, wait: Callable[[float], object] = time.sleep) -> Iterator[FabricEvent]:
        """The events that are kept, then each as it comes, until the lab is gone. Raises SystemRefused.

        `wait(seconds)` is called when there is nothing new for the moment; what it raises ends this.
        """
        with suppress(FileNotFoundError), self._opened(self._older) as file:
            yield from parse_events(file.read().splitlines())[0]
        with suppress(FileNotFoundError):
            while True:
                with self._opened(self.path) as file:
                    yield from self._new_in(file, wait)

    def _new_in(self, file: BinaryIO, wait: Callable[[float], object]) -> Iterator[FabricEvent]:
        """What is and comes in `file`, until another has its name; FileNotFoundError when there is none any more."""
        inode = os.fstat(file.fileno()).st_ino
        held, replaced = b"", False
        while True:
            chunk = file.read(_CHUNK)
            *lines, held = (held + chunk).split(b"\n")
            yield from filter(None, map(parse_line, lines))
            if chunk:
                continue
            if replaced:
                return
            # It may have grown before it lost its name, so it is read once more.
            replaced = os.stat(self.path).st_ino != inode
            if not replaced:
                wait(_POLL_S)

    def _opened(self, path: Path) -> BinaryIO:
        try:
            return open(path, "rb")
        except FileNotFoundError:
            raise
        except OSError as error:
            raise SystemRefused(f"cannot read {path}: {error.strerror}") from None
