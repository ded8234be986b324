"""One sighting of each packet: the others, at other places or twice at one, are taken out before anything else.

Two sightings are of one packet when all that no router changes is the same (`identity`). The first transmission of an
MRC packet is one of its kind. A retransmission, any RC packet and any answer may be sent again byte by byte: then the
hop limit or the uSIDs tell two places apart, or the time between the sightings does, which for copies is much the same
for most packets of a flow.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mrc.capture.analysis.distances import LEAST_TOLERANCE_NS, MOST_WINDOWS, Way, Window
from mrc.capture.analysis.flows import Copies, Flow, Pair
from mrc.capture.analysis.records import ANSWER_ROW, ENDPOINT_ROW, PROBE_ROW, REQUEST_ROW, Rows
from mrc.capture.frames import I64, Bools

# From this share of packets seen twice on it is the capture that doubles them, and not the network here and there.
_MOST = 0.5
# Twins this close in a flow whose answers are doubled too; further apart they may be a timer's work.
_NEAR_NS = 1_000_000
# PSNs this close one after the other belong to a run, although the capture may lack some between.
_RUN = 5
# A flow with fewer twins does not show by itself how far copies are apart.
_FEWEST = 3


class _Sightings:
    """The rows of one kind of a flow, sorted by packet; `again` are those that follow one of the same packet, `gap`
    and `moved` compare such a row with the one before. `sole`: only one such packet can have been sent.

    Where hop limits tell two places apart, rows of the place further along are compared as if they had been seen at the
    other: earlier by what the way and the two clocks make of it (`way`)."""

    def __init__(self, rows: Rows, key: I64, sole: Bools | None = None) -> None:
        self.rows = rows
        self.order = np.argsort(key, kind="stable")
        self.way = Way.of(rows["hop"], rows["time"], key, self.order, sole)
        time = rows["time"]
        if self.way is not None:
            time = time - self.way.middle * self.way.far
            self.order = np.lexsort((time, key))
        key = key[self.order]
        self.again = np.zeros(len(rows), np.bool_)
        self.again[1:] = key[1:] == key[:-1]
        self.at = np.flatnonzero(self.again)
        now, before = self.order[self.at], self.order[self.at - 1]
        self.time = time
        self.gap = time[now] - time[before]
        self.moved = rows["hop"][now] != rows["hop"][before]
        self.sole = np.zeros(len(self.at), np.bool_) if sole is None else sole[now]
        self.packets = len(rows) - len(self.at)

    def window(self, least_doubled: float) -> Window | None:
        """The distance of copies at one place, or at places that look alike: where that many packets have one and most
        of the distances are alike."""
        gap, packet, sole = self._gaps_at_one_place()
        twice = len(np.unique(packet)) / self.packets if self.packets else 0.0
        if sole.any():
            gap = gap[sole]
        if not len(gap) or twice < least_doubled:
            return None
        # Of packets that may be sent again a second distance would be that of their retransmissions.
        window = Window.of(gap, MOST_WINDOWS if sole.any() else 1)
        alike = len(np.unique(packet[window.has(gap)])) if not sole.any() else self.packets
        return window if alike >= _MOST * self.packets else None

    def _gaps_at_one_place(self) -> tuple[I64, I64, Bools]:
        """Between each sighting and the next of the same packet with the same hop limit; which packet, and whether it
        can have been sent once only."""
        packet = np.cumsum(~self.again) - 1
        sole = np.zeros(len(packet), np.bool_)
        sole[self.at] = self.sole
        order, hop = self.order, self.rows["hop"][self.order]
        if self.moved.any():
            by_place = np.lexsort((self.time[order], hop, packet))
            order, hop, packet, sole = order[by_place], hop[by_place], packet[by_place], sole[by_place]
        same = (packet[1:] == packet[:-1]) & (hop[1:] == hop[:-1])
        gap = self.time[order[1:]] - self.time[order[:-1]]
        return gap[same], packet[1:][same], (sole[1:] | sole[:-1])[same]

    def interleaved(self) -> bool:
        """Whether many second sightings stand between two of packets not seen before, the one ahead a different packet:
        a sender that goes back sends nothing new meanwhile."""
        second, alone = self._alone()
        apart = alone[1:-1] & (self.rows["seq"][1:-1] != self.rows["seq"][:-2])
        return 4 * int(apart.sum()) >= int(second.sum())

    def _alone(self) -> tuple[Bools, Bools]:
        """By row: the second sightings, and those that stand between two rows that are none."""
        second = self.again[np.argsort(self.order, kind="stable")]
        beside = np.zeros(len(second) + 2, np.bool_)
        beside[1:-1] = second
        return second, second & ~beside[:-2] & ~beside[2:]

    def sooner_than(self, soonest: int) -> Bools:
        """Which of `at` come sooner than anybody can have sent them again: alone, and not in a run of PSNs, for of what
        is behind a packet gone back to some was sent just before."""
        seq = self.rows["seq"]
        at = self.order[self.at]
        ahead = seq[at] - seq[np.maximum(at - 1, 0)]
        behind = seq[np.minimum(at + 1, len(seq) - 1)] - seq[at]
        in_run = ((ahead > 0) & (ahead < _RUN)) | ((behind > 0) & (behind < _RUN) & (ahead != 0))
        found: Bools = (self.gap < soonest) & self._alone()[1][at] & ~in_run
        return found

    def copies(self, window: Window | None) -> Bools:
        """Which of `at` repeat a sighting: of a sole packet all, of others by place or by distance."""
        found: Bools = self.sole.copy()
        found |= self.moved & (np.abs(self.gap) <= self.way.tolerance if self.way else True)
        if window is not None:
            found |= ~self.moved & window.has(self.gap)
        # Of three sightings and more, of what may have been sent twice, neighbours in time need not be the pairs.
        begins = np.flatnonzero(~self.again)
        sizes = np.diff(np.append(begins, len(self.rows)))
        group = np.cumsum(~self.again)[self.at] - 1
        several = (sizes[group] > 2) & ~self.sole
        for number in np.unique(group[several]).tolist():
            rows = self.order[begins[number] : begins[number] + sizes[number]]
            first = int(np.searchsorted(self.at, begins[number] + 1))
            found[first : first + len(rows) - 1] = self._repeats(rows, window)
        return found

    def _repeats(self, rows: I64, window: Window | None) -> list[bool]:
        """For each sighting of one packet but the first, in order of time: whether its transmission was seen before."""
        seen: list[dict[int, tuple[int, int]]] = []
        repeats: list[bool] = []
        for time, hop in zip(self.time[rows].tolist(), self.rows["hop"][rows].tolist(), strict=True):
            known = next((places for places in seen if self._fits(places, time, hop, window)), None)
            repeats.append(known is not None)
            if known is None:
                known = {}
                seen.append(known)
            known[hop] = time, known.get(hop, (0, 0))[1] + 1
        return repeats[1:]

    def _fits(self, places: dict[int, tuple[int, int]], time: int, hop: int, window: Window | None) -> bool:
        """Whether a sighting can be of the transmission seen at these places: hop limit to time and number."""
        if hop in places:
            last, count = places[hop]
            full = window is None or count >= 2 * len(window.middles)
            return window is not None and not full and bool(window.has(np.array([time - last]))[0])
        return self.way is None or abs(time - max(last for last, _ in places.values())) <= self.way.tolerance


def remove_copies(flows: list[Flow]) -> None:
    """Leave each flow with one sighting of each packet: the one nearest to the requestor. Its parts become one array
    each, in order of time, and `flow.copies` says what was taken out."""
    usual: Window | None = None
    for flow in sorted(flows, key=lambda flow: -sum(map(len, flow.requests)) - sum(map(len, flow.answers))):
        usual = _of_flow(flow, usual) or usual


def _of_flow(flow: Flow, usual: Window | None) -> Window | None:
    """The distance of copies in this flow, None where it has none; `usual` is that of others."""
    requests, answers = joined(flow.requests, REQUEST_ROW), joined(flow.answers, ANSWER_ROW)
    probes, notices = joined(flow.probes, PROBE_ROW), joined(flow.congestion_notifications, PROBE_ROW)
    there = _Sightings(requests, _key(requests, requests["seq"]), flow.mrc & ~requests["rtx"])
    back = _Sightings(answers, _key(answers, answers["trigger"]))
    asking = _Sightings(probes, _key(probes, probes["probe_id"]))
    noticing = _Sightings(notices, _key(notices, notices["probe_id"]))
    window, window_back = there.window(_MOST), back.window(_MOST)
    soonest = 0
    if window is not None and not there.sole.any():
        together = window_back is not None and max(window.middle, window_back.middle) < _NEAR_NS
        soonest = _soonest_answer(requests, answers)
        if there.way is not None:
            # What one place has twice comes from one queue; a go-back takes a round trip.
            doubled = window.middle < LEAST_TOLERANCE_NS
        else:
            doubled = together or window.middle < soonest or there.interleaved()
        if len(there.at) < _FEWEST or not doubled:
            window = None
    if window is not None and window_back is None:
        window_back = back.window(0.0)
    if len(there.at) < _FEWEST:
        window = window or usual
    if len(back.at) < _FEWEST:
        window_back = window_back or window or usual
    drop = there.copies(window)
    lone = _doubled_here_and_there(there, drop) if window is None else np.zeros(len(drop), np.bool_)
    if window is None and (~drop).any():
        # Sooner than any answer can have come nobody sends again.
        soon = ~drop & there.sooner_than(soonest or _soonest_answer(requests, answers))
        drop, lone = drop | soon, lone | soon
    drop_back = back.copies(window_back)
    near = _nearest(there, drop, back, drop_back)
    requests, copies = _without(there, drop, last=near.last_of_requests, high=True)
    answers, answer_copies = _without(back, drop_back, last=near.last_of_answers, high=False)
    probes, probe_copies = _without(asking, asking.copies(window or window_back), last=near.last_of_requests, high=True)
    if flow.bad:
        bad = joined(flow.bad, REQUEST_ROW)
        again = _Sightings(bad, _key(bad, bad["seq"]), np.full(len(bad), flow.mrc))
        flow.bad = [_without(again, again.copies(window), last=False, high=True)[0]]
    notices, notice_copies = _without(
        noticing, noticing.copies(window_back or window), last=near.last_of_answers, high=False
    )
    duplicates = int(lone.sum())
    copies += answer_copies + probe_copies + notice_copies - duplicates
    if near.clock_offset_ns is not None and near.far_hops:
        # Seen at the far place only: in the time of the near one.
        for rows, hops in ((requests, near.far_hops[0]), (answers, near.far_hops[1])):
            rows["time"][np.isin(rows["hop"], list(hops))] -= near.clock_offset_ns
        requests, answers = joined([requests], REQUEST_ROW), joined([answers], ANSWER_ROW)
    flow.requests, flow.answers = [requests], [answers]
    flow.copies = Copies(copies, duplicates, near.clock_offset_ns)
    flow.probes, flow.congestion_notifications = [probes], [notices]
    return window if copies else None


def joined(parts: list[Rows], row: np.dtype[np.void]) -> Rows:
    """In order of time. The parts are let go of, so that of a large flow not everything is there twice."""
    rows = np.concatenate(parts or [np.zeros(0, row)]) if len(parts) != 1 else parts[0]
    parts.clear()
    if (rows["time"][1:] >= rows["time"][:-1]).all():
        return rows
    return rows[np.lexsort((rows["number"], rows["time"]))]


def _key(rows: Rows, seq: I64) -> I64:
    """One number for each packet: its PSN, and below that its identity."""
    key: I64 = (seq.astype(np.int64) << 32) + rows["identity"].astype(np.int64)
    return key


def _doubled_here_and_there(sightings: _Sightings, drop: Bools) -> Bools:
    """Which of the sightings dropped stand alone: on their addresses most packets were seen once, at this place."""
    here: Bools = drop & ~sightings.moved
    if not here.any():
        return here
    pair = sightings.rows["pair"]
    twice = np.bincount(pair[sightings.order[sightings.at[here]]], minlength=int(pair.max()) + 1)
    packets = np.bincount(pair[sightings.order[~sightings.again]], minlength=len(twice))
    alone: Bools = here & (twice < _MOST * packets)[pair[sightings.order[sightings.at]]]
    return alone


def _soonest_answer(requests: Rows, answers: Rows) -> int:
    """The shortest time from a request that asks for an answer to one; 0 where there is none."""
    asking = requests[requests["ackreq"]]
    if not len(asking) or not len(answers):
        return 0
    triggers, first = np.unique(answers["trigger"], return_index=True)
    at = np.minimum(np.searchsorted(triggers, asking["seq"]), len(triggers) - 1)
    took = answers["time"][first[at]] - asking["time"]
    took = took[(triggers[at] == asking["seq"]) & (took > 0)]
    return int(took.min()) if len(took) else 0


class _Nearest(NamedTuple):
    """Which of two sightings at places that look alike is the one near the requestor, by time; how far the other
    place's clock is ahead, and which hop limits (of requests, of answers) only that one has."""

    last_of_requests: bool = False
    last_of_answers: bool = True
    clock_offset_ns: int | None = None
    far_hops: tuple[set[int], set[int]] | None = None


