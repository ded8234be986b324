# SPDX-License-Identifier: BSD-2-Clause
"""From one flow's packets to its figures."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mrc.capture.analysis.acknowledged import NEVER
from mrc.capture.analysis.capture_point import MIDDLE, RECEIVER, SENDER, UNKNOWN, CapturePoint, capture_point
from mrc.capture.analysis.distances import LEAST_TOLERANCE_NS
from mrc.capture.analysis.doubt import Doubt, came_too_late, doubt_of_losses
from mrc.capture.analysis.fates import ARRIVED, BY_TIMER, LOST, PENDING, REFUSED, SPURIOUS, TRIMMED, Fates, fates
from mrc.capture.analysis.figures import DirectionFigures, PathFigures, PlaneFigures, Times
from mrc.capture.analysis.flows import Flow
from mrc.capture.analysis.path_states import PathHistory, ProbeFates, histories
from mrc.capture.analysis.placing import is_in_order, placed
from mrc.capture.analysis.probing import address_text, match_probes
from mrc.capture.analysis.records import (
    ACK,
    NACK,
    NAK,
    PROBE_ANSWER,
    RESPONSE,
    SACK,
    Rows,
)
from mrc.capture.analysis.sending import Pace, messages, pace
from mrc.capture.frames import I64, Bools
from mrc.wire.names import NACK_REASONS, SYNDROMES

CHANGES_KEPT = 1000
_BELIEVED = 3
# Round trips this long are known well enough from whole milliseconds.
_COARSE_US = 20_000
_SMALLEST_MTU = 256
_PLANE = re.compile(r"p(\d+)")


@dataclass(frozen=True, slots=True)
class Direction:
    """One flow, analysed. `requests` and `answers` are in order of time and without what no endpoint took (bad ICRCs,
    trimmed packets, second copies)."""

    figures: DirectionFigures
    requests: Rows
    answers: Rows
    fates: Fates
    histories: dict[int, PathHistory]
    probes: ProbeFates
    planes: dict[int, int | None]
    doubt: Doubt
    # Times without a request while something was unacknowledged.
    stalls_ns: I64

    @property
    def lost(self) -> Bools:
        """Which transmissions are known to be lost."""
        return self.fates.are(LOST) & ~self.doubt.unsettled

    @property
    def weight(self) -> int:
        return len(self.requests) + len(self.answers)


def analyse(flow: Flow, end_ns: int, coarse: bool = False) -> Direction:
    """The flow's packets, one sighting of each, are used up. `end_ns`: time of the capture's last packet.
    `coarse`: times are whole milliseconds, so that round trips are not known."""
    requests, answers, (probes,) = flow.requests.pop(), flow.answers.pop(), flow.probes
    bad = flow.bad.pop() if flow.bad else requests[:0]
    trimmed = requests[requests["trimmed"]]
    if len(trimmed):
        requests = requests[~requests["trimmed"]]
    requests, answers = placed(requests, answers, flow.copies, flow.mrc)
    apart = flow.copies.there
    of_two = flow.copies.of_two_places and apart is not None
    mixed_up = not flow.mrc and of_two and apart is not None and not is_in_order(requests, answers, apart.usual)
    ahead_ns = _answers_ahead(requests, answers)
    if ahead_ns:
        answers["time"] += ahead_ns
    point = capture_point(requests, answers, of_two_places=flow.copies.of_two_places)
    at_receiver = point.side == RECEIVER
    known = fates(requests, answers, mrc=flow.mrc, at_receiver=at_receiver, behind=point.side in (RECEIVER, MIDDLE))
    matched = match_probes(probes, answers)
    history = histories(known, answers, matched, end_ns) if flow.mrc and not at_receiver else {}
    planes = _planes(flow)
    doubt = Doubt(np.zeros(len(requests), np.bool_), 0)
    if flow.mrc and not at_receiver:
        doubt = doubt_of_losses(known, answers)
    figures = DirectionFigures(
        source=_addresses(flow, 0),
        destination=_addresses(flow, 1),
        responder_qpn=flow.qpn,
        requestor_qpn=flow.requestor_qpn,
        transport="mrc" if flow.mrc else "rc",
        capture_point=point.side,
        capture_point_why=point.why,
        unknowable=_unknowable(flow, point, len(requests), len(answers)),
        copies_left_out=flow.copies.copies,
        duplicates=flow.copies.duplicates,
        clock_offset_ns=flow.copies.clock_offset_ns,
        bad_icrc_packets=len(bad),
    )
    spent = pace(requests, known.acknowledged)
    direction = Direction(figures, requests, answers, known, history, matched, planes, doubt, spent.stalls_ns)
    _count_answers(direction, flow)
    _count_requests(direction, trimmed, spent, flow.copies.of_two_places)
    figures.paths = _paths(direction, flow, bad, trimmed)
    figures.planes = _plane_figures(direction)
    figures.answers_ahead_ns = ahead_ns or None
    if mixed_up or flow.copies.is_unclear:
        _forget_transmissions(figures)
    elif not flow.mrc and point.side == RECEIVER and figures.not_captured:
        figures.retransmissions = figures.spurious_retransmissions = None
    elif not flow.mrc and point.side == SENDER and figures.lost and not is_in_order(requests, answers, 0):
        figures.lost_unsure = figures.lost
        figures.lost = figures.loss_share = None
    if coarse or ahead_ns:
        _forget_round_trips(figures, coarse)
    return direction


def _answers_ahead(requests: Rows, answers: Rows) -> int:
    """How far answers have to be moved so that none comes before the request that it answers: 0 unless most do, as in a
    file of two hosts' captures, each of what it sent, with clocks apart."""
    first = requests[~requests["rtx"]]
    sacks = answers[np.isin(answers["kind"], (SACK, ACK)) & ~answers["rtx"]]
    seqs, at = np.unique(first["seq"], return_index=True)
    if not len(seqs) or not len(sacks):
        return 0
    where = np.minimum(np.searchsorted(seqs, sacks["trigger"]), len(seqs) - 1)
    took = (sacks["time"] - first["time"][at[where]])[seqs[where] == sacks["trigger"]]
    return int(-took.min()) + 1 if len(took) >= _BELIEVED and np.median(took) < 0 else 0


