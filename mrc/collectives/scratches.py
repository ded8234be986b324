# SPDX-License-Identifier: BSD-2-Clause
"""Which groups keep the pages of their scratch memory: those that have used it last.

A job may have hundreds of groups, and few that reduce at a time. The memory of the others goes back to the system; it
stays registered at its place, and is there again when it is next written to.
"""

from __future__ import annotations

import ctypes
import mmap
import threading
import weakref
from collections import OrderedDict
from typing import Protocol

from mrc.collectives.arrays import Bytes

# With the default settings these hold 32 MiB.
KEPT = 8
_PAGE = mmap.PAGESIZE
_DONTNEED = 4  # MADV_DONTNEED
_libc = ctypes.CDLL(None)
_libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


class User(Protocol):
    """A group's engine."""

    def let_scratch_go(self) -> None:
        """Let the pages go, unless an operation needs them. From any thread."""


class Scratches:
    """The users of scratch memory, the last one last."""

    def __init__(self, kept: int = KEPT) -> None:
        self._kept = kept
        self._lock = threading.Lock()
        self._users: OrderedDict[int, weakref.ref[User]] = OrderedDict()

    def used(self, user: User) -> None:
        """An operation of a group has used its scratch memory."""
        with self._lock:
            known = id(user)
            self._users[known] = weakref.ref(user)
            self._users.move_to_end(known)
            late = [self._users.popitem(last=False)[1]() for _ in range(len(self._users) - self._kept)]
        for each in late:
            if each is not None:
                each.let_scratch_go()


def let_go(memory: Bytes) -> None:
    """Give the pages of some memory back to the system. What is in it is 0 afterwards, or as it was where the system
    keeps it."""
    address = memory.ctypes.data
    first, last = -(-address // _PAGE) * _PAGE, (address + memory.nbytes) // _PAGE * _PAGE
    if last > first:
        _libc.madvise(first, last - first, _DONTNEED)


# Those of this process.
scratches = Scratches()
