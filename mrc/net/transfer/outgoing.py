# SPDX-License-Identifier: BSD-2-Clause
"""Files to send: regular ones and what the kernel makes up, mapped, watched for changes, read where they hold data."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import mmap
import os
import signal
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

from mrc.errors import CallerError, MrcError
from mrc.net.transfer.paging import Paging
from mrc.net.transfer.sums import FileSum
from mrc.net.transfer.terms import STRETCH_UNIT

# Of a file that does not tell its size, held in memory.
MOST_READ_FIRST = 64 * 1024 * 1024
_CHUNK = 1024 * 1024
_SEND_A_COPY = "the receiver discards it; send a copy of it, or send it again when no program writes to it"


def check_regular(path: Path) -> None:
    """Raise CallerError that says what to do where `path` is no regular file, OSError where there is nothing."""
    mode = os.stat(path).st_mode
    if stat.S_ISREG(mode):
        return
    if stat.S_ISDIR(mode):
        advice = "a directory, not a file"
    elif stat.S_ISFIFO(mode):
        advice = "a pipe: send what comes out of it as standard input (mrc send - TICKET < PIPE)"
    elif stat.S_ISSOCK(mode):
        advice = "a socket: only files are sent"
    else:
        advice = "a device: copy what it holds into a file first (dd), and send that"
    raise CallerError(f"{path} is {advice}")


def read_first(descriptor: int, path: Path) -> int:
    """Copy the rest of `descriptor` into memory and return a descriptor of the copy, an unnamed file.

    Files of procfs have content and a size of 0, attributes of sysfs hold less than their size: only reading shows it.
    Raises CallerError beyond MOST_READ_FIRST bytes and where a read would wait, OSError where it fails.
    """
    os.set_blocking(descriptor, False)
    copy = os.memfd_create("mrc send", os.MFD_CLOEXEC)
    done = 0
    try:
        while piece := os.read(descriptor, _CHUNK):
            done += len(piece)
            if done > MOST_READ_FIRST:
                raise CallerError(
                    f"{path} reports no size and holds more than {MOST_READ_FIRST >> 20} MiB, the most that is read "
                    "into memory: copy it to a disk first, and send the copy"
                )
            with open(copy, "ab", buffering=0, closefd=False) as file:
                file.write(piece)
    except OSError as error:
        os.close(copy)
        if error.errno == errno.EAGAIN:
            raise CallerError(f"{path} does not end, it waits for more: copy what it gives into a file first") from None
        raise
    except CallerError:
        os.close(copy)
        raise
    return copy


def attributes_of(found: os.stat_result) -> dict[str, int]:
    """Mode and time of a file or directory, as they are announced: permissions alone, no set-user-ID or the like."""
    return {"mode": stat.S_IMODE(found.st_mode) & 0o777, "mtime_ns": found.st_mtime_ns}


def data_stretches(descriptor: int, size: int) -> Iterator[tuple[int, int]]:
    """Where a file holds data: offset and length of each stretch, in order, on multiples of STRETCH_UNIT.

    The holes between them, of at least that much, read as zeros. Where the file system knows of no holes it is all one.
    """
    begin = end = 0
    at = 0
    while at < size:
        try:
            found = os.lseek(descriptor, at, os.SEEK_DATA)
            at = os.lseek(descriptor, found, os.SEEK_HOLE)
        except OSError as error:
            if error.errno == errno.ENXIO:
                break
            found, at = at, size
        found -= found % STRETCH_UNIT
        if found > end:
            if end > begin:
                yield begin, end - begin
            begin = found
        end = min(size, -(-at // STRETCH_UNIT) * STRETCH_UNIT)
    if end > begin:
        yield begin, end - begin


class UnreadableFile(CallerError):
    """A file that cannot be opened or mapped."""


class OutgoingFile:
    """A file to send, mapped for reading. Raises UnreadableFile when it is no readable regular file.

    A mapped file that another process cuts short kills the process that reads it. So a read lease is taken where the
    system grants one (to the owner, while no process writes): a process that wants to change the file then waits, this
    one is notified by SIGIO, and `check` raises. Closing gives the lease back. Without a lease `check` compares sizes.

    A file that reports no size, or that cannot be mapped, is read into memory first (`sources.read_first`).
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.map: mmap.mmap | None = None
        self._paging: Paging | None = None
        self._descriptor = -1
        try:
            check_regular(self.path)
            self._descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
            self._leased = _take_lease(self._descriptor)
            self._status = os.fstat(self._descriptor)
            if not self._status.st_size or not _can_be_mapped(self._descriptor):
                named, self._descriptor = self._descriptor, read_first(self._descriptor, self.path)
                os.close(named)
                self._leased = False
            self._first = os.fstat(self._descriptor)
            self.size = self._first.st_size
            if self.size:
                self.map = mmap.mmap(self._descriptor, self.size, access=mmap.ACCESS_READ)
                self.map.madvise(mmap.MADV_SEQUENTIAL)
                self._paging = Paging(self.map)
        except MrcError as error:
            self.close()
            raise UnreadableFile(str(error)) from None
        except OSError as error:
            self.close()
            raise UnreadableFile(f"{self.path}: {error.strerror}") from None

    def stretches(self) -> list[tuple[int, int]]:
        """Where it holds data: offset and length, in order; the rest are holes."""
        return list(data_stretches(self._descriptor, self.size))

    @property
    def attributes(self) -> dict[str, int]:
        """Mode and time, as they are announced."""
        return attributes_of(self._status)

    def follow(self, position: int) -> None:
        """About this many bytes have been sent."""
        if self._paging is not None:
            self._paging.follow(position)

    def check(self) -> None:
        """Raise CallerError when another process wants to change the file, or has changed its size."""
        if not self._leased:
            self._check_size()
        elif _leases.asked_back and fcntl.fcntl(self._descriptor, fcntl.F_GETLEASE) != fcntl.F_RDLCK:
            raise CallerError(f"{self.path} is being changed while it is sent: send it again when it is whole")

    def check_unchanged(self) -> None:
        """Raise CallerError when the file was written to since it was opened. For the end, when its sum is known."""
        self.check()
        if not self._leased and os.fstat(self._descriptor).st_mtime_ns != self._first.st_mtime_ns:
            raise CallerError(f"{self.path} was written to while it was sent: {_SEND_A_COPY}")

    def _check_size(self) -> None:
        size = os.fstat(self._descriptor).st_size
        if size != self.size:
            how = "grew" if size > self.size else "shrank"
            raise CallerError(f"{self.path} {how} from {self.size} to {size} bytes while it was sent: {_SEND_A_COPY}")

    def sum(self, file_sum: FileSum, begin: int = 0, end: int | None = None) -> None:
        """Read what `file_sum` does not know of the chunks between these bytes. Raises CallerError."""
        try:
            file_sum.read(self._descriptor, begin, self.size if end is None else end, self.size)
        except (OSError, EOFError):
            raise CallerError(f"{self.path} could not be read to the end") from None

    def close(self) -> None:
        if self._paging is not None:
            self._paging.close()
        if self.map is not None:
            with contextlib.suppress(BufferError):
                self.map.close()
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _can_be_mapped(descriptor: int) -> bool:
    """Attributes of sysfs cannot, for one."""
    try:
        mmap.mmap(descriptor, 1, access=mmap.ACCESS_READ).close()
    except OSError as error:
        if error.errno != errno.ENODEV:
            raise
        return False
    return True


class _Leases:
    """Whether a lease of this process was asked back."""

    asked_back = False


_leases = _Leases()


def _take_lease(descriptor: int) -> bool:
    def asked_back(signum: int, frame: object) -> None:
        _leases.asked_back = True

    if threading.current_thread() is not threading.main_thread():
        return False  # signals reach the main thread only
    signal.signal(signal.SIGIO, asked_back)
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except OSError:
        return False
    return True
