# SPDX-License-Identifier: BSD-2-Clause
"""From one flow's packets to its figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from mrc.capture.analysis.acknowledged import NEVER
from mrc.capture.analysis.answer_paths import answer_paths_of
from mrc.capture.analysis.beginning import lacks_arrivals, not_seen, resent_only
from mrc.capture.analysis.capture_point import (
    BOTH,
    MIDDLE,
    RECEIVER,
    SENDER,
    UNKNOWN,
    capture_point,
    with_the_far_place,
)
from mrc.capture.analysis.clock import Pause
from mrc.capture.analysis.direction import Direction
from mrc.capture.analysis.distances import LEAST_TOLERANCE_NS
from mrc.capture.analysis.doubt import Doubt, came_too_late, doubt_of_losses, with_lost_nacks
from mrc.capture.analysis.fates import ARRIVED, BY_TIMER, LOST, REFUSED, SPURIOUS, TRIMMED, fates
from mrc.capture.analysis.figures import DirectionFigures, Times
from mrc.capture.analysis.flows import Flow
from mrc.capture.analysis.path_figures import named, paths_of, plane_figures, planes_of
from mrc.capture.analysis.path_states import histories
from mrc.capture.analysis.placing import is_in_order, placed
from mrc.capture.analysis.probing import match_probes
from mrc.capture.analysis.records import ACK, NACK, NAK, PROBE_ANSWER, RESPONSE, SACK
from mrc.capture.analysis.sending import Pace, messages, pace
from mrc.capture.analysis.traffic import operations_of
from mrc.capture.analysis.unknown import (
    forget_losses,
    forget_pace,
    forget_place,
    forget_resent,
    forget_round_trips,
    forget_spurious,
    forget_times,
    forget_transmissions,
    unknowable,
)
from mrc.capture.frames import Bools
from mrc.capture.rows import Rows
from mrc.capture.texts import address_text
from mrc.wire.names import NACK_REASONS, SYNDROMES

_BELIEVED = 3
_SMALLEST_MTU = 256


def analyse(flow: Flow, end_ns: int, coarse: bool = False, unsure: Sequence[Pause] = ()) -> Direction:
    """The flow's packets, one sighting of each, are used up. `end_ns`: time of the capture's last packet.
    `coarse`: times are whole milliseconds, so that round trips are not known; `unsure`: pauses of the whole file in
    which the clock may have been set."""
    requests, answers, (probes,) = flow.requests.pop(), flow.answers.pop(), flow.probes
    bad = flow.bad.pop() if flow.bad else requests[:0]
    trimmed = requests[requests["trimmed"]]
    if len(trimmed):
        requests = requests[~requests["trimmed"]]
    requests, answers = placed(requests, answers, flow.copies, flow.mrc)
    apart, offset = flow.copies.there, flow.copies.clock_offset
    of_two = flow.copies.of_two_places and apart is not None
    # How far apart they are by the clocks shows nothing of what passed one place before the file begins.
    way_ns = apart.usual - (offset.ns if offset is not None else 0) if apart is not None else 0
    mixed_up = not flow.mrc and of_two and not is_in_order(requests, answers, way_ns)
    ahead_ns = _answers_ahead(requests, answers)
    if ahead_ns:
        answers["time"] += ahead_ns
    point = capture_point(requests, answers, of_two_places=flow.copies.of_two_places)
    if apart is not None and flow.copies.back is not None:
        point = with_the_far_place(point, apart.far, flow.copies.back.far)
    at_receiver = point.side == RECEIVER
    ends = flow.copies if point.side == BOTH else None
    reached = ends.reached.of(requests["number"]) if ends and ends.reached else None
    answered = ends.answered.of(answers["number"]) if ends and ends.answered else None
    behind = point.side in (RECEIVER, MIDDLE)
    known = fates(
        requests, answers, mrc=flow.mrc, at_receiver=at_receiver, behind=behind, reached=reached, answered=answered
    )
    two_clocks = flow.copies.of_two_places or flow.copies.drift is not None
    if known.reorders and (two_clocks or not_seen(known, answers, False)):
        # A sighting that was taken for another packet's stands alone too, and so does one beside those the file lacks.
        known = replace(known, reorders=False)
    matched = match_probes(probes, answers)
    history = histories(known, answers, matched, end_ns) if flow.mrc and not at_receiver else {}
    planes = planes_of(flow, flow.paths)
    doubt = Doubt(known.doubtful, 0)
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
        unknowable=unknowable(flow, point, len(requests), len(answers)),
        copies_left_out=flow.copies.copies,
        duplicates=flow.copies.duplicates,
        clock_offset_ns=None if offset is None else offset.ns,
        clock_offset_least_ns=None if offset is None or flow.copies.drift is not None else offset.least,
        clock_offset_most_ns=None if offset is None or flow.copies.drift is not None else offset.most,
        clock_drift_ns=None if flow.copies.drift is None else flow.copies.drift.ns,
        bad_icrc_packets=len(bad),
    )
    spent = pace(requests, known.acknowledged, unsure)
    direction = Direction(
        *(figures, requests, answers, known, history, matched, planes, doubt, bad, flow.copies.doubled),
        *(spent.stalls_ns, end_ns),
    )
    _count_answers(direction, flow)
    direction = replace(direction, doubt=with_lost_nacks(direction.doubt, known, figures))
    _count_requests(direction, trimmed, spent, flow.copies.of_two_places)
    # Of two places that of the requestor has it whole, and the NACK names it.
    came_trimmed = trimmed[:0] if flow.copies.of_two_places else trimmed
    figures.paths = paths_of(direction, flow, bad, came_trimmed)
    figures.answer_paths = answer_paths_of(direction, flow)
    figures.planes = plane_figures(direction)
    figures.answers_ahead_ns = ahead_ns or None
    # Of RC sightings of one packet on both sides of such a pause are not known to be of one.
    mixed_up |= not flow.mrc and of_two and (bool(unsure) or flow.torn)
    # Nor are two that stand there and are one that the network doubled, as it did others.
    mixed_up |= not flow.mrc and flow.torn and flow.copies.duplicates > 0
    if not flow.mrc and of_two and apart is not None and not apart.far and offset is not None:
        # Nor, by two clocks and where no hop limit tells the places apart, of one or of two that were sent.
        mixed_up |= bool(known.again.any())
        if mixed_up:
            # One that stands alone may be at the other clock's time.
            forget_pace(figures)
            stalls = direction.stalls_ns
            direction = replace(direction, stalls_ns=np.where(stalls > abs(apart.usual), stalls, 0))
    alike = of_two and apart is not None and not apart.far
    one_of_several = known.resent | ~known.first
    # What was put on its way before the file begins, say.
    far_alone = np.isin(known.requests["hop"], list(apart.far)) if ends and apart is not None else False
    if (alike and (offset is not None or (known.requests["lone"] & known.requests["rtx"]).any())) or (
        flow.mrc and (one_of_several & far_alone).any()
    ):
        # By two clocks, or where a sighting stands alone, one may have come before the one that it seems to follow.
        forget_resent(figures)
    drifts = flow.copies.drift is not None
    drifting = flow.copies.drift is not None and not flow.copies.drift.taken_out
    if drifting and flow.mrc:
        forget_losses(figures)
    elif drifting:
        forget_place(figures)
    # Packets that come late are not told from those that were sent again, also where it may be the capture's doing.
    overtaken = not known.in_order
    if mixed_up or flow.copies.is_unclear or (drifts and not flow.mrc) or (overtaken and point.side != SENDER):
        forget_transmissions(figures)
    elif overtaken:
        forget_spurious(figures)
        if figures.not_captured:
            # What is sent again may stand alone.
            figures.retransmissions = None
    elif not flow.mrc and point.side == RECEIVER and figures.not_captured:
        forget_spurious(figures)
        figures.retransmissions = None
    elif not flow.mrc and point.side in (SENDER, BOTH) and figures.lost and not is_in_order(requests, answers, 0):
        figures.lost_unsure = figures.lost
        figures.lost = figures.loss_share = None
    if coarse or ahead_ns or drifting:
        forget_round_trips(figures, coarse)
    forget_times(direction, unsure)
    return direction


def _answers_ahead(requests: Rows, answers: Rows) -> int:
    """How far answers have to be moved so that none comes before the request that it answers: 0 unless most do, as in a
    file of two hosts' captures, each of what it sent, with clocks apart."""
    first = np.flatnonzero(~requests["rtx"])
    sacks = answers[np.isin(answers["kind"], (SACK, ACK)) & ~answers["rtx"]]
    # A responder of RC says the same of all that it has already: once is enough.
    news = sacks["kind"] == SACK
    if not news.all():
        news[np.unique(sacks["trigger"], return_index=True)[1]] = True
        sacks = sacks[news]
    if not len(first) or not len(sacks):
        return 0
    seqs, at = np.unique(requests["seq"][first], return_index=True)
    where = np.minimum(np.searchsorted(seqs, sacks["trigger"]), len(seqs) - 1)
    took = (sacks["time"] - requests["time"][first[at[where]]])[seqs[where] == sacks["trigger"]]
    return int(-took.min()) + 1 if len(took) >= _BELIEVED and np.median(took) < 0 else 0


