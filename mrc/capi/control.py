# SPDX-License-Identifier: BSD-2-Clause
"""The controller behind mrc_ctl.h: structures in a C program's memory in, a Controller's calls out.

What is refused raises ControlError with the errno that the program gets.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from errno import E2BIG, EINVAL, ENOENT
from typing import Any

from mrc.capi.calls import Control
from mrc.capi.control_cc import algorithm_of, config_at, kept_name, names, nscc_cfg
from mrc.capi.control_evs import EvArray
from mrc.capi.control_structures import BIT_31, CcAttr, DeviceAttr, EvAttr, EvField, FormatAttr, PortAttr
from mrc.control import (
    CcProfileAttr,
    ControlError,
    Controller,
    EvEventMask,
    EvFormatAttr,
    EvProfileAttr,
    PortAdmin,
    ProfileState,
)
from mrc.control.attributes import MAX_FIELDS, MAX_PROFILES
from mrc.control.errors import arguments
from mrc.endpoint.paths.profiles import EvProfileMode
from mrc.wire import entropy
from mrc.wire.entropy import EvMode

STATE, CUR_STATE, MODE = 1 << 0, 1 << 1, 1 << 2
FORMAT_OP = 1 << 3
FORMAT_ID, COUNT, MIN_ACTIVE, EVENT_MASK, EV_OP, EV_FIELDS_OP = (1 << place for place in range(3, 9))
ALGORITHM, CONFIG = 1 << 2, 1 << 3
MODIFY_FIELDS, QUERY_FIELDS = 0, 1
_EVENT_BITS = 0b111
_MODES = {1 << mode: mode for mode in EvProfileMode}
_EV_ATTRIBUTES = STATE | CUR_STATE | MODE | FORMAT_ID | COUNT | MIN_ACTIVE | EVENT_MASK | EV_OP | EV_FIELDS_OP


class CControl:
    """One device's controller, for C programs. `number` is a profile's or a port's, `address` that of attributes."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._calls: Mapping[int, Callable[[int, int, int], None]] = {
            Control.QUERY_DEVICE: self._query_device,
            Control.QUERY_PORT: self._query_port,
            Control.MODIFY_PORT: self._modify_port,
            Control.QUERY_FORMAT: self._query_format,
            Control.MODIFY_FORMAT: self._modify_format,
            Control.QUERY_EV: self._query_ev,
            Control.MODIFY_EV: self._modify_ev,
            Control.QUERY_CC: self._query_cc,
            Control.MODIFY_CC: self._modify_cc,
        }

    def call(self, what: int, number: int, address: int, mask: int) -> None:
        """Do what is asked. Raises ControlError."""
        self._calls[what](number, address, mask & 0xFFFFFFFF)

    # ------------------------------------------------------------------ device and ports

    def _query_device(self, number: int, address: int, mask: int) -> None:
        found, attr = self._controller.query_device(), DeviceAttr.from_address(address)
        attr.mrc_ctl_protocol_version = int(found.protocol_version)
        ev = attr.ev
        ev.ev_max_fmt_profiles, ev.ev_max_profiles = found.max_ev_format_profiles, found.max_ev_profiles
        ev.ev_max_count, ev.ev_free_count = found.max_total_ev_count, found.free_ev_count
        ev.ev_max_count_profile, ev.ev_count_align = found.max_ev_count, found.ev_count_alignment
        ev.ev_max_width, ev.ev_op_max_entries = found.max_width, found.max_batch
        ev.ev_fmt_mode_mask, ev.ev_mode_mask = int(found.ev_format_mask), int(found.ev_mode_mask)
        attr.cc.cc_max_profiles, attr.cc.algorithms = found.max_cc_profiles, names(found.cc_algorithms)
        attr.phy_port_mask, attr.opt_attr = found.port_mask, int(found.caps)

    def _query_port(self, number: int, address: int, mask: int) -> None:
        _check_mask(mask, STATE)
        port = _invalid(lambda: self._controller.query_port(number))
        if mask & STATE:
            PortAttr.from_address(address).port_admin_state = int(port.admin)

    def _modify_port(self, number: int, address: int, mask: int) -> None:
        _check_mask(mask, STATE)
        wanted = PortAttr.from_address(address).port_admin_state
        if mask & STATE:
            admin = _one_of(PortAdmin, wanted, "port_admin_state")
            _invalid(lambda: self._controller.modify_port(number, admin))

    # ------------------------------------------------------------------ EV formats

    def _modify_format(self, number: int, address: int, mask: int) -> None:
        _check_mask(mask, STATE | CUR_STATE | MODE | FORMAT_OP | BIT_31)
        attr, given = FormatAttr.from_address(address), dict[str, Any]()
        _check_number(number)
        if mask & FORMAT_OP:
            op = attr.ev_fmt_op
            if op.op == QUERY_FIELDS:
                self._format_fields(number, attr)
            else:
                widths = _array(ctypes.c_uint8, op.fmt_fields, op.fmt_field_count, op.op)
                given["fields"] = tuple(int(each) for each in widths)
        if mask & MODE:
            given["mode"] = _one_of(EvMode, attr.ev_fmt_mode, "ev_fmt_mode")
        current = self._controller.query_ev_format(number).state
        given |= _states(attr, mask, current)
        if given:
            self._controller.modify_ev_format(number, EvFormatAttr(**given))

    def _query_format(self, number: int, address: int, mask: int) -> None:
        _check_mask(mask, STATE | CUR_STATE | MODE | FORMAT_OP | BIT_31)
        _check_number(number)
        attr, found = FormatAttr.from_address(address), self._controller.query_ev_format(number)
        if mask & FORMAT_OP:
            if attr.ev_fmt_op.op != QUERY_FIELDS:
                raise ControlError(EINVAL, "a query changes no fields")
            self._format_fields(number, attr)
        _put_state(attr, mask, found.state)
        if mask & MODE:
            attr.ev_fmt_mode = int(found.mode or 0)

    def _format_fields(self, number: int, attr: FormatAttr) -> None:
        widths, op = self._controller.query_ev_format(number).fields or (), attr.ev_fmt_op
        room, op.fmt_field_count = op.fmt_field_count, len(widths)
        _check_room(len(widths), room)
        for place, width in enumerate(widths):
            _array(ctypes.c_uint8, op.fmt_fields, len(widths), op.op)[place] = width

    # ------------------------------------------------------------------ EV profiles

    def _modify_ev(self, number: int, address: int, mask: int) -> None:
        attr = self._ev_attr(number, address, mask)
        current = self._controller.query_ev_profile(number)
        given = _states(attr, mask, current.state) | self._given_of_ev(attr, mask)
        mode = given.get("ev_mode", current.ev_mode)
        if mode == EvProfileMode.AUTO:
            # The header has them for each mode. Which EVs there are is the device's here, and how many.
            given.pop("count", None)
            given.pop("fields", None)
        described = EvProfileAttr(**given)
        goes_online = given.get("state") == ProfileState.ONLINE

        def modify() -> None:
            if given:
                self._controller.modify_ev_profile(number, described)

        if mask & EV_FIELDS_OP and attr.ev_fields_op.op == QUERY_FIELDS:
            self._ev_fields(number, attr)
        if not goes_online:
            modify()
        if mask & EV_OP:
            self._ev_op(number, attr)
        if goes_online:
            modify()

    def _given_of_ev(self, attr: EvAttr, mask: int) -> dict[str, Any]:
        given: dict[str, Any] = {}
        if mask & MODE:
            if attr.ev_mode not in _MODES:
                raise ControlError(EINVAL, f"ev_mode {attr.ev_mode} is none")
            given["ev_mode"] = _MODES[attr.ev_mode]
        if mask & FORMAT_ID:
            given["format_id"] = attr.ev_fmt_profile_id
        if mask & COUNT:
            given["count"] = attr.ev_count
        if mask & MIN_ACTIVE:
            given["min_active"] = attr.ev_min_active
        if mask & EVENT_MASK:
            if attr.ev_event_mask & ~_EVENT_BITS:
                raise ControlError(EINVAL, f"ev_event_mask {attr.ev_event_mask:#x} has bits of no state")
            given["event_mask"] = EvEventMask(attr.ev_event_mask)
        if mask & EV_FIELDS_OP and attr.ev_fields_op.op != QUERY_FIELDS:
            op = attr.ev_fields_op
            if op.field_count > MAX_FIELDS:
                raise ControlError(E2BIG, f"{op.field_count} fields, at most {MAX_FIELDS} are possible")
            fields = _array(EvField, op.fields, op.field_count, op.op)
            with arguments():
                given["fields"] = tuple(
                    entropy.EvField(each.width, each.init_val, each.mask, each.min_val, each.max_val) for each in fields
                )
        return given

    def _query_ev(self, number: int, address: int, mask: int) -> None:
        attr = self._ev_attr(number, address, mask)
        if mask & EV_OP and attr.ev_op.op < 2:
            raise ControlError(EINVAL, "a query changes no EV")
        if mask & EV_FIELDS_OP:
            if attr.ev_fields_op.op != QUERY_FIELDS:
                raise ControlError(EINVAL, "a query changes no fields")
            self._ev_fields(number, attr)
        found = self._controller.query_ev_profile(number)
        _put_state(attr, mask, found.state)
        if mask & MODE:
            attr.ev_mode = 0 if found.ev_mode is None else 1 << found.ev_mode
        if mask & FORMAT_ID:
            attr.ev_fmt_profile_id = found.format_id or 0
        if mask & COUNT:
            attr.ev_count = found.count or 0
        if mask & MIN_ACTIVE:
            attr.ev_min_active = found.min_active or 0
        if mask & EVENT_MASK:
            attr.ev_event_mask = _EVENT_BITS if found.event_mask is None else int(found.event_mask) & _EVENT_BITS
        if mask & EV_OP:
            self._ev_op(number, attr)

    def _ev_attr(self, number: int, address: int, mask: int) -> EvAttr:
        _check_mask(mask, _EV_ATTRIBUTES | BIT_31)
        if mask & EV_OP and mask & EV_FIELDS_OP:
            raise ControlError(EINVAL, "EV_OP and EV_FIELDS_OP do not go together")
        _check_number(number)
        return EvAttr.from_address(address)

    def _ev_op(self, number: int, attr: EvAttr) -> None:
        op = attr.ev_op
        try:
            op.entry_count = EvArray(self._controller, number).carry_out(op.op, op.entries or 0, op.entry_count)
        except ControlError as error:
            if error.errno == E2BIG and error.needed is not None:
                op.entry_count = error.needed
            raise

    def _ev_fields(self, number: int, attr: EvAttr) -> None:
        fields, op = self._controller.query_ev_profile(number).fields or (), attr.ev_fields_op
        room, op.field_count = op.field_count, len(fields)
        _check_room(len(fields), room)
        for place, field in zip(_array(EvField, op.fields, len(fields), MODIFY_FIELDS), fields, strict=True):
            place.width, place.init_val, place.mask = field.width, field.init_val, field.mask
            place.min_val, place.max_val = field.min_val, field.max_val or 0

    # ------------------------------------------------------------------ CC profiles

    def _modify_cc(self, number: int, address: int, mask: int) -> None:
        _check_mask(mask, STATE | CUR_STATE | ALGORITHM | CONFIG | BIT_31)
        _check_number(number)
        attr, current = CcAttr.from_address(address), self._controller.query_cc_profile(number)
        given = _states(attr, mask, current.state)
        if mask & ALGORITHM:
            given["algorithm"] = algorithm_of(attr.algorithm)
        if mask & CONFIG:
            given["config"] = config_at(given.get("algorithm", current.algorithm), attr.cc_config)
        if given:
            self._controller.modify_cc_profile(number, CcProfileAttr(**given))

    def _query_cc(self, number: int, address: int, mask: int) -> None:
        _check_mask(mask, STATE | CUR_STATE | ALGORITHM | CONFIG | BIT_31)
        _check_number(number)
        attr, found = CcAttr.from_address(address), self._controller.query_cc_profile(number)
        _put_state(attr, mask, found.state)
        if mask & ALGORITHM:
            attr.algorithm = kept_name(found.algorithm)
        if mask & CONFIG:
            attr.cc_config = nscc_cfg(found.config)


