# SPDX-License-Identifier: BSD-2-Clause
"""An MRC flow in virtual time: what each packet was, when it was where, and what became of it.

Nothing here uses the package under test. The fabric decides each packet's fate when it is sent, and so knows it.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from crafted_flows import FIRST, LAST, MICROSECOND, MIDDLE, TRIMMED

# Where a packet can end: before the middle of its way, behind it, or behind the receiver's link.
NEAR, FAR, HOST = "near", "far", "host"
POINTS = ("sender", "middle", "receiver")


def past(place: str | None, point: str) -> bool:
    """Whether what happened at a place of the way forward shows at a point."""
    return place is not None and (point == "receiver" or (point == "middle" and place == NEAR))


@dataclass
class Packet:
    """One packet on its way. `at` is when it passed each point, for those that it reached; `lost` where it ended."""

    forward: bool
    sent: int
    kind: str
    fields: dict[str, Any]
    at: dict[str, int] = field(default_factory=dict)
    lost: str | None = None
    arrives: int | None = None
    # Of a request: the PSN, whether it is sent again, the EV.
    psn: int = 0
    rtx: bool = False
    ev: int = 0
    # Past this point a switch had marked it, or had cut its payload off.
    marked: str | None = None
    trimmed: str | None = None
    # The fabric delivered it a second time, this much later.
    doubled_after: int | None = None
    # The responder had it already.
    again: bool = False
    # What it looks like at each point, as far as that was asked for.
    frames: dict[str, bytes] = field(default_factory=dict, repr=False)


@dataclass
class Weather:
    """What the fabric does. `loss` is the share lost, by EV; `back_loss` that of answers; `late` the share of requests
    that take `late_ns` more; `doubled` that arrive twice; `slow` multiplies an EV's way, there and back;
    `slower` adds to its way there, `slower_back` to that of answers sent on it."""

    loss: dict[int, float] = field(default_factory=dict)
    dead_from: dict[int, int] = field(default_factory=dict)
    back_loss: float = 0.0
    host_loss: float = 0.0
    late: float = 0.0
    late_ns: int = 0
    doubled: float = 0.0
    slow: dict[int, float] = field(default_factory=dict)
    slower: dict[int, int] = field(default_factory=dict)
    slower_back: dict[int, int] = field(default_factory=dict)
    # Shares of requests marked and trimmed, by EV.
    marks: dict[int, float] = field(default_factory=dict)
    trims: dict[int, float] = field(default_factory=dict)
    one_way_ns: int = 20 * MICROSECOND
    jitter_ns: int = 500
    # Packets of one direction arrive in the order in which they were sent, as RC needs it.
    in_order: bool = False


class Fabric:
    """Moves packets: `send` decides where each ends, and calls `deliver` for those that arrive."""

    def __init__(self, chance: random.Random, weather: Weather) -> None:
        self.chance, self.weather = chance, weather
        self.packets: list[Packet] = []
        self._events: list[tuple[int, int, Callable[[int], None]]] = []
        self._tie = 0
        self._latest = {True: 0, False: 0}

    def at(self, time: int, what: Callable[[int], None]) -> None:
        self._tie += 1
        heapq.heappush(self._events, (time, self._tie, what))

    def run(self) -> None:
        while self._events:
            now, _, what = heapq.heappop(self._events)
            what(now)

    def send(
        self,
        packet: Packet,
        deliver: Callable[[int, Packet], None],
        missed: Callable[[int, Packet], None] | None = None,
    ) -> None:
        weather, chance, now, ev = self.weather, self.chance, packet.sent, packet.ev
        self.packets.append(packet)
        way = round(weather.one_way_ns * weather.slow.get(ev, 1.0)) + chance.randrange(weather.jitter_ns + 1)
        way += (weather.slower if packet.forward else weather.slower_back).get(ev, 0)
        # On the host's own link nothing is lost: it is seen there, or it was never sent.
        if packet.forward and chance.random() < weather.late:
            way += weather.late_ns
        if weather.in_order:
            way = max(way, self._latest[packet.forward] + 1 - now)
            self._latest[packet.forward] = now + way
        order = POINTS if packet.forward else POINTS[::-1]
        packet.at = {order[0]: now, order[1]: now + way // 2, order[2]: now + way}
        share = weather.loss.get(ev, 0.0) if packet.forward else weather.back_loss
        if packet.forward and now >= weather.dead_from.get(ev, 1 << 62):
            share = 1.0
        if chance.random() < share:
            packet.lost = NEAR if chance.random() < 0.5 else FAR
        elif packet.forward and chance.random() < weather.host_loss:
            packet.lost = HOST
        if packet.lost in (NEAR, FAR):
            del packet.at[order[2]]
            if packet.lost == NEAR:
                del packet.at[order[1]]
        if packet.lost is not None:
            if missed is not None:
                self.at(now + way, lambda time: missed(time, packet))
            return
        if packet.forward and weather.marks and chance.random() < weather.marks.get(ev, 0.0):
            packet.marked = NEAR if chance.random() < 0.5 else FAR
        if packet.forward and weather.trims and chance.random() < weather.trims.get(ev, 0.0):
            packet.trimmed = NEAR if chance.random() < 0.5 else FAR
        if packet.trimmed is None:
            packet.arrives = now + way
        self.at(now + way, lambda time: deliver(time, packet))
        if packet.forward and chance.random() < weather.doubled:
            packet.doubled_after = 1 + chance.randrange(2000)
            self.at(now + way + packet.doubled_after, lambda time: deliver(time, packet))


class MrcFlow:
    """A requestor that sends `count` PSNs over `paths` in turn, with a window, SACKs, holes and a timer."""

    def __init__(self, fabric: Fabric, paths: list[int], count: int, every_ns: int, window: int) -> None:
        self.fabric, self.paths, self.count, self.every_ns, self.window = fabric, paths, count, every_ns, window
        self.next = self.turn = 0
        self.edge = -1
        self.known: set[int] = set()
        self.last_sent: dict[int, int] = {}
        self.round_trip = 2 * fabric.weather.one_way_ns + 2 * fabric.weather.jitter_ns
        self.blocked = False
        # The responder's side.
        self.held: set[int] = set()
        self.have = -1
        self.arrivals = 0
        fabric.at(0, self._turn)

    def _turn(self, now: int) -> None:
        if self.next >= self.count:
            return
        if self.next - self.edge > self.window:
            self.blocked = True
            return
        self._put(now, self.next, rtx=False)
        self.next += 1
        self.fabric.at(now + self.every_ns, self._turn)

    def _put(self, now: int, psn: int, *, rtx: bool) -> None:
        ev = self.paths[self.turn % len(self.paths)]
        self.turn += 1
        last = psn % 16 == 15 or psn == self.count - 1
        opcode = LAST if last else FIRST if psn % 16 == 0 else MIDDLE
        asks = rtx or last or psn - self.edge >= self.window
        fields = {"psn": psn, "ev": ev, "opcode": opcode, "msn": psn // 16, "rtx": rtx, "ackreq": asks}
        self.last_sent[psn] = now
        packet = Packet(True, now, "data", fields, psn=psn, rtx=rtx, ev=ev)
        self.fabric.send(packet, self._arrived)
        self.fabric.at(now + 8 * self.round_trip, lambda time: self._timer(time, psn, now))

    def _timer(self, now: int, psn: int, sent: int) -> None:
        if psn > self.edge and psn not in self.known and self.last_sent[psn] == sent and now < 100_000 * MICROSECOND:
            self._put(now, psn, rtx=True)

    def _arrived(self, now: int, packet: Packet) -> None:
        psn = packet.psn
        if packet.trimmed is not None:
            if psn > self.have and psn not in self.held:
                fields = {"psn": psn, "ev": packet.ev, "reason": TRIMMED, "rtx": packet.rtx}
                self.fabric.send(Packet(False, now, "nack", fields), self._refused)
            return
        packet.again = packet.again or psn <= self.have or psn in self.held
        gap = psn > self.have + 1 or bool(self.held)
        if psn > self.have:
            self.held.add(psn)
        while self.have + 1 in self.held:
            self.have += 1
            self.held.discard(self.have)
        self.arrivals += 1
        if packet.rtx or packet.again or packet.fields["ackreq"] or gap or self.arrivals % 4 == 0:
            self._sack(now, packet)

    def _sack(self, now: int, packet: Packet) -> None:
        received = tuple(sorted(psn for psn in self.held if psn - self.have <= 64))
        fields = {
            "cack": self.have, "trigger": packet.psn, "ev": packet.ev, "received": received, "rtx": packet.rtx,
            "own_ev": self.fabric.chance.choice(self.paths), "m": int(packet.marked is not None),
        }  # fmt: skip
        self.fabric.send(Packet(False, now, "sack", fields, ev=fields["own_ev"]), self._sacked)

    def _refused(self, now: int, packet: Packet) -> None:
        psn = packet.fields["psn"]
        if psn > self.edge and psn not in self.known:
            self._put(now, psn, rtx=True)

    def _sacked(self, now: int, packet: Packet) -> None:
        cack, received = packet.fields["cack"], packet.fields["received"]
        self.edge = max(self.edge, cack)
        self.known.update(received)
        self.known.add(packet.fields["trigger"])
        top = max(received, default=-1)
        for psn in range(cack + 1, top - 2):
            lately = now - self.last_sent.get(psn, now) < self.round_trip
            if psn not in self.known and psn > self.edge and not lately:
                self._put(now, psn, rtx=True)
        if self.blocked and self.next - self.edge <= self.window:
            self.blocked = False
            self.fabric.at(now, self._turn)
