"""Files that appear under their name only when whole, and never outside their directory."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import mmap
import os
import secrets
import signal
import threading
from pathlib import Path

from mrc.errors import CallerError, MrcError, PeerError, SystemRefused
from mrc.net.transfer.paging import Paging
from mrc.net.transfer.sources import check_regular, read_first

_HASH_CHUNK = 1024 * 1024
_SEND_A_COPY = "the receiver discards it; send a copy of it, or send it again when no program writes to it"
# The file system cannot make unnamed files: a hidden name is used instead.
_NO_UNNAMED_FILES = frozenset({errno.EOPNOTSUPP, errno.EISDIR, errno.ENOENT, errno.EINVAL})


def base_name(name: str) -> str:
    """The name a file gets here, whatever path the sender gave. Raises PeerError when nothing usable is left."""
    base = name.replace("\\", "/").rsplit("/", 1)[-1]
    try:
        length = len(os.fsencode(base))
    except UnicodeEncodeError:
        length = 0
    if base in ("", ".", "..") or "\0" in base or not 0 < length <= 255:
        raise PeerError(f"the sender's file name {name[:80]!r} leaves no usable base name")
    return base


class Directory:
    """Where files arrive. Names are reserved from the moment a file is announced. Raises SystemRefused."""

    def __init__(self, path: str | Path, *, overwrite: bool) -> None:
        self.path = Path(path)
        self.overwrite = overwrite
        self._reserved: set[str] = set()
        try:
            self.descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise SystemRefused(error.errno, f"directory {self.path}: {error.strerror}") from None
        if not os.access(self.path, os.W_OK | os.X_OK):
            os.close(self.descriptor)
            raise SystemRefused(errno.EACCES, f"directory {self.path} is not writable: choose another with --dir")

    def reserve(self, name: str) -> str:
        """The base name of `name`, from now on taken. Raises CallerError when it exists or is on its way already."""
        base = base_name(name)
        if not self.overwrite:
            if base in self._reserved:
                raise CallerError(f"{base} comes twice: rename one, or start the receiver with --overwrite")
            if os.path.lexists(self.path / base):
                raise CallerError(f"{base} exists at the receiver: start it with --overwrite to replace it")
        self._reserved.add(base)
        return base

    def free_bytes(self) -> int:
        """Bytes of disk that are free to this user. A quota may allow fewer."""
        found = os.fstatvfs(self.descriptor)
        return found.f_bavail * found.f_frsize

    def release(self, base: str) -> None:
        self._reserved.discard(base)

    def close(self) -> None:
        os.close(self.descriptor)


class IncomingFile:
    """A file being received, without a name until `commit`. It takes disk part by part, as `part` is called.

    Raises SystemRefused when the disk has less than `size` bytes free now.
    """

    def __init__(self, directory: Directory, name: str, size: int) -> None:
        self.directory = directory
        self.name = directory.reserve(name)
        self.size = size
        self._hidden: str | None = None
        self._descriptor = -1
        try:
            free = directory.free_bytes()
            if size > free:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            self._descriptor = self._create()
        except OSError as error:
            self.discard()
            raise self._refused(error, size) from None

    def part(self, offset: int, length: int) -> IncomingPart:
        """Take the disk for `length` bytes from `offset` (a multiple of a page) on, and map them for writing.

        Raises SystemRefused when there is no room any more.
        """
        try:
            # Take the space now: a mapped page that finds the disk full later would kill the process.
            os.posix_fallocate(self._descriptor, offset, length)
            return IncomingPart(self._descriptor, offset, length)
        except OSError as error:
            raise self._refused(error, self.size - offset) from None

    def _refused(self, error: OSError, wanted: int) -> SystemRefused:
        path = self.directory.path
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            return SystemRefused(error.errno, f"no room for {wanted} bytes in {path}")
        return SystemRefused(error.errno, f"{path / self.name}: {error.strerror}")

    def _create(self) -> int:
        try:
            return os.open(".", os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o666, dir_fd=self.directory.descriptor)
        except OSError as error:
            if error.errno not in _NO_UNNAMED_FILES:
                raise
        self._hidden = f".mrc-{secrets.token_hex(8)}.part"
        return os.open(
            self._hidden,
            os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW,
            0o666,
            dir_fd=self.directory.descriptor,
        )

    def sha256(self) -> str:
        """The sum of what has arrived."""
        return _sha256_of(self._descriptor, self.size)

    def commit(self) -> None:
        """Give the file its name. Raises CallerError when the name was taken meanwhile, SystemRefused otherwise."""
        directory = self.directory.descriptor
        try:
            if not self.directory.overwrite:
                self._link(self.name)
                return
            if self._hidden is None:
                hidden = f".mrc-{secrets.token_hex(8)}.part"
                self._link(hidden)
                self._hidden = hidden
            os.replace(self._hidden, self.name, src_dir_fd=directory, dst_dir_fd=directory)
            self._hidden = None
        except FileExistsError:
            raise CallerError(f"{self.name} exists at the receiver: start it with --overwrite to replace it") from None
        except OSError as error:
            raise SystemRefused(error.errno, f"{self.directory.path / self.name}: {error.strerror}") from None
        finally:
            self.discard()

    def _link(self, name: str) -> None:
        directory = self.directory.descriptor
        if self._hidden is not None:
            os.link(self._hidden, name, src_dir_fd=directory, dst_dir_fd=directory, follow_symlinks=False)
        else:
            os.link(f"/proc/self/fd/{self._descriptor}", name, dst_dir_fd=directory, follow_symlinks=True)

    def discard(self) -> None:
        """Forget what has arrived. Safe to call twice, and after `commit`."""
        if self._hidden is not None:
            with contextlib.suppress(OSError):
                os.unlink(self._hidden, dir_fd=self.directory.descriptor)
            self._hidden = None
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        self.directory.release(self.name)


class IncomingPart:
    """A stretch of a file that is open to writes: mapped, and paged in ahead of what arrives. `close` it."""

    def __init__(self, descriptor: int, offset: int, length: int) -> None:
        self.length = length
        self.map = mmap.mmap(descriptor, length, offset=offset)
        self._paging = Paging(self.map, writes=True)

    def follow(self, position: int) -> None:
        """About this many bytes of the part have arrived."""
        self._paging.follow(position)

    def close(self) -> None:
        """Safe to call twice."""
        self._paging.close()
        # A region may still look into the mapping; it goes when the last view does.
        with contextlib.suppress(BufferError):
            self.map.close()


def outgoing_size(path: str | Path) -> int:
    """The size of a file that is to be sent later, as the system reports it: some have more bytes once they are read.

    Raises CallerError when it is no readable regular file.
    """
    try:
        check_regular(Path(path))
        if not os.access(path, os.R_OK):
            raise CallerError(f"{path}: {os.strerror(errno.EACCES)}")
        return os.stat(path).st_size
    except OSError as error:
        if isinstance(error, MrcError):
            raise
        raise CallerError(f"{path}: {error.strerror}") from None


class OutgoingFile:
    """A file to send, mapped for reading. Raises CallerError when it is no readable regular file.

    A mapped file that another process cuts short kills the process that reads it. So a read lease is taken where the
    system grants one (to the owner, while no process writes): a process that wants to change the file then waits, this
    one is notified by SIGIO, and `check` raises. Closing gives the lease back. Without a lease `check` compares sizes.

    A file that reports no size, or that cannot be mapped, is read into memory first (`sources.read_first`).
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.name = self.path.name
        self.map: mmap.mmap | None = None
        self._paging: Paging | None = None
        self._descriptor = -1
        try:
            check_regular(self.path)
            self._descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
            self._leased = _take_lease(self._descriptor)
            if not os.fstat(self._descriptor).st_size or not _can_be_mapped(self._descriptor):
                named, self._descriptor = self._descriptor, read_first(self._descriptor, self.path)
                os.close(named)
                self._leased = False
            self._first = os.fstat(self._descriptor)
            self.size = self._first.st_size
            if self.size:
                self.map = mmap.mmap(self._descriptor, self.size, access=mmap.ACCESS_READ)
                self.map.madvise(mmap.MADV_SEQUENTIAL)
                self._paging = Paging(self.map, writes=False)
        except MrcError:
            self.close()
            raise
        except OSError as error:
            self.close()
            raise CallerError(f"{self.path}: {error.strerror}") from None

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

    def sha256(self) -> str:
        return _sha256_of(self._descriptor, self.size)

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


def _sha256_of(descriptor: int, size: int) -> str:
    """SHA-256 in hex of the first `size` bytes of a file, read piece by piece: a mapping read through would stay in
    memory. The interpreter is free for other threads meanwhile. Raises OSError, and EOFError when the file is shorter.
    """
    digest = hashlib.sha256()
    buffer = bytearray(_HASH_CHUNK)
    done = 0
    with memoryview(buffer) as view:
        while done < size:
            count = os.preadv(descriptor, [view[: min(_HASH_CHUNK, size - done)]], done)
            if not count:
                raise EOFError(f"the file ends after {done} of {size} bytes")
            digest.update(view[:count])
            done += count
    return digest.hexdigest()
