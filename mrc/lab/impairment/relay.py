# SPDX-License-Identifier: BSD-2-Clause
"""The process that holds the frames of one direction of a link, and sends each on when its time has come.

A tc filter at the sending interface redirects what leaves there to a tap of this process. The process sends each frame
through the same interface again, with one bit of the source MAC address changed: the filter takes only the unchanged
address, so what comes back passes on to marks, queue and cable. Nobody on a link looks at that address.

The module uses the standard library alone, and runs as a script: a start takes 30 ms that way. It ends with SIGTERM,
with its lab (whose file it looks for once a second), or, when its tap is gone, after what it still holds is sent.

It drops nothing itself. While it holds all it may, or the interface takes no more, frames wait in the tap; the kernel
drops what does not fit there and counts it.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import heapq
import math
import os
import random
import select
import socket
import struct
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

# The bit of the source MAC address that distinguishes a frame that has been held.
HELD_BIT = 0x04
_SOURCE = slice(6, 12)

_TUNSETIFF, _IFF_TAP, _IFF_NO_PI = 0x400454CA, 0x0002, 0x1000
_SIOCSIFMTU, _SIOCSIFTXQLEN, _SIOCGIFFLAGS, _SIOCSIFFLAGS, _SIOCGIFHWADDR = 0x8922, 0x8943, 0x8913, 0x8914, 0x8927
_IFF_UP = 0x1
_TAP_MTU = 65_521
_TAP_FRAMES = 20_000
_LONGEST_FRAME = 1 << 16
_PR_SET_NAME, _PR_SET_TIMERSLACK = 15, 29
_SO_SNDBUFFORCE = 32
_SEND_BUFFER = 1 << 24
_BATCH = 64
_MOST_HELD_BYTES = 256_000_000
# A busy machine delays no packet beyond what was asked for, as far as the scheduler helps.
_NICE = -15
_LOOK_S = 1.0
_LONGEST_MESSAGE = 200
_LONGEST_NS = 1 << 40


class Relay:
    """`tap` gives frames, `sender` takes them. `delay_ns`, `jitter_ns`, `reorder` are those of `Impairment`.

    The tap is not read while frames of `most_bytes` or more are held.
    """

    def __init__(
        self,
        tap: int,
        sender: socket.socket,
        control: socket.socket,
        mac: bytes,
        seed: str,
        most_bytes: int = _MOST_HELD_BYTES,
    ) -> None:
        self._tap, self._sender, self._control, self._mac = tap, sender, control, mac
        self._most_bytes = most_bytes
        self._random = random.Random(seed)
        self._held: list[tuple[int, int, bytearray]] = []
        self._held_bytes = 0
        self._number = 0
        self._latest = 0
        self._open = True
        self._blocked = False
        self._delay = self._jitter = 0
        self._reorder = 0.0

    def set(self, delay_ns: int, jitter_ns: int, reorder: float) -> None:
        self._delay, self._jitter, self._reorder = delay_ns, jitter_ns, reorder

    def run(self, lab_file: str, shell: int | None) -> None:
        """Return when the lab is gone, or the process of the pidfd `shell`; or when the tap is, and nothing is held."""
        look_at = time.monotonic() + _LOOK_S
        while self._open or self._held:
            wait_s = _LOOK_S
            if self._held and not self._blocked:
                wait_s = min(wait_s, max(0, self._held[0][0] - time.monotonic_ns()) / 1e9)
            sources: list[Any] = [self._control] if self._open else []
            if self._open and self._held_bytes < self._most_bytes:
                sources.append(self._tap)
            if shell is not None:
                sources.append(shell)
            ready, _, _ = select.select(sources, [self._sender] if self._blocked else [], [], wait_s)
            if shell in ready:
                return
            if self._tap in ready:
                self._take()
            if self._control in ready:
                with suppress(OSError, ValueError):
                    self.set(*delay_of(self._control.recv(_LONGEST_MESSAGE).decode("ascii").split()))
            self._send_due()
            if time.monotonic() > look_at:
                if not os.path.exists(lab_file):
                    return
                look_at = time.monotonic() + _LOOK_S

    def _take(self) -> None:
        for _ in range(_BATCH):
            if self._held_bytes >= self._most_bytes:
                return
            try:
                frame = bytearray(os.read(self._tap, _LONGEST_FRAME))
            except BlockingIOError:
                return
            except OSError:
                self._open = False  # the tap is gone: the delay has been taken away
                return
            if frame[_SOURCE] != self._mac:
                continue
            frame[_SOURCE.start] ^= HELD_BIT
            self._number += 1
            self._held_bytes += len(frame)
            heapq.heappush(self._held, (self._due(time.monotonic_ns()), self._number, frame))

    def _due(self, now: int) -> int:
        """When a frame that comes now is to be sent."""
        if self._reorder:
            if self._random.random() < self._reorder:
                return now + self._delay + self._random.randint(0, self._jitter)
            return now + self._delay
        late = self._random.randint(0, self._jitter) if self._jitter else 0
        # Without `reorder` no frame overtakes another, not even when the delay becomes shorter.
        self._latest = max(self._latest, now + self._delay + late)
        return self._latest

    def _send_due(self) -> None:
        now = time.monotonic_ns()
        self._blocked = False
        while self._held and self._held[0][0] <= now:
            try:
                self._sender.send(self._held[0][2])
            except BlockingIOError:
                self._blocked = True  # the queue of the link's rate is behind this
                return
            except OSError:
                pass  # the cable is cut, or the queue full, which counts it
            self._held_bytes -= len(heapq.heappop(self._held)[2])


def _request(control: socket.socket, code: int, name: str, layout: str, *values: object) -> bytes:
    return fcntl.ioctl(control, code, struct.pack("16s" + layout, name.encode(), *values).ljust(40, b"\0"))


def _open_tap(name: str, control: socket.socket) -> int:
    tap = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    fcntl.ioctl(tap, _TUNSETIFF, struct.pack("16sH", name.encode(), _IFF_TAP | _IFF_NO_PI).ljust(40, b"\0"))
    # Otherwise the kernel announces itself on the tap.
    with suppress(FileNotFoundError), open(f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6", "w") as setting:
        setting.write("1")
    _request(control, _SIOCSIFMTU, name, "i", _TAP_MTU)
    _request(control, _SIOCSIFTXQLEN, name, "i", _TAP_FRAMES)
    (flags,) = struct.unpack_from("=H", _request(control, _SIOCGIFFLAGS, name, ""), 16)
    _request(control, _SIOCSIFFLAGS, name, "H", flags | _IFF_UP)
    return tap


def delay_of(words: Sequence[str]) -> tuple[int, int, float]:
    """Read delay and jitter in ns, and the share that is reordered, as `mrc.lab.impairment.delay` writes them.

    Raises ValueError for anything else: any process of the namespace can send it.
    """
    delay, jitter, reorder = words
    found = int(delay), int(jitter), float(reorder)
    if not all(0 <= each <= _LONGEST_NS for each in found[:2]) or not math.isfinite(found[2]):
        raise ValueError("no delay")
    return found


def main(interface: str, name: str, lab_file: str, command: str, shell_pid: str, *delay: str) -> None:
    """Make the tap `name`, then go on in the background. Raises OSError while still in the foreground."""
    control = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    control.bind(f"\0{name}")
    sender = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    sender.bind((interface, 0))
    sender.setblocking(False)
    try:
        sender.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, _SEND_BUFFER)
    except OSError as error:
        if error.errno != errno.EPERM:
            raise
        sender.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)  # in a user namespace
    mac = _request(sender, _SIOCGIFHWADDR, interface, "")[18:24]
    relay = Relay(_open_tap(name, sender), sender, control, mac, interface)
    relay.set(*delay_of(delay))
    shell = os.pidfd_open(int(shell_pid)) if int(shell_pid) else None
    if os.fork():
        os._exit(0)
    os.setsid()
    os.chdir("/")
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_NAME, command.encode(), 0, 0, 0)
    libc.prctl(_PR_SET_TIMERSLACK, 1, 0, 0, 0)
    with suppress(OSError):
        os.nice(_NICE)  # a user namespace does not allow it
    relay.run(lab_file, shell)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except OSError as error:
        sys.exit(f"{error.filename or 'a tap or packet socket'}: {error.strerror}")
