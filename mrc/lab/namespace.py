# SPDX-License-Identifier: BSD-2-Clause
"""Network namespaces by system call: make them, enter them, give them a name under /run/netns, take it away.

A thread, not the process, is what enters a namespace: `in_namespace` runs a function in a thread of its own and the
caller stays where it is. A socket opened there, or a child started there, belongs to that namespace for good.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from mrc.errors import CallerError, SystemRefused
from mrc.threads import in_thread

NETNS_DIRECTORY = Path("/run/netns")
ROOT_ADVICE = "run as root, or inside `mrc lab shell`, which needs no root"

_CLONE_NEWNET = 0x40000000
_MS_BIND, _MS_REC, _MS_SHARED = 0x1000, 0x4000, 0x100000
_MNT_DETACH = 2
# Marks a mount point of ours that never got its mount; `ip netns add` makes its own with mode 0.
_PLACEHOLDER_MODE = 0o400

T = TypeVar("T")
_libc = ctypes.CDLL(None, use_errno=True)


def _call(what: str, result: int) -> None:
    if result < 0:
        number = ctypes.get_errno()
        advice = f": {ROOT_ADVICE}" if number in (errno.EPERM, errno.EACCES) else ""
        raise SystemRefused(f"{what}: {os.strerror(number)}{advice}")


def enter(descriptor: int) -> None:
    """Move the calling thread, for good, into the network namespace behind `descriptor`. Raises SystemRefused."""
    _call("entering a network namespace", _libc.setns(descriptor, _CLONE_NEWNET))


def in_namespace(descriptor: int, function: Callable[[], T]) -> T:
    """What `function` returns when it runs inside the namespace behind `descriptor`."""

    def body() -> T:
        enter(descriptor)
        return function()

    return in_thread(body)


def unshare_network() -> int:
    """Put the calling thread into a new, nameless network namespace; an open descriptor of it. Raises SystemRefused."""
    _call("making a network namespace", _libc.unshare(_CLONE_NEWNET))
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def identity(descriptor: int) -> tuple[int, int]:
    """(device, inode) of a namespace: no other living namespace has the same."""
    found = os.fstat(descriptor)
    return found.st_dev, found.st_ino


def is_namespace(found: os.stat_result) -> bool:
    """Whether a file is a namespace (lives on the kernel's nsfs) rather than an ordinary file."""
    return found.st_dev == os.stat("/proc/self/ns/net").st_dev


@contextmanager
def netns_directory() -> Iterator[None]:
    """Hold /run/netns, made and shared the way `ip netns` does it. Raises SystemRefused when it cannot be made.

    It has to be a shared mount of its own: `ip netns add` makes it one when it is not, and mounts made before
    that would stay hidden beneath, where nobody can undo them.
    """
    try:
        NETNS_DIRECTORY.mkdir(mode=0o755, parents=True, exist_ok=True)
        handle = os.open(NETNS_DIRECTORY, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise SystemRefused(f"cannot use {NETNS_DIRECTORY}: {error.strerror}: {ROOT_ADVICE}") from None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        path = os.fsencode(NETNS_DIRECTORY)
        if _libc.mount(b"", path, b"none", _MS_SHARED | _MS_REC, None) != 0:
            what = f"making {NETNS_DIRECTORY} a mount point"
            _call(what, _libc.mount(path, path, b"none", _MS_BIND | _MS_REC, None))
            _call(what, _libc.mount(b"", path, b"none", _MS_SHARED | _MS_REC, None))
        yield
    finally:
        os.close(handle)


def publish(name: str, descriptor: int) -> None:
    """Give the namespace behind `descriptor` the name `ip netns` knows it by.

    Raises CallerError when the name is taken, SystemRefused when it cannot be mounted.
    """
    path = NETNS_DIRECTORY / name
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _PLACEHOLDER_MODE))
    except FileExistsError:
        raise CallerError(f"{path} exists already and is not this lab's: choose another --name") from None
    except OSError as error:
        raise SystemRefused(f"cannot create {path}: {error.strerror}: {ROOT_ADVICE}") from None
    source = f"/proc/self/fd/{descriptor}".encode()
    try:
        _call(f"mounting {path}", _libc.mount(source, os.fsencode(path), b"none", _MS_BIND, None))
    except SystemRefused:
        path.unlink()
        raise


def withdraw(name: str, is_ours: Callable[[int], bool]) -> bool:
    """Take a name away from a namespace that `is_ours` (given its descriptor) recognises.

    Returns False, and touches nothing, when something else bears the name; True when the name is gone or never
    was. An empty mount point that a crash left behind counts as ours.
    """
    path = NETNS_DIRECTORY / name
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    except OSError as error:
        raise SystemRefused(f"cannot open {path}: {error.strerror}: {ROOT_ADVICE}") from None
    try:
        found = os.fstat(descriptor)
        if is_namespace(found):
            if not is_ours(descriptor):
                return False
            _call(f"unmounting {path}", _libc.umount2(os.fsencode(path), _MNT_DETACH))
        elif not _is_placeholder(found):
            return False
    finally:
        os.close(descriptor)
    path.unlink()
    return True


def _is_placeholder(found: os.stat_result) -> bool:
    mode = found.st_mode
    return stat.S_ISREG(mode) and found.st_size == 0 and stat.S_IMODE(mode) == _PLACEHOLDER_MODE


def processes_in(identities: dict[tuple[int, int], str]) -> list[tuple[int, str]]:
    """(process id, name) of every process, this one aside, whose namespace is a key of `identities`."""
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdecimal() or int(entry) == os.getpid():
            continue
        try:
            status = os.stat(f"/proc/{entry}/ns/net")
        except OSError:
            continue
        if (name := identities.get((status.st_dev, status.st_ino))) is not None:
            found.append((int(entry), name))
    return found
