# SPDX-License-Identifier: BSD-2-Clause
"""What a control socket can be asked, read and checked before anything is done (docs/control.md, Requests)."""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

from msgspec import Meta, Struct, field

from mrc.control import reading
from mrc.control.attributes import ALL_EV_EVENTS, USUAL_EV_EVENTS, EvEventMask, PortAdmin
from mrc.control.ev_operations import EvOp, EvOpKind
from mrc.control.reading import Ev
from mrc.control.states import ProfileState
from mrc.control.typed import Named, Text, Whole, told
from mrc.endpoint.paths.states import EvState
from mrc.untrusted import quoted

_LONGEST_ID = 200
_PortNum = Annotated[int, Meta(ge=0, le=255)]
_TimeoutS = Annotated[float, Meta(ge=0, le=60)]
# What a request may do to EVs, in the words of `mrc ctl ev`.
_EV_WORDS: dict[str, tuple[EvOpKind, EvState | None]] = {
    "deny": (EvOpKind.MODIFY_STATE, EvState.DENIED),
    "allow": (EvOpKind.MODIFY_STATE, EvState.GOOD),
    "replace": (EvOpKind.REPLACE, None),
    "query": (EvOpKind.QUERY_STATE, None),
}

Id = str | int | float | bool | None


class Hello(Struct, frozen=True, tag_field="op", tag="hello"):
    pass


class DeviceQuery(Struct, frozen=True, tag_field="op", tag="device"):
    pass


class Status(Struct, frozen=True, tag_field="op", tag="status"):
    most_qps: Annotated[int, Meta(ge=0, le=1024)] = 64


class Ports(Struct, frozen=True, tag_field="op", tag="ports"):
    pass


class PortSet(Struct, frozen=True, tag_field="op", tag="port_set"):
    """The port of a plane, which is what people know, or of a number from 1 on, which goes before."""

    admin: Named[PortAdmin]
    plane: Whole | None = None
    port_num: Whole | None = None

    def __post_init__(self) -> None:
        if self.plane is None and self.port_num is None:
            raise ValueError("plane is missing: a whole number")


class ProfileList(Struct, frozen=True, tag_field="op", tag="profiles"):
    pass


class ProfileLoad(Struct, frozen=True, tag_field="op", tag="profile_load"):
    """The content of a profile file. What is in it is read as it is loaded (mrc.control.loading)."""

    profiles: dict[str, Any]


class ProfileGo(Struct, frozen=True, tag_field="op", tag="profile_state"):
    """Take the profile of a kind (a key of KINDS) to a state."""

    kind: Literal["ev_formats", "ev_profiles", "cc_profiles"]
    profile: Whole
    state: Named[ProfileState]


class ProfilesChanged(Struct, frozen=True, tag_field="op", tag="profiles_changed"):
    """Another process has changed the host's."""


class ProfileMove(Struct, frozen=True, tag_field="op", tag="profile_move"):
    old: Whole = field(name="from")
    new: Whole = field(name="to")


class Evs(Struct, frozen=True, tag_field="op", tag="evs"):
    """`profile` None: every profile in use."""

    profile: Whole | None = None
    most: Annotated[int, Meta(ge=0, le=1 << 20)] = 16384


class SaidOp(Struct, frozen=True):
    """An operation on an EV in the words of `mrc ctl ev`."""

    do: Literal["deny", "allow", "replace", "query"]
    ev: Ev | None = None
    new_ev: Ev | None = None
    index: Whole | None = None
    peer: Text | None = None

    def operation(self) -> EvOp:
        op, state = _EV_WORDS[self.do]
        return EvOp(op, self.ev, self.new_ev, self.index, state, self.peer, all_copies=True)


class EvOps(Struct, frozen=True, tag_field="op", tag="ev_ops"):
    """`profile` None: every profile in use."""

    batch: tuple[SaidOp, ...]
    profile: Whole | None = None


class Probe(Struct, frozen=True, tag_field="op", tag="probe"):
    """`evs` None: every EV that QPs use towards the peer. `port_nums`: the port that each of `evs` has to leave by.
    `timeout_s` 0: the usual one. `dscp` None: the control class."""

    peer: Text
    evs: tuple[Ev, ...] | None = None
    timeout_s: _TimeoutS = 1.0
    port_nums: tuple[_PortNum, ...] | None = None
    dscp: Whole | None = None

    def __post_init__(self) -> None:
        if self.port_nums is not None and (self.evs is None or len(self.port_nums) != len(self.evs)):
            raise ValueError(f"port_nums are as many as evs, not {quoted(list(self.port_nums))}")


class PortStatus(Struct, frozen=True, tag_field="op", tag="port_status"):
    """`mask` None: what holds. `ev` None: any that is in use; `port_num` is that of the EV."""

    peer: Text
    mask: Annotated[int, Meta(ge=0, le=(1 << 32) - 1)] | None = None
    timeout_s: _TimeoutS = 1.0
    ev: Ev | None = None
    port_num: _PortNum | None = None
    dscp: Whole | None = None


class Subscribe(Struct, frozen=True, tag_field="op", tag="subscribe"):
    """`states` None: those that most want to know of. `standing`: first what the EVs are that are not GOOD."""

    states: Literal["all"] | tuple[Named[EvEventMask], ...] | None = None
    limit: Annotated[int, Meta(ge=0, le=65536)] = 1024
    ev_only: bool = False
    standing: bool = False

    def mask(self) -> EvEventMask:
        if self.states is None:
            return USUAL_EV_EVENTS
        return ALL_EV_EVENTS if self.states == "all" else reading.together(self.states)


class Unsubscribe(Struct, frozen=True, tag_field="op", tag="unsubscribe"):
    pass


AtOnce = (
    Hello
    | DeviceQuery
    | Status
    | Ports
    | PortSet
    | ProfileList
    | ProfileLoad
    | ProfileGo
    | ProfilesChanged
    | ProfileMove
    | Evs
    | EvOps
    | Subscribe
    | Unsubscribe
)
# Answered when the peer has answered, or its time is over.
Waiting = Probe | PortStatus
Request = AtOnce | Waiting

_KINDS: dict[str, type[Request]] = {str(each.__struct_config__.tag): each for each in get_args(Request)}


def id_of(document: object) -> Id:
    """The id of a request, which comes back with its answer. Raises ControlError EINVAL for lists, objects and long
    text; a document that is no request at all has none."""
    given = document.get("id") if isinstance(document, dict) else None
    if isinstance(given, str) and len(given) <= _LONGEST_ID:
        return given
    if given is None or isinstance(given, bool | int | float):
        return given
    raise reading.refusal(f"an id is a number or text of at most {_LONGEST_ID} characters", given)


def read(document: object) -> Request:
    """The request in a JSON document. Raises ControlError EINVAL for anything else than a well-formed one.

    Members that its op does not know are not looked at, so that a later release may send more of them.
    """
    if not isinstance(document, dict):
        raise reading.refusal(f"a request is an object with an op, one of {', '.join(_KINDS)}", document)
    return told(document, reading.one_of(document.get("op"), "op", _KINDS), "a request")
