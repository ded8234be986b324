# SPDX-License-Identifier: BSD-2-Clause
"""Where packets were lost that never came to the place of the capture: by the turns that a requestor's paths take.

A requestor uses its paths in turn, so that as many packets are put on one as on another (behaviour.md, Paths). Where
fewer come on one path they were lost there, if the file shows how many were sent, and no path had more than its turns.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mrc.capture.analysis.direction import Direction
from mrc.capture.analysis.figures import PathFigures
from mrc.capture.analysis.parts import parts
from mrc.capture.analysis.path_findings import stands_out
from mrc.capture.analysis.records import SACK

# A path that brought less than this share of the middle one came short.
_CARRIED_LESS = 0.9
# By so many at least it has to be, and the others differ by no more than this share.
_LEAST_SHORT, _ALIKE = 5, 0.05
# By so many packets, and this share, a path may have more than its turns: of a rotation that is begun anew.
_MORE, _MORE_SHARE = 3, 0.02
# A path fell silent that had so many packets before, and of which so many turns pass until the end.
_LEAST_BEFORE, _LEAST_AFTER = 10, 20
_ALIKE_WORDS = "as many packets are missing on every path as chance gives"
_NO_TURNS_WORDS = "some paths carried more than their turns, so that turns show nothing"


class Turns(NamedTuple):
    """The EVs that are `short` of packets, by how many each; which share of their turns brought none, and of the
    others'. `why_not`, where there is no such EV."""

    short: dict[int, int]
    missing_share: float = 0.0
    others_share: float = 0.0
    why_not: str = ""


def came_short(paths: list[PathFigures], missing: int) -> dict[int, int]:
    """By EV, how many packets fewer a path brought than the others: where paths are taken in turn, so many were lost on
    it. Empty where the others are not alike, or where this is not about as many as are `missing`."""
    most = max(path.packets for path in paths)
    usual = int(np.median([path.packets for path in paths if path.packets > _CARRIED_LESS * most]))
    short = {path.ev: usual - path.packets for path in paths if path.packets < _CARRIED_LESS * usual}
    least = min(path.packets for path in paths if path.ev not in short)
    total = sum(short.values())
    if total < _LEAST_SHORT or usual - least > max(2, _ALIKE * usual) or abs(total - missing) > max(2, missing // 4):
        return {}
    return short


def turns(direction: Direction) -> Turns:
    """Which paths' packets are missing more often than chance explains, also where the file itself lacks packets: that
    falls on all paths alike."""
    paths = [path for path in direction.figures.paths if path.packets]
    came = {path.ev: path.packets for path in paths}
    again = int(direction.fates.again.sum())
    for ev, rtx in _acknowledged_unseen(direction):
        if ev in came:
            came[ev] += 1
            again += rtx
    sent = len(direction.fates.acknowledged.seqs) + direction.figures.not_captured + again
    return in_turn(paths, came, sent)


def silent(direction: Direction) -> tuple[list[int], np.void | None]:
    """The EVs on which nothing came any more from some time on while the others went on, and the last packet that came
    on any of them."""
    requests = direction.requests
    paths = [path for path in direction.figures.paths if path.packets]
    evs = [path.ev for path in paths if path.packets >= _LEAST_BEFORE]
    last = {path.ev: path.last_use_ns or 0 for path in paths}
    time = requests["time"]
    found = [ev for ev in evs if len(time) - int(np.searchsorted(time, last[ev], "right")) >= _LEAST_AFTER * len(paths)]
    if not found or len(found) == len(paths):
        return [], None
    rows = requests[np.isin(requests["ev"], found)]
    latest: np.void = rows[rows["time"].argmax()]
    return found, latest


def in_turn(paths: list[PathFigures], came: dict[int, int], sent: int) -> Turns:
    """`came`: packets by EV, of `sent` in all."""
    each = sent / len(paths)
    if max(came.values()) > each + max(_MORE, _MORE_SHARE * each):
        return Turns({}, why_not=_NO_TURNS_WORDS)
    missing = {ev: max(0.0, each - count) for ev, count in came.items()}
    left, short = sorted(missing, key=lambda ev: missing[ev]), []
    while len(left) > 1:
        worst = left[-1]
        others = sum(missing[ev] for ev in left[:-1])
        if not stands_out(round(missing[worst]), round(each), round(others), round(each * (len(left) - 1)), len(paths)):
            break
        short.append(left.pop())
    if not short:
        short = _part(paths, missing, each)
        left = [ev for ev in left if ev not in short]
    if not short:
        return Turns({}, why_not=_ALIKE_WORDS)
    here, elsewhere = (sum(missing[ev] for ev in evs) / (each * len(evs)) for evs in (short, left))
    return Turns({ev: round(missing[ev]) for ev in short}, here, elsewhere)


def _part(paths: list[PathFigures], missing: dict[int, float], each: float) -> list[int]:
    """The paths of the smallest plane or switch that lacks more packets than the others."""
    for part in parts(paths):
        here = sum(missing[ev] for ev in part.evs)
        others = sum(missing.values()) - here
        sent = each * len(part.evs), each * (len(paths) - len(part.evs))
        if stands_out(round(here), round(sent[0]), round(others), round(sent[1]), len(paths)):
            return sorted(part.evs)
    return []


def _acknowledged_unseen(direction: Direction) -> list[tuple[int, bool]]:
    """EV and rtx bit of each transmission that triggered a SACK and is not in the file: it came, and the file lacks
    it."""
    requests, answers = direction.fates.requests, direction.answers
    sacks = answers[answers["kind"] == SACK]
    evs, index = np.unique(np.concatenate([requests["ev"], sacks["entropy"]]), return_inverse=True)
    seq = np.concatenate([requests["seq"], sacks["trigger"]])
    key = ((seq * len(evs) + index) << 1) + np.concatenate([requests["rtx"], sacks["rtx"]])
    unseen = np.setdiff1d(key[len(requests) :], key[: len(requests)])
    return list(zip(evs[(unseen >> 1) % len(evs)].tolist(), (unseen & 1 == 1).tolist(), strict=True))
