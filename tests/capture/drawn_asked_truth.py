# SPDX-License-Identifier: BSD-2-Clause
"""Hold what an analysis says of endpoint requests against the truth of a drawn capture."""

from __future__ import annotations

from collections import defaultdict

from drawn_captures import Drawn, Sighting

from mrc.capture.analysis.endpoint_operations import EndpointOperation

# What the two clocks, of a drift in the middle of a round trip, may make of it.
_SLACK_NS = 1_000
STEP_SLACK_NS = 2_000_000


def unanswered(made: Drawn) -> int:
    """Requests in the file after which it has no response, at any place."""
    return sum(not _answers(one, each, None) for one in (made, *made.beside) for each in _requests(one))


def judged_asked(made: Drawn, said: list[EndpointOperation]) -> tuple[list[str], list[str]]:
    """What is wrong, and what is left open although the file shows it, of the requests of a flow's hosts."""
    wrong, unknown = [], []
    by_id: defaultdict[int, list[EndpointOperation]] = defaultdict(list)
    for found in said:
        if found.request_id // 1000 == made.draw.flow:
            by_id[found.request_id].append(found)
    truly: defaultdict[int, list[Sighting]] = defaultdict(list)
    for each in _requests(made):
        truly[each.packet.fields["request_id"]].append(each)
    for number in by_id.keys() | truly.keys():
        if made.draw.harm == "missing" and made.draw.place == "ends" and len(by_id[number]) < len(truly[number]):
            # One seen here and one there, asked again meanwhile, look as if the fabric had held one up.
            continue
        if len(by_id[number]) != len(truly[number]):
            wrong.append(f"endpoint request {number}: {len(by_id[number])} times, truly {len(truly[number])}")
            continue
        told = sorted(by_id[number], key=lambda each: each.time_ns)
        for found, each in zip(told, sorted(truly[number], key=lambda each: each.packet.sent), strict=True):
            answered, rtt = bool(_answers(made, each, None)), _round_trip(made, each)
            if found.answered not in (None, answered):
                wrong.append(f"endpoint request {number}: answered {found.answered}, truly {answered}")
            if found.rtt_ns is not None and (rtt is None or not _is_right(made, found.rtt_ns, rtt)):
                wrong.append(f"endpoint request {number}: rtt {found.rtt_ns}, truly {rtt}")
            if (found.rtt_ns is None and rtt is not None) or (found.answered is None and made.draw.srv6):
                unknown.append("endpoint requests")
    return wrong, unknown


def _is_right(made: Drawn, found: int, truly: int) -> bool:
    # By as much as the clock gains meanwhile.
    slack = _SLACK_NS + 2 * abs(made.draw.offset_ns) * truly // (made.draw.drifts_in or 1 << 62)
    # A clock that is set forward while one waits, by as much as the pause beside it lets one know.
    stepped = made.draw.harm == "step" and abs(found + made.draw.step_ns - truly) <= STEP_SLACK_NS
    return abs(found - truly) <= slack or stepped


def _requests(made: Drawn) -> list[Sighting]:
    """Of each request in the file one sighting."""
    seen = {id(each.packet): each for each in made.asked if each.packet.kind == "port_status"}
    return list(seen.values())


def _answers(made: Drawn, request: Sighting, point: str | None) -> list[Sighting]:
    """Responses to it at a point, or at any."""
    return [
        each
        for each in made.asked
        if each.packet.kind == "port_status_response"
        and each.packet.fields["request_id"] == request.packet.fields["request_id"]
        and each.packet.sent > request.packet.sent
        and point in (None, each.point)
    ]


def _round_trip(made: Drawn, request: Sighting) -> int | None:
    """At the place of who asked, or at the only one; None where that does not have both."""
    point = made.draw.place
    if point == "ends":
        point = "sender" if request.packet.forward else "receiver"
    sent = [each.time for each in made.asked if each.packet is request.packet and each.point == point]
    came = [each.time for each in _answers(made, request, point)]
    return min(came) - min(sent) if sent and came else None
