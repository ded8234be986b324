# SPDX-License-Identifier: BSD-2-Clause
"""Which attributes a QP takes on its way from one state to another (api.md), as a table."""

from __future__ import annotations

from collections.abc import Iterable
from errno import EINVAL

from mrc.records import record
from mrc.verbs.enums import DeviceCap, QPState
from mrc.verbs.errors import VerbsError


@record(frozen=True, slots=True)
class Transition:
    """Attributes that must be given, and those that may be."""

    required: frozenset[str] = frozenset()
    optional: frozenset[str] = frozenset()


RESET, INIT, RTR, RTS, ERROR = QPState.RESET, QPState.INIT, QPState.RTR, QPState.RTS, QPState.ERROR
_PROFILES = frozenset({"ev_profile_id", "cc_profile_id"})
# What the way to RTS takes; the way to RTR takes it early.
_SENDING = frozenset({"max_wimm", "mpr", "linear_retries", "exponential_retries", "timeout"})

TRANSITIONS: dict[tuple[QPState, QPState], Transition] = {
    (RESET, INIT): Transition(optional=_PROFILES | {"hint"}),
    (INIT, INIT): Transition(optional=_PROFILES | {"hint"}),
    (INIT, RTR): Transition(
        required=frozenset({"ah_attr", "dest_qp_num", "rq_psn", "path_mtu"}),
        optional=_SENDING | {"max_wimm_dest", "mpr_dest", "dynamic_mpr", "dest_caps", "hint"},
    ),
    (RTR, RTS): Transition(required=frozenset({"sq_psn"}), optional=_SENDING | {"hint"}),
    **{(state, ERROR): Transition() for state in QPState},
    **{(state, RESET): Transition() for state in QPState},
}


# The states in which a QP takes sends, and receives.
MAY_POST_SEND = frozenset({RTS, ERROR})
MAY_POST_RECV = frozenset({INIT, RTR, RTS, ERROR})

# What holds where an attribute is not given, from the state on whose way it counts. Both ends have the same: two
# applications that give no attribute of MRC understand each other.
DEFAULTS: dict[QPState, dict[str, int]] = {
    INIT: {"ev_profile_id": 0, "cc_profile_id": 0},
    RTR: {"max_wimm_dest": 32, "mpr_dest": 8},
    RTS: {"max_wimm": 32, "mpr": 8, "linear_retries": 7, "exponential_retries": 7, "timeout": 14},
}

# What a peer can do unless `dest_caps` says otherwise (MRC-QP-07).
USUAL_CAPABILITIES = DeviceCap.TRIM_NACK | DeviceCap.SVC_TIME


def check_attributes(current: QPState, wanted: QPState, given: Iterable[str]) -> None:
    """Raises VerbsError EINVAL for a way the table does not know, and for attributes it wants or does not want."""
    row = TRANSITIONS.get((current, wanted))
    if row is None:
        allowed = ", ".join(state.name for state in QPState if (current, state) in TRANSITIONS)
        raise VerbsError(EINVAL, f"a QP in {current.name} cannot go to {wanted.name}; from here: {allowed}")
    names = frozenset(given)
    missing, foreign = sorted(row.required - names), sorted(names - row.required - row.optional)
    faults = []
    if missing:
        faults.append(f"needs {', '.join(missing)}")
    if foreign:
        faults.append(f"does not take {', '.join(foreign)}")
    if faults:
        raise VerbsError(EINVAL, f"{current.name} to {wanted.name} {' and '.join(faults)}")
