# SPDX-License-Identifier: BSD-2-Clause
"""Where control sockets are: one file `PID.sock` for each endpoint, in a directory of its user's."""

from __future__ import annotations

import errno
import os
import re
import socket
import stat
import struct
from collections.abc import Container
from pathlib import Path

from mrc.errors import SystemRefused
from mrc.opened import Closing

DIRECTORY_VARIABLE = "MRC_CONTROL_DIR"
SWITCH_VARIABLE = "MRC_CONTROL"  # "off": no socket
ROOT_DIRECTORY = Path("/run/mrc-endpoints")
SUFFIX = ".sock"
_OF_A_USER = re.compile(r"/run/user/([0-9]{1,10})/mrc|/tmp/mrc-control-([0-9]{1,10})", re.ASCII)
_UCRED = struct.Struct("i2I")


def other_end(sock: socket.socket) -> tuple[int, int]:
    """(process, user) at the other end of a local socket, as the kernel knows them."""
    pid, uid, _ = _UCRED.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))
    return pid, uid


def own_directories() -> list[Path]:
    """Where this process may put its socket, the best first."""
    named = os.environ.get(DIRECTORY_VARIABLE)
    if named:
        return [Path(named)]
    found = [ROOT_DIRECTORY] if os.geteuid() == 0 else []
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime:
        found.append(Path(runtime) / "mrc")
    return [*found, _temporary(os.geteuid())]


def directories() -> list[Path]:
    """Where sockets may be that this process may use: its own, for root those of every user, for others root's too."""
    if os.environ.get(DIRECTORY_VARIABLE):
        return own_directories()
    found = own_directories()
    if os.geteuid() == 0:
        found += sorted(Path("/run/user").glob("*/mrc"))
        found += sorted(Path("/tmp").glob("mrc-control-*"))
    else:
        found.append(ROOT_DIRECTORY)
    return list(dict.fromkeys(found))


def _temporary(uid: int) -> Path:
    return Path("/tmp") / f"mrc-control-{uid}"


def prepared_directory() -> Path:
    """A directory for this process's socket, made if need be. Raises SystemRefused when there is none.

    One in which anybody else may put or move files is refused: a socket there might not be ours.
    """
    why = "no directory"
    for path in own_directories():
        try:
            path.mkdir(mode=0o755 if path == ROOT_DIRECTORY else 0o700, exist_ok=True)
            found = path.lstat()
        except OSError as error:
            why = f"{path}: {error.strerror}"
            continue
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
            why = f"{path}: others may write there"
        elif not os.access(path, os.W_OK | os.X_OK):
            why = f"{path}: not writable"
        else:
            return path
    raise SystemRefused(f"nowhere to put a control socket: {why}")


class SocketDirectory(Closing):
    """A directory of control sockets, held open. A context manager.

    Others may have made it, in /tmp any user: what is in it counts where it is the user's own that its name says, or
    root's, and nobody else may write there. Everything goes by the descriptor, so that nothing else can be put in the
    place of what was looked at; no link is followed. Raises SystemRefused for any other directory, and for none.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            if error.errno in (errno.ENOTDIR, errno.ELOOP):
                raise SystemRefused(errno.ELOOP, f"{path}: a link or no directory: it is not looked into") from None
            raise SystemRefused(error.errno or 0, f"{path}: {error.strerror}") from None
        found = os.fstat(self._fd)
        self._owner = found.st_uid
        if self._owner not in _owners(path) or found.st_mode & 0o022:
            os.close(self._fd)
            whose = f"user {self._owner}'s" if self._owner not in _owners(path) else "others may write there"
            raise SystemRefused(errno.EPERM, f"{path}: {whose}: it is not looked into")

    def names(self) -> list[str]:
        """The names of the sockets in it, sorted."""
        return sorted(name for name in os.listdir(self._fd) if name.endswith(SUFFIX) and self._is_socket(name))

    def _is_socket(self, name: str) -> bool:
        try:
            found = os.stat(name, dir_fd=self._fd, follow_symlinks=False)
        except OSError:
            return False
        return stat.S_ISSOCK(found.st_mode) and found.st_uid == self._owner

    def connect(self, sock: socket.socket, name: str) -> None:
        """Connect to one of them. Raises OSError, EPERM where what listens is another user's."""
        if not self._is_socket(name):
            os.stat(name, dir_fd=self._fd, follow_symlinks=False)
            raise OSError(errno.ENOTSOCK, f"no socket of user {self._owner}'s, whose the directory is")
        sock.connect(f"/proc/self/fd/{self._fd}/{name}")
        # A link may have come in its place meanwhile: nothing is said to who listens at its end.
        _, uid = other_end(sock)
        if uid != self._owner:
            raise PermissionError(errno.EPERM, f"user {uid} listens there, the directory is user {self._owner}'s")

    def remove(self, name: str) -> None:
        """Take a socket away. Raises OSError."""
        if self._is_socket(name):
            os.unlink(name, dir_fd=self._fd)

    def close(self) -> None:
        os.close(self._fd)


def _owners(path: Path) -> Container[int]:
    """Whose a directory of sockets may be."""
    named = _OF_A_USER.fullmatch(str(path))
    if named is not None:
        return (int(named[1] or named[2]),)
    if path == ROOT_DIRECTORY:
        return (0,)
    # One that was named by hand: root may name anybody's.
    return range(1 << 32) if os.geteuid() == 0 else (os.geteuid(), 0)
