# SPDX-License-Identifier: BSD-2-Clause
"""Which path takes longer one way, where two places saw its packets: no clock has to be right for that.

How much later the far place saw a packet than the near one is its way and the distance of the two clocks. Of two
packets that were sent one after the other the distance of the clocks is the same, and falls out of the difference.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mrc.capture.frames import I64

# With fewer packets seen at both places a path is not compared.
_FEWEST = 20
# A path is slower where three quarters of its packets come later than those of the quicker paths, by so many times what
# the middle half of theirs are apart.
_CLEAR = 2
# The paths that others are held against are the quicker ones: by a share of all, so that several may be slow.
_QUICK_SHARE = 4


class Later(NamedTuple):
    """How much `later` the packets of an EV come than those of the quicker paths that were sent at the same time:
    nanoseconds, the median. The middle half of its packets lies within `spread` nanoseconds."""

    later: int
    spread: int
    is_slower: bool


def compared(ev: I64, gap: I64, time: I64) -> dict[int, Later]:
    """By EV. `gap` is how much later the far place saw a packet than the near one, by the two clocks, `time` when the
    near one did: int64 nanoseconds [n] each. Empty where fewer than two paths can be compared."""
    evs, which, counts = np.unique(ev, return_inverse=True, return_counts=True)
    if (counts >= _FEWEST).sum() < 2:
        return {}
    rows = np.split(np.lexsort((time, which)), np.cumsum(counts)[:-1])
    base = int(counts.argmax())
    at, its_gap = time[rows[base]], gap[rows[base]]
    quartiles: dict[int, tuple[float, float, float]] = {}
    for index in np.flatnonzero(counts >= _FEWEST).tolist():
        sent = time[rows[index]]
        meanwhile = rows[index][(sent >= at[0]) & (sent <= at[-1])]
        if index == base or len(meanwhile) < _FEWEST:
            continue
        off = gap[meanwhile] - np.interp(time[meanwhile], at, its_gap)
        low, middle, high = np.percentile(off, (25, 50, 75)).tolist()
        quartiles[index] = low, middle, high
    if not quartiles:
        return {}
    half = min(high - low for low, _, high in quartiles.values()) / 2
    quartiles[base] = -half, 0.0, half
    by_level = sorted(quartiles, key=lambda index: quartiles[index][1])
    quick_low, quick, quick_high = quartiles[by_level[(len(by_level) - 1) // _QUICK_SHARE]]
    least = quick + _CLEAR * (quick_high - quick_low)
    return {
        int(evs[index]): Later(round(middle - quick), round(high - low), low > least)
        for index, (low, middle, high) in quartiles.items()
    }
