# SPDX-License-Identifier: BSD-2-Clause
"""Endpoint requests, and which response answered each.

Between two captures, the clocks of both and the way lie in a figure. So a round trip is taken at one place: at that of
the host that asked, where the file has it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum, auto
from itertools import combinations, groupby
from typing import NamedTuple

import numpy as np

from mrc.capture.analysis.clock import Pause
from mrc.capture.analysis.copies import joined
from mrc.capture.analysis.distances import LEAST_TOLERANCE_NS
from mrc.capture.analysis.flows import Copies, Flow, Pair
from mrc.capture.analysis.probing import LATEST_NS
from mrc.capture.analysis.records import ENDPOINT_ROW
from mrc.capture.frames import I64, Bools
from mrc.capture.rows import Rows
from mrc.capture.texts import address_text
from mrc.wire.names import OPERATIONS

# Twins this close at one place are copies; further apart, a timer's work.
_NEAR_NS = 1_000_000
# No fabric holds a packet up for longer on its way to another place.
_HELD_NS = 50_000_000


@dataclass(frozen=True, slots=True)
class EndpointOperation:
    """An endpoint request. `answered`: whether a response is in the file; None where another place than that of the
    host that asked has it, and its own does not. `rtt_ns` is None where no one place has both. `port_status_mask` is
    None where the request carries none."""

    time_ns: int
    packet: int
    op: str
    source: str
    destination: str
    request_id: int
    ev: int
    port_status_mask: int | None
    answered: bool | None
    rtt_ns: int | None


class _Place(IntEnum):
    """Whose clock a time is of: of the `ONLY` place of the capture, of the one of two near the host that asked, or of
    the other; `UNTOLD` where nothing tells which of two it is."""

    ONLY = auto()
    ASKING = auto()
    AWAY = auto()
    UNTOLD = auto()


class _Seen(NamedTuple):
    """One request or response: `row` is its sighting nearest to the host that asked, `at` when each place saw it first,
    by the clock near the flow's requestor."""

    row: np.void
    at: dict[_Place, int]


