# SPDX-License-Identifier: BSD-2-Clause
"""One sighting of each packet: the others, at other places or twice at one, are taken out before anything else.

Two sightings are of one packet when all that no router changes is the same (`identity`). The first transmission of an
MRC packet is one of its kind. A retransmission, any RC packet and any answer may be sent again byte by byte: then the
hop limit or the uSIDs tell two places apart, or the time between the sightings does, which for copies is much the same
for most packets of a flow.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from mrc.capture.analysis.distances import LEAST_TOLERANCE_NS, Apart, Window
from mrc.capture.analysis.drift import without_drift
from mrc.capture.analysis.flows import Copies, Flow, Reached
from mrc.capture.analysis.go_back import SEQUENCE_ERROR
from mrc.capture.analysis.nearest import Nearest, nearest
from mrc.capture.analysis.one_way import Later, compared
from mrc.capture.analysis.pairing import Disorder, Distance, distances, firsts
from mrc.capture.analysis.records import ANSWER_ROW, NAK, PROBE_ROW, REQUEST_ROW
from mrc.capture.analysis.sightings import MOST, Once, Sightings
from mrc.capture.frames import I64, Bools
from mrc.capture.rows import Rows, joined_rows

# Twins this close in a flow whose answers are doubled too; further apart they may be a timer's work.
_NEAR_NS = 1_000_000
# A flow with fewer twins does not show by itself how far copies are apart.
_FEWEST = 3


def remove_copies(flows: list[Flow], coarse: bool = False) -> None:
    """Leave each flow with one sighting of each packet: the one nearest to the requestor. Its parts become one array
    each, in order of time, and `flow.copies` says what was taken out. `coarse`: times are whole milliseconds."""
    usual: Window | None = None
    for flow in sorted(flows, key=lambda flow: -sum(map(len, flow.requests)) - sum(map(len, flow.answers))):
        usual = _of_flow(flow, usual, coarse) or usual


def _of_flow(flow: Flow, usual: Window | None, coarse: bool) -> Window | None:
    """The distance of copies in this flow, None where it has none; `usual` is that of others."""
    requests, answers = joined(flow.requests, REQUEST_ROW), joined(flow.answers, ANSWER_ROW)
    drift, requests, answers = without_drift(
        requests, _key(requests, requests["seq"]), answers, _key(answers, answers["trigger"])
    )
    probes, notices = joined(flow.probes, PROBE_ROW), joined(flow.congestion_notifications, PROBE_ROW)
    # A first transmission, and what carries the time at which it was sent, is one of its kind.
    sole = flow.mrc & (~requests["rtx"] | requests["stamped"])
    there = Sightings(requests, _key(requests, requests["seq"]), sole)
    back = Sightings(answers, _key(answers, answers["trigger"]))
    asking = Sightings(probes, _key(probes, probes["probe_id"]))
    # Probes go where requests go; they are too few to show by themselves how slow a path can be.
    asking.allow_as_much_as(there.way)
    noticing = Sightings(notices, _key(notices, notices["probe_id"]))
    window, window_back, apart, behind = _windows(there, back, requests, answers, flow.mrc)
    doubled, alone = 0, False
    if there.way is not None and window is None and not flow.mrc:
        requests, doubled, alone = _doubled_at_a_place(requests, coarse)
        there = Sightings(requests, _key(requests, requests["seq"])) if doubled else there
    if len(there.at) < _FEWEST:
        window = window or usual
    if len(back.at) < _FEWEST:
        window_back = window_back or window or usual
    sent = there.transmissions(window, apart)
    drop = ~firsts(sent)[there.at]
    lone = np.zeros(len(drop), np.bool_)
    if window is None and drop.any():
        lone = _doubled_here_and_there(there, sent)
    if window is None and there.way is None and (~drop).any():
        # Sooner than any answer can have come nobody sends again.
        soon = ~drop & _sooner_than_sent(there, requests, answers, coarse)
        sent[there.at[soon]] = sent[there.at[soon] - 1]
        drop, lone = drop | soon, lone | soon
    sent_back = back.transmissions(window_back, held=True)
    near = nearest(there, sent, back, sent_back)
    of_requests = partial(Once, last=near.last_of_requests, turned=near.requests_turned, high=True)
    of_answers = partial(Once, last=near.last_of_answers, turned=near.answers_turned, high=False)
    requests_once = of_requests(there, sent)
    if window is not None and not flow.mrc:
        requests_once.rows, doubled = _doubled_beside_copies(requests_once.rows, answers, window, coarse)
    answers_once = of_answers(back, sent_back)
    probes_once = of_requests(asking, asking.transmissions(window or window_back, held=True))
    probes_once.rows = _asked_once(probes_once.rows, asking)
    notices_once = of_answers(noticing, noticing.transmissions(window_back or window, held=True))
    if flow.bad:
        bad = joined(flow.bad, REQUEST_ROW)
        again = Sightings(bad, _key(bad, bad["seq"]), np.full(len(bad), flow.mrc))
        flow.bad = [Once(again, again.transmissions(window), last=False, high=True).rows]
    duplicates, lone_rows = int(lone.sum()), there.rows[there.order[there.at[lone]]]
    copies = sum(each.dropped for each in (requests_once, answers_once, probes_once, notices_once)) - duplicates
    duplicates += doubled
    flow.requests, flow.answers = [requests_once.rows], [answers_once.rows]
    flow.probes, flow.congestion_notifications = [probes_once.rows], [notices_once.rows]
    more = 2 ** (len(apart) + 1)
    unclear = not flow.mrc and there.way is None and min(map(_usual_sightings, (there, back))) >= more
    unclear |= alone or behind
    far = _apart(requests_once, answers_once, near)
    far_hops, far_hops_back = (each.far if flow.mrc and each is not None else frozenset[int]() for each in far)
    reached = _reached(requests_once, far_hops) if far_hops else None
    # Of answers that each place has twice it is not known which sighting is whose.
    answered = _reached(answers_once, far_hops_back) if far_hops_back and _usual_sightings(back) <= 2 else None
    later = _later(requests_once, far_hops) if far_hops else {}
    later_back = _later_back(answers_once, far_hops_back) if far_hops_back else {}
    flow.copies = Copies(
        copies,
        duplicates,
        lone_rows,
        None if unclear else near.clock_offset,
        *far,
        unclear,
        behind,
        drift,
        reached,
        answered,
        later,
        later_back,
    )
    return window if copies else None


def _windows(
    there: Sightings, back: Sightings, requests: Rows, answers: Rows, mrc: bool
) -> tuple[Window | None, Window | None, list[Distance], bool]:
    """The distance of copies of requests and of answers; of RC requests, where no hop limit tells the places apart,
    the distances of one after the other; and whether copies behind all others may have been sent again instead."""
    window = there.window(MOST)
    # Where two places have each request twice, they have each answer twice.
    window_back = back.window(MOST, len(window.middles) if window else 1)
    apart: list[Distance] = []
    behind = False
    if not mrc and there.way is None:
        seen = _usual_sightings(back)
        moving = answers[answers["cack"] > -1 << 60]
        disorder = Disorder(moving["time"], np.maximum.accumulate(moving["cack"]))
        apart, behind = distances(requests, _key(requests, requests["seq"]), disorder, seen)
        window = apart[0].window if apart else None
    elif (
        window is not None and not there.sole.any() and (len(there.at) < _FEWEST or window.middle >= LEAST_TOLERANCE_NS)
    ):
        # What one place has twice comes from one queue; a go-back takes a round trip.
        window = None
    if not mrc and window is None and len(back.at) < _FEWEST:
        # A responder of RC answers again what it has already.
        window_back = None
    if window is not None and window_back is None:
        window_back = back.window(0.0)
    if mrc and window is None and window_back is not None:
        # Of two places that have all answers one has the requests that were not lost between them, or had not passed
        # the other before the file begins.
        window = there.window(0.0)
    return window, window_back, apart, behind


def _doubled_beside_copies(requests: Rows, answers: Rows, window: Window, coarse: bool) -> tuple[Rows, int]:
    """RC requests of which the capture's copies are out, without those that the network doubled, and how many these
    were: they come sooner than any answer can have come."""
    found = Sightings(requests, _key(requests, requests["seq"]))
    if found.way is not None:
        return requests, 0
    soon = _sooner_than_sent(found, requests, answers, coarse)
    # What only one place saw, and what both did: that it is of one transmission the distance of the two shows.
    lone, lone_before = requests["lone"][found.order[found.at]], requests["lone"][found.order[found.at - 1]]
    away = lone & ~lone_before & (found.gap >= window.middle - window.tolerances[0])
    soon &= ~lone & ~lone_before | away | (found.gap <= LEAST_TOLERANCE_NS)
    return _without(requests, found.order[found.at[soon]]), int(soon.sum())


def _sooner_than_sent(sightings: Sightings, requests: Rows, answers: Rows, coarse: bool) -> Bools:
    """Which second sightings of RC requests come sooner than any answer can have come that made the requestor send them
    again, none of which is seen between the two."""
    soon = sightings.sooner_than(_soonest_answer(requests, answers), 0 if coarse else LEAST_TOLERANCE_NS)
    rows = sightings.order[sightings.at[soon]]
    naks = answers[(answers["kind"] == NAK) & (answers["code"] == SEQUENCE_ERROR)]
    for place, psn, time in zip(
        np.flatnonzero(soon).tolist(), requests["seq"][rows].tolist(), requests["time"][rows].tolist(), strict=True
    ):
        begin, end = np.searchsorted(naks["time"], (time - sightings.gap[place], time), "right").tolist()
        soon[place] = not (naks["cack"][begin:end] + 1 == psn).any()
    return soon


def _doubled_at_a_place(requests: Rows, coarse: bool) -> tuple[Rows, int, bool]:
    """RC requests seen at several places, without those that one place has twice at once and another once; how many one
    place had of them, and whether one place has some that no other has at all. (What was sent twice is twice at each
    place; one that came late and the next are at once there.)"""
    drop, most, alone = [], 0, False
    key = _key(requests, requests["seq"])
    _, packet, at_all = np.unique(key, return_inverse=True, return_counts=True)
    for hop in np.unique(requests["hop"]).tolist():
        rows = np.flatnonzero(requests["hop"] == hop)
        found = Sightings(requests[rows], key[rows])
        soon = rows[found.order[found.at[found.gap <= (0 if coarse else LEAST_TOLERANCE_NS)]]]
        here = np.bincount(packet[rows], minlength=len(at_all))
        elsewhere = (at_all - here)[packet[soon]]
        alone |= bool((elsewhere == 0).any())
        soon = soon[(elsewhere > 0) & (elsewhere < here[packet[soon]])]
        drop.append(soon)
        most = max(most, len(soon))
    return (_without(requests, np.concatenate(drop)) if drop else requests), most, alone


def _asked_once(rows: Rows, asking: Sightings) -> Rows:
    """Probes without second ones of those that the network doubled: nobody asks twice at once with one number."""
    if not len(rows):
        return rows
    way = asking.way.middle if asking.way is not None else 0
    key = _key(rows, rows["probe_id"])
    far = rows["hop"] < rows["hop"].max()
    time = rows["time"] - way * far
    order = np.lexsort((rows["number"], time, far, key))
    soon = np.zeros(len(rows), np.bool_)
    soon[order[1:]] = (np.diff(key[order]) == 0) & (np.abs(np.diff(time[order])) <= _NEAR_NS)
    return rows[~soon]


def _without(rows: Rows, dropped: I64) -> Rows:
    keep = np.ones(len(rows), np.bool_)
    keep[dropped] = False
    return rows[keep]


def _usual_sightings(sightings: Sightings) -> float:
    """How often most packets are in the file."""
    return float(np.median(np.bincount(np.cumsum(~sightings.again) - 1))) if len(sightings.rows) else 0.0


def _apart(there: Once, back: Once, near: Nearest) -> tuple[Apart | None, Apart | None]:
    """How much later the far place saw requests, and how much earlier answers, than the near one."""
    if near.far_hops is None:
        return Apart.of(there.ev, there.gap), Apart.of(back.ev, -back.gap)
    far, far_back = near.far_hops
    at, at_back = np.isin(there.hop, list(far)), np.isin(back.hop, list(far_back))
    return (
        Apart.of(there.ev[at], there.gap[at], frozenset(far)),
        Apart.of(back.ev[at_back], -back.gap[at_back], frozenset(far_back)),
    )


def _later(once: Once, far: frozenset[int]) -> dict[int, Later]:
    """By EV, how much later its packets come to the place further on than those of the quicker paths."""
    there = np.isin(once.hop, list(far))
    return compared(once.ev[there], once.gap[there], once.time[there])


def _later_back(once: Once, far: frozenset[int]) -> dict[int, Later]:
    """By the EV that answers were sent on, how much later they come from the place further on to the other than those
    of the quicker paths."""
    there = np.isin(once.hop, list(far))
    gap = once.gap[there]
    return compared(once.ev[there], -gap, once.time[there] + gap)


def _reached(once: Once, far: frozenset[int]) -> Reached:
    """When the place near the responder, of these hop limits, saw each packet."""
    rows = once.rows
    there = np.isin(once.hop, list(far))
    at = np.searchsorted(rows["number"], once.number[there], sorter=(by_number := np.argsort(rows["number"])))
    came = rows["time"][by_number[at]] + once.gap[there]
    alone = np.isin(rows["hop"], list(far))
    number = np.concatenate([once.number[there], rows["number"][alone]])
    time = np.concatenate([came, rows["time"][alone]])
    order = np.argsort(number, kind="stable")
    return Reached(number[order], time[order])


def joined(parts: list[Rows], row: np.dtype[np.void]) -> Rows:
    """In order of time. The parts are let go of, so that of a large flow not everything is there twice."""
    rows = joined_rows(parts, row)
    parts.clear()
    if (rows["time"][1:] >= rows["time"][:-1]).all():
        return rows
    return rows[np.lexsort((rows["number"], rows["time"]))]


def _key(rows: Rows, seq: I64) -> I64:
    """One number for each packet: its PSN, and below that its identity."""
    key: I64 = (seq.astype(np.int64) << 32) + rows["identity"].astype(np.int64)
    return key


def _doubled_here_and_there(sightings: Sightings, sent: I64) -> Bools:
    """Which of the second sightings stand alone: another of their transmission (`sent`) was seen at the same place, and
    on their addresses most packets were seen there once."""
    hop = sightings.rows["hop"][sightings.order].astype(np.int64)
    here: Bools = ~firsts((sent << 32) + hop)[sightings.at]
    if not here.any():
        return here
    pair = sightings.rows["pair"]
    twice = np.bincount(pair[sightings.order[sightings.at[here]]], minlength=int(pair.max()) + 1)
    packets = np.bincount(pair[sightings.order[~sightings.again]], minlength=len(twice))
    alone: Bools = here & (twice < MOST * packets)[pair[sightings.order[sightings.at]]]
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
