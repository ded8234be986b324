# SPDX-License-Identifier: BSD-2-Clause
"""What a control socket can be asked, read and checked before anything is done (docs/control.md, Requests)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from mrc.control import reading, texts
from mrc.control.attributes import ALL_EV_EVENTS, USUAL_EV_EVENTS, EvEventMask, PortAdmin
from mrc.control.ev_operations import EvOp, EvOpKind
from mrc.control.loading import KINDS
from mrc.control.states import ProfileState
from mrc.endpoint.paths.states import EvState

_MOST_EVENTS = 65536
_MOST_QPS = 1024
_MOST_ROWS = 1 << 20
_MOST_TIMEOUT_S = 60.0
_MOST_PORTS = 255
_LONGEST_ID = 200
# What a request may do to EVs, in the words of `mrc ctl ev`.
_EV_WORDS: dict[str, tuple[EvOpKind, EvState | None]] = {
    "deny": (EvOpKind.MODIFY_STATE, EvState.DENIED),
    "allow": (EvOpKind.MODIFY_STATE, EvState.GOOD),
    "replace": (EvOpKind.REPLACE, None),
    "query": (EvOpKind.QUERY_STATE, None),
}

Said = Mapping[str, Any]
Id = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Hello:
    pass


@dataclass(frozen=True, slots=True)
class DeviceQuery:
    pass


@dataclass(frozen=True, slots=True)
class Status:
    most_qps: int


@dataclass(frozen=True, slots=True)
class Ports:
    pass


@dataclass(frozen=True, slots=True)
class PortSet:
    """The port of a plane, which is what people know, or of a number from 1 on: one of them is None."""

    plane: int | None
    port_num: int | None
    admin: PortAdmin


@dataclass(frozen=True, slots=True)
class ProfileList:
    pass


@dataclass(frozen=True, slots=True)
class ProfileLoad:
    """The content of a profile file. What is in it is read as it is loaded (mrc.control.loading)."""

    profiles: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ProfileGo:
    """Take the profile of a kind (a key of KINDS) to a state."""

    kind: str
    profile_id: int
    state: ProfileState


@dataclass(frozen=True, slots=True)
class ProfilesChanged:
    """Another process has changed the host's."""


@dataclass(frozen=True, slots=True)
class ProfileMove:
    old: int
    new: int


@dataclass(frozen=True, slots=True)
class Evs:
    """`profile_id` None: every profile in use."""

    profile_id: int | None
    most: int


@dataclass(frozen=True, slots=True)
class EvOps:
    profile_id: int | None
    batch: tuple[EvOp, ...]


@dataclass(frozen=True, slots=True)
class Probe:
    """`evs` None: every EV that QPs use towards the peer. `port_nums`: the port that each of `evs` has to leave by.
    `timeout_s` 0: the usual one. `dscp` None: the control class."""

    peer: str
    evs: tuple[int, ...] | None
    timeout_s: float
    port_nums: tuple[int, ...] | None = None
    dscp: int | None = None


@dataclass(frozen=True, slots=True)
class PortStatus:
    """`mask` None: what holds. `ev` None: any that is in use; `port_num` is that of the EV."""

    peer: str
    mask: int | None
    timeout_s: float
    ev: int | None = None
    port_num: int | None = None
    dscp: int | None = None


@dataclass(frozen=True, slots=True)
class Subscribe:
    mask: EvEventMask
    limit: int
    ev_only: bool = False


@dataclass(frozen=True, slots=True)
class Unsubscribe:
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
        raise reading.refusal(f"a request is an object with an op, one of {', '.join(_READERS)}", document)
    return reading.one_of(document.get("op"), "op", _READERS)(document)


def _status(said: Said) -> Status:
    return Status(reading.whole(said.get("most_qps", 64), "most_qps", 0, _MOST_QPS))


def _port_set(said: Said) -> PortSet:
    port_num = reading.optional(reading.whole, said.get("port_num"), "port_num")
    plane = reading.whole(said.get("plane"), "plane") if port_num is None else None
    return PortSet(plane, port_num, reading.member(PortAdmin, said.get("admin"), "admin"))


