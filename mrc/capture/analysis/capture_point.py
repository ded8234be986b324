# SPDX-License-Identifier: BSD-2-Clause
"""Where on the way of a flow the capture was taken, inferred from the packets themselves."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mrc.capture.analysis.acknowledged import NEVER
from mrc.capture.analysis.distances import LEAST_TOLERANCE_NS
from mrc.capture.analysis.fates import LOST, Fates, fates
from mrc.capture.analysis.go_back import SEQUENCE_ERROR
from mrc.capture.analysis.records import NACK, NAK, PROBE_ANSWER, SACK
from mrc.capture.analysis.round_trips import asking
from mrc.capture.frames import I64
from mrc.capture.rows import Rows

SENDER, RECEIVER, MIDDLE, BOTH, UNKNOWN = "sender", "receiver", "middle", "both", "unknown"
_FRESH_HOP_LIMITS = (64, 128, 255)
# A reaction this many times as fast as the other says which end is near.
_NEARER = 3
# Of so many losses this share has to be alike.
_FEWEST, _NEARLY_ALL = 3, 0.9
# Within so many packets a requestor goes back.
_SOON = 256
# A reaction that takes so many times what the slowest answer takes is none.
_TIMER = 16


class CapturePoint(NamedTuple):
    """`side` of the flow whose requests these are, and why."""

    side: str
    why: str


def capture_point(requests: Rows, answers: Rows, *, of_two_places: bool = False) -> CapturePoint:
    """`requests` and `answers` of one flow, in order of time."""
    found = _by_usids(requests["hop"], answers["hop"])
    found = found or _by_hop_limit(requests["hop"] & 0xFF, answers["hop"] & 0xFF)
    if found is None and len(requests) and len(answers):
        # Put together from two places, of which the clocks may be apart, RC shows no reaction of either.
        took = None if of_two_places else _reactions_of_rc(requests, answers)
        found = _nearer(*took, "an answer", "a NAK") if took else _by_losses(requests, answers, of_two_places)
    return found or _by_reactions(requests, answers) or CapturePoint(UNKNOWN, "nothing in the packets shows it")


def with_the_far_place(point: CapturePoint, requests: frozenset[int], answers: frozenset[int]) -> CapturePoint:
    """Where packets were captured at two places: both ends, if the other place is the receiver by the hop limits (as in
    `records`) that only it has, of requests and of answers."""
    if point.side != SENDER:
        return point
    if 1 in {hop >> 8 for hop in requests}:
        return CapturePoint(BOTH, f"{point.why}; at a second place requests have only the host's own uSID left")
    if any(hop in _FRESH_HOP_LIMITS for hop in answers):
        return CapturePoint(BOTH, f"{point.why}; at a second place answers have a fresh hop limit")
    return point


def _common(values: I64) -> int:
    """The most frequent value, -1 of none."""
    if not len(values):
        return -1
    kinds, counts = np.unique(values, return_counts=True)
    return int(kinds[counts.argmax()])


def _by_usids(requests: I64, answers: I64) -> CapturePoint | None:
    both = np.concatenate([requests, answers])
    requests, answers = requests >> 8, answers >> 8
    there, back = _common(requests), _common(answers)
    if there == back > 0 and ((both >> 8).max() > 1 or not np.isin(both & 0xFF, _FRESH_HOP_LIMITS).any()):
        # A fabric has as many switches of each tier one way as the other: at one place one has more left.
        where = f"{there} uSIDs left, each where it was sent" if there > 1 else "one uSID left, each where it came"
        return CapturePoint(BOTH, f"requests and answers have {where}")
    if there == 1 and back != 1:
        return CapturePoint(RECEIVER, "requests have only the host's own uSID left")
    if back == 1 and there > 1:
        return CapturePoint(SENDER, f"requests still have {there} uSIDs before them, answers only the host's own")
    if there > 1 and back > 1:
        return CapturePoint(MIDDLE, f"requests have {there} uSIDs left, answers {back}")
    return None


def _by_hop_limit(requests: I64, answers: I64) -> CapturePoint | None:
    fresh = [np.isin(each, _FRESH_HOP_LIMITS) for each in (requests, answers)]
    there, back = (_common(each) in _FRESH_HOP_LIMITS for each in (requests, answers))
    if len(requests) and not len(answers):
        why = "requests have a fresh hop limit, which they keep where no router is on the way; no answer was captured"
        return CapturePoint(UNKNOWN, why) if there else None
    if not there and not back and any(each.any() for each in fresh):
        return CapturePoint(UNKNOWN, "some packets have a fresh hop limit and others, the same way, crossed routers")
    if there == back:
        # Both fresh: no router between the two, so that hop limits cannot tell.
        return (
            None
            if there or not len(requests)
            else CapturePoint(MIDDLE, "neither requests nor answers have a fresh hop limit")
        )
    if there:
        return CapturePoint(SENDER, "requests have a fresh hop limit, answers crossed routers")
    return CapturePoint(RECEIVER, "answers have a fresh hop limit, requests crossed routers")


def _by_losses(requests: Rows, answers: Rows, of_two_places: bool) -> CapturePoint | None:
    """Of what the responder reported missing the sender's side has the first transmission, the receiver's has not."""
    mrc = bool(np.isin(answers["kind"], (SACK, PROBE_ANSWER, NACK)).any())
    if of_two_places and not mrc:
        return None
    known = fates(requests, answers, mrc=mrc, at_receiver=False)
    if mrc:
        reported = known.first & (known.acknowledged.hole_at[known.group] < NEVER) & (known.noticed < NEVER)
        reported |= known.first & (known.acknowledged.hole_at[known.group] < NEVER) & known.again
        unseen, all_of_them = int((reported & known.again).sum()), int(reported.sum())
    else:
        unseen = known.lost_unseen
        all_of_them = unseen + int(known.are(LOST).sum())
    if all_of_them < _FEWEST or unseen < _NEARLY_ALL * all_of_them:
        return None
    if mrc and not _is_answered_here(known):
        # Between the two, behind whatever lost them.
        return None
    return CapturePoint(RECEIVER, f"{unseen} of {all_of_them} packets reported missing came here sent again only")


def _is_answered_here(known: Fates) -> bool:
    """Whether packets are answered sooner than the requestor reacts: a loss that a SACK shows takes it a way there and
    back to send again, less what lies behind the capture."""
    again = known.first & known.again & (known.acknowledged.hole_at[known.group] < NEVER)
    resent = known.requests["time"][again] - known.acknowledged.hole_at[known.group[again]]
    resent = resent[resent > 0]
    if not len(resent) or not len(known.round_trips.ns):
        return True
    answered, reacted = (float(np.percentile(each, 10)) for each in (known.round_trips.ns, resent))
    return answered * _NEARER < reacted


def _by_reactions(requests: Rows, answers: Rows) -> CapturePoint | None:
    """A SACK follows the retransmission that triggered it at once at the receiver; the retransmission follows the SACK
    that shows the hole at once at the sender."""
    if not len(requests) or not (answers["kind"] == SACK).any():
        return None
    known = fates(requests, answers, mrc=True, at_receiver=False)
    answered = known.round_trips.ns[known.requests["rtx"][known.round_trips.transmission]]
    # Whether they were lost or merely late: a requestor sends again what a SACK shows to be missing.
    hole_at = known.acknowledged.hole_at[known.group]
    noticed = known.first & ~known.again & (known.noticed < NEVER) & (hole_at <= known.noticed)
    noticed &= ~np.isin(known.requests["seq"], answers["trigger"][answers["kind"] == NACK])
    resent = known.noticed[noticed] - hole_at[noticed]
    if len(answered) < 3 or len(resent) < 3:
        return None
    # The quickest of them: a requestor may wait for what is only late.
    receiver, sender = (float(np.percentile(each, 10)) for each in (answered, resent))
    return _nearer(receiver, sender, "a SACK", "the SACK")


def _nearer(answered: float, resent: float, answer: str, refusal: str) -> CapturePoint | None:
    """By nanoseconds from a packet to its answer, and from what shows a loss to the retransmission."""
    words = (
        f"{answer} follows its packet after {answered / 1e3:.0f} us, a retransmission {refusal} after "
        f"{resent / 1e3:.0f} us"
    )
    if resent * _NEARER < answered:
        return CapturePoint(SENDER, words)
    return CapturePoint(RECEIVER, words) if answered * _NEARER < resent else None


def _reactions_of_rc(requests: Rows, answers: Rows) -> tuple[float, float] | None:
    """The quickest answer to a packet sent once that asks for one, and the usual time from a NAK to the resend."""
    naks = answers[(answers["kind"] == NAK) & (answers["code"] == SEQUENCE_ERROR)]
    order = np.lexsort((requests["time"], requests["seq"]))
    index, places = asking(requests[order], answers)
    took = answers["time"][places] - requests["time"][order[index]]
    took = took[took >= 0]
    if not len(naks) or not len(took) or (answers["kind"] == SACK).any():
        return None
    # Where everything is there twice a request may stand before the NAK that it follows.
    begins = np.searchsorted(requests["time"], naks["time"] - LEAST_TOLERANCE_NS, "left")
    after = np.minimum(begins, len(requests) - 1)
    resent = np.zeros(len(requests), np.bool_)
    resent[1:] = requests["seq"][1:] <= requests["seq"][:-1]
    # One that was merely overtaken is not followed by the next.
    resent[:-1] &= requests["seq"][1:] == requests["seq"][:-1] + 1
    # What goes on at once with another packet was not stopped by the NAK.
    named = [
        max(0, int(requests["time"][begin:][at[0]] - one["time"]))
        for one, begin in zip(naks, after.tolist(), strict=True)
        if len(
            at := np.flatnonzero(
                (requests["seq"][begin : begin + _SOON] == one["cack"] + 1) & resent[begin : begin + _SOON]
            )
        )
    ]
    if took.min() >= LEAST_TOLERANCE_NS:
        # So late it was a timer: what the NAK had made it send again was lost on its way here.
        named = [each for each in named if each <= _TIMER * int(took.max())]
    return (float(took.min()), float(np.percentile(named, 25))) if named else None
