# SPDX-License-Identifier: BSD-2-Clause
"""Keeps of a mapped file in memory what is being worked on: paged in ahead of the work, let go of behind it.

As registering memory with a NIC does, page faults are taken before packets wait for them; but only a stretch at a time,
so that a file of any size costs a process the same memory. What is let go of stays in the system's cache.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import threading

from mrc.errors import SystemRefused
from mrc.threads import start_thread
from mrc.wire.memory import address_of

AHEAD = BEHIND = 32 * 1024 * 1024
STEP = 8 * 1024 * 1024
_POPULATE_READ, _POPULATE_WRITE = 22, 23

# mmap.madvise would keep the interpreter to itself meanwhile.
_madvise = ctypes.CDLL(None, use_errno=True).madvise
_madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


def page_in(mapping: mmap.mmap) -> None:
    """Page in all of a mapping that is going to be written to."""
    _madvise(address_of(mapping), len(mapping), _POPULATE_WRITE)


class Paging:
    """Follows the reading of a mapping. Close it before the mapping; a file that fits into the stretch has no thread.

    Kernels that do not know the advice, and ranges that cannot be paged in, are left alone: the work takes the faults.
    """

    def __init__(self, mapping: mmap.mmap) -> None:
        self._size = len(mapping)
        self._address = address_of(mapping)
        self._populated = 0
        self._dropped = 0
        self._position = 0
        self._due = STEP  # the position at which there is something to do
        self._wake = threading.Event()
        self._over = False
        self._page_in(min(self._size, AHEAD))
        self._thread: threading.Thread | None = None
        if self._size > AHEAD:
            # Without a thread for it the work takes the faults itself.
            with contextlib.suppress(SystemRefused):
                self._thread = start_thread(self._run, name="mrc paging")

    def follow(self, position: int) -> None:
        """The work has come to about this byte. From any thread; returns at once."""
        if position >= self._due:
            self._position, self._due = position, position + STEP
            self._wake.set()

    def _run(self) -> None:
        while True:
            self._wake.wait()
            self._wake.clear()
            if self._over:
                return
            position = self._position
            wanted = min(self._size, position + AHEAD)
            while self._populated < wanted and not self._over:
                self._page_in(min(STEP, wanted - self._populated))
            behind = min(self._size, position) - BEHIND
            if behind - self._dropped >= STEP:
                behind -= behind % mmap.PAGESIZE
                _madvise(self._address + self._dropped, behind - self._dropped, mmap.MADV_DONTNEED)
                self._dropped = behind

    def _page_in(self, count: int) -> None:
        _madvise(self._address + self._populated, count, _POPULATE_READ)
        self._populated += count

    def close(self) -> None:
        """Safe to call twice."""
        self._over = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
