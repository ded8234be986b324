# SPDX-License-Identifier: BSD-2-Clause
"""What a capture does not show: figures that are given up, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from mrc.capture.analysis.capture_point import MIDDLE, RECEIVER, SENDER, UNKNOWN, CapturePoint
from mrc.capture.analysis.clock import Pause
from mrc.capture.analysis.direction import Direction
from mrc.capture.analysis.figures import DirectionFigures, Times
from mrc.capture.analysis.flows import Flow

# Round trips this long are known well enough from whole milliseconds.
_COARSE_NS = 20_000_000


def unknowable(flow: Flow, point: CapturePoint, requests: int, answers: int) -> list[str]:
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
            "lost from the turns of the paths and from probes, or not at all; times between packet and SACK are the "
            "responder's, not round trips"
        )
    elif point.side == MIDDLE:
        found.append(
            "what was lost before this point, or takes another way, is not seen, nor are messages whose last packet "
            "does; times count from here"
        )
    elif point.side == SENDER and answers:
        found.append("SACKs lost on their way here are not seen; a retransmission may have been acknowledged in one")
    elif point.side == UNKNOWN and answers:
        found.append("figures are those of a capture at the sender, which this may not be")
    if flow.copies.may_be_resent:
        found.append(
            "most packets come once more behind the others, all as much later: whether the capture has them twice or "
            "they were sent again does not show, nor how many were sent and how many lost"
        )
    if not flow.mrc:
        found.append("RC has one path: no path figures but those of the whole")
    return found


def forget_transmissions(figures: DirectionFigures) -> None:
    """Which sightings are of one transmission is not certain."""
    figures.lost = figures.loss_share = None
    figures.retransmissions = figures.spurious_retransmissions = None
    for path in figures.paths:
        path.lost = path.loss_share = path.resent = path.resent_in_vain = None
    figures.packets = figures.bytes = figures.payload_bytes = None
    figures.duplicates = 0


def forget_spurious(figures: DirectionFigures) -> None:
    """What was sent again in vain is not certain."""
    figures.spurious_retransmissions = None
    for path in figures.paths:
        path.resent_in_vain = None


def forget_resent(figures: DirectionFigures) -> None:
    """Of which transmission a retransmission is the next is not certain."""
    for path in figures.paths:
        path.resent = path.resent_in_vain = None


def forget_losses(figures: DirectionFigures) -> None:
    """When packets were sent, and so which of them an answer acknowledges, is not certain."""
    if figures.lost is not None:
        figures.lost_unsure += figures.lost
    figures.lost = figures.loss_share = figures.spurious_retransmissions = None
    for path in figures.paths:
        path.lost = path.loss_share = path.resent_in_vain = None


def forget_place(figures: DirectionFigures) -> None:
    """In which order packets came, and so where they were captured, is not certain."""
    figures.capture_point, figures.capture_point_why = UNKNOWN, "the clocks of two places drift apart"
    figures.missing_before_capture = figures.lost_behind_capture = None


def forget_round_trips(figures: DirectionFigures, coarse: bool) -> None:
    """Times between requests and answers mean nothing where the clock is too coarse, or where there are two."""
    usual = figures.rtt.p50_ns
    if coarse and usual is not None and usual > _COARSE_NS:
        return
    figures.rtt = Times.of(np.zeros(0, np.int64))
    for path in figures.paths:
        path.rtt = path.probe_rtt = figures.rtt
        path.out_ns = None if path.out_ns is None else round(path.out_ns, -6)
    for back in figures.answer_paths:
        back.rtt = figures.rtt


def forget_pace(figures: DirectionFigures) -> None:
    """How long the requestor took, and waited, is not certain."""
    figures.goodput_gbps = figures.idle_share = figures.waiting_share = None
    figures.longest_stall_ns = figures.longest_stall_after_packet = None
    figures.message_time = Times(0)
    for plane in figures.planes:
        plane.goodput_gbps = None


def forget_times(direction: Direction, unsure: Sequence[Pause]) -> None:
    """Times across pauses in which the clock may have been set."""
    figures, known = direction.figures, direction.fates
    first, last = figures.first_ns, figures.last_ns
    across = [pause for pause in unsure if first is not None and last is not None and first < pause.end <= last]
    if not across:
        return
    forget_pace(figures)
    trips, sent = known.round_trips, known.requests["time"][known.round_trips.transmission]
    kept = np.ones(len(trips.ns), np.bool_)
    for pause in across:
        kept &= ~((sent <= pause.begin) & (trips.time >= pause.end))
    figures.rtt = _but_the_most(Times.of(trips.ns[kept]))
    evs = known.requests["ev"][trips.transmission]
    for path in figures.paths:
        path.rtt = _but_the_most(Times.of(trips.ns[kept & (evs == path.ev)]))
        path.out_ns = None if path.outs else path.out_ns
    evs = direction.answers["ev"][trips.answer]
    for back in figures.answer_paths:
        back.rtt = _but_the_most(Times.of(trips.ns[kept & (evs == back.ev)]))


def _but_the_most(times: Times) -> Times:
    return replace(times, max_ns=None)
