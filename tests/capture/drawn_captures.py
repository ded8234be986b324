# SPDX-License-Identifier: BSD-2-Clause
"""Captures drawn from a seed, each with its truth: a flow in virtual time, where it was captured, what that lost."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from crafted_flows import MICROSECOND, REQUESTOR_QPN, RESPONDER_QPN, Crafted, CraftedRc, ev_of, pcap_of
from drawn_asked import as_the_flow, asked
from drawn_forms import ADDED, FORMS
from drawn_mrc import Fabric, MrcFlow, Packet, Weather, past
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
# Drawn apart from the others, in some of the captures to which nothing else is done.
MORE_HARMS = ("step", "snaplen", "drift")
# What two places show whatever their clocks are: by how much longer a path, or a plane, takes.
SLOWER_US = (8, 25, 60, 150)
# In some of the draws that have none.
MORE_FAULTS = {"mrc": ("congested", "congested"), "rc": ("doubled", "late")}


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
    # By how much the clock was set, and from which sighting on.
    step_ns: int = 0
    step_at: int = 0
    # How much later the copy of each packet is, and what was added to all times so that none is below zero.
    twice_ns: int = 0
    shift_ns: int = 0
    # From when on and in what time the receiver's clock gained `offset_ns`; without a time it was ahead all along.
    drifts_from: int = 0
    drifts_in: int = 0
    # What the frames are wrapped in, and how many bytes of each the capture kept.
    form: str = "plain"
    snaplen: int = 65535
    # By how much longer than the others the culprits take one way: there, or (`slower-back`) answers sent on them.
    slower_ns: int = 0
    # Which flow of the file: others are those of other hosts.
    flow: int = 0

    @property
    def words(self) -> str:
        addressed = "uSIDs" if self.srv6 else "flat"
        form = "" if self.form == "plain" else f", {self.form}"
        beside = f", flow {self.flow}" if self.flow else ""
        return (
            f"seed {self.seed}: {self.transport} {self.fault} at {self.place}, {self.harm}, {addressed}{form}{beside}"
        )

    def ahead_ns(self, time: int) -> int:
        """How far the receiver's clock is ahead."""
        return self.offset_ns * (time - self.drifts_from) // self.drifts_in if self.drifts_in else self.offset_ns

    @property
    def responder_qpn(self) -> int:
        return (RESPONDER_QPN if self.transport == "mrc" else CraftedRc.qpn) + self.flow


@dataclass
class Sighting:
    """A packet in the file: at which point it was captured, and its place in the file's order of time."""

    packet: Packet
    point: str
    time: int
    frame: bytes
    copy: bool = False

    @property
    def is_trimmed(self) -> bool:
        return past(self.packet.trimmed, self.point)

    def again(self, after_ns: int) -> Sighting:
        """The copy that a capture makes of it."""
        return Sighting(self.packet, self.point, self.time + after_ns, self.frame, True)

    @property
    def headers(self) -> bytes:
        """All but the payload and the ICRC."""
        payload = 64 if self.packet.forward and not self.is_trimmed else 0
        return self.frame[: len(self.frame) - payload - (0 if self.is_trimmed else 4)]


@dataclass
class Drawn:
    draw: Draw
    capture: bytes
    packets: list[Packet]
    weather: Weather
    sightings: list[Sighting] = field(default_factory=list)
    # Flows of other hosts in the same file.
    beside: list[Drawn] = field(default_factory=list)
    # Endpoint requests and responses of its hosts in the file, of `asked`.
    asked: list[Sighting] = field(default_factory=list)
    # Packets that the capture cut before their headers end: no sightings.
    cut_short: int = 0


