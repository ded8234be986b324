# SPDX-License-Identifier: BSD-2-Clause
"""What a person should look at first, in plain words, most serious first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import numpy as np

from mrc.capture.analysis import path_findings
from mrc.capture.analysis.acknowledged import NEVER
from mrc.capture.analysis.analysis import CUT_SHORT, Analysis
from mrc.capture.analysis.capture_findings import of_capture
from mrc.capture.analysis.causes import in_order
from mrc.capture.analysis.direction import Direction
from mrc.capture.analysis.fates import PENDING
from mrc.capture.analysis.finding import (
    ERROR,
    INFO,
    WARNING,
    Finding,
    at_packet,
    patience_ns,
)
from mrc.capture.analysis.links import with_links
from mrc.capture.analysis.path_findings import came_short, places
from mrc.capture.analysis.records import NACK, NAK
from mrc.report.units import duration_text, percent_text, plural
from mrc.wire.names import NACK_REASONS, SYNDROMES
from mrc.wire.psn import PSN_MASK

# So often a PSN is sent in vain before it counts as given up.
_GIVEN_UP_AFTER = 5
_LEAST_PACKETS = 100
# Pauses this long are named, and shorter ones that together took this share of the time.
_STALL_NS, _STALLED_SHARE = 50_000_000, 0.1
_OF_ABSENCE = ("no-answers", "not-captured", "never-acknowledged", "unanswered-probes", "nothing-to-analyze")
# So many PSNs of which the capture has retransmissions only are not all packets that it lacks.
_FEWEST_ALONE = 5
_UNEXPECTED_EVENT, _PSN_SEQUENCE_ERROR = 0x19, 0x60


def findings(analysis: Analysis) -> list[Finding]:
    """Each cause before its symptoms; causes by severity, then weight."""
    found = list(of_capture(analysis))
    for direction in analysis.directions:
        for rule in _RULES:
            found += rule(direction)
    if CUT_SHORT in analysis.malformed:
        # What seems to be missing is what was cut.
        found = [each for each in found if each.kind not in _OF_ABSENCE]
    return in_order(with_links(found, analysis.directions))


# ------------------------------------------------------------------ errors


def _qp_errors(direction: Direction) -> Iterator[Finding]:
    answers, figures = direction.answers, direction.figures
    fatal = (answers["kind"] == NAK) & ~np.isin(answers["code"], [_PSN_SEQUENCE_ERROR, *range(0x20, 0x40)])
    fatal |= (answers["kind"] == NACK) & (answers["code"] == _UNEXPECTED_EVENT)
    for code in sorted(set(answers["code"][fatal].tolist())):
        some = answers[fatal & (answers["code"] == code)]
        names = NACK_REASONS if some["kind"][0] == NACK else SYNDROMES
        name = names.get(code, f"syndrome 0x{code:02x}")
        psn = int(some["trigger"][0]) & PSN_MASK
        text = f"the responder ended the QP: {name} for PSN {psn}, {plural(len(some), 'time')}"
        yield at_packet(ERROR, "qp-error", text, figures, some["number"][0], some["time"][0], weight=1e9)


def _gave_up(direction: Direction) -> Iterator[Finding]:
    """PSNs sent again and again, never acknowledged, and nothing after them."""
    known = direction.fates
    if not len(direction.answers) or not len(known.requests):
        return
    sent = np.bincount(known.group)
    if direction.figures.transport == "rc" and len(known.acknowledged.edge):
        # What RC went back for before anything behind was acknowledged was not sent in vain; the last of these was on
        # its way by then.
        before = np.bincount(known.group, known.requests["time"] <= known.acknowledged.edge_time[-1]).astype(np.int64)
        sent -= np.maximum(before - 1, 0)
    worst = int(np.where(known.acknowledged.at == NEVER, sent, 0).argmax())
    if sent[worst] < _GIVEN_UP_AFTER or known.acknowledged.at[worst] != NEVER:
        return
    rows = np.flatnonzero(known.group == worst)
    last = known.requests[rows[-1]]
    psn = int(last["seq"]) & PSN_MASK
    text = f"PSN {psn} was sent {sent[worst]} times and never acknowledged: retry budget exhausted, or about to be"
    yield at_packet(ERROR, "retries-exhausted", text, direction.figures, last["number"], last["time"], weight=1e8)


def _silent_tail(direction: Direction) -> Iterator[Finding]:
    figures, known = direction.figures, direction.fates
    if len(direction.requests) and not len(direction.answers):
        text = "no answer at all was captured: the responder is silent, or its packets take another way"
        yield at_packet(
            WARNING, "no-answers", text, figures, direction.requests["number"][0], direction.requests["time"][0]
        )
        return
    pending = known.are(PENDING)
    if not pending.any():
        return
    waited = int(max(direction.requests["time"][-1], direction.answers["time"][-1])) - known.requests["time"][pending]
    due = waited > patience_ns(figures)
    if figures.transport == "rc":
        # Nobody owes an answer to what did not ask for one, nor does anything behind it.
        asking = known.requests["seq"][known.requests["ackreq"] | (known.requests["span"] > 0)]
        due &= known.requests["seq"][pending] <= (int(asking.max()) if len(asking) else -1)
        sent, refusals = known.requests[pending], direction.answers[direction.answers["kind"] == NAK]
        # Nor to what is behind the place to which the requestor went back, until it comes there again.
        due &= sent["seq"] <= direction.requests["seq"][-1]
        if len(refusals):
            due &= (sent["seq"] <= refusals["cack"][-1]) | (sent["time"] > refusals["time"][-1])
    # Those of the last instant are merely on their way.
    if not due.any():
        return
    count, first = int(due.sum()), known.requests[pending][due][0]
    psn = int(first["seq"]) & PSN_MASK
    text = f"{plural(count, 'packet')} to the end of the capture never acknowledged, from PSN {psn} on"
    yield at_packet(ERROR, "never-acknowledged", text, figures, first["number"], first["time"], weight=count)


# ------------------------------------------------------------------ the sender


def _spurious(direction: Direction) -> Iterator[Finding]:
    figures = direction.figures
    count, all_of_them = figures.spurious_retransmissions, figures.retransmissions
    if count is None or all_of_them is None:
        return
    if count >= 5 and count > 0.1 * all_of_them:
        of = f"{plural(all_of_them, 'retransmission')} ({percent_text(count / all_of_them)})"
        text = f"{count} of {of} were spurious: the packet had arrived"
        yield Finding(WARNING, "spurious-retransmissions", text, figures.name, weight=count)


def _gaps(direction: Direction) -> Iterator[Finding]:
    figures = direction.figures
    if figures.not_captured and figures.capture_point != "middle":
        text = (
            f"{plural(figures.not_captured, 'PSN')} acknowledged that the capture never saw: "
            f"{'it or the mirror' if figures.mirrored else 'it'} dropped packets, "
            "or does not see every plane; figures are too low by as much"
        )
        yield Finding(WARNING, "not-captured", text, figures.name, weight=figures.not_captured)
    if figures.missing_before_capture:
        count = plural(figures.missing_before_capture, "packet")
        text = f"{count} came as a retransmission only: the first was lost before this point"
        short: dict[int, int] = {}
        if figures.transport == "mrc" and len(figures.paths) > 1:
            short = came_short(figures.paths, figures.missing_before_capture)
        if short:
            text += f"; {places(figures.paths, short)}, if paths are taken in turn: fewer packets came there"
        ev = next(iter(short)) if len(short) == 1 else None
        weight = figures.missing_before_capture
        yield Finding(WARNING, "loss-before-capture", text, figures.name, ev, weight=weight)
    yield from _losses_uncounted(direction)
    behind = direction.fates.requests["ev"][direction.lost].tolist()
    if figures.capture_point == "receiver" and behind:
        count = plural(len(behind), "packet")
        of_paths = places(figures.paths, Counter(behind)) if figures.transport == "mrc" else "go-back-N"
        text = f"{count} passed this point and did not arrive, {of_paths}: the responder reports them missing"
        yield Finding(WARNING, "loss-behind-capture", text, figures.name, weight=len(behind))
    if figures.copies_left_out:
        text = f"{plural(figures.copies_left_out, 'packet')} captured at more than one place, counted once"
        yield Finding(INFO, "copies", text, figures.name)
    if figures.clock_offset_ns is not None:
        apart = duration_text(abs(figures.clock_offset_ns) / 1e9)
        side = "ahead of" if figures.clock_offset_ns > 0 else "behind"
        text = (
            f"the clock of the place near the responder is about {apart} {side} the other: "
            "times are those of the requestor's side"
        )
        yield Finding(INFO, "clocks-apart", text, figures.name)
    if figures.clock_drift_ns is not None:
        by = duration_text(abs(figures.clock_drift_ns) / 1e9)
        gains = "gains" if figures.clock_drift_ns > 0 else "loses"
        text = f"two clocks: that of the place near the responder {gains} {by} on the other while the flow goes on"
        yield Finding(INFO, "clocks-drift", text, figures.name)
    if figures.answers_ahead_ns is not None:
        apart = duration_text(figures.answers_ahead_ns / 1e9)
        text = (
            f"answers stand up to {apart} before what they answer: two clocks, at least so far apart; "
            "round trips are not known"
        )
        yield Finding(WARNING, "clocks-apart", text, figures.name)
    if figures.duplicates:
        text = f"{plural(figures.duplicates, 'packet')} doubled by the network"
        yield Finding(INFO, "duplicates", text, figures.name, weight=figures.duplicates)


def _losses_uncounted(direction: Direction) -> Iterator[Finding]:
    """That packets were lost, where the capture does not show how many."""
    figures, known = direction.figures, direction.fates
    if figures.lost or figures.missing_before_capture or figures.lost_behind_capture:
        return
    naks = direction.answers["kind"] == NAK
    naks &= direction.answers["code"] == _PSN_SEQUENCE_ERROR
    if figures.transport == "rc" and naks.any():
        first = direction.answers[naks][0]
        count = plural(int(naks.sum()), "NAK")
        if known.reorders:
            text = f"packets came out of order, which RC takes for losses: {count} of a sequence error"
            yield at_packet(
                WARNING, "out-of-order", text, figures, first["number"], first["time"], weight=int(naks.sum())
            )
            return
        lost = "packets were lost" if known.in_order else "packets were lost or came late"
        text = f"{lost}: {count} of a sequence error; this capture does not show how many packets"
        yield at_packet(WARNING, "loss", text, figures, first["number"], first["time"], weight=int(naks.sum()))
    elif figures.transport == "mrc" and figures.missing_before_capture is None and figures.lost is None:
        # What a NACK names was trimmed or refused, and came here so.
        named = direction.answers["trigger"][direction.answers["kind"] == NACK]
        alone = int((known.first & known.again & ~np.isin(known.requests["seq"], named)).sum())
        if alone >= _FEWEST_ALONE and alone > 2 * (figures.spurious_retransmissions or 0):
            text = (
                f"packets were lost before this point: {alone} came as a retransmission only; "
                "the capture itself lacks some of the first transmissions"
            )
            yield Finding(WARNING, "loss-before-capture", text, figures.name, weight=alone)


def _pauses(direction: Direction) -> Iterator[Finding]:
    figures = direction.figures
    if len(direction.requests) < 2:
        return
    yield from _stalls(direction)
    span = (figures.last_ns or 0) - (figures.first_ns or 0)
    took = duration_text(span / 1e9)
    waiting = _waiting_for_answers(direction, span)
    if waiting > 0.5 and len(direction.requests) >= _LEAST_PACKETS and figures.transport == "mrc":
        text = (
            f"window-limited: {percent_text(waiting)} of {took} went by waiting for "
            f"answers, with at most {plural(figures.in_flight_max, 'packet')} in flight"
        )
        yield Finding(INFO, "window-limited", text, figures.name)
    if (figures.idle_share or 0) > 0.5 and len(direction.requests) >= _LEAST_PACKETS:
        text = f"idle: for {percent_text(figures.idle_share or 0)} of {took} the sender had nothing to send"
        yield Finding(INFO, "idle", text, figures.name)


def _waiting_for_answers(direction: Direction, span: int) -> float:
    """The share of the time that a window made the requestor wait, without the pauses in which an answer was overdue:
    that is a timeout."""
    if direction.figures.waiting_share is None or not len(direction.answers):
        return 0.0
    waits = direction.stalls_ns[direction.requests["ackreq"][:-1]]
    return int(waits[waits <= patience_ns(direction.figures)].sum()) / max(1, span)


def _stalls(direction: Direction) -> Iterator[Finding]:
    """Pauses that are long for this flow: by its round trips, and by how much of its time they took."""
    figures = direction.figures
    span = (figures.last_ns or 0) - (figures.first_ns or 0)
    stalls = direction.stalls_ns[direction.stalls_ns > patience_ns(figures)]
    together = int(stalls.sum())
    if not len(stalls):
        return
    longest = int(stalls.max())
    if longest <= _STALL_NS and together < _STALLED_SHARE * span:
        return
    text = f"nothing was sent for {duration_text(longest / 1e9)} although packets were unacknowledged"
    if len(stalls) > 1:
        text += f"; {len(stalls)} such pauses took {duration_text(together / 1e9)}"
    if together >= _STALLED_SHARE * span:
        text += f": {percent_text(together / span)} of the time"
    row = direction.requests[int(direction.stalls_ns.argmax())]
    yield at_packet(WARNING, "stall", text, figures, row["number"], row["time"], weight=together / 1e9)


def _reliable_connection(direction: Direction) -> Iterator[Finding]:
    figures = direction.figures
    not_ready = sum(count for name, count in figures.naks.items() if name.startswith("RNR"))
    if not_ready:
        text = f"{plural(not_ready, 'RNR NAK')}: the responder had no receive posted"
        yield Finding(WARNING, "receiver-not-ready", text, figures.name, weight=not_ready)
    if figures.congestion_notifications:
        text = f"{plural(figures.congestion_notifications, 'congestion notification')} sent to the requestor"
        yield Finding(INFO, "congestion-notifications", text, figures.name)


_RULES: tuple[Callable[[Direction], Iterator[Finding]], ...] = (
    _qp_errors,
    _gave_up,
    _silent_tail,
    path_findings.dead_paths,
    path_findings.lossy_paths,
    path_findings.paths_out,
    path_findings.corrupting_paths,
    path_findings.congested_paths,
    path_findings.slow_paths,
    path_findings.silent_probes,
    path_findings.plane_imbalance,
    _spurious,
    _gaps,
    _pauses,
    _reliable_connection,
)
