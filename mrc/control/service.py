# SPDX-License-Identifier: BSD-2-Clause
"""What a control socket answers, as plain JSON and without any I/O (docs/control.md, The socket)."""

from __future__ import annotations

import errno
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from mrc.control import requests, texts
from mrc.control.attributes import MAX_PROFILES, CcProfileAttr, EvFormatAttr, EvProfileAttr
from mrc.control.controller import Controller
from mrc.control.errors import ControlError
from mrc.control.ev_operations import EvOp, EvOpResult, entries, run_batch
from mrc.control.events import ControlEvent, EvEventQueue
from mrc.control.loading import KINDS, load
from mrc.control.operations import Batch, EvProbe, Operation, OperationResult, PortStatusUpdate
from mrc.control.peers import addresses, find_peer
from mrc.control.snapshot import snapshot
from mrc.endpoint.paths.states import worst
from mrc.untrusted import NotJson, parse_json
from mrc.verbs.device import Device

PROTOCOL = 1

Reply = Callable[[bytes], None]

_log = logging.getLogger("mrc.control")


class Service:
    """One endpoint's. `about` is what `hello` reports besides what the endpoint itself knows.

    Everything is called where the endpoint runs.
    """

    def __init__(self, device: Device, about: Mapping[str, Any]) -> None:
        # Who may connect may steer this endpoint. The host's device is another matter where its process may not.
        self.controller = Controller(device, or_alone=True)
        self.profiles = self.controller.profiles
        self.device = device
        self.about = dict(about)
        # Requests that met a fault of this program: each was answered EIO and logged.
        self.internal_errors = 0

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
            "internal_errors": self.internal_errors,
        }


LATER = object()  # the answer of a request that waits for a peer


class _Asked:
    """One request on its way to its one answer, and the last barrier around it.

    A fault of this program that a request brings to light is answered, counted and logged: the endpoint goes on
    (MRC-CTL-36).
    """

    def __init__(self, service: Service, reply: Reply) -> None:
        self.number: requests.Id = None
        self._service = service
        self._reply: Reply | None = reply

    def answer(self, make: Callable[[], Any]) -> None:
        """Reply with what `make` returns, or with why it raised; with nothing yet when that is LATER."""
        try:
            result = make()
            if result is LATER:
                return
            line = to_line({"id": self.number, "ok": True, "result": result})
        except ControlError as error:
            line = refusal_line(error, self.number)
        except Exception as error:
            line = refusal_line(self._broken(error), self.number)
        reply, self._reply = self._reply, None
        if reply is not None:
            reply(line)

    def _broken(self, error: Exception) -> ControlError:
        self._service.internal_errors += 1
        _log.error("a control request met an internal error", exc_info=error)
        text = f"internal error ({type(error).__name__}): the endpoint goes on; its log has more, please report it"
        return ControlError(errno.EIO, text)


class Session:
    """One client: its requests, and the events it subscribed to."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.events: EvEventQueue | None = None

    def close(self) -> None:
        if self.events is not None:
            self.events.detach_now()
            self.events = None

    def handle(self, line: bytes, reply: Reply) -> None:
        """Answer one request, at once or later: `reply` is called once, with a line. Nothing is raised.

        What is malformed is refused where it is read (mrc.control.requests).
        """
        asked = _Asked(self.service, reply)
        asked.answer(lambda: self._carry_out(line, asked))

    def _carry_out(self, line: bytes, asked: _Asked) -> Any:
        """Its result, or LATER. Raises ControlError for a request that is refused."""
        try:
            document = parse_json(line, "the request")
        except NotJson as error:
            raise ControlError(errno.EINVAL, str(error)) from None
        asked.number = requests.id_of(document)
        request = requests.read(document)
        if isinstance(request, requests.Probe | requests.PortStatus):
            return self._operate(request, asked)
        return _answer(self, request)

    def take_events(self, most: int) -> list[dict[str, Any]]:
        """The events that wait, as the socket's JSON."""
        return [] if self.events is None else [event_json(event) for event in self.events.take(most)]

    # ------------------------------------------------------------------ operations, which wait

    def _operate(self, request: requests.Waiting, asked: _Asked) -> Any:
        operations = _operations(self, request)
        timeout_ns = int(request.timeout_s * 1e9)
        running: list[Batch] = []

        def results() -> list[dict[str, Any]]:
            known = [result for result in running[0].results if result is not None]
            return [_operation_json(each, result) for each, result in zip(operations, known, strict=True)]

        def over() -> None:
            if running:
                asked.answer(results)

        running.append(Batch(self.service.profiles, operations, self.service.device.now(), over, timeout_ns))
        return results() if running[0].done else LATER


def event_json(event: ControlEvent) -> dict[str, Any]:
    return {"event": event.short_name, **texts.plain(event)}


