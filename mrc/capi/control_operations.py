# SPDX-License-Identifier: BSD-2-Clause
"""Endpoint operations and EV events of mrc_ctl.h: the endpoints of the host's device that run send and tell them."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from errno import E2BIG, EAGAIN, EINVAL, ENOENT, EPERM, ETIMEDOUT
from typing import Any

from mrc.capi.control_evs import named
from mrc.capi.control_structures import EpReq, EpRsp
from mrc.capi.gids import address_of, gid_of
from mrc.control import ControlError, Controller, EvProbe, PortStatusUpdate
from mrc.control.attributes import MAX_BATCH, EvEventMask
from mrc.control.operations import Operation, OperationResult
from mrc.net.control.host_events import HostEvents, Listener
from mrc.net.control.host_store import HostStore
from mrc.net.control.relayed import operate

EV_PROBE, PORT_STATUS_UPDATE = range(2)
_MOST_DSCP = 63
# What of an operation's errors the header has for all of them.
_SHOWN = {ENOENT: EINVAL, E2BIG: EAGAIN}
_PUT = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_uint32
)


class CEndpointOperations:
    """One device's, for C programs."""

    def __init__(self, controller: Controller, host: HostStore) -> None:
        self._controller = controller
        self._host = host
        self._ports = controller.device.ports()
        # Made with the first queue: it then listens as long as the process runs, as the endpoint does.
        self._events: HostEvents | None = None
        self._lock = threading.Lock()

    # ------------------------------------------------------------------ endpoint operations

    def send(
        self, kind: int, requests: int, count: int, answers: int, dscp: int, timeout_ns: int
    ) -> tuple[int, ControlError | None]:
        """Send a batch. `requests` and `answers` are addresses of so many structures. Returns how many have answered,
        and why not all have.

        Raises ControlError, and then nothing was sent: EPERM without CAP_NET_ADMIN, E2BIG, EINVAL.
        """
        if kind not in (EV_PROBE, PORT_STATUS_UPDATE):
            raise ControlError(EINVAL, f"there is no endpoint operation {kind}")
        if count > MAX_BATCH:
            raise ControlError(E2BIG, f"{count} operations in one batch, at most {MAX_BATCH}", MAX_BATCH)
        if dscp > _MOST_DSCP:
            raise ControlError(EINVAL, f"a traffic class is a DSCP from 0 to {_MOST_DSCP}, not {dscp}")
        given = (EpReq * count).from_address(requests) if count else ()
        batch = [self._operation(kind, each, dscp or None) for each in given]
        if len({each.req_id for each in batch}) < len(batch):
            raise ControlError(EINVAL, "two operations of a batch have the same req_id")
        if not self._host.permitted:
            raise ControlError(EPERM, "endpoint operations take CAP_NET_ADMIN")
        if not batch:
            return 0, None
        results = operate(str(self._host.path), batch, timeout_ns)
        answered = [each for each in results if not each.errno]
        for place, each in zip((EpRsp * count).from_address(answers), answered, strict=False):
            place.req_id, place.port = each.req_id, each.port_num or 0
            place.rtt, place.adj_svc_time = each.rtt_ns or 0, int(each.service_time_taken_off)
        return len(answered), _worst(results)

    def _operation(self, kind: int, request: EpReq, dscp: int | None) -> Operation:
        ev = named(request.req_ev)
        source, destination = bytes(request.sgid), address_of(bytes(request.dgid))
        native = self._controller.profiles.formats.native
        if request.ev_fmt_mode != native:
            raise ControlError(EINVAL, f"the network reads {native.name} EVs, not those of mode {request.ev_fmt_mode}")
        if not 1 <= ev.port <= len(self._ports):
            raise ControlError(EINVAL, f"no port {ev.port}: there are 1 to {len(self._ports)}")
        if source not in (gid_of(self._ports[0].address), gid_of(self._ports[ev.port - 1].address)):
            raise ControlError(EINVAL, f"sgid {address_of(source)} is not this device's")
        if kind == EV_PROBE:
            return EvProbe(request.req_id, destination, ev.number, port_num=ev.port, dscp=dscp)
        mask = self._on_the_wire(request.op.port_status_update.port_status)
        return PortStatusUpdate(request.req_id, destination, mask, ev.number, port_num=ev.port, dscp=dscp)

    def _on_the_wire(self, ports: int) -> int:
        """The mask that packets carry, of one with a bit for each port, counted from 1."""
        if foreign := ports & ~sum(1 << number for number in range(1, len(self._ports) + 1)):
            raise ControlError(EINVAL, f"port_status has bits of no port: {foreign:#x}")
        first = self._controller.device.endpoint.config.wire.first_port_bit
        return sum(1 << port.plane + first for number, port in enumerate(self._ports, 1) if ports >> number & 1)

    # ------------------------------------------------------------------ EV events

    def ev_events(self, queue: int, put: int) -> Listener:
        """Have each EV event put into a queue of the library, by its function at `put`, until it is closed."""
        into: Callable[..., None] = _PUT(put)

        def told(event: dict[str, Any]) -> None:
            state = EvEventMask[event["state"].upper()]
            into(queue, event["profile_id"], event["ev"], event["port_num"], int(state), event["drop_count"])

        with self._lock:
            if self._events is None:
                self._events = HostEvents(str(self._host.path))
        return self._events.listen(told)


def _worst(results: Sequence[OperationResult]) -> ControlError | None:
    """Why the call fails: by the first operation that was not sent, else by one without an answer."""
    failed = [each for each in results if each.errno]
    if not failed:
        return None
    worst = next((each for each in failed if each.errno != ETIMEDOUT), failed[0])
    number = _SHOWN.get(worst.errno, worst.errno)
    return ControlError(number, f"req_id {worst.req_id}: {worst.reason}")
