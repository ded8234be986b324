# SPDX-License-Identifier: BSD-2-Clause
"""Standard input as something to send, standard output as somewhere to receive to."""

from __future__ import annotations

import contextlib
import hashlib
import mmap
import os
import select
from collections.abc import Callable

from mrc.errors import CallerError, PeerError, SystemRefused
from mrc.net.transfer.names import FilePath, shown
from mrc.net.transfer.paging import Paging
from mrc.net.transfer.terms import STREAM_PART, Attributes

_ZEROS = bytes(1 << 20)
# A sender whose input gives nothing reports so often that it still waits.
_WAITING_S = 1.0


class InputStream:
    """What comes out of a descriptor, piece by piece, and its sum. `still_waiting` hears that nothing comes."""

    def __init__(self, descriptor: int, still_waiting: Callable[[], None]) -> None:
        self._descriptor = descriptor
        self._still_waiting = still_waiting
        self._digest = hashlib.sha256()
        self.size = 0
        # Where a region looks for what to send.
        self.map = mmap.mmap(-1, STREAM_PART)

    def read(self) -> int:
        """Fill the map; how many bytes it holds now: less than all only at the end, 0 behind it. Raises CallerError."""
        held = 0
        with memoryview(self.map) as room:
            while held < STREAM_PART:
                try:
                    while not select.select([self._descriptor], [], [], _WAITING_S)[0]:
                        self._still_waiting()
                    count = os.readv(self._descriptor, [room[held:]])
                except OSError as error:
                    raise CallerError(f"standard input cannot be read: {error.strerror}") from None
                if not count:
                    break
                held += count
            self._digest.update(room[:held])
        self.size += held
        return held

    def sha256(self) -> str:
        return self._digest.hexdigest()

    def close(self) -> None:
        # A region may still look into it.
        with contextlib.suppress(BufferError):
            self.map.close()


class OutputStream:
    """Writes the one file that arrives to a descriptor, part by part and in order. Closing it closes no descriptor."""

    overwrite = False

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.taken = False

    def free_bytes(self) -> int:
        """Nothing is kept: a part is all that memory has to hold."""
        return 4 * STREAM_PART

    def write(self, content: memoryview | bytes) -> None:
        """Raises SystemRefused when its reader went away."""
        with memoryview(content) as left:
            done = 0
            while done < len(left):
                try:
                    done += os.write(self._descriptor, left[done:])
                except OSError as error:
                    raise SystemRefused(error.errno, f"standard output of the receiver: {error.strerror}") from None

    def close(self) -> None:
        """There is nothing to close."""


class StreamedFile:
    """A file that goes to an output stream. Raises PeerError for the second one."""

    there = 0

    def __init__(self, output: OutputStream, path: FilePath, size: int | None, attributes: Attributes) -> None:
        if output.taken:
            raise PeerError("the receiver writes to its standard output (mrc recv -): it takes one file, no directory")
        output.taken = True
        self.name = shown(path)
        self.size = size or 0
        self._in_a_stream = size is None
        self._output = output
        self._digest = hashlib.sha256()
        self._written = 0

    def part(self, offset: int, length: int) -> StreamedPart:
        """Memory for what comes next. Raises PeerError for what lies behind."""
        if offset < self._written:
            raise PeerError(f"byte {offset} of {self.name} was written to standard output already")
        if self._in_a_stream:
            self.size = max(self.size, offset + length)
        return StreamedPart(self, offset, length)

    def block_sums(self, first: int, count: int) -> list[str]:
        raise PeerError(f"{self.name} goes to standard output: nothing of it is there")

    def put(self, offset: int, content: memoryview) -> None:
        """Write a part, and zeros for the hole before it."""
        self._fill(offset)
        self._digest.update(content)
        self._output.write(content)
        self._written += len(content)

    def _fill(self, offset: int) -> None:
        while self._written < offset:
            zeros = _ZEROS[: offset - self._written]
            self._digest.update(zeros)
            self._output.write(zeros)
            self._written += len(zeros)

    def sha256(self) -> str:
        """The sum of what was written. A hole at the end is written first."""
        self._fill(self.size)
        return self._digest.hexdigest()

    def commit(self) -> None:
        """It is all written."""

    def discard(self, *, keep: bool = False) -> None:
        """What is written cannot be taken back."""


class StreamedPart:
    """A stretch of a streamed file in memory, written when it is accepted."""

    def __init__(self, file: StreamedFile, offset: int, length: int) -> None:
        self.length = length
        self.map = mmap.mmap(-1, length)
        self._file = file
        self._offset = offset
        self._paging = Paging(self.map, writes=True)

    def follow(self, position: int) -> None:
        """About this many bytes of the part have arrived."""
        self._paging.follow(position)

    def accept(self) -> None:
        """All of it has arrived: write it. Raises SystemRefused."""
        with memoryview(self.map) as content:
            self._file.put(self._offset, content)

    def close(self) -> None:
        """Safe to call twice."""
        self._paging.close()
        with contextlib.suppress(BufferError):
            self.map.close()