def _forget_transmissions(figures: DirectionFigures) -> None:
    """Which sightings are of one transmission is not certain."""
    figures.lost = figures.loss_share = None
    figures.retransmissions = figures.spurious_retransmissions = None
    for path in figures.paths:
        path.lost = path.loss_share = path.retransmissions = path.spurious_retransmissions = None
    figures.packets = figures.bytes = figures.payload_bytes = None
    figures.duplicates = 0


def _forget_round_trips(figures: DirectionFigures, coarse: bool) -> None:
    """Times between requests and answers mean nothing where the clock is too coarse, or where there are two."""
    usual = figures.rtt.p50_us
    if coarse and usual is not None and usual > _COARSE_US:
        return
    figures.rtt = Times.of(np.zeros(0, np.int64))
    for path in figures.paths:
        path.rtt = path.probe_rtt = figures.rtt
        path.out_s = round(path.out_s, 3)


def _addresses(flow: Flow, end: int) -> list[str]:
    return [address_text(address) for address in sorted({pair[end] for pair in flow.pairs})]


def _unknowable(flow: Flow, point: CapturePoint, requests: int, answers: int) -> list[str]:
    """What a capture at this point does not show, in sentences."""
    found = []
    if not answers:
        found.append(
            "no answer was captured: round trips, what was acknowledged and what was resent spuriously stay unknown"
        )
    if not requests:
        found.append("no request was captured: only what the answers say is known")
    if point.side == RECEIVER:
        found.append(
            "lost packets never came here: how many are missing follows from retransmissions, on which path they were "
            "lost does not; times between packet and SACK are the responder's, not round trips"
        )
    elif point.side == MIDDLE:
        found.append("what was lost before this point, or takes another way, is not seen; times count from here")
    elif point.side == SENDER and answers:
        found.append("SACKs lost on their way here are not seen; a retransmission may have been acknowledged in one")
    elif answers:
        found.append("figures are those of a capture at the sender, which this may not be")
    if not flow.mrc:
        found.append("RC has one path: no path figures but those of the whole")
    return found


