# SPDX-License-Identifier: BSD-2-Clause
"""The states of the three kinds of profile and the attributes of each way, as tables (api.md, Controller)."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from errno import EINVAL

from mrc.control.errors import ControlError
from mrc.records import record


class ProfileState(IntEnum):
    """INIT: nothing is known of it. OFFLINE: being described. ONLINE: QPs may name it."""

    INIT = 0
    OFFLINE = 1
    ONLINE = 2


@record(frozen=True, slots=True)
class Transition:
    """Attributes that must be known when it is over, by this call or by one before it; and those this call takes."""

    needed: frozenset[str] = frozenset()
    taken: frozenset[str] = frozenset()


INIT, OFFLINE, ONLINE = ProfileState.INIT, ProfileState.OFFLINE, ProfileState.ONLINE
Table = dict[tuple[ProfileState, ProfileState], Transition]


def _table(offline: str, online: str, attributes: str, changeable_online: str = "") -> Table:
    """`offline` and `online`: what the ways there need; `attributes`: all there are."""
    every = frozenset(attributes.split())
    table: Table = {
        (INIT, OFFLINE): Transition(frozenset(offline.split()), every),
        (OFFLINE, OFFLINE): Transition(taken=every),
        (OFFLINE, ONLINE): Transition(frozenset(online.split()), every),
        (ONLINE, OFFLINE): Transition(),
        (OFFLINE, INIT): Transition(),
    }
    if changeable_online:
        table[ONLINE, ONLINE] = Transition(taken=frozenset(changeable_online.split()))
    return table


_EV = "ev_mode format_id count min_active active_count event_mask fields evs"

EV_FORMAT: Table = _table(offline="mode", online="fields", attributes="mode fields srh")
# Online an EV's mode, format, count and least number stay: what may change are its events and which EVs it has.
EV_PROFILE: Table = _table(
    offline="ev_mode format_id",
    online="min_active event_mask",
    attributes=_EV,
    changeable_online="event_mask fields evs",
)
CC_PROFILE: Table = _table(offline="algorithm", online="", attributes="algorithm config")
TABLES = {"EV format": EV_FORMAT, "EV": EV_PROFILE, "CC": CC_PROFILE}


def check(kind: str, current: ProfileState, wanted: ProfileState, given: Iterable[str], known: Iterable[str]) -> None:
    """Whether a profile of this kind may go there with the attributes `given`, where `known` were given before.

    Raises ControlError EINVAL for a way that does not exist, for attributes missing or foreign to it, and for changes
    to a profile that is ONLINE, where its kind cannot be changed then.
    """
    row = TABLES[kind].get((current, wanted))
    if row is None:
        if current == wanted == ONLINE:
            raise ControlError(EINVAL, f"an {kind} profile cannot be changed while it is ONLINE: take it OFFLINE first")
        ways = ", ".join(state.name for state in ProfileState if (current, state) in TABLES[kind])
        raise ControlError(EINVAL, f"an {kind} profile in {current.name} cannot go to {wanted.name}; from here: {ways}")
    names = frozenset(given)
    missing, foreign = sorted(row.needed - names - frozenset(known)), sorted(names - row.taken)
    faults = []
    if missing:
        faults.append(f"needs {', '.join(missing)}")
    if foreign:
        faults.append(f"does not take {', '.join(foreign)}")
    if faults:
        raise ControlError(EINVAL, f"{kind} profile, {current.name} to {wanted.name}: {' and '.join(faults)}")
