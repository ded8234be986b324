# SPDX-License-Identifier: BSD-2-Clause
"""How far apart two sightings of one RC packet are, where nothing in the packet tells the places apart.

A packet of RC that is sent again is the same byte by byte. A requestor sends in order of PSN until it goes back, and
nothing that is acknowledged. So of several distances the right one is that which leaves the requests in order.
"""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import numpy as np

from mrc.capture.analysis.distances import LEAST_TOLERANCE_NS, Window
from mrc.capture.frames import I64, Bools
from mrc.capture.rows import Rows

# The distance is looked for in so many rows, of PSNs one behind the other.
_SAMPLE = 6000
_CANDIDATES = 8
# Sightings of one packet this far apart in its list are compared.
_NEIGHBOURS = 6
# A distance of copies is that of so many of the packets.
_LEAST_SHARE = 0.4
# From this share of rows behind a higher PSN, or below what is acknowledged, on there are two sequences in the file.
_MIXED = 0.2
_MOST_DISTANCES = 3
_FEWEST = 3
# Requests that go back no more often than this may be copies behind all that they are of, or all sent again.
_FEW_BACK = 3
_LEAST_SPREAD_NS = 200
# How many times their usual spread distances may differ: what fits best is tried out.
_SPREADS = (2, 4, 8)


class Distance(NamedTuple):
    """How far apart two sightings of one transmission are, and how pairs are made of more than two: those nearest to
    the usual distance first, or in order of time."""

    middle: int
    tolerance: int
    nearest_first: bool

    @property
    def window(self) -> Window:
        return Window((self.middle,), (self.tolerance,))


class Disorder:
    """Counts the requests that a requestor of RC would not have sent then."""

    def __init__(self, edge_time: I64, edge: I64) -> None:
        self.edge_time, self.edge = edge_time, edge

    def of(self, seq: I64, time: I64) -> int:
        """`seq` and `time` in order of time."""
        if len(seq) < 2:
            return 0
        behind = seq[1:] <= seq[:-1]
        if not len(self.edge):
            return int(behind.sum())
        at = np.searchsorted(self.edge_time, time[1:]) - 1
        settled = (at >= 0) & (seq[1:] <= self.edge[np.maximum(at, 0)])
        return int((behind | settled).sum())


