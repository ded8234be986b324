# SPDX-License-Identifier: BSD-2-Clause
"""The life of an EV as a table (behaviour.md, Paths)."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

__all__ = ["TRANSITIONS", "EvInput", "EvState", "next_state"]


class EvState(IntEnum):
    """GOOD and SKIP carry data, ASSUMED_BAD only probes, DENIED nothing."""

    GOOD = 0
    SKIP = 1
    ASSUMED_BAD = 2
    DENIED = 3


class EvInput(IntEnum):
    """What can happen to an EV."""

    MARKED = 0  # SACK m=1 for it, or NACK TRIMMED
    ALWAYS_SKIP = 1  # SACK m=2
    LOST = 2  # a packet lost untrimmed, found by a hole or a timer
    PASSED = 3  # the rotation passes it
    PROBED_CLEAR = 4  # three consecutive probes answered, the last with m=0
    PROBED_MARKED = 5  # three consecutive probes answered, the last with m=1
    SPURIOUS = 6  # the loss that condemned it proves spurious
    DENY = 7  # controller
    ALLOW = 8  # controller


# By state: 1 where an EV takes turns with data, else 0. An EV that leaves these states leaves the rotation.
CARRIES_DATA = bytes(state in (EvState.GOOD, EvState.SKIP) for state in EvState)

# Where several have an EV the worst of their states is shown. The numbers are names for other programs, and no order.
BEST_FIRST = (EvState.GOOD, EvState.SKIP, EvState.ASSUMED_BAD, EvState.DENIED)


def worst(states: Iterable[int]) -> EvState:
    """The last of these in BEST_FIRST; of none, the first there."""
    return BEST_FIRST[max((BEST_FIRST.index(EvState(each)) for each in states), default=0)]


# What is not in the table changes nothing: in particular a mark is ignored while an EV is in SKIP.
TRANSITIONS: dict[tuple[EvState, EvInput], EvState] = {
    (EvState.GOOD, EvInput.MARKED): EvState.SKIP,
    (EvState.GOOD, EvInput.ALWAYS_SKIP): EvState.ASSUMED_BAD,
    (EvState.SKIP, EvInput.ALWAYS_SKIP): EvState.ASSUMED_BAD,
    (EvState.GOOD, EvInput.LOST): EvState.ASSUMED_BAD,
    (EvState.SKIP, EvInput.LOST): EvState.ASSUMED_BAD,
    (EvState.SKIP, EvInput.PASSED): EvState.GOOD,
    (EvState.ASSUMED_BAD, EvInput.PROBED_CLEAR): EvState.GOOD,
    (EvState.ASSUMED_BAD, EvInput.PROBED_MARKED): EvState.SKIP,
    (EvState.ASSUMED_BAD, EvInput.SPURIOUS): EvState.GOOD,
    **{(state, EvInput.DENY): EvState.DENIED for state in EvState},
    (EvState.DENIED, EvInput.ALLOW): EvState.GOOD,
}


def next_state(state: EvState, happened: EvInput) -> EvState:
    """The state after `happened`; the same state where the table has no entry.

    >>> next_state(EvState.GOOD, EvInput.LOST).name
    'ASSUMED_BAD'
    """
    return TRANSITIONS.get((state, happened), state)
