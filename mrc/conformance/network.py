# SPDX-License-Identifier: BSD-2-Clause
"""The session, the clock and everything that passed: what the connections of one case share."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Sequence
from typing import Protocol

from mrc.conformance.codec.headers import ENDPOINT_QPN, MRC, OpcodeTable
from mrc.conformance.listening import heard
from mrc.conformance.packets import Crafted, Heard
from mrc.conformance.setup import TesterQp
from mrc.conformance.target import AdapterFault, Frame, Session
from mrc.conformance.verdicts import Failed
from mrc.conformance.wire_log import Passed, WireLog
from mrc.wire.profile import WireProfile

_MOST_PACKETS = 200_000


class End(Protocol):
    """The tester's end of one connection."""

    tester: TesterQp

    def receive(self, packet: Heard) -> None:
        """A packet came for it."""


class Network:
    """Time counts from the beginning of the case, ns."""

    def __init__(self, session: Session, profile: WireProfile, table: OpcodeTable = MRC) -> None:
        self.session = session
        self.profile = profile
        self._table = table
        self.started = session.now
        self.log = WireLog()
        self.dropped: list[Heard] = []
        self.ends: list[End] = []
        # Checks that were asked for and that the target gave no means to make.
        self.unchecked: dict[str, None] = {}
        # When it last settled; whatever is sent or asked since takes time.
        self._settled: int | None = None
        self._agenda: list[tuple[int, int, Callable[[], None]]] = []
        self._order = itertools.count()

    @property
    def now(self) -> int:
        return self.session.now - self.started

    def at(self, when: int, action: Callable[[], None]) -> None:
        """Do this at time `when`."""
        heapq.heappush(self._agenda, (when, next(self._order), action))

    def run(self, until: int, stop: Callable[[], bool] = lambda: False) -> None:
        """Let time go on to `until`, or until `stop()` holds, which is asked whenever packets have come."""
        while True:
            due = self._agenda[0][0] if self._agenda else None
            limit = until if due is None else min(until, due)
            frames = self.session.get(max(limit + self.started, self.session.now))
            if frames:
                self._receive(frames)
                if stop():
                    return
            elif due is not None and due <= self.now:
                heapq.heappop(self._agenda)[2]()
            elif self.now >= until:
                return

    def settle(self) -> None:
        """Take what the target sends at once of its own accord; in virtual time it has come already."""
        if self._settled == self.session.now:
            return
        until = self.session.settle()
        if until is not None:
            self.run(until - self.started)
            self._settled = self.session.now

    def put(self, packets: Sequence[Crafted]) -> None:
        frames = [Frame(packet.plane, packet.frame()) for packet in packets]
        for packet, frame in zip(packets, frames, strict=True):
            self.log.append(Passed(self.now, packet, frame.data))
        self.session.put(frames)

    def _receive(self, frames: Sequence[Frame]) -> None:
        for frame in frames:
            if not isinstance(frame, Frame) or not isinstance(frame.data, bytes):
                raise AdapterFault(f"the adapter gave {frame!r:.60} as a packet, not a Frame of a plane and bytes")
            now = self.now
            packet = heard(frame, now, self.session.planes, self.profile, self._table)
            owner = None if packet.fault else self._owner(packet)
            if owner is None and not packet.fault:
                packet.fault = f"it is for QP {packet.dqp:#08x}, which the tester does not have"
            self.log.append(Passed(now, packet, frame.data))
            if owner is None:
                self.dropped.append(packet)
            else:
                owner.receive(packet)
        if len(self.log) > _MOST_PACKETS:
            raise Failed("a case of some packets", f"{len(self.log)} of them passed")

    def _owner(self, packet: Heard) -> End | None:
        dqp = packet.layers["bth"]["dqp"]
        if dqp == ENDPOINT_QPN:
            return self.ends[0] if self.ends else None
        return next((end for end in self.ends if end.tester.qpn == dqp), None)
