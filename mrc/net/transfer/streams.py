# SPDX-License-Identifier: BSD-2-Clause
"""Standard input as something to send, standard output as somewhere to receive to."""

from __future__ import annotations

import contextlib
import mmap
import os
import select
from collections.abc import Callable

from mrc.errors import CallerError, PeerError, SystemRefused
from mrc.net.transfer.buffers import IncomingPart, PartBuffers
from mrc.net.transfer.names import FilePath, shown
from mrc.net.transfer.sums import FileSum, RunningSum
from mrc.net.transfer.terms import PART_BYTES, PARTS_OPEN

ONE_FILE_ONLY = "the receiver writes to its standard output (mrc recv -): it takes one file, no directory"
_ZEROS = bytes(1 << 20)
# A sender whose input gives nothing reports so often that it still waits.
_WAITING_S = 1.0


class InputStream:
    """What comes out of a descriptor, piece by piece, and its sum. `still_waiting` hears that nothing comes."""

    def __init__(self, descriptor: int, file_sum: FileSum, still_waiting: Callable[[], None]) -> None:
        self._descriptor = descriptor
        self._still_waiting = still_waiting
        self._sum = RunningSum(file_sum)
        # Where a region looks for what to send.
        self.map = mmap.mmap(-1, PART_BYTES)

    @property
    def size(self) -> int:
        """Bytes that came until now."""
        return self._sum.size

    def read(self) -> int:
        """Fill the map; how many bytes it holds now: less than all only at the end, 0 behind it. Raises CallerError."""
        held = 0
        with memoryview(self.map) as room:
            while held < PART_BYTES:
                try:
                    while not select.select([self._descriptor], [], [], _WAITING_S)[0]:
                        self._still_waiting()
                    count = os.readv(self._descriptor, [room[held:]])
                except OSError as error:
                    raise CallerError(f"standard input cannot be read: {error.strerror}") from None
                if not count:
                    break
                held += count
            self._sum.add(room[:held])
        return held

    def sum(self) -> str:
        """The sum of all that came."""
        return self._sum.text()

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
        """Nothing is kept: the parts that are open are all that memory has to hold."""
        return 2 * PARTS_OPEN * PART_BYTES

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

    def __init__(self, output: OutputStream, path: FilePath, size: int | None, file_sum: FileSum) -> None:
        if output.taken:
            raise PeerError(ONE_FILE_ONLY)
        output.taken = True
        self.name = shown(path)
        self.size = size or 0
        self._in_a_stream = size is None
        self._output = output
        self._sum = RunningSum(file_sum)
        self._buffers = PartBuffers()

    @property
    def _written(self) -> int:
        return self._sum.size

    def part(self, offset: int, length: int) -> IncomingPart:
        """Memory for what comes next. Raises PeerError for what lies behind."""
        if offset < self._written:
            raise PeerError(f"byte {offset} of {self.name} was written to standard output already")
        if self._in_a_stream:
            self.size = max(self.size, offset + length)
        return IncomingPart(self.put, offset, length, self._buffers)

    def block_sums(self, file_sum: FileSum, first: int, count: int) -> list[str]:
        raise PeerError(f"{self.name} goes to standard output: nothing of it is there")

    def put(self, offset: int, content: memoryview, file_sum: FileSum | None = None) -> None:
        """Write a part, and zeros for the hole before it. Its sum is one that runs along."""
        self._fill(offset)
        self._sum.add(content)
        self._output.write(content)

    def _fill(self, offset: int) -> None:
        while self._written < offset:
            zeros = _ZEROS[: offset - self._written]
            self._sum.add(zeros)
            self._output.write(zeros)

    def sum(self, file_sum: FileSum) -> str:
        """The sum of what was written. A hole at the end is written first."""
        self._fill(self.size)
        return self._sum.text()

    def commit(self) -> None:
        """It is all written."""

    def discard(self, *, keep: bool = False) -> None:
        """What is written cannot be taken back."""
        self._buffers.close()
