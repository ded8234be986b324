# SPDX-License-Identifier: BSD-2-Clause
"""Memory for the parts of a file: paged in once, and used for one part after another.

A part arrives in memory and is written to its file when it is whole. Writing to a mapped file costs a page fault for
each page, and the kernel fills each page with zeros first: on ext4 that takes longer than all the rest of a transfer.
"""

from __future__ import annotations

import contextlib
import mmap
from collections.abc import Callable

from mrc.net.transfer.paging import page_in
from mrc.net.transfer.sums import FileSum
from mrc.net.transfer.terms import PART_BYTES, PARTS_OPEN


class PartBuffers:
    """Memory for parts. What a full part leaves is kept for the next one, PARTS_OPEN of them at most.

    They hold what came before, so no two files share them. From any thread. Close it.
    """

    def __init__(self) -> None:
        self._kept: list[mmap.mmap] = []

    def take(self, length: int) -> mmap.mmap:
        """`length` bytes, at most PART_BYTES. Raises OSError where there is no memory."""
        if length == PART_BYTES:
            with contextlib.suppress(IndexError):
                return self._kept.pop()
        # Of small pages: virtual machines give free large ones back to their host, and wait for it when they take one.
        made = mmap.mmap(-1, length, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        # As registering memory with a NIC does: no packet waits for a page fault.
        page_in(made)
        return made

    def give_back(self, buffer: mmap.mmap) -> None:
        """Nothing looks into it any more."""
        if len(buffer) == PART_BYTES and len(self._kept) < PARTS_OPEN:
            self._kept.append(buffer)
        else:
            _close(buffer)

    def close(self) -> None:
        """Safe to call twice."""
        while self._kept:
            _close(self._kept.pop())


class IncomingPart:
    """A part of a file that is open to writes: memory, `length` bytes, whose content `put` puts into it. `close` it."""

    def __init__(
        self, put: Callable[[int, memoryview, FileSum | None], None], offset: int, length: int, buffers: PartBuffers
    ) -> None:
        self.length = length
        self.map = buffers.take(length)
        self._put = put
        self._offset = offset
        self._buffers = buffers
        self._closed = False

    def store(self, file_sum: FileSum | None = None) -> None:
        """Write what has arrived into the file, and add it to `file_sum`. Raises SystemRefused."""
        with memoryview(self.map) as content:
            self._put(self._offset, content, file_sum)

    def close(self) -> None:
        """Nobody writes to it any more. Safe to call twice."""
        if not self._closed:
            self._closed = True
            self._buffers.give_back(self.map)


def _close(buffer: mmap.mmap) -> None:
    # A region may still look into it; it goes when the last view does.
    with contextlib.suppress(BufferError):
        buffer.close()
