# SPDX-License-Identifier: BSD-2-Clause
"""Packets of a case on real ports, in the real time of the tester's host."""

from __future__ import annotations

import heapq
import os
import select
import time
from collections.abc import Callable, Sequence

from mrc.conformance.live.tester_port import TesterPort
from mrc.conformance.target import Frame, Unsupported
from mrc.errors import CallerError

_NS_PER_MS = 1_000_000
# A tester that wakes up so much later than it wanted to has been kept from its work.
STALLED_NS = 5_000_000


class WireClock:
    """The ports of a tester, and the time of the case that is using them.

    `now` is where the script has come to: it goes to the time each packet came (as the kernel stamped it), to the real
    time whenever something is sent or asked, and to the end of each wait. `stalled_ns` is the longest that the tester
    woke up too late by since `begin`. `check` is asked before each wait, and raises where there is nothing to wait for
    any more; `wake` has it asked at once.
    """

    def __init__(self, ports: Sequence[TesterPort], check: Callable[[], None] = lambda: None) -> None:
        self._check = check
        self._woken = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._ports = {port.plane: port for port in ports}
        self._poll = select.poll()
        for port in ports:
            self._poll.register(port.listener, select.POLLIN)
        self._poll.register(self._woken, select.POLLIN)
        self._come: list[tuple[int, int, Frame]] = []
        self._count = 0
        self.sent = 0
        self.stalled_ns = 0
        self.now = time.monotonic_ns()

    def begin(self) -> None:
        """A case begins: what came before does not belong to it."""
        for port in self._ports.values():
            port.receive()
        self._come.clear()
        self.sent = self.stalled_ns = 0
        self.now = time.monotonic_ns()

    def catch_up(self) -> None:
        """Go to the real time, if that is later."""
        self.now = max(self.now, time.monotonic_ns())

    def put(self, frames: Sequence[Frame]) -> None:
        """Send these in one burst. Raises Unsupported for what cannot be sent here."""
        self.catch_up()
        for frame in frames:
            port = self._ports.get(frame.plane)
            if port is None:
                raise Unsupported(f"the tester has no port in plane {frame.plane}")
            try:
                port.send(frame.data)
            except CallerError as error:
                raise Unsupported(str(error)) from None
            except OSError as error:
                raise Unsupported(
                    f"the tester cannot send a packet of {len(frame.data)} bytes in plane {frame.plane}: "
                    f"{error.strerror or error}"
                ) from None
        self.sent += len(frames)
        if len(frames) > 1:
            self.catch_up()

    def get(self, until: int) -> Sequence[Frame]:
        """The next packet, with `now` where it came; nothing once everything up to `until` has been given out."""
        while True:
            if not self._come or self._come[0][0] > until:
                self._receive()
            if self._come and self._come[0][0] <= until:
                at, _, frame = heapq.heappop(self._come)
                self.now = at
                return (frame,)
            left = until - time.monotonic_ns()
            if left <= 0:
                self.now = max(self.now, until)
                return ()
            self._check()
            self._sleep(left)

    def wake(self) -> None:
        """End a wait, from any thread."""
        os.eventfd_write(self._woken, 1)

    def _sleep(self, duration: int) -> None:
        began = time.monotonic_ns()
        # poll counts in ms; what is left of one is slept without it, far shorter than any tolerance.
        whole = duration // _NS_PER_MS
        if whole:
            came = self._poll.poll(whole)
        else:
            came = []
            time.sleep(duration * 1e-9)
        late = time.monotonic_ns() - began - duration
        if not came and late > 0:
            self.stalled_ns = max(self.stalled_ns, late)

    def _receive(self) -> None:
        for plane, port in self._ports.items():
            for at, packet in port.receive():
                self._count += 1
                heapq.heappush(self._come, (at, self._count, Frame(plane, packet)))

    def close(self) -> None:
        os.close(self._woken)
        for port in self._ports.values():
            port.close()