def _nearest(there: _Sightings, drop: Bools, back: _Sightings, drop_back: Bools) -> _Nearest:
    """By hop limits where these differ. Where they do not: the first sighting of a request and the last of an answer,
    unless an answer was seen before its request came to the second place. Then the clock of the second place is
    ahead by more than the way takes, and both were seen first at the same place: the requestor's, when requests are
    further apart than answers by twice the way."""
    if not drop.any() or not drop_back.any():
        return _Nearest()
    ahead, ahead_back = _signed_gaps(there, drop, True), _signed_gaps(back, drop_back, False)
    if ahead is not None and ahead_back is not None:
        offset = int(np.median(ahead[0]) - np.median(ahead_back[0])) // 2
        apart = np.median(ahead[0]) < 0 or np.median(ahead_back[0]) < 0
        return _Nearest(clock_offset_ns=offset if apart else None, far_hops=(ahead[1], ahead_back[1]))
    answers, second = back.rows, there.rows[there.order[there.at[drop]]]
    triggers, first = np.unique(answers["trigger"], return_index=True)
    at = np.minimum(np.searchsorted(triggers, second["seq"]), len(triggers) - 1)
    of_these = triggers[at] == second["seq"]
    early = answers["time"][first[at]][of_these] < second["time"][of_these]
    if not len(early) or early.mean() <= _MOST:
        return _Nearest()
    gap, gap_back = float(np.median(there.gap[drop])), float(np.median(back.gap[drop_back]))
    at_sender = gap >= gap_back
    offset = int(gap + gap_back) // 2
    if offset < LEAST_TOLERANCE_NS:
        # One place that has everything twice.
        return _Nearest()
    return _Nearest(not at_sender, not at_sender, offset if at_sender else -offset)