def _addresses(flow: Flow, end: int) -> list[str]:
    return [address_text(address) for address in sorted({pair[end] for pair in flow.pairs})]


def _count_requests(direction: Direction, trimmed: Rows, spent: Pace, two_places: bool) -> None:
    figures, requests, known = direction.figures, direction.requests, direction.fates
    at_receiver = figures.capture_point == RECEIVER
    ordered = known.requests
    figures.packets, figures.ce_packets = len(requests), int(requests["ce"].sum())
    figures.bytes, figures.payload_bytes = int(requests["length"].sum()), int(requests["payload"].sum())
    again = known.again
    figures.retransmissions = int(again.sum())
    figures.spurious_retransmissions = int(known.are(SPURIOUS).sum())
    figures.trimmed = int(known.are(TRIMMED).sum()) + (0 if two_places else len(trimmed))
    figures.refused = int(known.are(REFUSED).sum())
    if len(requests):
        figures.first_ns, figures.last_ns = int(requests["time"][0]), int(requests["time"][-1])
    delivered = known.are(ARRIVED)
    if delivered.any():
        figures.goodput_bytes = int(ordered["payload"][delivered].sum())
        span = int(known.delivered_at[delivered].max() - requests["time"][0])
        figures.goodput_gbps = figures.goodput_bytes * 8 / span if span > 0 else None
    alone: int | None = known.lost_unseen
    if figures.transport == "mrc":
        lost_behind = bool(known.are(LOST).any())
        alone = resent_only(known, direction.answers, trimmed, at_receiver, lost_behind)
    # A capture that lacks packets may lack those that came before their retransmission too.
    # Of RC it depends on the place which of the packets gone back for never came here.
    unsure = figures.transport == "rc" and figures.capture_point not in (RECEIVER, MIDDLE)
    unsure |= known.may_hide or (figures.transport == "mrc" and _may_come_later(direction, again))
    lacks = figures.not_captured > 0
    lacks |= figures.transport == "rc" and figures.capture_point in (RECEIVER, MIDDLE) and lacks_arrivals(known)
    if figures.capture_point not in (SENDER, BOTH) and not lacks and not unsure and not two_places:
        figures.missing_before_capture = alone
    if at_receiver:
        behind_is_known = not lacks and not known.unsettled
        figures.lost_behind_capture = int(direction.lost.sum()) if behind_is_known else None
        figures.lost_unsure = int((known.are(LOST) & ~direction.lost).sum())
    else:
        lost = direction.lost
        figures.lost, figures.lost_unsure = int(lost.sum()), int((known.are(LOST) & ~lost).sum())
        by_timer = bool((known.found[lost] == BY_TIMER).any())
        # Of an unknown place: so soon a receiver's own answers come.
        quick = len(known.round_trips.ns) > 0 and known.shortest_ns < LEAST_TOLERANCE_NS
        answered_at_once = figures.capture_point == UNKNOWN and quick
        unsure = figures.transport == "rc" and (figures.not_captured > 0 or (answered_at_once and by_timer))
        if (lost & ~known.settled).any() and (unsure or (figures.not_captured and direction.doubt.late)):
            # Of RC what the requestor went back for may be among the packets that the capture lacks; of MRC the answer
            # that shows a packet to have come late.
            figures.lost, figures.lost_unsure = None, int(known.are(LOST).sum())
        figures.loss_share = figures.lost / len(requests) if len(requests) and figures.lost is not None else None
        figures.lost_found_by = named(("hole", "NACK", "timer"), known.found[lost])
    if figures.transport == "rc":
        figures.go_backs = int(known.are(LOST).sum()) + known.lost_unseen
        figures.read_requests = int((requests["opcode"] == 0x0C).sum())
        figures.read_bytes = int(direction.answers["payload"].sum())
        figures.goodput_bytes += figures.read_bytes
        span = max((int(rows["time"][-1]) for rows in (requests, direction.answers) if len(rows)), default=0)
        span -= int(requests["time"][0]) if len(requests) else 0
        figures.goodput_gbps = figures.goodput_bytes * 8 / span if span > 0 else None
    # Column by column: whole rows of a large flow take longer to copy than to count.
    firsts = np.flatnonzero(~again)
    firsts = firsts[np.lexsort((ordered["number"][firsts], ordered["time"][firsts]))]
    seq = ordered["seq"][firsts]
    behind = np.maximum.accumulate(seq) - seq
    figures.reordered_packets = int((behind > 0).sum())
    figures.reorder_depth_max = int(behind.max()) if len(behind) else 0
    figures.idle_share, figures.waiting_share = round(spent.idle_share, 4), round(spent.waiting_share, 4)
    figures.longest_stall_ns, figures.in_flight_max = spent.longest_stall_ns, spent.most_in_flight
    figures.longest_stall_after_packet = spent.stall_after or None
    sent = messages(known)
    figures.messages, figures.messages_unfinished = sent.seen, sent.unfinished if len(direction.answers) else 0
    figures.message_time = Times.of(sent.durations_ns)
    figures.operations = operations_of(known)


