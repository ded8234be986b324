# SPDX-License-Identifier: BSD-2-Clause
"""Findings that follow from the place of the capture: what was lost before it and behind it, what the file lacks, what
it has twice, and the clocks of two places."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from mrc.capture.analysis.direction import Direction
from mrc.capture.analysis.figures import DirectionFigures, PathFigures
from mrc.capture.analysis.finding import INFO, WARNING, Finding, at_packet, path_name
from mrc.capture.analysis.parts import exactly
from mrc.capture.analysis.path_findings import places, stands_out
from mrc.capture.analysis.records import NACK, NAK
from mrc.capture.analysis.turns import Turns, came_short, silent, turns
from mrc.capture.frames import Bools
from mrc.capture.rows import Rows
from mrc.report.units import measured_s_text, percent_text, plural

# So many PSNs of which the capture has retransmissions only are not all packets that it lacks.
_FEWEST_ALONE = 5
_PSN_SEQUENCE_ERROR = 0x60
# Answers that acknowledge nothing have a lower cack.
_ACKNOWLEDGES = -1 << 60


def at_the_place(direction: Direction) -> Iterator[Finding]:
    yield from _not_captured(direction)
    yield from _lost_before(direction)
    yield from _asked_between(direction)
    yield from _uncounted(direction)
    yield from _lost_behind(direction)
    yield from _twice(direction)
    yield from _clocks(direction)


def _not_captured(direction: Direction) -> Iterator[Finding]:
    figures = direction.figures
    if not figures.not_captured or figures.capture_point == "middle":
        return
    text = (
        f"{plural(figures.not_captured, 'PSN')} acknowledged that the capture never saw: "
        f"{'it or the mirror' if figures.mirrored else 'it'} dropped packets, "
        "or does not see every plane; figures are too low by as much"
    )
    yield _of(WARNING, "not-captured", text, figures, _tells_of_a_gap(direction), figures.not_captured)


def _tells_of_a_gap(direction: Direction) -> Rows:
    """The first answer that acknowledges a PSN which is not in the file, between two that are."""
    seqs, answers = direction.fates.acknowledged.seqs, direction.answers
    holes = np.flatnonzero(np.diff(seqs) > 1)
    moving = answers[answers["cack"] > _ACKNOWLEDGES]
    beyond: Rows = moving[moving["cack"] > seqs[holes[0]]] if len(holes) else moving[:0]
    return beyond


def _lost_before(direction: Direction) -> Iterator[Finding]:
    figures = direction.figures
    if not figures.missing_before_capture:
        return
    count = plural(figures.missing_before_capture, "packet")
    corrupt = _first_corrupt(direction)
    if len(corrupt) >= figures.missing_before_capture:
        evs = np.unique(corrupt["ev"]).tolist()
        text = f"{count} sent again: the first transmission had come with a wrong ICRC"
        weight, ev = figures.missing_before_capture, evs[0] if len(evs) == 1 else None
        yield _of(WARNING, "loss-before-capture", text, figures, _sent_again_only(direction), weight, ev)
        return
    text = f"{count} came as a retransmission only: the first was lost before this point"
    text += f" ({len(corrupt)} of these came with a wrong ICRC)" if len(corrupt) else ""
    short: dict[int, int] = {}
    paths = [path for path in figures.paths if path.packets]
    if figures.transport == "mrc" and len(paths) > 1:
        short = came_short(figures.paths, figures.missing_before_capture)
        taken = turns(direction)
        if short:
            text += f"; {places(figures.paths, short)}, if paths are taken in turn: fewer packets came there"
        else:
            words, short = _by_use(direction)
            text += words if short and not taken.short else _by_turns(figures.paths, taken)
            short = taken.short or short
    ev = next(iter(short)) if len(short) == 1 else None
    weight = figures.missing_before_capture
    yield _of(WARNING, "loss-before-capture", text, figures, _sent_again_only(direction), weight, ev)


def _first_corrupt(direction: Direction) -> Rows:
    """The first transmissions that came, and that no endpoint took for their wrong ICRC."""
    bad = direction.bad[~direction.bad["rtx"]]
    bad = bad[np.unique(bad["seq"], return_index=True)[1]]
    corrupt: Rows = bad[np.isin(bad["seq"], _sent_again_only(direction)["seq"])]
    return corrupt


def _by_turns(paths: list[PathFigures], taken: Turns) -> str:
    """Where the packets were lost that never came, by the turns that the paths take; or why that is not known."""
    if not taken.short:
        return f"; on which path is not known: {taken.why_not}"
    worst = [path_name(path) for path in paths if path.ev in taken.short]
    on = f"path {worst[0]}" if len(worst) == 1 else f"paths {', '.join(worst)}"
    return (
        f"; most were lost on {on}, if paths are taken in turn: {percent_text(taken.missing_share)} of its turns "
        f"brought no packet, {percent_text(taken.others_share)} of the others'"
    )


def _by_use(direction: Direction) -> tuple[str, dict[int, int]]:
    """The paths that the sender used less from some time on, or asked about, and in words what shows that."""
    figures = direction.figures
    gone, latest = silent(direction)
    if latest is not None:
        part = exactly(figures.paths, set(gone))
        names = ", ".join(path_name(path) for path in figures.paths if path.ev in gone)
        on = part.name if part is not None else f"path {names}" if len(gone) == 1 else f"paths {names}"
        last, asking = int(latest["number"]), direction.probes.probes
        later = np.isin(asking["ev"], gone) & (asking["time"] > latest["time"])
        why = "no data came any more behind packet {}, but probes did: the sender had taken it out of use"
        if not later.any():
            why = "nothing came any more behind packet {}: it went dead or was taken out of use"
        return f"; on {on} {why.format(last)}", dict.fromkeys(gone, 0)
    asked = _asked_about(figures)
    return ("", {}) if asked is None else (_by_probes(figures, asked), {asked.ev: asked.probes})


def _asked_about(figures: DirectionFigures) -> PathFigures | None:
    """The path of which the sender asked whether it works, again and again, and on which fewer packets came."""
    paths = [path for path in figures.paths if path.packets]
    probes = sum(path.probes for path in paths)
    most = max(paths, key=lambda path: path.probes)
    others = sum(path.packets for path in paths) - most.packets
    fewer = most.packets < float(np.median([path.packets for path in paths if path is not most] or [0]))
    if fewer and stands_out(most.probes, most.packets, probes - most.probes, others, len(paths)):
        return most
    return None


def _asked_between(direction: Direction) -> Iterator[Finding]:
    """Between the two: a path that the sender had taken out of use, though nothing is seen lost behind this place."""
    figures = direction.figures
    paths = [path for path in figures.paths if path.packets]
    if (
        figures.capture_point != "middle"
        or figures.transport != "mrc"
        or len(paths) < 2
        or figures.missing_before_capture
    ):
        return
    asked = _asked_about(figures)
    if asked is None or asked.lost or asked.outs:
        return
    usual = int(np.median([path.packets for path in paths if path is not asked]))
    others = sum(path.probes for path in paths) - asked.probes
    text = (
        f"the sender took path {path_name(asked)} out of use, as far as probes show: it asked {asked.probes:,} times "
        f"whether it works, of the other paths {others:,} times, and put {asked.packets:,} packets on it, on the "
        f"others {usual:,}; behind this place none of them is seen to be lost"
    )
    probes = direction.probes.probes
    yield _of(WARNING, "loss-before-capture", text, figures, probes[probes["ev"] == asked.ev], asked.probes, asked.ev)


def _by_probes(figures: DirectionFigures, asked: PathFigures) -> str:
    others = sum(path.probes for path in figures.paths) - asked.probes
    return (
        f"; most were lost on path {path_name(asked)}, as far as probes show: the sender asked {asked.probes:,} times "
        f"whether it works, of the other paths {others:,} times, and put fewer packets on it"
    )


def _sent_again_only(direction: Direction) -> Rows:
    """Packets of which the first transmission is not in the file and no NACK told of it."""
    known = direction.fates
    if direction.figures.transport == "rc":
        return known.requests[known.again]
    return known.requests[_alone(direction)]


def _alone(direction: Direction) -> Bools:
    known, answers = direction.fates, direction.answers
    named = answers["trigger"][answers["kind"] == NACK]
    alone: Bools = known.first & known.again & ~np.isin(known.requests["seq"], named)
    return alone


def _uncounted(direction: Direction) -> Iterator[Finding]:
    """That packets were lost, where the capture does not show how many."""
    figures, known = direction.figures, direction.fates
    if figures.lost or figures.missing_before_capture or figures.lost_behind_capture:
        return
    naks = direction.answers["kind"] == NAK
    naks &= direction.answers["code"] == _PSN_SEQUENCE_ERROR
    if figures.transport == "rc" and naks.any():
        reported = direction.answers[naks]
        count = plural(len(reported), "NAK")
        if known.reorders:
            text = f"packets came out of order, which RC takes for losses: {count} of a sequence error"
            yield _of(WARNING, "out-of-order", text, figures, reported, len(reported))
            return
        sure = known.in_order and not known.doubtful.any()
        lost = "packets were lost" if sure else "packets were lost or came late"
        text = f"{lost}: {count} of a sequence error; this capture does not show how many packets"
        yield _of(WARNING, "loss", text, figures, reported, len(reported))
    elif figures.transport == "mrc" and figures.missing_before_capture is None and figures.lost is None:
        # What a NACK names was trimmed or refused, and came here so.
        alone = known.requests[_alone(direction)]
        if len(alone) >= _FEWEST_ALONE and len(alone) > 2 * (figures.spurious_retransmissions or 0):
            text = (
                f"packets were lost before this point: {len(alone)} came as a retransmission only; "
                "the capture itself lacks some of the first transmissions"
            )
            taken = turns(direction)
            if sum(path.packets > 0 for path in figures.paths) > 1:
                text += _by_turns(figures.paths, taken)
            ev = next(iter(taken.short)) if len(taken.short) == 1 else None
            yield _of(WARNING, "loss-before-capture", text, figures, alone, len(alone), ev)


def _lost_behind(direction: Direction) -> Iterator[Finding]:
    figures = direction.figures
    behind = direction.fates.requests[direction.lost]
    if figures.capture_point == "receiver" and len(behind):
        count, by_ev = plural(len(behind), "packet"), Counter(behind["ev"].tolist())
        of_paths = places(figures.paths, by_ev) if figures.transport == "mrc" else "each sent again with all behind it"
        text = f"{count} passed this point and did not arrive, {of_paths}: the responder reports them missing"
        yield _of(WARNING, "loss-behind-capture", text, figures, behind, len(behind))


def _twice(direction: Direction) -> Iterator[Finding]:
    figures = direction.figures
    if figures.copies_left_out:
        text = f"{plural(figures.copies_left_out, 'packet')} captured at more than one place, counted once"
        # Where it is not certain which sightings are of one transmission.
        text += "" if figures.packets is not None else ", as far as their times tell"
        yield Finding(INFO, "copies", text, figures.name)
    if figures.duplicates:
        text, doubled = f"{plural(figures.duplicates, 'packet')} doubled by the network", direction.doubled
        by_ev = Counter(doubled["ev"].tolist()) if figures.transport == "mrc" else Counter[int]()
        text += f", {places(figures.paths, by_ev)}" if by_ev else ""
        ev = next(iter(by_ev)) if len(by_ev) == 1 else None
        yield _of(INFO, "duplicates", text, figures, doubled, figures.duplicates, ev)


def _clocks(direction: Direction) -> Iterator[Finding]:
    figures = direction.figures
    if figures.clock_offset_ns is not None:
        side = "ahead of" if figures.clock_offset_ns > 0 else "behind"
        apart = measured_s_text(abs(figures.clock_offset_ns) / 1e9)
        text = f"the clock of the place near the responder is about {apart} {side} the other"
        text += f"{_bounds(figures)}: times are those of the requestor's side"
        yield Finding(INFO, "clocks-apart", text, figures.name)
    if figures.clock_drift_ns is not None:
        by = measured_s_text(abs(figures.clock_drift_ns) / 1e9)
        gains = "gains" if figures.clock_drift_ns > 0 else "loses"
        text = f"two clocks: that of the place near the responder {gains} {by} on the other while the flow goes on"
        yield Finding(INFO, "clocks-drift", text, figures.name)
    if figures.answers_ahead_ns is not None:
        apart = measured_s_text(figures.answers_ahead_ns / 1e9)
        text = (
            f"answers stand up to {apart} before what they answer: two clocks, at least so far apart; "
            "round trips are not known"
        )
        yield _of(WARNING, "clocks-apart", text, figures, direction.answers, 0.0)


def _bounds(figures: DirectionFigures) -> str:
    """How sure the distance of the clocks is."""
    least, most = figures.clock_offset_least_ns, figures.clock_offset_most_ns
    if least is None or most is None:
        return ""
    most_off = measured_s_text((most - least) / 2e9)
    return f", give or take {most_off} at most (no packet comes before it was sent)"


def _of(
    severity: str,
    kind: str,
    text: str,
    figures: DirectionFigures,
    rows: Rows,
    weight: float,
    ev: int | None = None,
) -> Finding:
    """With the first of these rows by number, if there are any."""
    path = next((path for path in figures.paths if path.ev == ev), None)
    if not len(rows):
        return Finding(severity, kind, text, figures.name, ev, weight=weight)
    first = rows[rows["number"].argmin()]
    return at_packet(severity, kind, text, figures, first["number"], first["time"], path, weight)