def drawn(
    seed: int,
    *,
    transport: str = "",
    place: str = "",
    harm: str = "",
    fault: str = "",
    form: str = "",
    hosts: int = 0,
    count: int = 0,
    flow: int = 0,
) -> Drawn:
    """The capture of a seed. What is given takes the place of what is drawn, all else stays. `hosts`: how many send;
    `count`: how many packets there are to send."""
    chance = random.Random(seed)
    # A generator of its own: what is drawn by it moves nothing that is drawn by the other.
    more = random.Random(f"{seed} more")
    transport_drawn = chance.choice(("mrc", "mrc", "rc"))
    transport = transport or transport_drawn
    planes, spines = chance.choice((1, 2)), chance.choice((2, 3, 4))
    paths = [ev_of(plane, spine) for spine in range(spines) for plane in range(planes)]
    fault_drawn = chance.choice(FAULTS)
    fault_given = bool(fault)
    if not fault:
        fault = fault_drawn
        if (transport == "mrc" and fault in ("rnr", "timeouts")) or (
            transport == "rc" and fault in ("path", "plane", "dead", "slow")
        ):
            fault = "loss"
    if fault == "plane" and planes == 1:
        fault = "path"
    given = bool(harm)
    place_drawn, harm_drawn = chance.choice(PLACES), chance.choice(HARMS)
    place, harm = place or place_drawn, harm or harm_drawn
    if harm == "offset" and place != "ends":
        harm = "none"
    if not fault_given and fault == "none" and (which := more.random()) < 0.6:
        fault = MORE_FAULTS[transport][which < 0.3]
    elif not given and harm == "none" and more.random() < 0.5:
        harm = more.choice(MORE_HARMS)
        harm = "none" if harm == "drift" and place != "ends" else harm
    culprit = [chance.choice(paths)]
    slower = random.Random(f"{seed} slower")
    gentle = transport == "mrc" and place == "ends" and fault in ("none", "back-loss", "doubled")
    if not fault_given and gentle and slower.random() < 0.6:
        fault = "slower"
    back = random.Random(f"{seed} slower back")
    gentle = transport == "mrc" and place in ("ends", "sender") and fault in ("none", "back-loss", "doubled")
    if not fault_given and gentle and back.random() < 0.4:
        fault = "slower-back"
    widely = fault == "slower-back" and planes > 1 and back.random() < 0.4
    if fault == "plane" or widely or (fault == "slower" and planes > 1 and slower.random() < 0.4):
        culprit = [ev for ev in paths if ev >> 24 == culprit[0] >> 24]
    draw = Draw(seed, transport, fault, place, harm, chance.random() < 0.6, paths, culprit, flow=flow)
    draw.slower_ns = slower.choice(SLOWER_US) * MICROSECOND if fault == "slower" else 0
    draw.slower_ns = back.choice(SLOWER_US) * MICROSECOND if fault == "slower-back" else draw.slower_ns
    draw.form = form or (more.choice(sorted(FORMS)) if more.random() < 0.25 else "plain")
    weather = _weather(draw, chance)
    packets = _flown(chance, draw, weather, count)
    made = Drawn(draw, b"", packets, weather)
    made.sightings = _harmed(_seen(draw, packets), draw, chance)
    asking = asked(draw, packets, weather)
    made.asked = as_the_flow(_seen(draw, asking), made.sightings, draw)
    hosts = hosts or (more.choice((1, 1, 1, 2, 3)) if draw.harm == "none" and not flow else 1)
    for other in range(1, hosts):
        # As far apart from each other as senders of one job are.
        made.beside.append(
            drawn(
                more.randrange(1 << 30),
                transport=transport,
                place=place,
                harm="none",
                form="plain",
                hosts=1,
                flow=other,
                count=count,
            )
        )
    everything = [each for one in (made, *made.beside) for each in (*one.sightings, *one.asked)]
    everything.sort(key=lambda each: each.time)
    _cut_short(made, more)
    made.capture = pcap_of(
        [(each.time, FORMS[draw.form](each.frame, number)) for number, each in enumerate(everything)], draw.snaplen
    )
    return made


# The latest flows and the state of their generators afterwards: a seed has the same one at each place, whatever the
# capture makes of it.
_FLOWN: dict[tuple[object, ...], tuple[list[Packet], tuple[Any, ...]]] = {}
_MOST_FLOWN = 32


def _flown(chance: random.Random, draw: Draw, weather: Weather, count: int) -> list[Packet]:
    """The packets of a flow of `count` packets, of as many as are drawn where that is 0. Nothing changes them."""
    key = (chance.getstate(), draw.transport, draw.fault == "rnr", tuple(draw.paths), draw.flow, repr(weather), count)
    if key not in _FLOWN:
        while len(_FLOWN) >= _MOST_FLOWN:
            del _FLOWN[next(iter(_FLOWN))]
        _FLOWN[key] = _flow(chance, draw, weather, count), chance.getstate()
    packets, state = _FLOWN[key]
    chance.setstate(state)
    return packets


