# SPDX-License-Identifier: BSD-2-Clause
"""The life of a QP as a table: RESET -> INIT -> RTR -> RTS, ERROR from any state (behaviour.md, QP life)."""

from __future__ import annotations

from enum import IntEnum

from mrc.errors import CallerError


class QpState(IntEnum):
    """The states of a queue pair (behaviour.md, QP life)."""

    RESET = 0
    INIT = 1
    RTR = 2
    RTS = 3
    ERROR = 6


TRANSITIONS: frozenset[tuple[QpState, QpState]] = frozenset(
    {
        (QpState.RESET, QpState.INIT),
        (QpState.INIT, QpState.RTR),
        (QpState.RTR, QpState.RTS),
        *((state, QpState.ERROR) for state in QpState),
        *((state, QpState.RESET) for state in QpState),
    }
)

# What a QP does in each state.
MAY_RECEIVE = frozenset({QpState.RTR, QpState.RTS})
MAY_SEND = frozenset({QpState.RTS})


def check_transition(current: QpState, wanted: QpState) -> None:
    """Raises CallerError unless the table allows it."""
    if (current, wanted) not in TRANSITIONS:
        allowed = ", ".join(state.name for state in QpState if (current, state) in TRANSITIONS)
        raise CallerError(f"a QP in {current.name} cannot go to {wanted.name}: from here it goes to {allowed}")


def no_writes_yet(qpn: int, state: QpState) -> CallerError:
    """What is raised for a write posted in a state in which a QP takes none."""
    return CallerError(f"QP {qpn:#08x} is in {state.name}: writes are posted in RTS")


def check_takes_receives(qpn: int, state: QpState) -> None:
    """Raises CallerError in RESET."""
    if state == QpState.RESET:
        raise CallerError(f"QP {qpn:#08x} is in RESET: receives are posted from INIT on")