class _Way(NamedTuple):
    """What two places make of the packets from one address to another: the far one sees them with these hop limits
    (`far_hops`, empty where these do not tell the places apart), and `later` than the near one by the two clocks."""

    far_hops: frozenset[int]
    later: int
    copies: Copies
    source_is_near: bool

    def seen_far(self, rows: Rows, key: I64) -> tuple[Bools, Bools]:
        """Which rows, in order of key and time, the far place saw, and of which rows the place is known."""
        if self.far_hops:
            return np.isin(rows["hop"], list(self.far_hops)), np.ones(len(rows), np.bool_)
        far, told = np.zeros(len(rows), np.bool_), np.zeros(len(rows), np.bool_)
        apart = abs(self.later)
        if self.copies.drift is not None or apart <= LEAST_TOLERANCE_NS:
            return far, told
        time = rows["time"]
        groups = _transmissions(rows, key)
        if apart <= _NEAR_NS:
            # What one place has twice it has at once.
            halves = [(group[time[group] - time[group[0]] <= apart // 2], group) for group in groups]
            pairs = [(first, group[len(first) :]) for first, group in halves]
        else:
            alike = (list(each) for _, each in groupby(groups, key=lambda group: int(key[group[0]])))
            pairs = [pair for each in alike for pair in combinations(each, 2)]
        for first, second in pairs:
            if len(second) and abs(time[second[0]] - time[first[0]] - apart) <= min(apart // 2, _NEAR_NS):
                told[first] = told[second] = True
                far[second if self.later > 0 else first] = True
        return far, told

    def by_one_clock(self, rows: Rows, far: Bools) -> None:
        """Change the times of the far place to what the near one's clock showed."""
        time = rows["time"][far]
        if (drift := self.copies.drift) is not None and drift.taken_out:
            time = time - drift.gained(time)
        if self.copies.clock_offset is not None:
            time = time - self.copies.clock_offset.ns
        rows["time"][far] = time


def endpoint_operations(
    found: dict[Pair, list[Rows]], flows: list[Flow], unsure: Sequence[Pause], between: bool
) -> list[EndpointOperation]:
    """Every endpoint request of a capture with its response, in order of packets. `flows` are without their copies;
    `unsure` are pauses in which the clock may have been set forward; `between`: responses may take another way."""
    requests: list[tuple[Pair, _Seen]] = []
    # A response may take another plane, so it is looked for by its number alone.
    responses: defaultdict[int, list[_Seen]] = defaultdict(list)
    two_places = _of_two_places(flows)
    for pair, parts in found.items():
        rows = joined(parts, ENDPOINT_ROW)
        way = next(filter(None, (each.way(pair) for each in two_places)), None)
        requests += [(pair, one) for one in _once(rows[~rows["answers"]], way, of_requests=True)]
        for one in _once(rows[rows["answers"]], way, of_requests=False):
            responses[int(one.row["request_id"])].append(one)
    made = [_operation(pair, each, responses[int(each.row["request_id"])], unsure) for pair, each in requests]
    if between:
        made = [each if each.answered else replace(each, answered=None) for each in made]
    return sorted(made, key=lambda each: each.packet)


def _operation(pair: Pair, seen: _Seen, responses: list[_Seen], unsure: Sequence[Pause]) -> EndpointOperation:
    row = seen.row
    fates = [_answer(seen, back, unsure) for back in responses]
    answered: bool | None = False
    if any(fate.answered for fate in fates):
        answered = True
    elif any(fate.answered is None for fate in fates):
        answered = None
    return EndpointOperation(
        int(row["time"]),
        int(row["number"]),
        OPERATIONS.get(int(row["op"]), f"op {row['op']}"),
        address_text(pair[0]),
        address_text(pair[1]),
        int(row["request_id"]),
        int(row["ev"]),
        int(row["mask"]) if row["op"] == 0 else None,
        answered,
        min((fate.rtt_ns for fate in fates if fate.rtt_ns is not None), default=None),
    )


class _Answer(NamedTuple):
    """Whether one response answers a request, None where it may; and after what time, where that is known."""

    answered: bool | None
    rtt_ns: int | None = None


def _answer(seen: _Seen, back: _Seen, unsure: Sequence[Pause]) -> _Answer:
    """As the place tells that has both, the one nearest to the host that asked first."""
    for place in (_Place.ONLY, _Place.ASKING, _Place.AWAY):
        if place not in seen.at or place not in back.at:
            continue
        begin, end = seen.at[place], back.at[place]
        pauses = [pause.ns for pause in unsure if begin <= pause.begin and pause.end <= end]
        if not 0 <= end - begin - sum(pauses) <= LATEST_NS:
            return _Answer(False)
        if place == _Place.AWAY:
            # It may have been lost on its way back. That it took so long is the work of the host that was asked.
            return _Answer(None if _Place.ASKING in seen.at else True)
        return _Answer(True, None if pauses else end - begin)
    near = any(abs(there - here) <= LATEST_NS for there in back.at.values() for here in seen.at.values())
    return _Answer(None if near else False)


class _TwoPlaces(NamedTuple):
    """The addresses near the requestor of a flow and near its responder, and what its copies show of the two."""

    near: frozenset[bytes]
    far: frozenset[bytes]
    copies: Copies

    def way(self, pair: Pair) -> _Way | None:
        source, destination = pair
        there, back = self.copies.there, self.copies.back
        if source in self.near and destination in self.far and there is not None:
            return _Way(there.far, there.usual, self.copies, True)
        if source in self.far and destination in self.near and back is not None:
            return _Way(back.far, -back.usual, self.copies, False)
        return None


def _of_two_places(flows: list[Flow]) -> list[_TwoPlaces]:
    """The flows that two places saw, the heaviest first."""
    both = [flow for flow in flows if flow.copies.of_two_places]
    both.sort(key=lambda flow: -sum(map(len, flow.requests)))
    return [
        _TwoPlaces(frozenset(pair[0] for pair in flow.pairs), frozenset(pair[1] for pair in flow.pairs), flow.copies)
        for flow in both
    ]


def _once(rows: Rows, way: _Way | None, *, of_requests: bool) -> Iterator[_Seen]:
    """Each request or each response of two addresses, whatever number of times it was seen. They carry a number of
    their own, so that only one that is sent again after a timeout looks the same."""
    key = (rows["request_id"].astype(np.int64) << 32) | rows["identity"]
    order = np.lexsort((rows["number"], rows["time"], key))
    rows, key = rows[order], key[order]
    place = np.full(len(rows), _Place.ONLY)
    if way is not None:
        far, told = way.seen_far(rows, key)
        way.by_one_clock(rows, far)
        asking = far ^ (way.source_is_near == of_requests)
        place = np.where(told, np.where(asking, _Place.ASKING, _Place.AWAY), _Place.UNTOLD)
        order = np.lexsort((rows["number"], rows["time"], key))
        rows, key, place = rows[order], key[order], place[order]
    elif len(hops := np.unique(rows["hop"])) > 1:
        # No flow shows how the two clocks are. Hop limits still tell the places apart.
        own = hops.max() if of_requests else hops.min()
        place = np.where(rows["hop"] == own, _Place.ASKING, _Place.AWAY)
    for group in _transmissions(rows, key):
        at: dict[_Place, int] = {}
        for one in group.tolist():
            at.setdefault(_Place(place[one]), int(rows["time"][one]))
        yield _Seen(rows[min(group.tolist(), key=lambda one: (place[one] == _Place.AWAY, one))], at)


def _transmissions(rows: Rows, key: I64) -> list[I64]:
    """Which of the rows, in order of key and time, are sightings of one transmission: at one place at once, at another
    as soon as the fabric lets them."""
    begins: list[int] = []
    last: dict[int, int] = {}
    times, hops, keys = rows["time"].tolist(), rows["hop"].tolist(), key.tolist()
    for row, (time, hop) in enumerate(zip(times, hops, strict=True)):
        same = begins and keys[begins[-1]] == keys[row]
        if not same or time - last.get(hop, times[begins[-1]]) > (_NEAR_NS if hop in last else _HELD_NS):
            begins.append(row)
            last = {}
        last[hop] = time
    return np.split(np.arange(len(rows)), begins[1:]) if begins else []
