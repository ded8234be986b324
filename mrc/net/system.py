"""The two system calls that carry packets, many at a time: what interpreted and compiled code do differently here.

Interpreted these functions call the C library through ctypes; compiled modules call those of system.h by the same
names. Both wait for the kernel without the interpreter's lock.

`messages` is the address of the kernel's structures, each of eight 64-bit words as on 64-bit Linux:

    struct mmsghdr   name, namelen, iov, iovlen, control, controllen, flags, len
    struct iovec     base, len
"""

from __future__ import annotations

import ctypes
import errno

_MSG_DONTWAIT = 0x40

_libc = ctypes.CDLL(None, use_errno=True)
_sendmmsg, _recvmmsg = _libc.sendmmsg, _libc.recvmmsg
_sendmmsg.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_uint, ctypes.c_int]
_recvmmsg.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_uint, ctypes.c_int, ctypes.c_void_p]


def send(fd: int, messages: int, count: int) -> int:
    """Send up to `count` messages. Returns how many the system took, or the error of the first, negated.

    A signal interrupts nothing: its handlers run, and sending goes on. Raises what they raise.
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
