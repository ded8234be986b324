# SPDX-License-Identifier: BSD-2-Clause
"""What the endpoints' traces tell beside what the packets of a direction show.

A transmission is the same one in both by PSN and EV, never by time (docs/trace.md: the two see a moment differently):
the n-th that a trace takes for lost on an EV is the n-th captured of that PSN and EV.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from mrc.capture.analysis.analysis import Analysis
from mrc.capture.analysis.direction import Direction
from mrc.capture.analysis.fates import LOST
from mrc.capture.analysis.figures import DirectionReported, PathReported
from mrc.capture.analysis.reported import CHANGES_KEPT, ReportedQp, Trace
from mrc.capture.frames import I64
from mrc.wire.psn import PSN_MASK, unwrap


@dataclass(frozen=True, slots=True)
class Comparison:
    """A direction and the QPs of its two ends, where there is a trace with them.

    `transmission` [losses] is for each loss of the requestor's trace the index into `direction.fates.requests`, -1
    where the capture lacks the packet; `spurious` likewise of each retransmission reported as spurious. `start_ns` is
    what to take off reported times to have the capture's; None where they have no clock in common.
    """

    direction: Direction
    requestor: ReportedQp | None
    responder: ReportedQp | None
    transmission: I64
    spurious: I64
    start_ns: int | None


def compare(analysis: Analysis, traces: list[Trace]) -> list[Comparison]:
    """Compare each MRC direction that a trace reports on; its figures get their `reported`."""
    made = []
    for direction in analysis.directions:
        figures = direction.figures
        if figures.transport != "mrc":
            continue
        requestor = _end(traces, figures.requestor_qpn, figures.responder_qpn, requestor=True)
        responder = _end(traces, figures.responder_qpn, figures.requestor_qpn, requestor=False)
        if requestor is None and responder is None:
            continue
        start = analysis.start_ns if requestor is not None and requestor[0].has_wall_clock else None
        transmission, spurious = _matched(direction, requestor[1]) if requestor else (_none(), _none())
        one = Comparison(
            direction, requestor and requestor[1], responder and responder[1], transmission, spurious, start
        )
        figures.reported = DirectionReported(requestor and requestor[0].file, responder and responder[0].file)
        if one.requestor is not None:
            end_ns = requestor[0].last_ns if requestor else 0
            _add_requestor(one, one.requestor, figures.reported, end_ns)
        if one.responder is not None:
            figures.reported.requests_received = one.responder.counts["requests"]
            figures.reported.duplicates_received = one.responder.counts["duplicates"]
        made.append(one)
    return made


def _none() -> I64:
    return np.zeros(0, np.int64)


def _end(traces: list[Trace], qpn: int | None, peer: int | None, *, requestor: bool) -> tuple[Trace, ReportedQp] | None:
    """The QP `qpn` with this peer, as far as they are known; the one with the most to tell where QPNs came again."""
    fitting = []
    for trace in traces:
        for qp in trace.qps:
            pairs = [(qpn, qp.qpn), (peer, qp.peer_qpn)]
            known = [one == other for one, other in pairs if one is not None and other is not None]
            role = qp.is_requestor if requestor else qp.is_responder
            if role and known and all(known):
                fitting.append((trace, qp))
    return max(fitting, key=lambda each: each[1].weight, default=None)


def _matched(direction: Direction, qp: ReportedQp) -> tuple[I64, I64]:
    requests = direction.fates.requests
    seqs, evs = requests["seq"], requests["ev"]
    if not len(seqs):
        return np.full(len(qp.losses), -1), _none()
    first = qp.first_seq or 0
    shift = unwrap(first & PSN_MASK, int(seqs[0])) - first

    def spans(reported: Iterable[int]) -> list[tuple[int, int]]:
        wanted = np.array([seq + shift for seq in reported], np.int64)
        sides = (np.searchsorted(seqs, wanted, side).tolist() for side in ("left", "right"))
        return list(zip(*sides, strict=True))

    used: set[int] = set()
    found = np.full(len(qp.losses), -1)
    losses = zip(qp.losses, spans(loss.seq for loss in qp.losses), strict=True)
    for index, (loss, (begin, end)) in enumerate(losses):
        at = next((at for at in range(begin, end) if evs[at] == loss.ev and at not in used), -1)
        if at >= 0:
            used.add(at)
        found[index] = at
    # The spurious one is the last transmission of the PSN, unless the capture saw one only.
    again = spans(seq for seq, sent_again in qp.spurious if sent_again)
    return found, np.array([end - 1 for begin, end in again if end - begin > 1], np.int64)


def _add_requestor(one: Comparison, qp: ReportedQp, reported: DirectionReported, end_ns: int) -> None:
    known, counts = one.direction.fates, qp.lost()
    standing = np.array([each.kind == "lost" and not each.taken_back for each in qp.losses], np.bool_)
    reported_lost = np.zeros(len(known.fate), np.bool_)
    reported_lost[one.transmission[standing & (one.transmission >= 0)]] = True
    inferred, both = known.are(LOST), known.are(LOST) & reported_lost
    kinds = {kind: sum(count for (_, of), count in counts.items() if of == kind) for kind in _KINDS}
    reported.lost, reported.trimmed, reported.refused = (kinds[kind] for kind in _KINDS)
    reported.lost_in_both = int(both.sum())
    reported.lost_inferred_only, reported.lost_reported_only = (
        int((inferred & ~both).sum()),
        int((reported_lost & ~both).sum()),
    )
    reported.losses_not_captured = int((one.transmission < 0).sum())
    reported.losses_by_trigger = qp.by_trigger
    reported.retransmissions = qp.counts["retransmissions"]
    reported.spurious_retransmissions = qp.spurious_noticed
    by_ev = dict(
        zip(*(each.tolist() for each in np.unique(known.requests["ev"][both], return_counts=True)), strict=True)
    )
    start = one.start_ns
    for path in one.direction.figures.paths:
        of = qp.paths.get(path.ev)
        lost, trimmed, refused = (counts[path.ev, kind] for kind in _KINDS)
        path.reported = PathReported(
            packets=of.packets if of else None,
            lost=lost,
            lost_in_both=by_ev.get(path.ev, 0),
            trimmed=trimmed,
            refused=refused,
            state=of.state if of else "GOOD",
            outs=of.outs if of else 0,
            out_s=of.out_ns(end_ns) / 1e9 if of else 0.0,
            state_changes=changes(of.changes, start) if of else [],
        )


_KINDS = ("lost", "trimmed", "refused")


def changes(reported: list[tuple[int, str, str, str]], start_ns: int | None) -> list[dict[str, object]]:
    """The first of a path's changes as they go into a document; `time_s` is None without a clock in common."""
    return [
        {"time_s": None if start_ns is None else (time - start_ns) / 1e9, "old": old, "state": new, "trigger": cause}
        for time, old, new, cause in reported[:CHANGES_KEPT]
    ]


def apart(one: int, other: int) -> bool:
    """Whether two counts of the same thing differ by more than a little: by three or more, and by more than a tenth."""
    return abs(one - other) > max(2, 0.1 * max(one, other))