def _profile_load(said: Said) -> ProfileLoad:
    return ProfileLoad(reading.mapping(said.get("profiles"), "profiles"))


def _profile_go(said: Said) -> ProfileGo:
    return ProfileGo(
        reading.one_of(said.get("kind"), "kind", dict(zip(KINDS, KINDS, strict=True))),
        reading.whole(said.get("profile"), "profile"),
        reading.member(ProfileState, said.get("state"), "state"),
    )


def _profile_move(said: Said) -> ProfileMove:
    return ProfileMove(reading.whole(said.get("from"), "from"), reading.whole(said.get("to"), "to"))


def _profile_id(said: Said) -> int | None:
    return reading.optional(reading.whole, said.get("profile"), "profile")


def _evs(said: Said) -> Evs:
    return Evs(_profile_id(said), reading.whole(said.get("most", 16384), "most", 0, _MOST_ROWS))


def _ev_ops(said: Said) -> EvOps:
    return EvOps(_profile_id(said), tuple(_ev_op(each) for each in reading.items(said.get("batch"), "batch")))


def _ev_op(document: object) -> EvOp:
    said = reading.mapping(document, "an operation")
    op, state = reading.one_of(said.get("do"), "do", _EV_WORDS)
    return EvOp(
        op,
        ev=reading.optional(reading.ev_of, said.get("ev")),
        new_ev=reading.optional(reading.ev_of, said.get("new_ev")),
        index=reading.optional(reading.whole, said.get("index"), "index"),
        state=state,
        peer=reading.optional(reading.text, said.get("peer"), "peer"),
        all_copies=True,
    )


def _timeout_s(said: Said) -> float:
    return reading.number(said.get("timeout_s", 1.0), "timeout_s", 0.0, _MOST_TIMEOUT_S)


def _probe(said: Said) -> Probe:
    listed = said.get("evs")
    evs = None if listed is None else tuple(reading.ev_of(each) for each in reading.items(listed, "evs"))
    ports = said.get("port_nums")
    named = None if ports is None else tuple(_port_num(each) for each in reading.items(ports, "port_nums"))
    if named is not None and (evs is None or len(named) != len(evs)):
        raise reading.refusal("port_nums are as many as evs", ports)
    return Probe(reading.text(said.get("peer"), "peer"), evs, _timeout_s(said), named, _dscp(said))


def _port_status(said: Said) -> PortStatus:
    mask = reading.optional(reading.whole, said.get("mask"), "mask", 0, (1 << 32) - 1)
    ev, port_num = reading.optional(reading.ev_of, said.get("ev")), reading.optional(_port_num, said.get("port_num"))
    return PortStatus(reading.text(said.get("peer"), "peer"), mask, _timeout_s(said), ev, port_num, _dscp(said))


def _port_num(value: object) -> int:
    return reading.whole(value, "a port", 0, _MOST_PORTS)


def _dscp(said: Said) -> int | None:
    return reading.optional(reading.whole, said.get("dscp"), "dscp")


def _subscribe(said: Said) -> Subscribe:
    states = said.get("states")
    mask = USUAL_EV_EVENTS if states is None else ALL_EV_EVENTS if states == "all" else texts.event_mask(states)
    limit = max(1, reading.whole(said.get("limit", 1024), "limit", 0, _MOST_EVENTS))
    return Subscribe(mask, limit, reading.flag(said.get("ev_only", False), "ev_only"))


_READERS: dict[str, Callable[[Said], Request]] = {
    "hello": lambda said: Hello(),
    "device": lambda said: DeviceQuery(),
    "status": _status,
    "ports": lambda said: Ports(),
    "port_set": _port_set,
    "profiles": lambda said: ProfileList(),
    "profile_load": _profile_load,
    "profile_state": _profile_go,
    "profiles_changed": lambda said: ProfilesChanged(),
    "profile_move": _profile_move,
    "evs": _evs,
    "ev_ops": _ev_ops,
    "probe": _probe,
    "port_status": _port_status,
    "subscribe": _subscribe,
    "unsubscribe": lambda said: Unsubscribe(),
}