def distances(requests: Rows, key: I64, disorder: Disorder, seen: float) -> tuple[list[Distance], bool]:
    """The distances at which copies stand, to be taken out one after the other, none where there are no copies; and
    whether a requestor that goes back a few times may have sent again what stands at one of them. `requests` in order
    of time; `seen`: how often most of the answers are in the file."""
    rows, key = _sample(requests, key)
    found: list[Distance] = []
    unclear = False
    while len(rows) > 1 and len(found) < _MOST_DISTANCES:
        before = disorder.of(rows["seq"], rows["time"])
        doubled = seen >= 2 ** (len(found) + 1)
        order = np.argsort(key, kind="stable")
        time_by_key, begins = rows["time"][order], _begins(key[order])
        candidates = _candidates(time_by_key, key[order])
        back = int((rows["seq"][1:] <= rows["seq"][:-1]).sum())
        may_be_resent = back <= _FEW_BACK and any(middle > LEAST_TOLERANCE_NS for middle, _ in candidates)
        # What a place has twice are answers too.
        unclear |= may_be_resent and (doubled or not seen)
        if before < _FEWEST or (not doubled and (may_be_resent or before < _MIXED * len(rows))):
            break
        tried = []
        for middle, spread in candidates:
            tolerances = dict.fromkeys(_LEAST_SPREAD_NS + min(times * spread, middle // 2) for times in _SPREADS)
            near = _near(time_by_key, begins, middle, max(tolerances))
            for tolerance, nearest_first in product(tolerances, (False, True)):
                each = Distance(middle, tolerance, nearest_first)
                _, those = _pairs(near, len(order), each)
                left = np.sort(np.delete(order, those))
                seq = rows["seq"][left]
                breaks = int((seq[1:] != seq[:-1] + 1).sum())
                tried.append((disorder.of(seq, rows["time"][left]) + breaks, middle, each, left))
        if not tried:
            break
        _, _, distance, left = min(tried, key=lambda each: each[:2])
        if disorder.of(rows["seq"][left], rows["time"][left]) > (before if doubled else before // 2):
            break
        found.append(distance)
        rows, key = rows[left], key[left]
    return found, unclear


def _sample(requests: Rows, key: I64) -> tuple[Rows, I64]:
    if len(requests) <= _SAMPLE:
        return requests, key
    seqs = np.sort(requests["seq"])
    middle = len(seqs) // 2
    low, high = seqs[middle - _SAMPLE // 2], seqs[middle + _SAMPLE // 2]
    some = (requests["seq"] >= low) & (requests["seq"] < high)
    return requests[some], key[some]


def _candidates(time: I64, key: I64) -> list[tuple[int, int]]:
    """The distances that many packets have between two sightings, and how much each differs; `time` and `key` in order
    of key, then time."""
    gaps, packets = [], []
    for step in range(1, min(_NEIGHBOURS, len(key) - 1) + 1):
        same = key[step:] == key[:-step]
        gaps.append((time[step:] - time[:-step])[same])
        packets.append(key[step:][same])
    gap, packet = np.concatenate(gaps), np.concatenate(packets)
    order = np.argsort(gap, kind="stable")
    gap, packet = gap[order], packet[order]
    least = _LEAST_SHARE * len(np.unique(key))
    found: list[tuple[int, int]] = []
    for _ in range(_CANDIDATES):
        if len(gap) < least:
            break
        ends = np.searchsorted(gap, gap + np.maximum(2 * LEAST_TOLERANCE_NS, gap // 8), "right")
        counts = ends - np.arange(len(gap))
        begin = int(counts.argmax())
        end = int(ends[begin])
        if len(np.unique(packet[begin:end])) >= least:
            middle = int(np.median(gap[begin:end]))
            spread = int(np.median(np.abs(gap[begin:end] - middle)))
            found.append((middle, spread))
        gap, packet = np.delete(gap, slice(begin, end)), np.delete(packet, slice(begin, end))
    return found


def _begins(key: I64) -> I64:
    """Of each row the first of its packet; `key` in order."""
    is_first = np.append(True, key[1:] != key[:-1])[: len(key)]
    return np.maximum.accumulate(np.where(is_first, np.arange(len(key)), 0))


class _Near(NamedTuple):
    """Rows of one packet that may be a pair: the earlier one, the later one, and how far off the distance they are."""

    one: I64
    other: I64
    off: I64


def _near(time: I64, begins: I64, middle: int, tolerance: int) -> _Near:
    found = [_Near(*np.zeros((3, 0), np.int64))]
    other, step = np.arange(len(time)), 1
    while True:
        other = other[other - step >= begins[other]]
        off = time[other] - time[other - step] - middle
        # Those further back are further away.
        other, off = other[off <= tolerance], off[off <= tolerance]
        if not len(other):
            return _Near(*map(np.concatenate, zip(*found, strict=True)))
        near = off >= -tolerance
        found.append(_Near(other[near] - step, other[near], np.abs(off[near])))
        step += 1


def _pairs(near: _Near, rows: int, distance: Distance) -> tuple[I64, I64]:
    """Which of so many rows are a pair: the earlier ones and the later ones."""
    one, other, off = (each[near.off <= distance.tolerance] for each in near)
    partners = np.bincount(one, minlength=rows) + np.bincount(other, minlength=rows)
    sole = (partners[one] == 1) & (partners[other] == 1)
    several = np.flatnonzero(~sole)
    by = (other[several], one[several], *([off[several]] if distance.nearest_first else []))
    place = several[np.lexsort(by)]
    taken, found = bytearray(rows), []
    for at, here, there in zip(place.tolist(), one[place].tolist(), other[place].tolist(), strict=True):
        if not taken[here] and not taken[there]:
            taken[here] = taken[there] = True
            found.append(at)
    pairs = np.append(np.flatnonzero(sole), np.array(found, np.int64))
    return one[pairs], other[pairs]


def mended(seq: I64, sent: I64, order: I64) -> I64:
    """`sent` without pairs that leave a hole in a run of PSNs, which just this sighting fills: it is a transmission of
    its own. `order`: the rows, in order of time, of `sent`; `seq` by row."""
    is_first, is_lone = np.zeros((2, len(seq)), np.bool_)
    is_first[order] = firsts(sent)
    is_lone[order] = np.bincount(sent, minlength=len(sent))[sent] == 1
    # What only the far place saw is not where the requestor sent it.
    kept, lone, dropped = seq[is_first], is_lone[is_first], np.flatnonzero(~is_first)
    behind = np.cumsum(is_first)[dropped]
    inside = (behind > 0) & (behind < len(kept))
    behind = np.where(inside, behind, 1 if len(kept) > 1 else 0)
    if len(kept) < 2:
        return sent
    fills = (
        inside
        & ~lone[behind - 1]
        & ~lone[behind]
        & (kept[behind - 1] == seq[dropped] - 1)
        & (kept[behind] == seq[dropped] + 1)
    )
    place = np.argsort(order, kind="stable")[dropped[fills]]
    sent = sent.copy()
    # Numbers are places of rows: that of the row itself is nobody else's.
    sent[place] = place
    return sent


def firsts(sent: I64) -> Bools:
    """Which rows are the first of their transmission."""
    first = np.zeros(len(sent), np.bool_)
    first[np.unique(sent, return_index=True)[1]] = True
    return first


def paired(time: I64, key: I64, distance: Distance, sent: I64 | None = None) -> I64:
    """A number for each row that two sightings of one transmission share; `time` and `key` in order of key, then time.
    Each sighting is one of a pair at most. `sent`: pairs known before, of which the first rows only are paired."""
    of = np.arange(len(time)) if sent is None else sent.copy()
    rows = np.arange(len(time)) if sent is None else np.flatnonzero(firsts(sent))
    time, key = time[rows], key[rows]
    near = _near(time, _begins(key), distance.middle, distance.tolerance)
    these, those = _pairs(near, len(time), distance)
    of[rows[those]] = of[rows[these]]
    if sent is not None:
        # What was paired before goes with its first row.
        _, first, which = np.unique(sent, return_index=True, return_inverse=True)
        of = of[first][which]
    return of
