# SPDX-License-Identifier: BSD-2-Clause
"""EVs of mrc_ctl.h: a number and a port, in a C program's arrays, as the controller names them."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from errno import E2BIG, EINVAL, ENOENT
from typing import NamedTuple

from mrc.capi.control_structures import BIT_31, EV_BYTES, Ev, EvOpEntry
from mrc.control import ControlError, Controller, EvOp, EvOpKind
from mrc.control.attributes import MAX_BATCH
from mrc.endpoint.paths.profiles import EvProfileMode
from mrc.endpoint.paths.states import EvState
from mrc.wire.entropy import EvMode

REPLACE, MODIFY_STATE, QUERY_STATE, QUERY_ARRAY = range(4)
ALL_COPIES = 1 << 0
_NUMBER_BYTES = 4
_STATES = {1: EvState.GOOD, 4: EvState.DENIED}
_UNKNOWN = BIT_31
_SHOWN = {EvState.GOOD: 1, EvState.SKIP: 1, EvState.ASSUMED_BAD: 2, EvState.DENIED: 4}


class Named(NamedTuple):
    """An EV as a C program names it."""

    number: int
    port: int

    @property
    def is_unpopulated(self) -> bool:
        """Whether it is the EV that stands for an entry without one."""
        return self == (0, 0)


def named(ev: Ev) -> Named:
    """Raises ControlError EINVAL for a value of more than 32 bits."""
    value = bytes(ev.val)
    if any(value[_NUMBER_BYTES:]):
        raise ControlError(EINVAL, f"an EV is a number of 32 bits in the first 4 of its {EV_BYTES} bytes")
    return Named(int.from_bytes(value[:_NUMBER_BYTES], sys.byteorder), ev.port)


def put(place: Ev, ev: Named) -> None:
    """Write it into a program's memory."""
    ctypes.memset(ctypes.addressof(place), 0, ctypes.sizeof(place))
    place.val[:_NUMBER_BYTES] = tuple(ev.number.to_bytes(_NUMBER_BYTES, sys.byteorder))
    place.port = ev.port