def _planes(flow: Flow) -> dict[int, int | None]:
    """The plane of each EV: by the name of its first uSID in our plan, else by its pair of addresses."""
    if not flow.mrc:
        return dict.fromkeys(flow.paths)
    named = {ev: _PLANE.match(seen.text) for ev, seen in flow.paths.items()}
    if all(named.values()):
        return {ev: int(match[1]) for ev, match in named.items() if match}
    rank = {flow.pairs.index(pair): number for number, pair in enumerate(sorted(flow.pairs))}
    return {ev: rank[seen.pair] for ev, seen in flow.paths.items()}


def _count_requests(direction: Direction, trimmed: Rows, spent: Pace, two_places: bool) -> None:
    figures, requests, known = direction.figures, direction.requests, direction.fates
    at_receiver = figures.capture_point == RECEIVER
    ordered = known.requests
    figures.packets, figures.ce_packets = len(requests), int(requests["ce"].sum())
    figures.bytes, figures.payload_bytes = int(requests["length"].sum()), int(requests["payload"].sum())
    again = known.again
    figures.retransmissions = int(again.sum())
    figures.spurious_retransmissions = int(known.are(SPURIOUS).sum())
    figures.trimmed = int(known.are(TRIMMED).sum()) + (len(trimmed) if at_receiver else 0)
    figures.refused = int(known.are(REFUSED).sum())
    if len(requests):
        figures.first_s, figures.last_s = float(requests["time"][0]) / 1e9, float(requests["time"][-1]) / 1e9
    delivered = known.are(ARRIVED)
    if delivered.any():
        figures.goodput_bytes = int(ordered["payload"][delivered].sum())
        span = int(known.delivered_at[delivered].max() - requests["time"][0])
        figures.goodput_gbps = figures.goodput_bytes * 8 / span if span > 0 else None
    alone = _resent_only(direction, again, trimmed) if figures.transport == "mrc" else known.lost_unseen
    # A capture that lacks packets may lack those that came before their retransmission too.
    # Of RC it depends on the place which of the packets gone back for never came here.
    unsure = figures.transport == "rc" and figures.capture_point not in (RECEIVER, MIDDLE)
    unsure |= known.may_hide or (figures.transport == "mrc" and _may_come_later(direction, again))
    if figures.capture_point != SENDER and not figures.not_captured and not unsure and not two_places:
        figures.missing_before_capture = alone
    if at_receiver:
        behind_is_known = not figures.not_captured and not known.unsettled
        figures.lost_behind_capture = int(known.are(LOST).sum()) if behind_is_known else None
    else:
        lost = direction.lost
        figures.lost, figures.lost_unsure = int(lost.sum()), int((known.are(LOST) & ~lost).sum())
        by_timer = bool((known.found[lost] == BY_TIMER).any())
        # Of an unknown place: so soon a receiver's own answers come.
        quick = len(known.round_trips.ns) > 0 and known.shortest_ns < LEAST_TOLERANCE_NS
        answered_at_once = figures.capture_point == UNKNOWN and quick
        unsure = figures.transport == "rc" and (figures.not_captured > 0 or (answered_at_once and by_timer))
        if lost.any() and (unsure or (figures.not_captured and direction.doubt.late)):
            # Of RC what the requestor went back for may be among the packets that the capture lacks; of MRC the answer
            # that shows a packet to have come late.
            figures.lost, figures.lost_unsure = None, int(known.are(LOST).sum())
        figures.loss_share = figures.lost / len(requests) if len(requests) and figures.lost is not None else None
        figures.lost_found_by = _named(("hole", "NACK", "timer"), known.found[lost])
    if figures.transport == "rc":
        figures.go_backs = int(known.are(LOST).sum()) + known.lost_unseen
        figures.read_requests = int((requests["opcode"] == 0x0C).sum())
        figures.read_bytes = int(direction.answers["payload"].sum())
        figures.goodput_bytes += figures.read_bytes
        span = max((int(rows["time"][-1]) for rows in (requests, direction.answers) if len(rows)), default=0)
        span -= int(requests["time"][0]) if len(requests) else 0
        figures.goodput_gbps = figures.goodput_bytes * 8 / span if span > 0 else None
    firsts = ordered[~again]
    firsts = firsts[np.lexsort((firsts["number"], firsts["time"]))]
    behind = np.maximum.accumulate(firsts["seq"]) - firsts["seq"] if len(firsts) else firsts["seq"]
    figures.reordered_packets = int((behind > 0).sum())
    figures.reorder_depth_max = int(behind.max()) if len(behind) else 0
    figures.idle_share, figures.waiting_share = round(spent.idle_share, 4), round(spent.waiting_share, 4)
    figures.longest_stall_s, figures.in_flight_max = spent.longest_stall_ns / 1e9, spent.most_in_flight
    figures.longest_stall_after_packet = spent.stall_after or None
    sent = messages(known)
    figures.messages, figures.messages_unfinished = sent.seen, sent.unfinished if len(direction.answers) else 0
    figures.message_time = Times.of(sent.durations_ns)


