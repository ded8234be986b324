# SPDX-License-Identifier: BSD-2-Clause
"""Endpoint requests of the hosts of a drawn flow: what became of each, and what the file shows of it.

They are drawn by a generator of their own, so that they move nothing else. Nothing here uses the package under test.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from crafted_flows import MICROSECOND
from drawn_mrc import FAR, NEAR, POINTS, Packet, Weather

if TYPE_CHECKING:
    from drawn_captures import Draw, Sighting

# The share lost, of requests and of responses; what is lost is asked again, word for word, after this time.
_LOST = (0.0, 0.0, 0.3)
AGAIN_NS = 2_000 * MICROSECOND


def asked(draw: Draw, flow: list[Packet], weather: Weather) -> list[Packet]:
    """The requests and responses while a flow goes on, in order of sending; none of RC, and none where headers are cut
    off."""
    chance = random.Random(f"{draw.seed} asked")
    if draw.transport == "rc" or draw.harm == "snaplen" or chance.random() < 0.4:
        return []
    # The flow is there first at both places.
    begin, end = 5 * (weather.one_way_ns + weather.jitter_ns), max(each.sent for each in flow)
    made: list[Packet] = []
    share = chance.choice(_LOST)
    for number in range(chance.randrange(1, 6)):
        forward, at = chance.random() < 0.5, chance.randrange(begin, max(begin + 1, end))
        for _ in range(3):
            request_id = 1000 * draw.flow + number
            fields = {"request_id": request_id, "mask": 3, "forward": forward}
            request = _sent(Packet(forward, at, "port_status", fields), draw, chance, share, weather)
            made.append(request)
            if request.lost is None:
                arrived = request.at["receiver" if forward else "sender"]
                fields = {"request_id": request_id, "forward": not forward}
                then = arrived + chance.choice((5, 400)) * MICROSECOND
                response = Packet(not forward, then, "port_status_response", fields)
                made.append(_sent(response, draw, chance, share, weather))
                if response.lost is None:
                    break
            at += AGAIN_NS
    return sorted(made, key=lambda each: each.sent)


def _sent(packet: Packet, draw: Draw, chance: random.Random, share: float, weather: Weather) -> Packet:
    way = weather.one_way_ns + chance.randrange(weather.jitter_ns + 1)
    packet.ev = packet.fields["ev"] = chance.choice(draw.paths)
    order = POINTS if packet.forward else POINTS[::-1]
    packet.at = {order[0]: packet.sent, order[1]: packet.sent + way // 2, order[2]: packet.sent + way}
    if chance.random() < share:
        packet.lost = chance.choice((NEAR, FAR))
        reached = 1 if packet.lost == NEAR else 2
        packet.at = {point: packet.at[point] for point in order[:reached]}
    return packet


def as_the_flow(seen: list[Sighting], flow: list[Sighting], draw: Draw) -> list[Sighting]:
    """What the capture that made `flow` of the flow's sightings makes of these."""
    chance = random.Random(f"{draw.seed} asked, harmed")
    if draw.harm == "missing":
        return [each for each in seen if chance.random() >= 0.2]
    for each in seen:
        if each.point == "receiver":
            each.time += draw.ahead_ns(each.time)
        each.time += draw.shift_ns
    first, last = flow[0].time, flow[-1].time
    if draw.harm in ("begun", "cut"):
        return [each for each in seen if first <= each.time <= last]
    if draw.harm == "twice":
        again = [each.again(draw.twice_ns) for each in seen]
        return sorted(seen + again, key=lambda each: each.time)
    if draw.harm == "step":
        at = flow[draw.step_at].time - draw.step_ns
        for each in seen:
            each.time += draw.step_ns if each.time >= at else 0
    return sorted(seen, key=lambda each: each.time)