def to_line(document: Mapping[str, Any]) -> bytes:
    """Raises ValueError for what is no JSON."""
    return json.dumps(document, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def refusal_line(error: ControlError, number: requests.Id = None) -> bytes:
    """The answer to a request that is refused."""
    refusal: dict[str, Any] = {"errno": errno.errorcode[error.errno or errno.EINVAL], "message": error.reason}
    needed = {} if error.needed is None else {"needed": error.needed}
    return to_line({"id": number, "ok": False, "error": refusal | needed})


def _errno_name(number: int) -> str | None:
    return errno.errorcode[number] if number else None


def _operation_json(operation: Operation, result: OperationResult) -> dict[str, Any]:
    answer: dict[str, Any] = {
        "peer": operation.destination,
        "errno": _errno_name(result.errno),
        "message": result.reason,
        "response_port_num": result.port_num,
    }
    if isinstance(operation, EvProbe):
        rtt_us = None if result.rtt_ns is None else round(result.rtt_ns / 1e3, 3)
        answer |= {
            "ev": operation.ev,
            "port_num": result.left_by_port_num,
            "rtt_us": rtt_us,
            "service_time_taken_off": result.service_time_taken_off,
        }
    return answer


# ------------------------------------------------------------------ requests that answer at once


def _answer(session: Session, request: requests.AtOnce) -> Any:
    service = session.service
    controller = service.controller
    match request:
        case requests.Hello():
            return service.hello()
        case requests.DeviceQuery():
            return texts.plain(controller.query_device())
        case requests.Status(most_qps):
            return {"endpoint": service.hello(), **snapshot(service.profiles, controller, most_qps)}
        case requests.Ports():
            return [_port(controller, number + 1) for number in range(len(service.device.ports()))]
        case requests.PortSet():
            return _port_set(service, request)
        case requests.ProfileList():
            return _profiles(service)
        case requests.ProfileLoad(document):
            return service.profiles.change(lambda: load(service.profiles, document), or_alone=True)
        case requests.ProfileGo():
            return _profile_go(service, request)
        case requests.ProfilesChanged():
            if (host := service.device.endpoint.online.host) is not None:
                host.refresh()
            return None
        case requests.ProfileMove(old, new):
            return {"qps": controller.move_qps(old, new)}
        case requests.Evs(profile_id, most):
            chosen = _profiles_meant(service, profile_id)
            return [texts.plain(entry) for each in chosen for entry in entries(service.profiles, each, most)]
        case requests.EvOps(batch, profile_id):
            return _ev_ops(service, profile_id, [each.operation() for each in batch])
        case requests.Subscribe(_, limit, ev_only, standing):
            mask, limit = request.mask(), max(1, limit)
            session.close()
            session.events = EvEventQueue(service.profiles, limit, mask, ev_only=ev_only)
            session.events.open(standing=standing)
            return {"limit": limit, "states": texts.plain(mask)}
        case requests.Unsubscribe():
            dropped = 0 if session.events is None else session.events.dropped
            session.close()
            return {"dropped": dropped}


def _port(controller: Controller, number: int) -> dict[str, Any]:
    port = controller.query_port(number)
    answer: dict[str, Any] = texts.plain(port)
    return answer | {"up": port.up}


def _port_set(service: Service, request: requests.PortSet) -> Any:
    number = request.port_num
    if number is None:
        planes = [port.plane for port in service.device.ports()]
        if request.plane not in planes:
            raise ControlError(errno.ENOENT, f"no port on plane {request.plane}: there are {planes}")
        number = planes.index(request.plane) + 1
    service.controller.modify_port(number, request.admin.member)
    return _port(service.controller, number)


def _profiles(service: Service) -> Any:
    profiles = service.profiles
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


def _profile_go(service: Service, request: requests.ProfileGo) -> Any:
    controller, profiles = service.controller, service.profiles
    kind, profile_id, state = request.kind, request.profile, request.state.member
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
        ev = EvProfileAttr(state=state)
        profiles.change(lambda: profiles.evs.modify(profile_id, ev, with_usual=True), or_alone=True)
    else:
        cc = CcProfileAttr(state=state)
        profiles.change(lambda: profiles.ccs.modify(profile_id, cc, with_usual=True), or_alone=True)
    return {"kind": kind, "profile": profile_id, "state": state.name.lower()}


def _profiles_meant(service: Service, profile_id: int | None) -> list[int]:
    """The one that is named, or those that QPs use: the default one when there are no QPs."""
    if profile_id is not None:
        return [profile_id]
    qps = service.device.endpoint.qps.values()
    return sorted({qp.ev_profile_id for qp in qps if qp.ev_profile_id >= 0}) or [0]


def _ev_ops(service: Service, profile_id: int | None, batch: Sequence[EvOp]) -> Any:
    """A batch on the EVs of one profile, or of every profile in use: each entry succeeds if it does in one of them."""
    results: list[EvOpResult] | None = None
    for each in _profiles_meant(service, profile_id):
        found = run_batch(service.profiles, each, batch, keep_going=True)
        results = found if results is None else list(map(_either, results, found))
    return [_ev_result(result) for result in results or []]


def _either(one: EvOpResult, other: EvOpResult) -> EvOpResult:
    if one.errno or other.errno:
        return one if other.errno else other
    states = [each.state for each in (one, other) if each.state is not None]
    return replace(one, count=one.count + other.count, state=worst(states) if states else None)


def _ev_result(result: EvOpResult) -> dict[str, Any]:
    answer: dict[str, Any] = {"errno": _errno_name(result.errno), "message": result.reason, "count": result.count}
    return answer if result.state is None else answer | {"state": result.state.name.lower()}


def _operations(session: Session, request: requests.Waiting) -> list[Operation]:
    if isinstance(request, requests.PortStatus):
        update = PortStatusUpdate(
            0, request.peer, request.mask, request.ev, port_num=request.port_num, dscp=request.dscp
        )
        return [update]
    evs: Sequence[int] | None = request.evs
    node = find_peer(session.service.device.endpoint, request.peer)
    if evs is None:
        evs = tuple(path.ev for number, path in enumerate(node.paths) if node.reverse.users[number])
    ports = request.port_nums or (None,) * len(evs)
    return [
        EvProbe(number & 0xFFFF, request.peer, ev, port_num=port_num, dscp=request.dscp)
        for number, (ev, port_num) in enumerate(zip(evs, ports, strict=True))
    ]