def _may_come_later(direction: Direction, again: Bools) -> bool:
    """Whether the first transmission of one that came as a retransmission only may stand behind the end of the file."""
    return bool(again.any()) and bool(came_too_late(direction.fates, direction.answers).any())


def _count_answers(direction: Direction, flow: Flow) -> None:
    figures, answers, known = direction.figures, direction.answers, direction.fates
    kind = answers["kind"]
    figures.sacks = int(np.isin(kind, (SACK, PROBE_ANSWER)).sum())
    figures.acks = int(np.isin(kind, (ACK, RESPONSE)).sum())
    figures.naks = named(SYNDROMES, answers["code"][kind == NAK], "RNR NAK" if not flow.mrc else "syndrome")
    figures.nacks = named(NACK_REASONS, answers["code"][kind == NACK], "reason")
    figures.marks = int(((kind == SACK) & (answers["mark"] > 0)).sum())
    figures.congestion_notifications = sum(map(len, flow.congestion_notifications))
    figures.held_above_hole_max = int(answers["held"].max()) if len(answers) else 0
    figures.hole_psns = known.acknowledged.holes
    figures.rtt = Times.of(known.round_trips.ns)
    figures.probes = len(direction.probes.probes)
    figures.probes_answered = int((direction.probes.answered_at < NEVER).sum())
    if len(known.acknowledged.seqs) and len(answers):
        figures.unacknowledged = int((known.acknowledged.at == NEVER).sum())
    unseen = not_seen(known, answers, figures.transport == "mrc")
    if unseen:
        figures.not_captured = max(0, unseen - _psns_of_reads(direction, int(known.acknowledged.edge[-1])))


def _psns_of_reads(direction: Direction, up_to: int) -> int:
    """How many PSNs the READs up to one took beyond their own: one for each response, whose size the responses show."""
    requests, answers = direction.fates.requests, direction.answers
    reads = direction.fates.first & (requests["span"] > 0) & (requests["seq"] <= up_to)
    responses = answers["payload"][answers["kind"] == RESPONSE]
    size = int(responses.max()) if len(responses) and responses.max() > 0 else _SMALLEST_MTU
    return int((np.maximum(-(-requests["span"][reads] // size), 1) - 1).sum())
