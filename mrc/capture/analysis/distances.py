# SPDX-License-Identifier: BSD-2-Clause
"""How far apart two sightings of one packet are: at one place, and from one place to another."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mrc.capture.frames import I64, Bools

LEAST_TOLERANCE_NS = 2_000
# With so large a share of the distances outside of one window there is another.
_NEXT_WINDOW, MOST_WINDOWS = 0.2, 3
# With fewer samples a path has no median of its own.
_FEWEST = 3


class Window(NamedTuple):
    """How far apart two sightings of one packet are, in nanoseconds: about one of `middles`, the most frequent first.
    There are several where two places each have a packet twice."""

    middles: tuple[int, ...]
    tolerances: tuple[int, ...]

    @property
    def middle(self) -> int:
        return self.middles[0]

    def has(self, gap: I64) -> Bools:
        inside = np.zeros(len(gap), np.bool_)
        for middle, tolerance in zip(self.middles, self.tolerances, strict=True):
            inside |= np.abs(gap - middle) <= tolerance
        return inside

    @classmethod
    def of(cls, gap: I64, most: int) -> Window:
        middles: list[int] = []
        tolerances: list[int] = []
        rest = gap
        while len(rest) and (not middles or len(rest) > _NEXT_WINDOW * len(gap)):
            # The lower median lies in the nearer half, of which the copies at one place are.
            middle = int(np.sort(rest)[(len(rest) - 1) // 2])
            spread = int(np.median(np.abs(rest - middle)))
            tolerance = max(LEAST_TOLERANCE_NS, min(4 * spread, middle), middle // 2 if most > 1 else 0)
            middles.append(middle)
            tolerances.append(tolerance)
            rest = rest[np.abs(rest - middle) > tolerance]
            if len(middles) == most:
                break
        return cls(tuple(middles), tuple(tolerances))


class Way(NamedTuple):
    """From the place near a packet's origin to the other: `middle` nanoseconds by the two clocks; `far` are the rows of
    the second place among packets seen at both, `took` how long those of this EV usually take there (0 at the first),
    `tolerance` around that."""

    middle: int
    tolerance: int
    far: Bools
    took: I64

    @classmethod
    def of(cls, hop: I64, time: I64, key: I64, order: I64, sole: Bools | None, ev: I64) -> Way | None:
        if not len(hop) or (hop == hop[0]).all():
            return None
        key, hop, time = key[order], hop[order].astype(np.int64), time[order]
        first = np.ones(len(key), np.bool_)
        first[1:] = key[1:] != key[:-1]
        begins, group = np.flatnonzero(first), np.cumsum(first) - 1
        highest, lowest = np.maximum.reduceat(hop, begins), np.minimum.reduceat(hop, begins)
        is_near, is_far = hop == highest[group], hop < highest[group]
        # Packets seen as often at the one place as at the other: the first sightings there are of one transmission.
        balanced = np.add.reduceat(is_near.astype(np.int64), begins) == np.add.reduceat(is_far.astype(np.int64), begins)
        if not balanced.any():
            return None
        latest = np.iinfo(np.int64).max
        near_at = np.minimum.reduceat(np.where(is_near, time, latest), begins)
        far_at = np.minimum.reduceat(np.where(is_far, time, latest), begins)
        took = (far_at - near_at)[balanced]
        middle = int(np.median(took))
        usual = np.full(len(begins), middle)
        if sole is None:
            # What may have been sent again shows the slowest path only as the usual way on it.
            of_packet = ev[order[begins]]
            usual = Apart.of_evs(of_packet, took, of_packet[balanced])
        tolerance = max(LEAST_TOLERANCE_NS, 4 * int(np.median(np.abs(took - usual[balanced]))))
        if sole is not None and (sure := took[sole[order[begins[balanced]]]]).size:
            # What was sent once only shows the slowest path too.
            tolerance = max(tolerance, int(np.abs(sure - middle).max()) + LEAST_TOLERANCE_NS)
        if ((hop != highest[group]) & (hop != lowest[group])).any():
            # A third place lies between the two.
            tolerance += abs(middle)
        far, there = np.zeros(len(hop), np.bool_), np.zeros(len(hop), np.int64)
        far[order] = is_far
        there[order] = usual[group] * is_far
        return cls(middle, tolerance, far, there)


class Apart(NamedTuple):
    """How much later the far place saw a packet than the near one, by the two clocks: by EV, and the `usual`. `far` are
    the hop limits that only the far place has; empty where hop limits do not tell the two apart."""

    evs: I64
    by_ev: I64
    usual: int
    far: frozenset[int] = frozenset()

    @classmethod
    def of(cls, ev: I64, gap: I64, far: frozenset[int] = frozenset()) -> Apart | None:
        """`gap` of packets seen at both places, `ev` theirs."""
        if not len(gap):
            return None
        usual = int(np.median(gap))
        return cls(*_medians(ev, gap, usual), usual, far)

    def gaps(self, ev: I64) -> I64:
        return _looked_up(self.evs, self.by_ev, ev, self.usual)

    @staticmethod
    def of_evs(wanted: I64, values: I64, ev: I64) -> I64:
        """For each EV wanted the median of its values; of all of them where it has few."""
        usual = int(np.median(values))
        return _looked_up(*_medians(ev, values, usual), wanted, usual)


def _medians(ev: I64, values: I64, usual: int) -> tuple[I64, I64]:
    evs = np.unique(ev)
    medians = [values[ev == each] for each in evs]
    return evs, np.array([int(np.median(each)) if len(each) >= _FEWEST else usual for each in medians], np.int64)


def _looked_up(evs: I64, values: I64, wanted: I64, otherwise: int) -> I64:
    if not len(evs):
        return np.full(len(wanted), otherwise)
    at = np.minimum(np.searchsorted(evs, wanted), len(evs) - 1)
    return np.where(evs[at] == wanted, values[at], otherwise)
