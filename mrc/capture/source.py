# SPDX-License-Identifier: BSD-2-Clause
"""A stream read forwards into buffers that stay as they are once they have been handed out."""

from __future__ import annotations

import os
import select
import stat
import time
import zlib
from typing import BinaryIO

import numpy as np

from mrc.capture.frames import RUN_BYTES, TAIL, U8
from mrc.errors import MrcError, PeerError, SystemRefused

# How long a run may wait for more packets from a pipe: what is captured live is seen at once, and a fast writer still
# fills whole buffers.
_PATIENCE_S = 0.05
HEAD_BYTES = 1 << 16


class Source:
    """A stream with its unread bytes in `array[at:end]`; `base` is the offset in the stream of array[0].

    `view` is the same memory as `array`, which has TAIL bytes more than the stream may fill. Bytes before `end` are
    never written again, so that they can be handed out uncopied.
    """

    __slots__ = ("_ended", "_failure", "_pollable", "array", "at", "base", "end", "name", "stream", "view")

    def __init__(self, stream: BinaryIO, name: str) -> None:
        self.stream, self.name = stream, name
        self.at = self.end = self.base = 0
        self._ended = False
        self._failure: MrcError | None = None
        self._pollable = _pollable(stream)
        self._allocate(HEAD_BYTES)

    @property
    def offset(self) -> int:
        """Offset in the stream of the next unread byte."""
        return self.base + self.at

    @property
    def unread(self) -> int:
        """How many bytes have been read from the stream and not yet taken."""
        return self.end - self.at

    def _allocate(self, room: int) -> None:
        self.array: U8 = np.empty(room + TAIL, np.uint8)
        self.array[room:] = 0
        self.view = self.array.data

    def fill(self, count: int) -> int:
        """Read on until `count` unread bytes are there or the stream ends; how many are there.

        Reads ahead as far as a run may reach, but does not wait for it. Raises PeerError when compressed data is
        damaged, SystemRefused when the system cannot read; not before all that came ahead of it has been taken.
        """
        have = self.end - self.at
        if have >= count:
            return have
        # The head of the stream may be all there is: full buffers are for what follows it.
        if not self._ended and len(self.array) - TAIL - self.at < max(count, RUN_BYTES // 2 if self.offset else 0):
            self._move(max(count, RUN_BYTES))
        room = len(self.array) - TAIL
        give_up_at = time.monotonic() + 2 * _PATIENCE_S
        while self.end < room and not self._ended:
            if self.end - self.at >= count and not self._more_at_once(give_up_at):
                break
            self._read_once(room)
        if self.end - self.at < count and self._failure is not None:
            raise self._failure
        return self.end - self.at

    def _move(self, room: int) -> None:
        old, at, have = self.array, self.at, self.end - self.at
        self._allocate(room)
        self.array[:have] = old[at : at + have]
        self.base += at
        self.at, self.end = 0, have

    def _more_at_once(self, give_up_at: float) -> bool:
        if not self._pollable:
            return True
        left = min(_PATIENCE_S, give_up_at - time.monotonic())
        return left > 0 and bool(select.select([self.stream], (), (), left)[0])

    def _read_once(self, room: int) -> None:
        try:
            got = self.stream.readinto1(self.view[self.end : room])  # type: ignore[attr-defined]
        except (EOFError, ValueError, zlib.error) as error:
            self._failure = self._damaged_archive(error)
        except OSError as error:
            if error.errno is None:  # gzip.BadGzipFile, of the checksum at the end
                self._failure = self._damaged_archive(error)
            else:
                self._failure = SystemRefused(f"{self.name}: reading failed: {error.strerror}")
        else:
            if got is None:  # a pipe that does not wait, and is empty
                select.select([self.stream], (), ())
                return
            self.end += got
            self._ended = not got
            return
        self._ended = True

    def peek(self, count: int) -> bytes:
        """The next bytes, at most `count` and no more than have been read; they stay unread."""
        return self.view[self.at : min(self.end, self.at + count)].tobytes()

    def read(self, count: int) -> bytes | None:
        """The next `count` bytes, or None when the stream ends before: then they stay unread."""
        if self.end - self.at < count and self.fill(count) < count:
            return None
        taken = self.view[self.at : self.at + count].tobytes()
        self.at += count
        return taken

    def damaged(self, what: str, offset: int | None = None) -> PeerError:
        """The error to raise for damage at `offset`, by default at the next unread byte."""
        at = self.offset if offset is None else offset
        return PeerError(f"{self.name}: {what} at byte {at}; what stands before it is whole, the rest is left out")

    def _damaged_archive(self, error: Exception) -> PeerError:
        return self.damaged(f"the compressed data is damaged ({error}): what it unpacks to ends", self.base + self.end)

    def cut_short(self, what: str, start: int, needed: int) -> PeerError:
        """The error to raise when the stream ends inside `what`, which begins at `start` and takes `needed` bytes."""
        there = self.base + self.end - start
        return PeerError(
            f"{self.name}: cut short: {what} at byte {start} takes {needed} bytes, {there} are there; "
            "what stands before it is whole"
        )


def _pollable(stream: BinaryIO) -> bool:
    """Whether `select` can tell that the stream has more: pipes, sockets and terminals, not what unpacks them."""
    try:
        mode = os.fstat(stream.fileno()).st_mode
    except (OSError, AttributeError, ValueError):
        return False
    return not stat.S_ISREG(mode)
