# SPDX-License-Identifier: BSD-2-Clause
"""Run a command in namespaces of its own, so that it needs no root and leaves nothing behind."""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
from pathlib import Path

from mrc.errors import SystemRefused

_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 0x1
_CLONE_NEWNS, _CLONE_NEWUSER, _CLONE_NEWNET = 0x20000, 0x10000000, 0x40000000
_MS_REC, _MS_PRIVATE = 0x4000, 0x40000
_libc = ctypes.CDLL(None, use_errno=True)


def isolate() -> None:
    """Go into network and mount namespaces of this process's own, with a /run of its own, where a lab keeps its
    namespaces. Who is not root becomes root of a user namespace around them.

    Only the thread that calls this goes, and those that it starts from here on. Who is not root must have no other:
    libraries that start threads are imported afterwards. Raises SystemRefused where the system does not allow it.
    """
    user, group = os.geteuid(), os.getegid()
    if user == 0:
        leave()
    else:
        leave(_CLONE_NEWUSER)
        _become_root(user, group)
    # What is mounted from here on is not seen outside.
    _mount("keep mounts from the rest of the system", b"none", b"/", None, _MS_REC | _MS_PRIVATE, None)
    _mount("mount a private /run", b"tmpfs", b"/run", b"tmpfs", 0, b"mode=755")


def leave(also: int = 0) -> None:
    """Put the calling thread into network and mount namespaces of its own. Raises SystemRefused."""
    if _libc.unshare(_CLONE_NEWNET | _CLONE_NEWNS | also) != 0:
        raise SystemRefused(_advice(os.strerror(ctypes.get_errno())))


def _become_root(user: int, group: int) -> None:
    """Inside a new user namespace: be its root, who is `user` outside. user_namespaces(7) has the order."""
    try:
        for name, text in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
            Path("/proc/self", name).write_text(text)
    except OSError as error:
        raise SystemRefused(_advice(f"/proc/self/{name}: {error.strerror}")) from None


def _mount(what: str, *arguments: object) -> None:
    if _libc.mount(*arguments) != 0:
        error = ctypes.get_errno()
        raise SystemRefused(error, f"cannot {what}: {os.strerror(error)}")


def _advice(said: str) -> str:
    if os.geteuid() == 0:
        return f"this system does not let root make network namespaces ({said}): containers need CAP_SYS_ADMIN"
    return (
        f"user namespaces are switched off here ({said}): run this as root, or allow them with "
        "`sysctl kernel.unprivileged_userns_clone=1` and `sysctl kernel.apparmor_restrict_unprivileged_userns=0` "
        "(whichever of the two this system has)"
    )


def loopback_up() -> None:
    """Inside: bring up `lo`, which is down in a new network namespace. Raises SystemRefused."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        try:
            (flags,) = struct.unpack_from("H", fcntl.ioctl(any_socket, _SIOCGIFFLAGS, _flags_of_lo(0)), 16)
            fcntl.ioctl(any_socket, _SIOCSIFFLAGS, _flags_of_lo(flags | _IFF_UP))
        except OSError as error:
            raise SystemRefused(error.errno, f"cannot bring up lo: {error.strerror}") from None


def _flags_of_lo(flags: int) -> bytes:
    return struct.pack("16sH14x", b"lo", flags)