class EvArray:
    """The EVs of one profile, whose entries have ports: in srv6 mode those of their planes, else dealt in turn."""

    def __init__(self, controller: Controller, profile_id: int) -> None:
        self._controller = controller
        self._id = profile_id
        self._profiles = controller.profiles
        self._planes = [port.plane for port in controller.device.ports()]

    def carry_out(self, op: int, address: int, count: int) -> int:
        """Carry out one operation for every entry, to the first that fails. Returns the count to tell the program.

        Raises ControlError: E2BIG with the needed count.
        """
        if op not in (REPLACE, MODIFY_STATE, QUERY_STATE, QUERY_ARRAY):
            raise ControlError(EINVAL, f"there is no EV operation {op}")
        if count < 0 or (count and not address):
            raise ControlError(EINVAL, f"{count} entries at {address:#x}")
        self._profiles.evs.described(self._id)
        if op == QUERY_ARRAY:
            return self._query_array(address, count)
        if count > MAX_BATCH:
            raise ControlError(E2BIG, f"{count} entries, at most {MAX_BATCH} are possible", MAX_BATCH)
        entries = (EvOpEntry * count).from_address(address) if count else ()
        each: dict[int, Callable[[EvOpEntry], None]] = {
            REPLACE: self._replace,
            MODIFY_STATE: self._modify_state,
            QUERY_STATE: self._query_state,
        }

        def run() -> None:
            for entry in entries:
                each[op](entry)

        # One change of the host's device, not one for each entry.
        device = self._controller.device
        device.call(run if op == QUERY_STATE else lambda: self._profiles.change(run))
        return count

    def _run(self, op: EvOp) -> tuple[EvState | None, int]:
        (result,) = self._controller.ev_operations(self._id, [op])
        if result.errno:
            raise ControlError(result.errno, result.reason)
        return result.state, result.count

    def _replace(self, entry: EvOpEntry) -> None:
        old, new, state = named(entry.ev), named(entry.ev_new), _state(entry.state)
        if new.is_unpopulated:
            raise ControlError(EINVAL, "an entry cannot be emptied: ev_new is the unpopulated EV")
        if entry.flags & ~ALL_COPIES:
            raise ControlError(EINVAL, f"there are no flags {entry.flags:#x}")
        if self._in_srv6:
            self._check_port(new)
            op = EvOp(
                EvOpKind.REPLACE,
                ev=None if old.is_unpopulated else self._checked(old),
                new_ev=new.number,
                state=state,
                all_copies=bool(entry.flags & ALL_COPIES),
            )
        else:
            op = self._dealt(self._controller.query_ev_array(self._id), old, new, state)
        self._run(op)

    def _dealt(self, array: Sequence[int | None], old: Named, new: Named, state: EvState) -> EvOp:
        """Entries are dealt to the ports in turn, so the place decides. Copies would move those behind them."""
        wanted = None if old.is_unpopulated else old.number
        port = new.port if wanted is None else old.port
        places = [place for place, has in enumerate(array) if has == wanted and self._port_of_place(place) == port]
        if new.port != port or not 1 <= port <= len(self._planes):
            raise ControlError(EINVAL, f"an entry of port {port} stays one: ev_new names port {new.port}")
        if not places:
            raise ControlError(ENOENT, f"no such entry of port {port}")
        if new.number in array and new.number != wanted:
            raise ControlError(EINVAL, f"EV {new.number:#x} is in the array already: this network has no copies")
        return EvOp(EvOpKind.REPLACE, index=places[0], new_ev=new.number, state=state)

    def _modify_state(self, entry: EvOpEntry) -> None:
        state = _state(entry.state)
        self._run(EvOp(EvOpKind.MODIFY_STATE, ev=self._checked(named(entry.ev)), state=state))

    def _query_state(self, entry: EvOpEntry) -> None:
        state, holders = self._run(EvOp(EvOpKind.QUERY_STATE, ev=self._checked(named(entry.ev))))
        entry.state = _shown(state, holders)

    def _query_array(self, address: int, room: int) -> int:
        array = self._controller.query_ev_array(self._id, room)
        entries = (EvOpEntry * len(array)).from_address(address) if array else ()
        for place, (entry, ev) in enumerate(zip(entries, array, strict=True)):
            put(entry.ev, Named(0, 0) if ev is None else Named(ev, self._port_of(ev, place)))
            if ev is None:
                entry.state = _UNKNOWN
            else:
                entry.state = _shown(*self._run(EvOp(EvOpKind.QUERY_STATE, ev=ev)))
        return len(array)

    # ------------------------------------------------------------------ ports

    @property
    def _in_srv6(self) -> bool:
        return self._profiles.formats.native == EvMode.SRV6

    def _port_of_place(self, place: int) -> int:
        return place % len(self._planes) + 1

    def _port_of(self, ev: int, place: int) -> int:
        if not self._in_srv6:
            return self._port_of_place(place)
        plane = self._profiles.evs.on_the_wire(self._id, ev) >> 24
        return self._planes.index(plane) + 1 if plane in self._planes else 0

    def _check_port(self, ev: Named) -> None:
        port = self._port_of(ev.number, 0)
        if port != ev.port:
            raise ControlError(EINVAL, f"EV {ev.number:#x} leaves by port {port}, not {ev.port}")

    def _checked(self, ev: Named) -> int:
        """Raises ControlError EINVAL where it names another port than its own."""
        slot = self._profiles.evs.get(self._id)
        if self._in_srv6:
            self._check_port(ev)
        elif slot is not None and slot.attributes.get("ev_mode") == EvProfileMode.EXPLICIT and ev.number in slot.array:
            port = self._port_of_place(slot.array.index(ev.number))
            if port != ev.port:
                raise ControlError(EINVAL, f"EV {ev.number:#x} leaves by port {port}, not {ev.port}")
        return ev.number


def _state(given: int) -> EvState:
    if given not in _STATES:
        raise ControlError(EINVAL, f"a controller sets GOOD or DENIED, not {given:#x}")
    return _STATES[given]


def _shown(state: EvState | None, holders: int) -> int:
    """What other processes' QPs have found out about an EV is not known here; what controllers denied is."""
    if state is None or (state == EvState.GOOD and not holders):
        return _UNKNOWN
    return _SHOWN[state]
