# SPDX-License-Identifier: BSD-2-Clause
"""Files that appear under their name only when whole, and never outside their directory."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
import stat

from mrc.errors import CallerError, SystemRefused
from mrc.net.transfer.buffers import IncomingPart, PartBuffers
from mrc.net.transfer.directory import Directory
from mrc.net.transfer.names import FilePath, part_name, shown
from mrc.net.transfer.sums import CHUNK, FileSum
from mrc.net.transfer.terms import BLOCK_BYTES, Attributes

# The file system cannot make unnamed files: a hidden name is used instead.
_NO_UNNAMED_FILES = frozenset({errno.EOPNOTSUPP, errno.EISDIR, errno.ENOENT, errno.EINVAL})


class IncomingFile:
    """A file being received, without a name until `commit`. It takes disk part by part, as `part` is called.

    `place` is where it is put on disk, `path` what it is called to people. `size` None: known at the end, a stream's.
    `there`: bytes that an earlier, broken transfer left; what they are is for the sender to find out (`block_sums`).
    Raises CallerError when the name exists, SystemRefused when the disk has less room now than it will take.
    """

    def __init__(
        self,
        directory: Directory,
        path: FilePath,
        size: int | None,
        attributes: Attributes | None = None,
        *,
        place: FilePath | None = None,
        data_bytes: int | None = None,
    ) -> None:
        """`data_bytes`: how much of it is no hole and takes disk; None: all."""
        self.directory = directory
        self.path = path
        self.name = shown(path)
        self.place = path if place is None else place
        self.size = size or 0
        self.there = 0
        self._in_a_stream = size is None
        self._attributes = attributes or Attributes()
        self._hidden: str | None = None
        self._buffers = PartBuffers()
        self._descriptor = -1
        directory.reserve(self.place)
        self._holds_name = True
        try:
            if not directory.overwrite and directory.status(self.place) is not None:
                raise self._exists()
            if (self.size if data_bytes is None else data_bytes) > directory.free_bytes():
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            self._open()
        except OSError as error:
            self.discard()
            if isinstance(error, SystemRefused):
                raise
            raise directory.refused(error, path, self.size) from None
        except BaseException:
            self.discard()
            raise

    @property
    def can_be_kept(self) -> bool:
        """Whether the next attempt can go on with what has arrived: not with a stream, which does not come again."""
        return not self._in_a_stream and part_name(self.place[-1]) is not None

    def part(self, offset: int, length: int) -> IncomingPart:
        """Take the disk for `length` bytes from `offset` on, and memory for them to arrive in.

        Raises SystemRefused when there is no room any more.
        """
        if self._in_a_stream:
            self.size = max(self.size, offset + length)
        try:
            # Take the space now: nothing is sent that the disk has no room for.
            os.posix_fallocate(self._descriptor, offset, length)
            return IncomingPart(self.put, offset, length, self._buffers)
        except OSError as error:
            raise self._refused(error, offset, length) from None

    def put(self, offset: int, content: memoryview, file_sum: FileSum | None = None) -> None:
        """Write what has arrived, and add it to `file_sum`: each chunk is written while the processor's cache has it.

        Raises SystemRefused; nothing of it is in `file_sum` then.
        """
        if file_sum is not None:
            file_sum.forget(offset, len(content))
        done = 0
        while done < len(content):
            at = offset + done
            with content[done : done + CHUNK - at % CHUNK] as chunk:
                # Summing reads memory faster than the kernel's copy does, so it goes first.
                if file_sum is not None:
                    file_sum.add(at, chunk, None if self._in_a_stream else self.size)
                try:
                    self._write(at, chunk)
                except OSError as error:
                    if file_sum is not None:
                        file_sum.forget(offset, len(content))
                    raise self._refused(error, offset, len(content)) from None
                done += len(chunk)

    def _write(self, offset: int, content: memoryview) -> None:
        done = 0
        while done < len(content):
            done += os.pwrite(self._descriptor, content[done:], offset + done)

    def _refused(self, error: OSError, offset: int, length: int) -> SystemRefused:
        return self.directory.refused(error, self.path, length if self._in_a_stream else self.size - offset)

    def block_sums(self, file_sum: FileSum, first: int, count: int) -> list[str]:
        """The sums of blocks of what was there. Raises CallerError for blocks that were not."""
        begin, end = first * BLOCK_BYTES, (first + count) * BLOCK_BYTES
        if end > self.there:
            raise CallerError(f"{self.name} has {self.there} bytes at the receiver, fewer than the blocks asked for")
        file_sum.read(self._descriptor, begin, end, self.size)
        return [file_sum.of_block(block, BLOCK_BYTES) for block in range(begin, end, BLOCK_BYTES)]

    def sum(self, file_sum: FileSum) -> str:
        """The sum of the whole file, as it is: what `file_sum` does not know of it is read."""
        file_sum.read(self._descriptor, 0, self.size, self.size)
        return file_sum.text(self.size)

    def commit(self) -> None:
        """Give the file its name. Raises CallerError when the name was taken meanwhile, SystemRefused otherwise."""
        try:
            _set_attributes(self._descriptor, self._attributes)
            with self.directory.opened(self.place[:-1]) as parent:
                self._name(parent)
        except FileExistsError:
            raise self._exists() from None
        except OSError as error:
            raise self.directory.refused(error, self.path) from None
        finally:
            self.discard()

    def discard(self, *, keep: bool = False) -> None:
        """Forget what has arrived, or with `keep` leave it for the next attempt. May be called after `commit`."""
        self._buffers.close()
        if self._descriptor >= 0:
            if keep:
                self._leave()
            os.close(self._descriptor)
            self._descriptor = -1
        if self._holds_name:
            self._holds_name = False
            self.directory.release(self.place)
        if self._hidden is not None:
            with contextlib.suppress(OSError), self.directory.opened(self.place[:-1]) as parent:
                os.unlink(self._hidden, dir_fd=parent)
            self._hidden = None

    def _exists(self) -> CallerError:
        return CallerError(f"{self.name} exists at the receiver: start it with --overwrite to replace it")

    def _open(self) -> None:
        with self.directory.opened(self.place[:-1]) as parent:
            found = self._claim(parent)
            self._descriptor = self._create(parent) if found is None else found
        if self.there < BLOCK_BYTES:
            self.there = 0  # too little to be compared
            os.ftruncate(self._descriptor, 0)
        os.ftruncate(self._descriptor, self.size)

    def _claim(self, parent: int) -> int | None:
        """Open what an earlier transfer of this name left, and keep other sessions from it."""
        name = part_name(self.place[-1])
        if name is None or self._in_a_stream or not self.directory.keep_parts:
            return None
        try:
            descriptor = os.open(name, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=parent)
        except OSError:
            return None
        found = os.fstat(descriptor)
        try:
            # Of somebody else, or with another name elsewhere: not ours to write to.
            if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_nlink != 1:
                raise BlockingIOError
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            return None
        self._hidden = name
        self.there = min(found.st_size, self.size)
        return descriptor

    def _create(self, parent: int) -> int:
        descriptor, self._hidden = _unnamed(parent)
        return descriptor

    def _name(self, parent: int) -> None:
        name = self.place[-1]
        if not self.directory.overwrite:
            self._link(parent, name)
            return
        if self._hidden is None:
            hidden = _hidden_name()
            self._link(parent, hidden)
            self._hidden = hidden
        os.replace(self._hidden, name, src_dir_fd=parent, dst_dir_fd=parent)
        self._hidden = None

    def _leave(self) -> None:
        name = part_name(self.place[-1])
        if name is None or not self.can_be_kept:
            return
        with contextlib.suppress(OSError), self.directory.opened(self.place[:-1]) as parent:
            if self._hidden is None:
                self._link(parent, name)
            elif self._hidden != name:
                os.link(self._hidden, name, src_dir_fd=parent, dst_dir_fd=parent, follow_symlinks=False)
                os.unlink(self._hidden, dir_fd=parent)
            self._hidden = None

    def _link(self, parent: int, name: str) -> None:
        _link(self._descriptor, self._hidden, parent, name)


def _unnamed(parent: int) -> tuple[int, str | None]:
    """Make a file without a name in a directory, or one with a hidden name where the file system knows no others.

    Returns its descriptor and that name. Raises OSError.
    """
    try:
        return os.open(".", os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o666, dir_fd=parent), None
    except OSError as error:
        if error.errno not in _NO_UNNAMED_FILES:
            raise
    hidden = _hidden_name()
    flags = os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
    return os.open(hidden, flags, 0o666, dir_fd=parent), hidden


def _hidden_name() -> str:
    return f".mrc-{secrets.token_hex(8)}.part"


def _link(descriptor: int, hidden: str | None, parent: int, name: str) -> None:
    """Give a file of `_unnamed` a name in its directory. Raises FileExistsError for one that is taken."""
    if hidden is not None:
        os.link(hidden, name, src_dir_fd=parent, dst_dir_fd=parent, follow_symlinks=False)
    else:
        os.link(f"/proc/self/fd/{descriptor}", name, dst_dir_fd=parent, follow_symlinks=True)


def put_whole(directory: Directory, parent: int, name: str, content: memoryview, attributes: Attributes) -> None:
    """Write a small file and give it its name, with --overwrite in place of what has it.

    `parent` is a descriptor of the directory it is put in. Raises FileExistsError, OSError.
    """
    descriptor, hidden = _unnamed(parent)
    try:
        done = 0
        while done < len(content):
            done += os.write(descriptor, content[done:])
        _set_attributes(descriptor, attributes)
        if not directory.overwrite:
            _link(descriptor, hidden, parent, name)
            return
        if hidden is None:
            _link(descriptor, None, parent, hidden := _hidden_name())
        os.replace(hidden, name, src_dir_fd=parent, dst_dir_fd=parent)
        hidden = None
    finally:
        os.close(descriptor)
        if hidden is not None:
            with contextlib.suppress(OSError):
                os.unlink(hidden, dir_fd=parent)


class ExistingFile:
    """A file that stands at the receiver under the name and with the size of one that is announced.

    Raises SystemRefused when it cannot be read.
    """

    def __init__(
        self, directory: Directory, path: FilePath, size: int, attributes: Attributes, place: FilePath
    ) -> None:
        self.name = shown(path)
        self.size = size
        self._directory = directory
        self._attributes = attributes
        try:
            with directory.opened(place[:-1]) as parent:
                flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
                self._descriptor = os.open(place[-1], flags, dir_fd=parent)
        except OSError as error:
            raise directory.refused(error, path) from None

    def is_same(self, expected: str, file_sum: FileSum) -> bool:
        """Whether its sum is this one. If so it gets the sender's mode and time where it may be overwritten."""
        try:
            file_sum.read(self._descriptor, 0, self.size, self.size)
            same = file_sum.text(self.size) == expected
            if same and self._directory.overwrite:
                _set_attributes(self._descriptor, self._attributes)
        except EOFError:
            return False
        except OSError as error:
            raise self._directory.refused(error, (self.name,)) from None
        return same

    def close(self) -> None:
        os.close(self._descriptor)


def _set_attributes(descriptor: int, attributes: Attributes) -> None:
    if attributes.mode is not None:
        os.fchmod(descriptor, attributes.mode)
    if attributes.mtime_ns is not None:
        os.utime(descriptor, ns=(attributes.mtime_ns, attributes.mtime_ns))
