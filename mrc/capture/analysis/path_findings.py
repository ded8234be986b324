# SPDX-License-Identifier: BSD-2-Clause
"""Findings about the paths of one direction."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from itertools import pairwise

import numpy as np

from mrc.capture.analysis.acknowledged import NEVER
from mrc.capture.analysis.direction import Direction
from mrc.capture.analysis.fates import LOST, TRIMS
from mrc.capture.analysis.figures import PathFigures
from mrc.capture.analysis.finding import (
    ERROR,
    INFO,
    WARNING,
    Finding,
    at_packet,
    of_part,
    on_path,
    path_name,
    patience_ns,
    share_of,
)
from mrc.capture.analysis.parts import Part, smallest, where
from mrc.capture.analysis.path_states import USED_AGAIN
from mrc.capture.analysis.records import NACK
from mrc.capture.frames import I64
from mrc.report.units import measured_s_text, percent_text, plural

# Losses have to be this many, so much likelier than on the other paths, and less likely by chance than this.
_LEAST_LOST, _RATIO, CHANCE = 3, 1.5, 1e-3
CHANCE_WORDS = (
    f"A path is called lossy where chance gives its losses in fewer than one capture in {1 / CHANCE:,.0f}: "
    "the exact binomial tail, times the number of paths."
)
# A path is dead when so many in a row were lost on it to the end, and nothing came through any more.
_DEAD_AFTER = 5
_IMBALANCE, _LEAST_PACKETS = 1.25, 100
# Paths are used in turn: one that carries less than this share of the middle one was left out.
_CARRIED_LESS = 0.9


def stands_out(lost: int, packets: int, others_lost: int, others: int, paths: int) -> bool:
    """Whether a path loses more than the others: `lost` of `packets`, against `others_lost` of `others`.

    Of `paths` alike the worst loses more than the others as well. So the losses have to be more than chance gives one
    of so many paths in a thousand captures, and half as many again: a difference that matters.
    """
    if lost < _LEAST_LOST or not packets or not others or lost / packets < _RATIO * others_lost / others:
        return False
    return paths * chance_of(lost, lost + others_lost, packets / (packets + others)) < CHANCE


def chance_of(at_least: int, of: int, share: float) -> float:
    """How likely so many of `of` losses fall on a path that has this share of the packets, if it is like the others."""
    if at_least <= of * share:
        return 1.0
    log_ratio = math.log(share) - math.log1p(-share)
    log_term = (
        math.lgamma(of + 1) - math.lgamma(at_least + 1) - math.lgamma(of - at_least + 1)
        + at_least * math.log(share) + (of - at_least) * math.log1p(-share)
    )  # fmt: skip
    total = term = math.exp(log_term)
    ratio = math.exp(log_ratio)
    # Above the mean each term is smaller than the one before.
    for count in range(at_least, of):
        term *= (of - count) / (count + 1) * ratio
        total += term
        if term < 1e-6 * total:
            break
    return min(1.0, total)


def lossy_paths(direction: Direction) -> Iterator[Finding]:
    figures = direction.figures
    lost, packets = figures.lost or 0, len(direction.requests)
    if not lost:
        return
    of_paths = {path.ev: path.lost or 0 for path in figures.paths}
    named = _standing_out(figures.paths, of_paths)
    part = _lossy_part(figures.paths, of_paths)
    if part is not None:
        here, sent_here, elsewhere, sent_elsewhere = part.split(figures.paths, of_paths)
        text = (
            f"{part.name} loses {percent_text(here / sent_here)}: {here:,} of {plural(sent_here, 'data packet')} "
            f"on its {plural(len(part.evs), 'path')} lost, against {percent_text(elsewhere / sent_elsewhere)} elsewhere"
        )
        first = _first_lost(direction, part.evs)
        kind = "lossy-plane" if part.name.startswith("plane") else "lossy-switch"
        weight = 1e6 * here / sent_here
        yield of_part(ERROR, kind, text, figures, first["number"], first["time"], part.evs, weight)
        return
    for path in named:
        clean = [each for each in figures.paths if each not in named]
        of_clean = sum(each.packets for each in clean)
        against = sum(each.lost or 0 for each in clean) / of_clean if of_clean else 0.0
        text = (
            f"path {path_name(path)} loses {percent_text(path.loss_share or 0)}: "
            f"{path.lost:,} of {plural(path.packets, 'data packet')} lost, "
            f"against {percent_text(against)} on the {plural(len(clean), 'other')}"
        )
        yield on_path(ERROR, "lossy-path", text, direction, path, weight=1e6 * (path.loss_share or 0))
        yield from _given_up_on(direction, path)
    if not named:
        by = ", ".join(f"{count} by a {what}" for what, count in figures.lost_found_by.items())
        words = "each sent again with all behind it" if figures.transport == "rc" else places(figures.paths, of_paths)
        text = f"{share_of(lost, packets)} were lost, {words}{_too_few(figures.paths, of_paths)}; noticed {by}"
        first = _first_lost(direction, of_paths.keys())
        yield at_packet(WARNING, "loss", text, figures, first["number"], first["time"], weight=1e4 * lost / packets)


def places(paths: list[PathFigures], lost: dict[int, int]) -> str:
    """In words: on which paths these packets were lost."""
    named = next((path_name(path) for path in paths if lost.get(path.ev)), "")
    return where(paths, lost, named)


def _too_few(paths: list[PathFigures], lost: dict[int, int]) -> str:
    """Where the losses lie more on one path than on the others, but chance explains that: that it does."""
    used = [path for path in paths if path.packets]
    worst = max(used, key=lambda path: lost.get(path.ev, 0) / path.packets)
    here, everywhere = lost.get(worst.ev, 0), sum(lost.values())
    others = sum(path.packets for path in used) - worst.packets
    if not others or here / worst.packets < _RATIO * (everywhere - here) / others:
        return ""
    return f" (too few to accuse {'it' if here == everywhere or smallest(paths, lost) else 'a path'})"


def _first_lost(direction: Direction, evs: Collection[int]) -> np.void:
    requests = direction.fates.requests
    rows = requests[direction.lost & np.isin(requests["ev"], list(evs))]
    first: np.void = rows[rows["time"].argmin()]
    return first


def _standing_out(paths: list[PathFigures], lost: dict[int, int]) -> list[PathFigures]:
    """The paths of these that lose more than the others of these."""
    sent, all_lost = sum(path.packets for path in paths), sum(lost.get(path.ev, 0) for path in paths)

    def is_out(path: PathFigures) -> bool:
        here = lost.get(path.ev, 0)
        return stands_out(here, path.packets, all_lost - here, sent - path.packets, len(paths))

    return [path for path in paths if is_out(path)]


def _lossy_part(paths: list[PathFigures], lost: dict[int, int]) -> Part | None:
    """The smallest switch or plane that all losses lie on, if chance does not explain that and no path of it stands out
    of the others there."""
    part = smallest(paths, lost)
    if part is None or not stands_out(*part.split(paths, lost), len(paths)):
        return None
    return None if _standing_out([path for path in paths if path.ev in part.evs], lost) else part


def _given_up_on(direction: Direction, path: PathFigures) -> Iterator[Finding]:
    """What follows from losses on a path: what was sent again because of it, and how little it carried."""
    name = direction.figures.name
    requests, lost = direction.fates.requests, direction.lost
    again = int((lost & (requests["ev"] == path.ev)).sum())
    everything = int(lost.sum())
    text = (
        f"{plural(again, 'packet')} of it sent again: {percent_text(again / max(1, everything))} of all that were lost"
    )
    yield Finding(INFO, "path-retransmissions", text, name, path.ev, weight=2.0)
    others = [each.payload_bytes for each in direction.figures.paths if each is not path and each.packets]
    usual = float(np.median(others)) if others else 0.0
    if path.payload_bytes < _CARRIED_LESS * usual:
        text = (
            f"it carried {percent_text(path.payload_bytes / usual)} of the bytes that the middle one of the others did"
        )
        yield Finding(INFO, "path-carried-less", text, name, path.ev, weight=1.0)


def dead_paths(direction: Direction) -> Iterator[Finding]:
    """Paths on which everything was lost from some packet on, or the plane or switch whose paths these all are."""
    tails: dict[int, I64] = {}
    for path in direction.figures.paths:
        unanswered = path.probes > path.probes_answered
        if path.lost and (unanswered or path.state == "ASSUMED_BAD"):
            dead = _dead_tail(direction, path.ev)
            if len(dead):
                tails[path.ev] = dead
    requests = direction.fates.requests
    part = smallest(direction.figures.paths, {ev: len(tail) for ev, tail in tails.items()})
    last = sum(map(len, tails.values()))
    if part is not None and part.evs == tails.keys() and last >= _DEAD_AFTER:
        dead = np.concatenate(list(tails.values()))
        first = requests[dead[requests["time"][dead].argmin()]]
        text = f"{part.name} went dead: the last {last} packets on its {plural(len(tails), 'path')} were all lost"
        kind = "dead-plane" if part.name.startswith("plane") else "dead-switch"
        yield of_part(ERROR, kind, text, direction.figures, first["number"], first["time"], part.evs, 1e7)
        return
    for path in direction.figures.paths:
        dead = tails.get(path.ev, np.zeros(0, np.int64))
        if len(dead) < _DEAD_AFTER:
            continue
        first = requests[dead[0]]
        text = (
            f"path {path_name(path)} went dead: the last {len(dead)} packets on it were all lost, "
            f"{plural(path.probes - path.probes_answered, 'probe')} on it unanswered"
        )
        yield at_packet(ERROR, "dead-path", text, direction.figures, first["number"], first["time"], path, 1e7)


def _dead_tail(direction: Direction, ev: int) -> I64:
    """The last transmissions on a path, in order of time, as far as all of them were lost."""
    requests, fate = direction.fates.requests, direction.fates.fate
    rows = np.flatnonzero(requests["ev"] == ev)
    rows = rows[np.argsort(requests["time"][rows], kind="stable")]
    alive = np.flatnonzero(fate[rows] != LOST)
    return rows[alive[-1] + 1 :] if len(alive) else rows


def paths_out(direction: Direction) -> Iterator[Finding]:
    for path in direction.figures.paths:
        if not path.outs:
            continue
        soon, soon_ns = _used_at_once(path, direction.figures.rtt.min_ns or 0)
        if soon == path.outs:
            # Whatever was lost, the requestor went on with it.
            continue
        change = next(each for each in path.state_changes if each["state"] == "ASSUMED_BAD")
        back = "it stayed out" if path.state == "ASSUMED_BAD" else "it is back"
        took = "" if path.out_ns is None else f", for {measured_s_text((path.out_ns - soon_ns) / 1e9)} in all"
        times = plural(path.outs - soon, "time") + took
        text = f"path {path_name(path)} was taken out of use {times}, as inferred from its losses; {back}"
        severity = WARNING if path.state == "ASSUMED_BAD" else INFO
        packet, time_ns = change["packet"], change["time_ns"]
        weight = (path.out_ns or 0) / 1e9
        yield Finding(severity, "path-out", text, direction.figures.name, path.ev, packet, time_ns, weight)


def _used_at_once(path: PathFigures, shortest_ns: int) -> tuple[int, int]:
    """How often, and for how long together, data went out on a path sooner after it should have gone out of use than
    anything could have brought it back: that takes a round trip. So it was not taken out."""
    spans = [
        then["time_ns"] - now["time_ns"]
        for now, then in pairwise(path.state_changes)
        if now["state"] == "ASSUMED_BAD" and then["trigger"] == USED_AGAIN
    ]
    soon = [each for each in spans if each < shortest_ns]
    return len(soon), sum(soon)


def corrupting_paths(direction: Direction) -> Iterator[Finding]:
    paths = direction.figures.paths
    bad = sum(path.bad_icrc_packets for path in paths)
    for path in paths:
        if path.bad_icrc_packets >= _LEAST_LOST and path.bad_icrc_packets > 0.9 * bad and len(paths) > 1:
            came = path.packets + path.bad_icrc_packets
            of = "and of no other path any" if path.bad_icrc_packets == bad else f"of {bad} in all"
            text = (
                f"path {path_name(path)} corrupts: {share_of(path.bad_icrc_packets, came)} of it came "
                f"with a wrong ICRC, {of}"
            )
            name, first, weight = direction.figures.name, path.first_bad_icrc_packet, path.bad_icrc_packets
            yield Finding(WARNING, "corrupting-path", text, name, path.ev, first, weight=weight)


def congested_paths(direction: Direction) -> Iterator[Finding]:
    figures = direction.figures
    hit = [path for path in figures.paths if path.marks or path.nacks.get("TRIMMED") or path.trimmed]
    if not hit:
        return
    # What came here trimmed may not be refused any more in the file.
    trimmed = {path.ev: max(path.trimmed, path.nacks.get("TRIMMED", 0)) for path in hit}
    marks, trims = sum(path.marks for path in hit), sum(trimmed.values())
    most = max(hit, key=lambda path: path.marks + trimmed[path.ev])
    share = (most.marks + trimmed[most.ev]) / max(1, marks + trims)
    where = (
        f"{percent_text(share)} of them on path {path_name(most)}"
        if share > 0.5 and len(figures.paths) > 1
        else f"on {len(hit)} of {plural(len(figures.paths), 'path')}"
    )
    text = f"congestion: {plural(marks, 'SACK')} with an ECN mark, {plural(trims, 'packet')} trimmed, {where}"
    severity, weight = WARNING if trims else INFO, trims + marks / 100
    first = _first_congested(direction, most)
    if first is None:
        yield Finding(severity, "congestion", text, figures.name, most.ev, weight=weight)
        return
    yield at_packet(severity, "congestion", text, figures, first["number"], first["time"], most, weight)


def _first_congested(direction: Direction, path: PathFigures) -> np.void | None:
    """The first packet with a mark, or answer that tells of one or of a trim; the first of the path where what came
    trimmed is not told of; None where all that came was trimmed."""
    requests, answers = direction.requests, direction.answers
    told = (answers["mark"] > 0) | ((answers["kind"] == NACK) & np.isin(answers["code"], TRIMS))
    some = [
        rows for rows in (requests[requests["ce"]], answers[told], requests[requests["ev"] == path.ev]) if len(rows)
    ]
    if not some:
        some = [rows for rows in (requests, answers) if len(rows)]
    return min((rows[0] for rows in some[:2]), key=lambda row: int(row["time"]), default=None)


def silent_probes(direction: Direction) -> Iterator[Finding]:
    figures, probes = direction.figures, direction.probes
    silent = probes.answered_at == NEVER
    # One that left shortly before the end may still be answered.
    end = max((int(rows["time"][-1]) for rows in (direction.requests, direction.answers) if len(rows)), default=0)
    silent &= probes.probes["time"] < end - patience_ns(figures)
    # Between the two, answers may take another way.
    if not silent.any() or figures.capture_point in ("receiver", "middle"):
        return
    first = probes.probes[silent][0]
    evs = np.unique(probes.probes["ev"][silent]).tolist()
    text = f"{int(silent.sum())} of {plural(figures.probes, 'probe')} unanswered, on {plural(len(evs), 'path')}"
    only = next((path for path in figures.paths if evs == [path.ev]), None)
    yield at_packet(
        WARNING, "unanswered-probes", text, figures, first["number"], first["time"], only, float(silent.sum())
    )


def plane_imbalance(direction: Direction) -> Iterator[Finding]:
    figures = direction.figures
    planes = [plane for plane in figures.planes if plane.packets]
    if len(planes) < 2 or len(direction.requests) < _LEAST_PACKETS:
        return
    most, least = max(planes, key=lambda plane: plane.payload_bytes), min(planes, key=lambda plane: plane.payload_bytes)
    if most.payload_bytes > _IMBALANCE * max(1, least.payload_bytes):
        shares = ", ".join(f"plane {plane.plane} {percent_text(plane.share)}" for plane in planes)
        text = f"planes are not equally loaded: {shares} of the payload bytes sent"
        evs = [path.ev for path in figures.paths if path.plane == least.plane]
        first = direction.requests[np.isin(direction.requests["ev"], evs)][0]
        weight = most.payload_bytes / max(1, least.payload_bytes)
        yield at_packet(WARNING, "plane-imbalance", text, figures, first["number"], first["time"], weight=weight)
