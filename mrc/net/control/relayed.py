# SPDX-License-Identifier: BSD-2-Clause
"""Endpoint operations of a controller that has no QPs: the endpoints of its host's device that run carry them out.

Each is asked of an endpoint that has a QP to the peer, over its control socket.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from errno import EAGAIN, EIO, errorcode
from typing import Any

from mrc.control.attributes import MAX_BATCH
from mrc.control.errors import ControlError
from mrc.control.operations import EvProbe, Operation, OperationResult, PortStatusUpdate
from mrc.errors import SystemRefused
from mrc.net.control.client import ControlClient, FoundEndpoint, endpoints

# An endpoint answers when the time of its operations is over, and a little later where it is busy.
_GRACE_S = 5.0
_NUMBERS = {name: number for number, name in errorcode.items()}


def operate(device: str, batch: Sequence[Operation], timeout_ns: int) -> list[OperationResult]:
    """Send a batch of one kind from the endpoints of `device` (`HostStore.path`) that run, and wait for the answers, at
    most `timeout_ns`; 0: a second. Returns the results in the batch's order.

    EAGAIN: no endpoint that runs has a QP to that peer.
    """
    own = [each for each in endpoints().found if each.hello.get("device") == device]
    asked: list[_Asked] = []
    results: list[OperationResult | None] = [None] * len(batch)
    for destination, places in _by_destination(batch).items():
        by = next((each for each in own if each.labels_of(destination)), None)
        if by is None:
            for place in places:
                why = f"no endpoint that runs here has a QP to {destination}"
                results[place] = OperationResult(batch[place].req_id, EAGAIN, why)
        else:
            asked += [_Asked(by, each) for each in _requests(batch, places)]
    for each in asked:
        each.members["timeout_s"] = timeout_ns / 1e9
    _ask(asked, batch, results, time.monotonic() + (timeout_ns / 1e9 or 1.0) + _GRACE_S)
    return [each for each in results if each is not None]


@dataclass(slots=True)
class _Request:
    """One request for the operations at some places of the batch."""

    op: str
    members: dict[str, Any]
    places: list[int]


class _Asked:
    """One request to one endpoint."""

    def __init__(self, by: FoundEndpoint, request: _Request) -> None:
        self.path = by.path
        self.op, self.members, self.places = request.op, request.members, request.places
        self.client: ControlClient | None = None
        self.number = 0


def _by_destination(batch: Sequence[Operation]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for place, operation in enumerate(batch):
        found.setdefault(operation.destination, []).append(place)
    return found


def _requests(batch: Sequence[Operation], places: list[int]) -> Iterable[_Request]:
    """What is asked for operations towards one peer."""
    probes = [place for place in places if isinstance(batch[place], EvProbe)]
    for at in range(0, len(probes), MAX_BATCH):
        some = probes[at : at + MAX_BATCH]
        chosen = [batch[place] for place in some]
        members = _given(
            peer=chosen[0].destination,
            evs=[each.ev for each in chosen],
            port_nums=None if any(each.port_num is None for each in chosen) else [each.port_num for each in chosen],
            dscp=chosen[0].dscp,
        )
        yield _Request("probe", members, some)
    for place in places:
        each = batch[place]
        if isinstance(each, PortStatusUpdate):
            members = _given(peer=each.destination, mask=each.mask, ev=each.ev, port_num=each.port_num, dscp=each.dscp)
            yield _Request("port_status", members, [place])


def _given(**members: Any) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value is not None}


def _ask(
    asked: Sequence[_Asked], batch: Sequence[Operation], results: list[OperationResult | None], deadline: float
) -> None:
    """Send all requests, then wait for their answers until `deadline` (time.monotonic)."""
    with ExitStack() as stack:
        clients: dict[Any, ControlClient] = {}
        for each in asked:
            try:
                if each.path not in clients:
                    clients[each.path] = stack.enter_context(ControlClient(each.path))
                each.client = clients[each.path]
                each.number = each.client.ask(each.op, **each.members)
            except SystemRefused as error:
                each.client = None
                _refused(each, batch, results, EAGAIN, str(error))
        for each in asked:
            if each.client is None:
                continue
            try:
                answers = each.client.answer(each.number, deadline)
            except ControlError as error:
                _refused(each, batch, results, error.errno or EIO, error.reason)
            except SystemRefused as error:
                _refused(each, batch, results, EIO, str(error))
            else:
                for place, answer in zip(each.places, answers, strict=True):
                    results[place] = _result(batch[place], answer)


def _refused(
    each: _Asked, batch: Sequence[Operation], results: list[OperationResult | None], number: int, why: str
) -> None:
    for place in each.places:
        results[place] = OperationResult(batch[place].req_id, number, why)


def _result(operation: Operation, answer: dict[str, Any]) -> OperationResult:
    number = 0 if answer["errno"] is None else _NUMBERS.get(answer["errno"], EIO)
    found = OperationResult(operation.req_id, number, answer["message"], answer["response_port_num"])
    if not isinstance(operation, EvProbe):
        return found
    rtt_us = answer["rtt_us"]
    return replace(
        found,
        rtt_ns=None if rtt_us is None else round(rtt_us * 1000),
        service_time_taken_off=answer["service_time_taken_off"],
        left_by_port_num=answer["port_num"],
    )
