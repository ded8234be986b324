# SPDX-License-Identifier: BSD-2-Clause
"""What a person should look at first, in plain words, most serious first."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from mrc.capture.analysis import path_findings
from mrc.capture.analysis.acknowledged import NEVER
from mrc.capture.analysis.advice import advised
from mrc.capture.analysis.analysis import CUT_SHORT, Analysis
from mrc.capture.analysis.capture_findings import of_capture
from mrc.capture.analysis.causes import in_order
from mrc.capture.analysis.direction import Direction
from mrc.capture.analysis.fates import PENDING, SPURIOUS
from mrc.capture.analysis.figures import PathFigures
from mrc.capture.analysis.finding import (
    ERROR,
    INFO,
    WARNING,
    Finding,
    at_packet,
    path_name,
    patience_ns,
)
from mrc.capture.analysis.links import with_links
from mrc.capture.analysis.parts import where
from mrc.capture.analysis.path_findings import stands_out
from mrc.capture.analysis.place_findings import at_the_place
from mrc.capture.analysis.records import NACK, NAK
from mrc.capture.analysis.slow_answers import slow_answers
from mrc.capture.analysis.slow_paths import slow_paths
from mrc.report.units import measured_s_text, percent_text, plural
from mrc.wire.names import NACK_REASONS, SYNDROMES
from mrc.wire.psn import PSN_MASK

# So often a PSN is sent in vain before it counts as given up.
_GIVEN_UP_AFTER = 5
_LEAST_PACKETS = 100
# Pauses this long are named, and shorter ones that together took this share of the time.
_STALL_NS, _STALLED_SHARE = 50_000_000, 0.1
_OF_ABSENCE = ("no-answers", "not-captured", "never-acknowledged", "unanswered-probes", "nothing-to-analyze")
_UNEXPECTED_EVENT, _PSN_SEQUENCE_ERROR = 0x19, 0x60
# The upper bits of an AETH's syndrome (ibta).
_RNR = 1


def findings(analysis: Analysis) -> list[Finding]:
    """Each cause before its symptoms; causes by severity, then weight."""
    found = list(of_capture(analysis))
    for direction in analysis.directions:
        for rule in _RULES:
            found += rule(direction)
    if CUT_SHORT in analysis.malformed:
        # What seems to be missing is what was cut.
        found = [each for each in found if each.kind not in _OF_ABSENCE]
    return in_order(advised(with_links(found, analysis.directions), analysis.directions))


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
        first = direction.requests[0]
        text = "no answer at all was captured: the responder is silent, or its packets take another way"
        severity, waited = WARNING, direction.end_ns - int(first["time"])
        if waited <= patience_ns(figures):
            severity = INFO
            text += f". Or one comes later: the capture ends {measured_s_text(waited / 1e9)} after the first request"
        yield at_packet(severity, "no-answers", text, figures, first["number"], first["time"])
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
        path, went = _in_vain(direction)
        behind = _came_behind(direction)
        came = "had arrived"
        if behind:
            came = (
                f"arrived all the same, {'each' if behind == count else f'{behind} of them'} behind its retransmission"
            )
        text = f"{count} of {of} were spurious: the packet {came}{went}"
        spurious = direction.fates.requests[direction.fates.are(SPURIOUS)]
        first = spurious[spurious["time"].argmin()]
        yield at_packet(
            WARNING, "spurious-retransmissions", text, figures, first["number"], first["time"], path, weight=count
        )


def _came_behind(direction: Direction) -> int:
    """At the receiver: of how many spurious retransmissions the first transmission came later than they did."""
    known = direction.fates
    if direction.figures.capture_point != "receiver" or direction.figures.transport != "mrc":
        return 0
    time, original = known.requests["time"], known.first & ~known.requests["rtx"]
    came = np.zeros(len(known.acknowledged.seqs), np.int64)
    came[known.group[original]] = time[original]
    return int((known.are(SPURIOUS) & (time < came[known.group])).sum())


def _in_vain(direction: Direction) -> tuple[PathFigures | None, str]:
    """The path whose packets were sent again in vain more than chance explains, and in words which they all had
    taken."""
    paths = [path for path in direction.figures.paths if path.packets]
    counts = {path.ev: path.resent_in_vain or 0 for path in paths}
    if direction.figures.transport != "mrc" or len(paths) < 2 or not any(counts.values()):
        return None, ""
    most = max(paths, key=lambda path: counts[path.ev])
    here, everywhere, sent = counts[most.ev], sum(counts.values()), sum(path.packets for path in paths)
    if stands_out(here, most.packets, everywhere - here, sent - most.packets, len(paths)):
        which = "all" if here == everywhere else str(here)
        return most, f"; {which} of these packets had gone on path {path_name(most)}"
    return None, f"; these packets had gone {where(paths, counts, path_name(most))}"


def _pauses(direction: Direction) -> Iterator[Finding]:
    figures = direction.figures
    if len(direction.requests) < 2:
        return
    yield from _stalls(direction)
    span = (figures.last_ns or 0) - (figures.first_ns or 0)
    took = measured_s_text(span / 1e9)
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
    text = f"nothing was sent for {measured_s_text(longest / 1e9)} although packets were unacknowledged"
    if len(stalls) > 1:
        text += f"; {len(stalls)} such pauses took {measured_s_text(together / 1e9)}"
    if together >= _STALLED_SHARE * span:
        text += f": {percent_text(together / span)} of the time"
    row = direction.requests[int(direction.stalls_ns.argmax())]
    yield at_packet(WARNING, "stall", text, figures, row["number"], row["time"], weight=together / 1e9)


def _reliable_connection(direction: Direction) -> Iterator[Finding]:
    figures = direction.figures
    not_ready = sum(count for name, count in figures.naks.items() if name.startswith("RNR"))
    if not_ready:
        text = f"{plural(not_ready, 'RNR NAK')}: the responder had no receive posted"
        naks = direction.answers[direction.answers["kind"] == NAK]
        first = naks[naks["code"] >> 5 == _RNR][0]
        yield at_packet(WARNING, "receiver-not-ready", text, figures, first["number"], first["time"], weight=not_ready)
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
    slow_paths,
    slow_answers,
    path_findings.silent_probes,
    path_findings.plane_imbalance,
    _spurious,
    at_the_place,
    _pauses,
    _reliable_connection,
)
