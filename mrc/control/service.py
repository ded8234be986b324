"""What a control socket is asked and answers, as plain JSON and without any I/O (docs/control.md, The socket)."""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from mrc.control import texts
from mrc.control.attributes import (
    ALL_EV_EVENTS,
    MAX_PROFILES,
    USUAL_EV_EVENTS,
    CcProfileAttr,
    EvFormatAttr,
    EvProfileAttr,
    PortAdmin,
)
from mrc.control.controller import Controller
from mrc.control.errors import ControlError
from mrc.control.ev_operations import EvOp, EvOpKind, EvOpResult, entries, run_batch
from mrc.control.events import ControlEvent, EvEventQueue, EvStateChange, PortChange
from mrc.control.loading import KINDS, load
from mrc.control.operations import Batch, EvProbe, Operation, PortStatusUpdate
from mrc.control.peers import addresses, find_peer
from mrc.control.snapshot import snapshot
from mrc.control.states import ProfileState
from mrc.endpoint.paths.states import EvState
from mrc.verbs.device import Device

PROTOCOL = 1
_MOST_EVENTS = 65536
_MOST_QPS = 1024
_MOST_TIMEOUT_S = 60.0
# What a request may do to EVs, in the words of `mrc ctl ev`.
_EV_WORDS = {
    "deny": (EvOpKind.MODIFY_STATE, EvState.DENIED),
    "allow": (EvOpKind.MODIFY_STATE, EvState.GOOD),
    "replace": (EvOpKind.REPLACE, None),
    "query": (EvOpKind.QUERY_STATE, None),
}

Reply = Callable[[dict[str, Any]], None]
Handler = Callable[["Session", Mapping[str, Any]], Any]


class Service:
    """One endpoint's. `about` is what `hello` tells besides what the endpoint knows itself.

    Everything is called where the endpoint runs.
    """

    def __init__(self, device: Device, about: Mapping[str, Any]) -> None:
        self.controller = Controller(device)
        self.profiles = self.controller.profiles
        self.device = device
        self.about = dict(about)

    def hello(self) -> dict[str, Any]:
        endpoint = self.device.endpoint
        return {
            "protocol": PROTOCOL,
            **self.about,
            "name": self.device.name,
            "addresses": [port.address for port in self.device.ports()],
            "qps": len(endpoint.qps),
            "peers": [
                {"peer": node.label, "addresses": addresses(node), "qps": len(node.qpns)}
                for node in endpoint.peer_nodes.values()
            ],
        }