def _signed_gaps(sightings: _Sightings, drop: Bools, forward: bool) -> tuple[I64, set[int]] | None:
    """How much later each packet was seen at the place further along its way, and that place's hop limits; None where
    hop limits do not tell the places apart."""
    these = drop & sightings.moved
    if not these.any() or these.sum() < _MOST * drop.sum():
        return None
    now, before = sightings.order[sightings.at[these]], sightings.order[sightings.at[these] - 1]
    hop, hop_before = sightings.rows["hop"][now], sightings.rows["hop"][before]
    gap = sightings.rows["time"][now] - sightings.rows["time"][before]
    later = hop < hop_before
    far = np.where(later == forward, hop, hop_before)
    near = np.where(later == forward, hop_before, hop)
    return np.where(later, 1, -1) * gap, set(far.tolist()) - set(near.tolist())


def _without(sightings: _Sightings, drop: Bools, *, last: bool, high: bool) -> tuple[Rows, int]:
    """The rows with one sighting of each packet, and how many others there were. Of several the one with the most
    (`high`) or the least of its way before it, else the `last` or first."""
    rows, order = sightings.rows, sightings.order
    if not drop.any():
        return rows, 0
    keep = np.ones(len(rows), np.bool_)
    repeats = np.zeros(len(rows), np.bool_)
    repeats[sightings.at[drop]] = True
    # A transmission: a row that repeats none, and the repeats after it.
    group = np.cumsum(~repeats) - 1
    way = rows["hop"][order] * (-1 if high else 1)
    when = np.arange(len(rows)) * (-1 if last else 1)
    best = np.lexsort((when, way, group))
    keep[:] = False
    chosen = np.ones(len(rows), np.bool_)
    chosen[1:] = group[best][1:] != group[best][:-1]
    keep[order[best[chosen]]] = True
    return rows[keep], int(drop.sum())


def operations_once(found: dict[Pair, list[Rows]]) -> dict[Pair, Rows]:
    """Endpoint operations, the first sighting of each, in order of time. They carry a number of their own, so that
    only one that is sent again after a timeout looks the same."""
    once = {}
    for pair, parts in found.items():
        rows = joined(parts, ENDPOINT_ROW)
        key = _key(rows, rows["request_id"].astype(np.int64) << 1 | rows["answers"])
        sightings = _Sightings(rows, key)
        near = Window((0,), (_NEAR_NS,))
        once[pair], _ = _without(sightings, sightings.copies(near), last=False, high=True)
    return once