def _may_come_later(direction: Direction, again: Bools) -> bool:
    """Whether the first transmission of one that came as a retransmission only may stand behind the end of the file."""
    return bool(again.any()) and bool(came_too_late(direction.fates, direction.answers).any())


def _resent_only(direction: Direction, again: Bools, trimmed: Rows) -> int:
    """How many PSNs the capture has retransmissions of and not the first transmission, not even trimmed, although it
    was not acknowledged before."""
    known = direction.fates
    came = np.concatenate([known.requests["seq"][~again], trimmed["seq"]])
    late = known.acknowledged.at < known.requests["time"][known.first]
    begun = known.acknowledged.seqs >= _begin(known, mrc=True)[0]
    return int((~np.isin(known.acknowledged.seqs, came) & ~late & begun).sum())


def _count_answers(direction: Direction, flow: Flow) -> None:
    figures, answers, known = direction.figures, direction.answers, direction.fates
    kind = answers["kind"]
    figures.sacks = int(np.isin(kind, (SACK, PROBE_ANSWER)).sum())
    figures.acks = int(np.isin(kind, (ACK, RESPONSE)).sum())
    figures.naks = _named(SYNDROMES, answers["code"][kind == NAK], "RNR NAK" if not flow.mrc else "syndrome")
    figures.nacks = _named(NACK_REASONS, answers["code"][kind == NACK], "reason")
    figures.marks = int(((kind == SACK) & (answers["mark"] > 0)).sum())
    figures.congestion_notifications = sum(map(len, flow.congestion_notifications))
    figures.held_above_hole_max = int(answers["held"].max()) if len(answers) else 0
    figures.hole_psns = known.acknowledged.holes
    figures.rtt = Times.of(known.round_trips.ns)
    figures.probes = len(direction.probes.probes)
    figures.probes_answered = int((direction.probes.answered_at < NEVER).sum())
    seqs, edge = known.acknowledged.seqs, known.acknowledged.edge
    if len(seqs) and len(answers):
        figures.unacknowledged = int((known.acknowledged.at == NEVER).sum())
    begin, settled = _begin(known, figures.transport == "mrc")
    if len(seqs) and len(edge) and edge[-1] >= begin:
        # Every PSN up to the edge was sent; those not seen here passed the capture by, if it ran by then.
        up_to = int(edge[-1])
        begin = max(begin, int(known.acknowledged.edge_at(np.array([settled]), begin - 1)[0]) + 1)
        seen = int(np.searchsorted(seqs, up_to, "right") - np.searchsorted(seqs, begin))
        figures.not_captured = max(0, up_to - begin + 1 - seen - _psns_of_reads(direction, up_to))


