# SPDX-License-Identifier: BSD-2-Clause
"""The directory that files arrive in. Nothing is made, opened or named outside of it."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from mrc.errors import CallerError, SystemRefused
from mrc.net.transfer.names import FilePath, part_name, shown

_OPEN_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW


class Directory:
    """Where files arrive. Names are reserved from the moment they are announced. Raises SystemRefused.

    `keep_parts`: what arrived of a large file stays when its transfer breaks, for the next attempt.
    """

    def __init__(self, path: str | Path, *, overwrite: bool, keep_parts: bool = True) -> None:
        self.path = Path(path)
        self.overwrite = overwrite
        self.keep_parts = keep_parts
        self._reserved: set[FilePath] = set()
        try:
            self.descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise SystemRefused(error.errno, f"directory {self.path}: {error.strerror}") from None
        if not os.access(self.path, os.W_OK | os.X_OK):
            os.close(self.descriptor)
            raise SystemRefused(errno.EACCES, f"directory {self.path} is not writable: choose another with --dir")

    def reserve(self, path: FilePath, *, alone: bool = False) -> None:
        """Take a name until `release`. Raises CallerError for one that is on its way already.

        `alone`: with --overwrite too, where two files of one name are taken otherwise.
        """
        if path in self._reserved and (alone or not self.overwrite):
            raise CallerError(
                f"{shown(path)} is being received already: wait for it, rename one, or use --overwrite at the receiver"
            )
        self._reserved.add(path)

    def release(self, path: FilePath) -> None:
        self._reserved.discard(path)

    @contextlib.contextmanager
    def opened(self, directories: Sequence[str]) -> Iterator[int]:
        """A descriptor of a directory below, reached name by name. No link is followed. Raises OSError."""
        descriptor = os.dup(self.descriptor)
        try:
            for name in directories:
                below = os.open(name, _OPEN_DIRECTORY, dir_fd=descriptor)
                os.close(descriptor)
                descriptor = below
            yield descriptor
        finally:
            os.close(descriptor)

    def status(self, path: FilePath) -> os.stat_result | None:
        """What has this name now; None: nothing has. Raises SystemRefused."""
        try:
            with self.opened(path[:-1]) as parent:
                return os.stat(path[-1], dir_fd=parent, follow_symlinks=False)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self.refused(error, path) from None

    def free_bytes(self) -> int:
        """Bytes of disk that are free to this user. A quota may allow fewer."""
        found = os.fstatvfs(self.descriptor)
        return found.f_bavail * found.f_frsize

    def refused(self, error: OSError, path: FilePath, wanted: int = 0) -> SystemRefused:
        """The system's refusal as an error for both ends. `wanted`: bytes of disk."""
        if wanted and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            return SystemRefused(error.errno, f"no room for {wanted} bytes in {self.path}")
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            return SystemRefused(
                error.errno, f"{self.path / shown(path)}: a symbolic link or a file stands where a directory is needed"
            )
        return SystemRefused(error.errno, f"{self.path / shown(path)}: {error.strerror}")

    def close(self) -> None:
        os.close(self.descriptor)


class IncomingTree:
    """A directory on its way. It gets its name when all in it is whole; with --overwrite one that exists is filled.

    Until then it is `.NAME.mrc-part`. What an earlier, broken transfer left under that name is gone on with. Its modes
    and times are set at the end, since whatever is put into a directory changes them.
    """

    def __init__(self, directory: Directory, name: str) -> None:
        """Raises CallerError when the name exists or is on its way, SystemRefused when nothing can be made."""
        self.name = name
        self._directory = directory
        self._attributes: dict[FilePath, tuple[int, int]] = {}
        self._named = False
        path = (name,)
        directory.reserve(path, alone=True)
        try:
            found = directory.status(path)
            if found is not None and not directory.overwrite:
                raise CallerError(
                    f"{name} exists at the receiver: start it with --overwrite to add to it, and to replace what "
                    "differs"
                )
            if found is not None and not stat.S_ISDIR(found.st_mode):
                raise CallerError(f"{name} is no directory at the receiver: rename one of them")
            temporary = part_name(name)
            self._named = found is not None or temporary is None
            self._on_disk = name if self._named or temporary is None else temporary
            self._make((self._on_disk,))
        except BaseException:
            directory.release(path)
            raise

    def place(self, path: FilePath) -> FilePath:
        """Where a path of this tree is on disk now."""
        return (self._on_disk, *path[1:])

    def add(self, path: FilePath, mode: int, mtime_ns: int) -> None:
        """A directory of the tree, the tree's own too. Raises SystemRefused."""
        self._make(self.place(path))
        self._attributes[path] = (mode, mtime_ns)

    def _make(self, place: FilePath) -> None:
        try:
            with self._directory.opened(place[:-1]) as parent, contextlib.suppress(FileExistsError):
                os.mkdir(place[-1], 0o777, dir_fd=parent)
            with self._directory.opened(place):
                pass
        except OSError as error:
            raise self._directory.refused(error, place) from None

    def finish(self) -> None:
        """Set modes and times, and give the tree its name. Raises CallerError, SystemRefused."""
        try:
            for path in sorted(self._attributes, key=len, reverse=True):
                mode, mtime_ns = self._attributes[path]
                with self._directory.opened(self.place(path)) as descriptor:
                    os.fchmod(descriptor, mode)
                    os.utime(descriptor, ns=(mtime_ns, mtime_ns))
            if not self._named:
                top = self._directory.descriptor
                if self._directory.status((self.name,)) is not None:
                    raise CallerError(f"{self.name} exists at the receiver: start it with --overwrite to add to it")
                os.rename(self._on_disk, self.name, src_dir_fd=top, dst_dir_fd=top)
        except OSError as error:
            if isinstance(error, SystemRefused):
                raise
            raise self._directory.refused(error, (self.name,)) from None
        self._on_disk, self._named = self.name, True

    def close(self) -> None:
        """Forget it. One without its name stays for the next attempt, if there is anything in it."""
        if not self._named:
            where = self._directory.path / self._on_disk
            if not self._directory.keep_parts or not any(names for _, _, names in os.walk(where)):
                shutil.rmtree(where, ignore_errors=True)
        self._directory.release((self.name,))
