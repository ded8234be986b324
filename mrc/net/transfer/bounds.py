# SPDX-License-Identifier: BSD-2-Clause
"""What one sender may take of a receiver, so that there is something left for the others (docs/security.md)."""

from __future__ import annotations

import mmap
import resource
import threading
from dataclasses import dataclass, fields

from mrc.errors import CallerError, PeerError

_DESCRIPTORS_PER_FILE = 2  # the file's own, and that of its mapping; its directory's is open for a moment only
_OTHER_DESCRIPTORS = 256  # connections of the exchange, ports, the loop, standard streams
_LEAST_PART = 1 << 20


@dataclass(frozen=True, slots=True)
class SenderBounds:
    """What one session may have at a time, and in all. All are this project's choice. Raises CallerError below 1.

    files: announced and not yet committed. `mrc send` has one.
    reserved_bytes: disk and memory that is open to writes and not yet received, over all files of the session.
    files_in_all: of one session, directories included.
    name_bytes: of a name as it is announced, directories included.
    """

    files: int = 4
    reserved_bytes: int = 1 << 30
    files_in_all: int = 65_536
    name_bytes: int = 4096

    def __post_init__(self) -> None:
        for each in fields(self):
            if getattr(self, each.name) < 1:
                raise CallerError(f"{each.name} must be at least 1, got {getattr(self, each.name)}")

    def part(self, left: int, reserved: int, free: int) -> int:
        """How many bytes of a file may be opened to writes next.

        `left`: of the stretch that is asked for; `reserved`: what the session has open already; `free`: on the disk.
        Never more than half of what is free, so that no sender takes the last of it before any of its data has come; a
        multiple of a page, but for the end of the stretch. Raises PeerError when the session has to commit something
        first.
        """
        room = self.reserved_bytes - reserved
        if room < min(left, _LEAST_PART):
            raise PeerError(
                f"{reserved} bytes of this session are on their way, the most is {self.reserved_bytes}: commit a file "
                "before another is announced"
            )
        length = min(left, room, max(free // 2, _LEAST_PART))
        return length if length == left else length - length % mmap.ALLOCATIONGRANULARITY


DEFAULT_BOUNDS = SenderBounds()


class FilePlaces:
    """Files that all sessions together may have open, as the process's limit of descriptors has it.

    Each session's first file finds a place as long as there is one; further ones only while half of them are free.
    """

    def __init__(self, places: int | None = None) -> None:
        """`places` None: from RLIMIT_NOFILE."""
        if places is None:
            limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
            unlimited = limit == resource.RLIM_INFINITY
            places = 1 << 20 if unlimited else max(1, (limit - _OTHER_DESCRIPTORS) // _DESCRIPTORS_PER_FILE)
        self._places = places
        self._taken = 0
        self._lock = threading.Lock()

    def reserve(self, held: int) -> None:
        """Take a place for a session that has `held` of them. Raises PeerError when there is none for it."""
        with self._lock:
            if self._taken >= (self._places // 2 if held else self._places):
                raise PeerError(
                    f"the receiver has {self._taken} files open: commit a file before another is announced, or try "
                    "again later (the receiver's limit of descriptors, `ulimit -n`, says how many it may have)"
                )
            self._taken += 1

    def give_back(self) -> None:
        with self._lock:
            self._taken -= 1