def _begin(known: Fates, mrc: bool) -> tuple[int, int]:
    """The PSN from which on a capture that began in the middle of a flow can have all of them: that of the earliest
    first transmission. (What is sent again later may have been sent first before the capture began.) And until when
    packets that others overtook came: what was acknowledged by then may have been sent before the capture began, as may
    as many PSNs as one packet is behind another."""
    firsts = known.requests[known.first & ~known.requests["rtx"]] if mrc else known.requests[known.first]
    if not len(firsts):
        return int(NEVER), 0
    if not firsts["lone"].all():
        # Of two places the far one may show what passed the other before the capture began.
        firsts = firsts[~firsts["lone"]]
    firsts = firsts[np.lexsort((firsts["number"], firsts["time"]))]
    seq, time = firsts["seq"], firsts["time"]
    if not mrc or firsts["msn"][0] == 0:
        return int(seq[0]), -int(NEVER)
    highest = np.maximum.accumulate(seq)
    overtaken_by = np.searchsorted(highest, seq, "right")
    behind = overtaken_by < np.arange(len(seq))
    lag = int((time - time[np.minimum(overtaken_by, len(seq) - 1)])[behind].max(initial=0))
    depth = int((highest - seq).max())
    return int(seq[0]) + depth, int(time[0]) + lag + int(known.round_trips.ns.max(initial=0))