class Session:
    """One client: its requests, and the events it subscribed to."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.events: EvEventQueue | None = None

    def close(self) -> None:
        if self.events is not None:
            self.events.detach_now()
            self.events = None

    def handle(self, request: object, reply: Reply) -> None:
        """Answer one request, at once or later; `reply` is called once. Nothing is raised."""
        number = request.get("id") if isinstance(request, dict) else None

        def answered(result: Any) -> None:
            reply({"id": number, "ok": True, "result": result})

        try:
            if not isinstance(request, dict) or request.get("op") not in _HANDLERS:
                known = ", ".join(_HANDLERS)
                raise ControlError(errno.EINVAL, f"a request is an object with an op, one of {known}")
            if request["op"] in ("probe", "port_status"):
                self._operate(request, answered)
            else:
                answered(_HANDLERS[request["op"]](self, request))
        except ControlError as error:
            reply({"id": number, "ok": False, "error": _refusal(error)})

    def take_events(self, most: int) -> list[dict[str, Any]]:
        """Events that wait, as they are told."""
        return [] if self.events is None else [event_json(event) for event in self.events.take(most)]

    # ------------------------------------------------------------------ operations, which wait

    def _operate(self, request: Mapping[str, Any], answered: Callable[[Any], None]) -> None:
        timeout_s = _number(request, "timeout_s", 1.0, _MOST_TIMEOUT_S)
        operations = _HANDLERS[request["op"]](self, request)
        running: list[Batch] = []

        def over() -> None:
            if running:
                answered(
                    [_operation_json(each, result) for each, result in zip(operations, running[0].results, strict=True)]
                )

        batch = Batch(self.service.profiles, operations, self.service.device.now(), over, int(timeout_s * 1e9))
        running.append(batch)
        if batch.done:
            over()


def event_json(event: ControlEvent) -> dict[str, Any]:
    kind = "ev" if isinstance(event, EvStateChange) else "port" if isinstance(event, PortChange) else "qp"
    return {"event": kind, **texts.plain(event)}


def _refusal(error: ControlError) -> dict[str, Any]:
    refusal: dict[str, Any] = {"errno": errno.errorcode[error.errno or errno.EINVAL], "message": error.reason}
    return refusal if error.needed is None else refusal | {"needed": error.needed}


def _errno_name(number: int) -> str | None:
    return errno.errorcode[number] if number else None


def _operation_json(operation: Operation, result: Any) -> dict[str, Any]:
    told = {"peer": operation.destination, "errno": _errno_name(result.errno), "message": result.reason}
    if isinstance(operation, EvProbe):
        rtt_us = None if result.rtt_ns is None else round(result.rtt_ns / 1e3, 3)
        told |= {
            "ev": operation.ev,
            "port_num": result.port_num,
            "rtt_us": rtt_us,
            "service_time_taken_off": result.service_time_taken_off,
        }
    return told


# ------------------------------------------------------------------ requests that answer at once


def _hello(session: Session, request: Mapping[str, Any]) -> Any:
    return session.service.hello()


def _device(session: Session, request: Mapping[str, Any]) -> Any:
    return texts.plain(session.service.controller.query_device())


def _status(session: Session, request: Mapping[str, Any]) -> Any:
    service = session.service
    most = int(_number(request, "most_qps", 64, _MOST_QPS))
    return {"endpoint": service.hello(), **snapshot(service.profiles, service.controller, most)}


def _ports(session: Session, request: Mapping[str, Any]) -> Any:
    controller = session.service.controller
    ports = [controller.query_port(number + 1) for number in range(len(session.service.device.ports()))]
    return [texts.plain(port) | {"up": port.up} for port in ports]


def _port_set(session: Session, request: Mapping[str, Any]) -> Any:
    """By plane, which is what people know, or by number."""
    controller, ports = session.service.controller, session.service.device.ports()
    number = request.get("port_num")
    if number is None:
        planes = [port.plane for port in ports]
        if request.get("plane") not in planes:
            raise ControlError(errno.ENOENT, f"no port on plane {request.get('plane')!r}: there are {planes}")
        number = planes.index(request["plane"]) + 1
    admin = {"up": PortAdmin.UP, "down": PortAdmin.DOWN}.get(str(request.get("admin")))
    if admin is None:
        raise ControlError(errno.EINVAL, "admin is up or down")
    controller.modify_port(number, admin)
    port = controller.query_port(number)
    return texts.plain(port) | {"up": port.up}


def _profiles(session: Session, request: Mapping[str, Any]) -> Any:
    profiles = session.service.profiles
    qps = profiles.endpoint.qps.values()
    shown: dict[str, Any] = {key: {} for key in KINDS}
    for profile_id, format_slot in sorted(profiles.formats.items()):
        attr = EvFormatAttr(state=format_slot.state, **format_slot.attributes)
        shown["ev_formats"][str(profile_id)] = texts.plain(attr)
    for profile_id, slot in sorted(profiles.evs.items()):
        attributes = texts.plain(EvProfileAttr(state=slot.state, **slot.attributes))
        evs = {"evs": [None if ev is None else texts.ev_text(ev) for ev in slot.array]} if slot.array else {}
        users = sum(qp.ev_profile_id == profile_id for qp in qps)
        shown["ev_profiles"][str(profile_id)] = attributes | evs | {"qps": users}
    for profile_id, cc_slot in sorted(profiles.ccs.items()):
        users = sum(qp.cc_profile_id == profile_id for qp in qps)
        cc = CcProfileAttr(state=cc_slot.state, **cc_slot.attributes)
        shown["cc_profiles"][str(profile_id)] = texts.plain(cc) | {"qps": users}
    return shown


def _profile_load(session: Session, request: Mapping[str, Any]) -> Any:
    return load(session.service.profiles, request.get("profiles"))


def _profile_state(session: Session, request: Mapping[str, Any]) -> Any:
    """Take one profile to a state."""
    controller, profiles = session.service.controller, session.service.profiles
    kind, profile_id = request.get("kind"), request.get("profile")
    states = {state.name.lower(): state for state in ProfileState}
    state = states.get(str(request.get("state")))
    if state is None or kind not in KINDS:
        raise ControlError(errno.EINVAL, f"kind is one of {', '.join(KINDS)}, state one of {', '.join(states)}")
    if type(profile_id) is not int:
        raise ControlError(errno.EINVAL, f"profile is a number, not {profile_id!r}")
    tables: dict[str, Mapping[int, object]] = {
        "ev_formats": profiles.formats,
        "ev_profiles": profiles.evs,
        "cc_profiles": profiles.ccs,
    }
    if 0 <= profile_id < MAX_PROFILES and profile_id not in tables[kind]:
        name = f"{KINDS[kind]} profile {profile_id}"
        raise ControlError(errno.EINVAL, f"there is no {name}: `mrc ctl profile load` brings those of a file ONLINE")
    if kind == "ev_formats":
        controller.modify_ev_format(profile_id, EvFormatAttr(state=state))
    elif kind == "ev_profiles":
        controller.modify_ev_profile(profile_id, EvProfileAttr(state=state))
    else:
        controller.modify_cc_profile(profile_id, CcProfileAttr(state=state))
    return {"kind": kind, "profile": profile_id, "state": state.name.lower()}


def _profile_move(session: Session, request: Mapping[str, Any]) -> Any:
    return {"qps": session.service.controller.move_qps(_whole(request, "from"), _whole(request, "to"))}


def _evs(session: Session, request: Mapping[str, Any]) -> Any:
    profiles = session.service.profiles
    most = int(_number(request, "most", 16384, 1 << 20))
    chosen = [_whole(request, "profile")] if "profile" in request else _in_use(session)
    rows = [entry for profile_id in chosen for entry in entries(profiles, profile_id, most)]
    return [texts.plain(entry) for entry in rows]


def _in_use(session: Session) -> list[int]:
    """EV profiles that QPs use; the default one when there are no QPs."""
    qps = session.service.device.endpoint.qps.values()
    return sorted({qp.ev_profile_id for qp in qps if qp.ev_profile_id >= 0}) or [0]


def _ev_ops(session: Session, request: Mapping[str, Any]) -> Any:
    """A batch on the EVs of one profile, or of every profile in use: each entry succeeds if it does in one of them."""
    told = request.get("batch")
    if not isinstance(told, list):
        raise ControlError(errno.EINVAL, "batch is a list of operations")
    batch = [_ev_op(each) for each in told]
    chosen = [_whole(request, "profile")] if "profile" in request else _in_use(session)
    results: list[EvOpResult] | None = None
    for profile_id in chosen:
        found = run_batch(session.service.profiles, profile_id, batch)
        results = found if results is None else list(map(_either, results, found))
    return [_ev_result(result) for result in results or []]


def _either(one: EvOpResult, other: EvOpResult) -> EvOpResult:
    if one.errno or other.errno:
        return one if other.errno else other
    states = [each.state for each in (one, other) if each.state is not None]
    return replace(one, count=one.count + other.count, state=max(states, default=None))


def _ev_result(result: EvOpResult) -> dict[str, Any]:
    told: dict[str, Any] = {"errno": _errno_name(result.errno), "message": result.reason, "count": result.count}
    return told if result.state is None else told | {"state": result.state.name.lower()}


def _ev_op(told: object) -> EvOp:
    if not isinstance(told, dict) or told.get("do") not in _EV_WORDS:
        raise ControlError(errno.EINVAL, f"an operation is an object with `do`, one of {', '.join(_EV_WORDS)}")
    op, state = _EV_WORDS[told["do"]]
    ev, new_ev, index, peer = (told.get(name) for name in ("ev", "new_ev", "index", "peer"))
    if index is not None and type(index) is not int:
        raise ControlError(errno.EINVAL, f"index is a number, not {index!r}")
    if peer is not None and not isinstance(peer, str):
        raise ControlError(errno.EINVAL, f"a peer is a name or an address, not {peer!r}")
    return EvOp(
        op,
        ev=None if ev is None else texts.ev_of(ev),
        new_ev=None if new_ev is None else texts.ev_of(new_ev),
        index=index,
        state=state,
        peer=peer,
    )


def _probes(session: Session, request: Mapping[str, Any]) -> list[Operation]:
    """Without `evs`: every EV that QPs use towards the peer."""
    peer = request.get("peer")
    if not isinstance(peer, str):
        raise ControlError(errno.EINVAL, f"peer is a name or an address, not {peer!r}")
    node = find_peer(session.service.device.endpoint, peer)
    told = request.get("evs")
    if told is None:
        evs = [path.ev for number, path in enumerate(node.paths) if node.reverse.users[number]]
    elif isinstance(told, list):
        evs = [texts.ev_of(each) for each in told]
    else:
        raise ControlError(errno.EINVAL, "evs is a list")
    return [EvProbe(number & 0xFFFF, peer, ev) for number, ev in enumerate(evs)]


def _port_status(session: Session, request: Mapping[str, Any]) -> list[Operation]:
    peer, mask = request.get("peer"), request.get("mask")
    if not isinstance(peer, str) or (mask is not None and type(mask) is not int):
        raise ControlError(errno.EINVAL, "a port status update has a peer and perhaps a mask of 32 bits")
    return [PortStatusUpdate(0, peer, mask)]


def _subscribe(session: Session, request: Mapping[str, Any]) -> Any:
    """Events from now on, instead of those subscribed to before."""
    told = request.get("states")
    mask = USUAL_EV_EVENTS if told is None else ALL_EV_EVENTS if told == "all" else texts.event_mask(told)
    limit = int(_number(request, "limit", 1024, _MOST_EVENTS))
    session.close()
    session.events = EvEventQueue(session.service.profiles, max(1, limit), mask)
    session.events.open()
    return {"limit": max(1, limit), "states": texts.plain(mask)}


def _unsubscribe(session: Session, request: Mapping[str, Any]) -> Any:
    dropped = 0 if session.events is None else session.events.dropped
    session.close()
    return {"dropped": dropped}


def _number(request: Mapping[str, Any], name: str, default: float, most: float) -> float:
    value = request.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
        raise ControlError(errno.EINVAL, f"{name} is a number from 0 to {most}, not {value!r}")
    return value


def _whole(request: Mapping[str, Any], name: str) -> int:
    value = request.get(name)
    if type(value) is not int:
        raise ControlError(errno.EINVAL, f"{name} is a number, not {value!r}")
    return value


_HANDLERS: dict[str, Handler] = {
    "hello": _hello,
    "device": _device,
    "status": _status,
    "ports": _ports,
    "port_set": _port_set,
    "profiles": _profiles,
    "profile_load": _profile_load,
    "profile_state": _profile_state,
    "profile_move": _profile_move,
    "evs": _evs,
    "ev_ops": _ev_ops,
    "probe": _probes,
    "port_status": _port_status,
    "subscribe": _subscribe,
    "unsubscribe": _unsubscribe,
}
