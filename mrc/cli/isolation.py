# SPDX-License-Identifier: BSD-2-Clause
"""Run a command in namespaces of its own, so that it needs no root and leaves nothing behind."""

from __future__ import annotations

import ctypes
import fcntl
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys

from mrc.errors import SystemRefused

# Names the mount namespace that was left, so that it means nothing outside of a new one, even where it is inherited.
_MARK = "MRC_ISOLATED_FROM"
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 0x1
_CLONE_NEWNS, _CLONE_NEWNET = 0x20000, 0x40000000
_MS_REC, _MS_PRIVATE = 0x4000, 0x40000
_libc = ctypes.CDLL(None, use_errno=True)


def is_isolated() -> bool:
    """Whether this process is one that `isolate` has begun again."""
    left = os.environ.get(_MARK, "")
    return left.startswith("mnt:") and left != _mount_namespace()


def _mount_namespace() -> str:
    return os.readlink("/proc/self/ns/mnt")


def isolated_command(command: list[str]) -> list[str]:
    """`command`, to be run inside new network and mount namespaces, with a user namespace around them unless this is
    root. Raises SystemRefused where the system does not allow that."""
    program = shutil.which("unshare")
    if program is None:
        raise SystemRefused("the program unshare is missing: install the package util-linux")
    flags = ["--net", "--mount"]
    if os.geteuid() != 0:
        flags = ["--user", "--map-root-user", *flags]
    trial = subprocess.run([program, *flags, "true"], capture_output=True, text=True, check=False)
    if trial.returncode != 0:
        raise SystemRefused(_advice(trial.stderr.strip()))
    return [program, *flags, *command]


def isolate(argv: list[str]) -> None:
    """Go into network and mount namespaces of this process's own, with a /run of its own, where a lab keeps its
    namespaces.

    Root goes there at once. Anybody else begins again there as `mrc ARGV...`, with a user namespace around. Only the
    thread that calls this goes, and those that it starts from here on. Raises SystemRefused where the system does not
    allow it.
    """
    if not is_isolated():
        if os.geteuid() == 0:
            _unshare()
        else:
            _begin_again(argv)
    private_run_directory()


def _unshare() -> None:
    if _libc.unshare(_CLONE_NEWNET | _CLONE_NEWNS) != 0:
        raise SystemRefused(_advice(os.strerror(ctypes.get_errno())))
    # What is mounted from here on is not seen outside.
    if _libc.mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE, None) != 0:
        error = ctypes.get_errno()
        raise SystemRefused(error, f"cannot keep mounts from the rest of the system: {os.strerror(error)}")


def _begin_again(argv: list[str]) -> None:
    """Replace this process by `mrc ARGV...` inside namespaces of its own. Raises as `isolated_command` does."""
    command = isolated_command([sys.executable, "-m", "mrc", *argv])
    sys.stdout.flush()
    sys.stderr.flush()
    # An interpreter that begins answers an interrupt with a traceback: `mrc.__main__` takes it when it has begun.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        os.execve(command[0], command, {**os.environ, _MARK: _mount_namespace()})
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _advice(said: str) -> str:
    if os.geteuid() == 0:
        return f"this system does not let root make network namespaces ({said}): containers need CAP_SYS_ADMIN"
    return (
        f"user namespaces are switched off here ({said}): run this as root, or allow them with "
        "`sysctl kernel.unprivileged_userns_clone=1` and `sysctl kernel.apparmor_restrict_unprivileged_userns=0` "
        "(whichever of the two this system has)"
    )


def private_run_directory() -> None:
    """Inside: a /run of our own, where the lab keeps its namespaces. Raises SystemRefused when it cannot be mounted.

    What is started from here on is no longer taken for isolated by itself: it may want namespaces of its own.
    """
    os.environ.pop(_MARK, None)
    if _libc.mount(b"tmpfs", b"/run", b"tmpfs", 0, b"mode=755") != 0:
        error = ctypes.get_errno()
        raise SystemRefused(error, f"cannot mount a private /run: {os.strerror(error)}")


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
