# SPDX-License-Identifier: BSD-2-Clause
"""Which finding names the fault of a drawn capture, and whether the file shows that fault at all."""

from __future__ import annotations

from collections import Counter

from drawn_captures import Drawn
from drawn_mrc import Packet
from drawn_rc import SEQUENCE_ERROR

from mrc.capture.analysis.finding import Finding

LOSSES = {"loss", "lossy-path", "lossy-plane", "lossy-switch", "dead-path", "dead-plane", "path-out", "stall"}
LOSSES |= {"loss-before-capture", "loss-behind-capture", "never-acknowledged", "retries-exhausted"}

# What names a fault; where two kinds stand, the second is all that a receiver's capture can say.
_NAMES = {
    "loss": LOSSES,
    "timeouts": LOSSES,
    "path": {"lossy-path", "loss-before-capture"},
    "plane": {"lossy-plane", "lossy-path", "loss-before-capture"},
    "dead": {"dead-path", "lossy-path", "loss-before-capture"},
    "host-loss": LOSSES,
    "rnr": {"receiver-not-ready"},
    "slow": {"slow-path"},
    "slower": {"slow-path", "slow-plane", "slow-switch"},
    "slower-back": {"slow-answers"},
    "congested": {"congestion"},
    "late": {"out-of-order", "loss"},
}
# So few cannot be told from chance.
_FEWEST_LOST = 8
# Of a path so many have to be seen at both places; so many answers have to end on one.
_FEWEST_SEEN, _FEWEST_ENDED = 25, 50


def slower_shows(made: Drawn) -> bool:
    """Whether the file tells its two places apart and has enough of each path from both, and the path is slower by what
    matters, and varies by less."""
    draw, weather = made.draw, made.weather
    forward = draw.fault == "slower"
    told = draw.srv6 and draw.place == "ends" and 2 * len(draw.culprit) <= len(draw.paths)
    at = {
        point: {id(each.packet) for each in made.sightings if each.point == point} for point in ("sender", "receiver")
    }
    of_both = [each for each in made.packets if each.forward == forward and all(id(each) in at[x] for x in at)]
    twice = Counter(packet.ev for packet in of_both)
    enough = all(twice[ev] >= _FEWEST_SEEN for ev in draw.paths)
    return told and enough and draw.slower_ns > max(0.25 * weather.one_way_ns, 2 * weather.jitter_ns, 6000)


def slower_back_shows(made: Drawn) -> bool:
    """Whether both ends show it, as of requests; or at the sender of one path of three and more the shortest round trip
    that ends there is more than twice any other's shortest."""
    draw, weather = made.draw, made.weather
    if draw.place == "ends":
        return slower_shows(made)
    ended = sum(packet.ev in draw.culprit for packet in answers(made))
    alone = draw.place == "sender" and len(draw.culprit) == 1 and len(draw.paths) > 2 and ended >= _FEWEST_ENDED
    return alone and draw.slower_ns > 2.2 * weather.one_way_ns + 4 * weather.jitter_ns


def answers(made: Drawn) -> list[Packet]:
    """Those in the file, each once."""
    return list({id(each.packet): each.packet for each in made.sightings if not each.packet.forward}.values())


def found_fault(made: Drawn, said: list[Finding]) -> bool | None:
    """Whether a finding names the fault that was drawn; None where there was none, or the file does not show it."""
    draw = made.draw
    in_file = {id(each.packet) for each in made.sightings}
    lost = sum(packet.lost is not None for packet in made.packets if packet.forward)
    if draw.fault not in _NAMES or draw.harm in ("begun", "cut"):
        return None
    if draw.fault == "slow" and (draw.place == "receiver" or len(draw.paths) < 3):
        return None
    if draw.fault == "slower" and not slower_shows(made):
        return None
    if draw.fault == "slower-back" and not slower_back_shows(made):
        return None
    if draw.fault == "rnr":
        refused = [each.packet.fields.get("syndrome") for each in made.sightings if not each.packet.forward]
        if 0x2A not in refused:
            return None
    elif draw.fault == "late":
        named = [packet for packet in answers(made) if packet.fields.get("syndrome") == SEQUENCE_ERROR]
        if draw.transport == "mrc" or not named:
            return None
    elif draw.fault == "congested":
        if sum(packet.kind == "nack" or packet.fields.get("m", 0) for packet in answers(made)) < _FEWEST_LOST:
            return None
    elif draw.fault not in ("slow", "slower", "slower-back") and (
        lost < _FEWEST_LOST or not in_file or (draw.fault != "loss" and len(draw.paths) < 2)
    ):
        return None
    return bool(_NAMES[draw.fault] & {each.kind for each in said})