def _psns_of_reads(direction: Direction, up_to: int) -> int:
    """How many PSNs the READs up to one took beyond their own: one for each response, whose size the responses show."""
    requests, answers = direction.fates.requests, direction.answers
    reads = direction.fates.first & (requests["span"] > 0) & (requests["seq"] <= up_to)
    responses = answers["payload"][answers["kind"] == RESPONSE]
    size = int(responses.max()) if len(responses) and responses.max() > 0 else _SMALLEST_MTU
    return int((np.maximum(-(-requests["span"][reads] // size), 1) - 1).sum())


def _named(names: Mapping[int, str] | Sequence[str], values: npt.NDArray[Any], otherwise: str = "") -> dict[str, int]:
    """How often each value occurs, by its name."""
    found: dict[str, int] = {}
    for value, count in Counter(values.tolist()).most_common():
        name = names.get(value) if isinstance(names, Mapping) else names[value]
        name = name or f"{otherwise} 0x{value:02x}"
        found[name] = found.get(name, 0) + count
    return found


def _paths(direction: Direction, flow: Flow, bad: Rows, trimmed: Rows) -> list[PathFigures]:
    """Every EV of the requests, and those that only answers or probes name."""
    known, answers, probes = direction.fates, direction.answers, direction.probes
    requests = known.requests
    at_receiver = direction.figures.capture_point == RECEIVER
    marks = answers[(answers["kind"] == SACK) & (answers["mark"] > 0)]
    refusals = answers[answers["kind"] == NACK]
    trips, trip_ev = known.round_trips, requests["ev"][known.round_trips.transmission]
    again = known.again
    by_ev = _Split(requests["ev"])
    trips_by_ev, marks_by_ev = _Split(trip_ev), _Split(marks["entropy"])
    refusals_by_ev, probes_by_ev = _Split(refusals["entropy"]), _Split(probes.probes["ev"])
    bad_by_ev, trimmed_by_ev = _Split(bad["ev"]), _Split(trimmed["ev"])
    named = refusals_by_ev.all | marks_by_ev.all if flow.mrc else set()
    # What has a wrong ICRC may name any EV; several that name one are on it.
    named |= {ev for ev in bad_by_ev.all if len(bad_by_ev[ev]) >= _BELIEVED}
    made = []
    for ev in sorted(by_ev.all | probes_by_ev.all | named):
        seen = flow.paths.get(ev)
        rows, fate = requests[by_ev[ev]], known.fate[by_ev[ev]]
        path = PathFigures(ev, seen.text if seen else "", direction.planes.get(ev))
        path.packets, path.bytes = len(rows), int(rows["length"].sum())
        path.payload_bytes, path.ce_packets = int(rows["payload"].sum()), int(rows["ce"].sum())
        path.retransmissions = int(again[by_ev[ev]].sum())
        path.trimmed = int((fate == TRIMMED).sum()) + (len(trimmed_by_ev[ev]) if at_receiver else 0)
        path.refused, path.spurious_retransmissions = int((fate == REFUSED).sum()), int((fate == SPURIOUS).sum())
        if not at_receiver and direction.figures.lost is not None:
            lost = rows[direction.lost[by_ev[ev]]]
            path.lost, path.loss_share = len(lost), len(lost) / len(rows) if len(rows) else None
            path.first_lost_packet = int(lost["number"][lost["time"].argmin()]) if len(lost) else None
        path.bad_icrc_packets, path.marks = len(bad_by_ev[ev]), len(marks_by_ev[ev])
        path.nacks = _named(NACK_REASONS, refusals["code"][refusals_by_ev[ev]], "reason")
        path.rtt = Times.of(trips.ns[trips_by_ev[ev]])
        answered = probes.answered_at[probes_by_ev[ev]]
        path.probes, path.probes_answered = len(answered), int((answered < NEVER).sum())
        sent = probes.probes["time"][probes_by_ev[ev]]
        path.probe_rtt = Times.of((answered - sent)[answered < NEVER])
        history = direction.histories.get(ev)
        if history is not None:
            path.state, path.outs, path.out_s = history.state, history.outs, history.out_ns / 1e9
            path.state_changes = [
                {"time_s": each.time / 1e9, "state": each.state, "trigger": each.trigger, "packet": each.number}
                for each in history.changes[:CHANGES_KEPT]
            ]
        if len(rows):
            path.first_use_s, path.last_use_s = float(rows["time"].min()) / 1e9, float(rows["time"].max()) / 1e9
        made.append(path)
    return made


class _Split:
    """The positions of each value in an array."""

    def __init__(self, values: I64) -> None:
        self._order = np.argsort(values, kind="stable")
        kinds, begins = np.unique(values[self._order], return_index=True)
        ends = np.append(begins, len(values))[1:]
        self._spans = dict(zip(kinds.tolist(), zip(begins.tolist(), ends.tolist(), strict=True), strict=True))

    @property
    def all(self) -> set[int]:
        return set(self._spans)

    def __getitem__(self, value: int) -> I64:
        begin, end = self._spans.get(value, (0, 0))
        return self._order[begin:end]


def _plane_figures(direction: Direction) -> list[PlaneFigures]:
    figures, known = direction.figures, direction.fates
    requests = known.requests
    arrived = known.are(ARRIVED) | known.are(PENDING) if not len(direction.answers) else known.are(ARRIVED)
    made = []
    for plane in sorted({plane for plane in direction.planes.values() if plane is not None}):
        paths = [path for path in figures.paths if path.plane == plane]
        of_plane = np.isin(requests["ev"], [path.ev for path in paths])
        span_s = (figures.last_s or 0.0) - (figures.first_s or 0.0)
        payload = sum(path.payload_bytes for path in paths)
        made.append(
            PlaneFigures(
                plane,
                len(paths),
                sum(path.packets for path in paths),
                payload,
                payload / figures.payload_bytes if figures.payload_bytes else 0.0,
                None if figures.lost is None else sum(path.lost or 0 for path in paths),
                int(requests["payload"][arrived & of_plane].sum()) * 8 / span_s / 1e9 if span_s > 0 else None,
            )
        )
    return made
