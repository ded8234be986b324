# SPDX-License-Identifier: BSD-2-Clause
"""Captures drawn from a seed, each with its truth: a flow in virtual time, where it was captured, what that lost."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from crafted_flows import MICROSECOND, Crafted, CraftedRc, ev_of, pcap_of
from drawn_mrc import Fabric, MrcFlow, Packet, Weather
from drawn_rc import RcFlow

FAULTS = (
    "none",
    "loss",
    "path",
    "plane",
    "dead",
    "slow",
    "late",
    "back-loss",
    "host-loss",
    "doubled",
    "rnr",
    "timeouts",
)
PLACES = ("sender", "middle", "receiver", "ends")
HARMS = ("none", "missing", "twice", "begun", "cut", "offset")


@dataclass
class Draw:
    """What was drawn: all that decides the capture."""

    seed: int
    transport: str
    fault: str
    place: str
    harm: str
    srv6: bool
    paths: list[int]
    culprit: list[int]
    offset_ns: int = 0

    @property
    def words(self) -> str:
        addressed = "uSIDs" if self.srv6 else "flat"
        return f"seed {self.seed}: {self.transport} {self.fault} at {self.place}, {self.harm}, {addressed}"


@dataclass
class Sighting:
    """A packet in the file: at which point it was captured, and its place in the file's order of time."""

    packet: Packet
    point: str
    time: int
    frame: bytes
    copy: bool = False


@dataclass
class Drawn:
    draw: Draw
    capture: bytes
    packets: list[Packet]
    sightings: list[Sighting] = field(default_factory=list)


def drawn(seed: int, *, transport: str = "", place: str = "", harm: str = "") -> Drawn:
    """The capture of a seed; what is given is not drawn."""
    chance = random.Random(seed)
    transport = transport or chance.choice(("mrc", "mrc", "rc"))
    planes, spines = chance.choice((1, 2)), chance.choice((2, 3, 4))
    paths = [ev_of(plane, spine) for spine in range(spines) for plane in range(planes)]
    fault = chance.choice(FAULTS)
    if (transport == "mrc" and fault in ("rnr", "timeouts")) or (
        transport == "rc" and fault in ("path", "plane", "dead", "slow", "doubled", "late")
    ):
        fault = "loss"
    if fault == "plane" and planes == 1:
        fault = "path"
    place, harm = place or chance.choice(PLACES), harm or chance.choice(HARMS)
    if harm == "offset" and place != "ends":
        harm = "none"
    culprit = [chance.choice(paths)]
    if fault == "plane":
        culprit = [ev for ev in paths if ev >> 24 == culprit[0] >> 24]
    draw = Draw(seed, transport, fault, place, harm, chance.random() < 0.6, paths, culprit)
    fabric = Fabric(chance, _weather(draw, chance))
    count = chance.randrange(300, 700)
    every = chance.choice((1, 2, 4)) * MICROSECOND
    window = chance.choice((24, 48))
    if transport == "mrc":
        MrcFlow(fabric, paths, count, every, window)
    else:
        refused = frozenset(16 * chance.randrange(1, count // 16) for _ in range(3)) if fault == "rnr" else frozenset()
        RcFlow(fabric, count, every, window, refused)
    fabric.run()
    made = Drawn(draw, b"", fabric.packets)
    made.sightings = _harmed(_seen(draw, fabric.packets), draw, chance)
    made.capture = pcap_of([(each.time, each.frame) for each in made.sightings])
    return made


def _weather(draw: Draw, chance: random.Random) -> Weather:
    weather = Weather(one_way_ns=chance.choice((5, 20, 50)) * MICROSECOND, jitter_ns=chance.choice((0, 300, 3000)))
    share = chance.choice((0.01, 0.03, 0.08))
    weather.in_order = draw.transport == "rc"
    everywhere = draw.paths if draw.transport == "mrc" else [0]
    if draw.fault in ("loss", "timeouts"):
        weather.loss = dict.fromkeys(everywhere, share if draw.fault == "loss" else 0.004)
    elif draw.fault in ("path", "plane"):
        weather.loss = dict.fromkeys(draw.culprit, 0.15 + share)
    elif draw.fault == "dead":
        weather.dead_from = dict.fromkeys(draw.culprit, 300 * MICROSECOND)
    elif draw.fault == "slow":
        weather.slow = dict.fromkeys(draw.culprit, 4.0)
    elif draw.fault == "late":
        weather.late, weather.late_ns = share, 4 * weather.one_way_ns
    elif draw.fault == "back-loss":
        weather.back_loss = 0.1
    elif draw.fault == "host-loss":
        weather.host_loss = share
    elif draw.fault == "doubled":
        weather.doubled = share
    return weather


def _seen(draw: Draw, packets: list[Packet]) -> list[Sighting]:
    """Every sighting at the places of the capture, in order of time."""
    points = ("sender", "receiver") if draw.place == "ends" else (draw.place,)
    found = []
    for packet in packets:
        for point in points:
            if point not in packet.at:
                continue
            frame = _frame(draw, packet, point)
            found.append(Sighting(packet, point, packet.at[point], frame))
            if packet.doubled_after is not None and point == "receiver":
                found.append(Sighting(packet, point, packet.at[point] + packet.doubled_after, frame))
    return sorted(found, key=lambda each: each.time)


def _frame(draw: Draw, packet: Packet, point: str) -> bytes:
    """As it looks there. Time stamps in it are the requestor's."""
    if draw.transport == "rc":
        rc = CraftedRc()
        fields = {
            name: packet.fields[name] for name in ("psn", "opcode", "ackreq", "syndrome") if name in packet.fields
        }
        (rc.write if packet.forward else rc.ack)(packet.sent, **fields, **({"size": 64} if packet.forward else {}))
        frame = bytearray(rc.records[0][1])
        if draw.srv6:
            # Routers were crossed; without that RC looks the same everywhere.
            frame[14 + 8] -= _hops(packet, point)
        return bytes(frame)
    hops = (64 - (_hops(packet, point) if draw.srv6 else 0),) * 2
    crafted = Crafted(at=point, payload=64, srv6=draw.srv6, hop_limits=hops)
    getattr(crafted, packet.kind)(packet.sent, **packet.fields)
    return crafted.records[0][1]


def _hops(packet: Packet, point: str) -> int:
    way = {"sender": 0, "middle": 2, "receiver": 3}[point]
    return way if packet.forward else 3 - way


def _harmed(seen: list[Sighting], draw: Draw, chance: random.Random) -> list[Sighting]:
    """What the capture made of it."""
    if draw.harm == "missing":
        share = chance.choice((0.02, 0.1))
        return [each for each in seen if chance.random() >= share]
    if draw.harm == "begun":
        return seen[len(seen) // 3 :]
    if draw.harm == "cut":
        return seen[: 2 * len(seen) // 3]
    if draw.harm == "twice":
        after = chance.choice((0, 40, 900))
        again = [Sighting(each.packet, each.point, each.time + after, each.frame, True) for each in seen]
        return sorted(seen + again, key=lambda each: each.time)
    if draw.harm == "offset":
        draw.offset_ns = chance.choice((-1, 1)) * chance.choice((30, 700, 20_000)) * MICROSECOND
        for each in seen:
            each.time += draw.offset_ns if each.point == "receiver" else 0
        earliest = min(each.time for each in seen)
        for each in seen:
            each.time -= min(0, earliest)
        return sorted(seen, key=lambda each: each.time)
    return seen