def _flow(chance: random.Random, draw: Draw, weather: Weather, count: int) -> list[Packet]:
    fabric = Fabric(chance, weather)
    drawn_count = chance.randrange(300, 700)
    count = count or drawn_count
    every = chance.choice((1, 2, 4)) * MICROSECOND
    window = chance.choice((24, 48))
    if draw.transport == "mrc":
        MrcFlow(fabric, draw.paths, count, every, window)
    else:
        few = 3 if draw.fault == "rnr" else 0
        not_ready = frozenset(16 * chance.randrange(1, drawn_count // 16) for _ in range(few))
        RcFlow(fabric, count, every, window, not_ready)
    fabric.run()
    return fabric.packets


def _cut_short(made: Drawn, more: random.Random) -> None:
    """A snaplen, and which packets it leaves without their headers."""
    if made.draw.harm != "snaplen":
        return
    made.draw.snaplen = more.choice((96, 128, 192, 256))
    whole = [each for each in made.sightings if len(each.headers) + ADDED[made.draw.form] <= made.draw.snaplen]
    made.cut_short, made.sightings = len(made.sightings) - len(whole), whole


def _weather(draw: Draw, chance: random.Random) -> Weather:
    weather = Weather(one_way_ns=chance.choice((5, 20, 50)) * MICROSECOND, jitter_ns=chance.choice((0, 300, 3000)))
    share = chance.choice((0.01, 0.03, 0.08))
    weather.in_order = draw.transport == "rc" and draw.fault != "late"
    everywhere = draw.paths if draw.transport == "mrc" else [0]
    if draw.fault in ("loss", "timeouts"):
        weather.loss = dict.fromkeys(everywhere, share if draw.fault == "loss" else 0.004)
    elif draw.fault in ("path", "plane"):
        weather.loss = dict.fromkeys(draw.culprit, 0.15 + share)
    elif draw.fault == "dead":
        weather.dead_from = dict.fromkeys(draw.culprit, 300 * MICROSECOND)
    elif draw.fault == "slow":
        weather.slow = dict.fromkeys(draw.culprit, 4.0)
    elif draw.fault == "slower":
        weather.slower = dict.fromkeys(draw.culprit, draw.slower_ns)
    elif draw.fault == "slower-back":
        weather.slower_back = dict.fromkeys(draw.culprit, draw.slower_ns)
    elif draw.fault == "late":
        weather.late, weather.late_ns = share, 4 * weather.one_way_ns
    elif draw.fault == "back-loss":
        weather.back_loss = 0.1
    elif draw.fault == "host-loss":
        weather.host_loss = share
    elif draw.fault == "congested":
        weather.marks = dict.fromkeys(draw.culprit if share < 0.05 else everywhere, 10 * share)
        weather.trims = dict.fromkeys(draw.culprit, share)
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
            frame = packet.frames.get(point)
            if frame is None:
                frame = packet.frames[point] = _frame(draw, packet, point)
            found.append(Sighting(packet, point, packet.at[point], frame))
            if packet.doubled_after is not None and point == "receiver":
                found.append(Sighting(packet, point, packet.at[point] + packet.doubled_after, frame))
    return sorted(found, key=lambda each: each.time)


def _frame(draw: Draw, packet: Packet, point: str) -> bytes:
    """As it looks there. Time stamps in it are the requestor's."""
    if draw.transport == "rc":
        # Routers were crossed; without that RC looks the same everywhere.
        crossed = _hops(packet, point) if draw.srv6 else 0
        fields = {
            name: packet.fields[name] for name in ("psn", "opcode", "ackreq", "syndrome") if name in packet.fields
        }
        return _rc_frame(draw.flow, packet.forward, crossed, **fields)
    hops = (64 - (_hops(packet, point) if draw.srv6 else 0),) * 2
    crafted = Crafted(
        at=point,
        payload=64,
        srv6=draw.srv6,
        hop_limits=hops,
        requestor=REQUESTOR_QPN + draw.flow,
        responder=RESPONDER_QPN + draw.flow,
        hosts=(2 * draw.flow, 2 * draw.flow + 1),
    )
    if past(packet.trimmed, point):
        crafted.trimmed(packet.sent, **packet.fields)
    else:
        marked = {"ce": True} if past(packet.marked, point) else {}
        getattr(crafted, packet.kind)(packet.sent, **packet.fields, **marked)
    return crafted.records[0][1]


@lru_cache(1 << 16)
def _rc_frame(flow: int, forward: bool, hops: int, **fields: Any) -> bytes:
    """An RC packet has no time stamp: what is sent again looks the same."""
    rc = CraftedRc(CraftedRc.qpn + flow, CraftedRc.answers_qpn + flow, (1 + 2 * flow, 2))
    if forward:
        rc.write(0, **fields, size=64)
    else:
        rc.ack(0, **fields)
    frame = bytearray(rc.records[0][1])
    frame[14 + 8] -= hops
    return bytes(frame)


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
        draw.twice_ns = chance.choice((0, 40, 900))
        return sorted(seen + [each.again(draw.twice_ns) for each in seen], key=lambda each: each.time)
    if draw.harm == "offset":
        draw.offset_ns = chance.choice((-1, 1)) * chance.choice((30, 700, 20_000)) * MICROSECOND
        return _by_two_clocks(seen, draw)
    if draw.harm == "drift":
        # As far as 50 ppm go in some seconds, in the short time of a drawn flow.
        draw.drifts_from, draw.drifts_in = seen[0].time, max(1, seen[-1].time - seen[0].time)
        draw.offset_ns = chance.choice((-1, 1)) * chance.choice((2, 15, 60)) * MICROSECOND
        return _by_two_clocks(seen, draw)
    if draw.harm == "step":
        draw.step_ns = chance.choice((100, 3_000, 3_600_000)) * 1000 * MICROSECOND
        draw.step_at = chance.randrange(len(seen) // 4, 3 * len(seen) // 4)
        for each in seen[draw.step_at :]:
            each.time += draw.step_ns
    return seen


def _by_two_clocks(seen: list[Sighting], draw: Draw) -> list[Sighting]:
    for each in seen:
        each.time += draw.ahead_ns(each.time) if each.point == "receiver" else 0
    draw.shift_ns = -min(0, *(each.time for each in seen))
    for each in seen:
        each.time += draw.shift_ns
    return sorted(seen, key=lambda each: each.time)
