# SPDX-License-Identifier: BSD-2-Clause
"""An RC flow in virtual time: go-back-N, NAKs, timeouts, RNR; on the fabric of `drawn_mrc`."""

from __future__ import annotations

from drawn_mrc import Fabric, Packet

MESSAGE = 16
FIRST, MIDDLE, LAST = 6, 7, 8
SEQUENCE_ERROR, RNR = 0x60, 0x2A


class RcFlow:
    """WRITEs of 16 packets each, every last one asks for an answer. `not_ready`: PSNs refused once with RNR."""

    def __init__(
        self, fabric: Fabric, count: int, every_ns: int, window: int, not_ready: frozenset[int] = frozenset()
    ) -> None:
        self.fabric, self.count, self.every_ns, self.window = fabric, count, every_ns, window
        self.next, self.edge, self.highest = 0, -1, -1
        self.round_trip = 2 * fabric.weather.one_way_ns + 2 * fabric.weather.jitter_ns
        self.progress = 0
        self.holding_until = 0
        self.busy = False
        # The responder's side.
        self.expected = 0
        self.complained = False
        self.not_ready = set(not_ready)
        fabric.at(0, self._turn)
        fabric.at(8 * self.round_trip, lambda now: self._timer(now, 0))
        self.busy = True

    def _turn(self, now: int) -> None:
        self.busy = False
        if self.next >= self.count or self.next - self.edge > self.window:
            return
        self.busy = True
        if now < self.holding_until:
            self.fabric.at(self.holding_until, self._turn)
            self.progress += 1
            return
        psn, last = self.next, self.next % MESSAGE == MESSAGE - 1 or self.next == self.count - 1
        opcode = LAST if last else FIRST if psn % MESSAGE == 0 else MIDDLE
        fields = {"psn": psn, "opcode": opcode, "ackreq": last}
        packet = Packet(True, now, "write", fields, psn=psn, rtx=psn <= self.highest)
        self.highest = max(self.highest, psn)
        self.next += 1
        self.fabric.send(packet, self._arrived, self._missed)
        self.fabric.at(now + self.every_ns, self._turn)

    def _go(self, now: int) -> None:
        if not self.busy:
            self.busy = True
            self.fabric.at(now, self._turn)

    def _timer(self, now: int, progress: int) -> None:
        if self.edge >= self.count - 1 or now > 10**10:
            return
        if progress == self.progress and now >= self.holding_until:
            self.next = self.edge + 1
            self.progress += 1
            self._go(now)
        after, seen = 8 * self.round_trip, self.progress
        self.fabric.at(now + after, lambda time: self._timer(time, seen))

    def _missed(self, now: int, packet: Packet) -> None:
        """Of what is lost behind another loss nobody can know: the responder would not have taken it."""
        packet.fields["needed"] = packet.psn == self.expected

    def _arrived(self, now: int, packet: Packet) -> None:
        psn = packet.psn
        if psn == self.expected and psn in self.not_ready:
            self.not_ready.discard(psn)
            packet.fields["refused"] = True
            self._answer(now, psn, RNR)
            self.complained = True
        elif psn == self.expected:
            self.expected += 1
            self.complained = False
            if packet.fields["ackreq"]:
                self._answer(now, psn, 0x1F)
        elif psn < self.expected:
            # What the network doubled is not sent again.
            packet.again = packet.again or "came" not in packet.fields
            self._answer(now, self.expected - 1, 0x1F)
        elif not self.complained:
            self.complained = True
            packet.fields["dropped"] = True
            self._answer(now, self.expected, SEQUENCE_ERROR)
        else:
            packet.fields["dropped"] = True
        packet.fields["came"] = True

    def _answer(self, now: int, psn: int, syndrome: int) -> None:
        self.fabric.send(Packet(False, now, "ack", {"psn": psn, "syndrome": syndrome}), self._answered)

    def _answered(self, now: int, packet: Packet) -> None:
        psn, syndrome = packet.fields["psn"], packet.fields["syndrome"]
        acknowledged = psn if syndrome == 0x1F else psn - 1
        if acknowledged > self.edge:
            self.edge = acknowledged
            self.progress += 1
        if syndrome != 0x1F and psn == self.edge + 1:
            self.next = psn
            if syndrome == RNR:
                self.holding_until = now + 20 * self.round_trip
                self.progress += 1
        self._go(now)