def _check_mask(mask: int, known: int) -> None:
    if mask & ~known:
        raise ControlError(EINVAL, f"attribute mask {mask:#x} has bits of no attribute: {mask & ~known:#x}")


def _check_number(number: int) -> None:
    if not 0 <= number < MAX_PROFILES:
        raise ControlError(EINVAL, f"no profile {number}: there are 0 to {MAX_PROFILES - 1}")


def _check_room(needed: int, room: int) -> None:
    if room < needed:
        raise ControlError(E2BIG, f"{needed} fields, room for {room} was given", needed)


def _array(kind: Any, address: int | None, count: int, op: int) -> Any:
    """So many of a kind in the program's memory. Raises ControlError EINVAL."""
    if op not in (MODIFY_FIELDS, QUERY_FIELDS):
        raise ControlError(EINVAL, f"there is no operation {op} on fields")
    if count < 0 or (count and not address):
        raise ControlError(EINVAL, f"{count} fields, and no memory that they are in")
    return (kind * count).from_address(address) if count else ()


def _one_of(kind: Any, value: int, name: str) -> Any:
    try:
        return kind(value)
    except ValueError:
        raise ControlError(EINVAL, f"{name} {value} is none") from None


def _states(attr: Any, mask: int, current: ProfileState | None) -> dict[str, Any]:
    """The state to go to, if there is one. Raises ControlError EINVAL where the profile is in another than is said."""
    if mask & BIT_31 and any(attr.vendor_cfg):
        raise ControlError(EINVAL, "vendor_cfg: this device has no settings of a vendor's")
    if mask & CUR_STATE and attr.cur_profile_state != current:
        raise ControlError(EINVAL, f"the profile is in another state than cur_profile_state {attr.cur_profile_state}")
    return {"state": _one_of(ProfileState, attr.profile_state, "profile_state")} if mask & STATE else {}


def _put_state(attr: Any, mask: int, state: ProfileState | None) -> None:
    if mask & STATE:
        attr.profile_state = int(state or 0)
    if mask & CUR_STATE:
        attr.cur_profile_state = int(state or 0)
    if mask & BIT_31:
        ctypes.memset(ctypes.addressof(attr.vendor_cfg), 0, ctypes.sizeof(attr.vendor_cfg))


def _invalid(call: Callable[[], Any]) -> Any:
    """Ports that do not exist are EINVAL in C."""
    try:
        return call()
    except ControlError as error:
        if error.errno == ENOENT:
            raise ControlError(EINVAL, error.reason) from None
        raise
