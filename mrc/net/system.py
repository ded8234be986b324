# SPDX-License-Identifier: BSD-2-Clause
# compiled: C beside it (docs/contributing/compiled.md)
"""What the loop asks of the system: the clock, sleep, and the two calls that carry packets, many at a time.

Interpreted these functions run; compiled modules call those of system.h by the same names. There they run without the
interpreter's lock (mrc.endpoint.parts.interpreter).

`messages` is the address of the kernel's structures, each of eight 64-bit words as on 64-bit Linux:

    struct mmsghdr   name, namelen, iov, iovlen, control, controllen, flags, len
    struct iovec     base, len
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import select
import socket
import time

from mrc.wire.compiled import const_i64s, i64s, may_raise

_MSG_DONTWAIT = 0x40
_MEMINFO = 55  # SO_MEMINFO; its first number is what waits
_NS = 1_000_000
MOST_FDS = 63  # as many as a signed 64-bit mask has bits, and -1 besides

_libc = ctypes.CDLL(None, use_errno=True)
_sendmmsg, _recvmmsg, _getsockopt = _libc.sendmmsg, _libc.recvmmsg, _libc.getsockopt
_sendmmsg.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_uint, ctypes.c_int]
_recvmmsg.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_uint, ctypes.c_int, ctypes.c_void_p]


def send(fd: int, messages: int, count: int) -> int:
    """Send up to `count` messages. Returns how many the system took, or the error of the first, negated.

    A signal interrupts nothing: its handlers run, and sending goes on. What they raise is raised here, or by the next
    `raise_signal`.
    """
    while True:
        sent = int(_sendmmsg(fd, messages, count, 0))
        if sent >= 0:
            return sent
        error = ctypes.get_errno()
        if error != errno.EINTR:
            return -error


def receive(fd: int, messages: int, count: int) -> int:
    """Receive up to `count` packets that wait in the socket. Returns how many, or the error, negated."""
    received = int(_recvmmsg(fd, messages, count, _MSG_DONTWAIT, None))
    return received if received >= 0 else -ctypes.get_errno()


def clock() -> int:
    """CLOCK_MONOTONIC, ns."""
    return time.monotonic_ns()


def sleep(ns: int) -> None:
    time.sleep(ns / 1e9)


def yield_processor() -> None:
    """Let another process run that wants this very processor."""
    os.sched_yield()


def wait(fds: const_i64s, count: int, ns: int) -> int:
    """Sleep until one of the first `count` descriptors is readable, for at most `ns`. Of more than MOST_FDS only so
    many are looked at.

    Returns which are, a bit for each; 0 when none is, -1 when a signal came.
    """
    count = min(count, MOST_FDS, len(fds))
    poll = select.poll()
    for each in fds[:count]:
        poll.register(each, select.POLLIN)
    # In whole milliseconds: the last of them is slept away.
    whole = ns // _NS
    readable = {fd for fd, _ in poll.poll(whole)}
    if not readable and ns > whole * _NS:
        time.sleep((ns - whole * _NS) / 1e9)
        readable = {fd for fd, _ in poll.poll(0)}
    return sum(1 << place for place in range(count) if fds[place] in readable)


def waiting(fd: int) -> int:
    """Bytes of a socket's receive buffer that packets take which wait to be read."""
    figures = (ctypes.c_uint32 * 9)()
    length = ctypes.c_uint32(ctypes.sizeof(figures))
    found = _getsockopt(fd, socket.SOL_SOCKET, _MEMINFO, figures, ctypes.byref(length))
    return figures[0] if found == 0 else 0


def raise_signal() -> may_raise[int]:
    """Raise what the handler of a signal raised while nothing could."""
    return 0


def ring(bell: int) -> None:
    """Ring an eventfd: who sleeps over it wakes up."""
    os.eventfd_write(bell, 1)


def hear(bell: int) -> None:
    """Have an eventfd that was rung be silent again."""
    with contextlib.suppress(BlockingIOError):
        os.eventfd_read(bell)


# A lock for threads that have no interpreter: whether it is held, and how many ask for it. Interpreted there is one
# thread that wants it.
LOCK_WORDS = 2


def try_hold(lock: i64s) -> bool:
    """Take the lock if no thread has it. Returns whether it was taken."""
    if lock[0]:
        return False
    lock[0] = 1
    return True


def give_back(lock: i64s) -> None:
    """Let another have the lock."""
    lock[0] = 0


def ask(lock: i64s, more: int) -> None:
    """So many more ask for the lock."""
    lock[1] += more


def is_asked_for(lock: i64s) -> bool:
    """Whether anybody asks for the lock."""
    return lock[1] != 0
