# SPDX-License-Identifier: BSD-2-Clause
"""The EV formats of an endpoint: into which fields the bits of an EV are divided (api.md, Controller)."""

from __future__ import annotations

from collections.abc import Callable
from errno import E2BIG, EBUSY, EINVAL
from typing import Any

from mrc.control.attributes import MAX_FIELDS, EvFormatAttr
from mrc.control.errors import ControlError, arguments
from mrc.control.states import ProfileState
from mrc.control.table import INIT, ONLINE, ProfileTable, Slot
from mrc.endpoint.paths.formats import EvFormat


class EvFormats(ProfileTable[EvFormatAttr]):
    """`native`: the mode in which the network reads EVs."""

    def __init__(self, default: EvFormat, used_by: Callable[[int], list[int]]) -> None:
        """`used_by` says which EV profiles that are ONLINE use a format."""
        attributes = {"mode": default.mode, "fields": default.widths, "srh": default.srh}
        super().__init__("EV format", Slot(ONLINE, attributes))
        self.native = default.mode
        self._used_by = used_by

    def modify(self, profile_id: int, attr: EvFormatAttr) -> None:
        slot = self.slot(profile_id)
        wanted, merged = self.step(profile_id, attr)
        users = ", ".join(map(str, sorted(self._used_by(profile_id))))
        if slot.state == ONLINE and users:
            raise ControlError(EBUSY, f"EV format profile {profile_id} is used by EV profiles {users}")
        if wanted != INIT:
            self._check(merged)
        self[profile_id] = Slot(wanted, merged)

    def _check(self, attributes: dict[str, Any]) -> None:
        mode, widths, srh = attributes["mode"], attributes.get("fields", ()), attributes.get("srh", False)
        if mode != self.native:
            raise ControlError(EINVAL, f"the network reads {self.native.name} EVs, not {mode.name}")
        if not all(type(width) is int for width in widths):
            raise ControlError(EINVAL, "the fields of an EV format are widths in bits")
        if len(widths) > MAX_FIELDS:
            raise ControlError(E2BIG, f"{len(widths)} fields, at most {MAX_FIELDS} are possible", len(widths))
        with arguments():
            limit = EvFormat(mode, (), srh).limit
        if sum(widths) > limit:
            raise ControlError(E2BIG, f"the fields take {sum(widths)} bits, there are {limit}", sum(widths))
        with arguments():
            EvFormat(mode, tuple(widths), srh)

    def online(self, format_id: int) -> EvFormat:
        """What EVs of this format are.

        Raises ControlError ENOENT for one that was never described, EINVAL for one that is not ONLINE.
        """
        slot = self.described(format_id)
        if slot.state != ONLINE:
            raise ControlError(EINVAL, f"EV format profile {format_id} is {slot.state.name}: bring it ONLINE first")
        attributes = slot.attributes
        return EvFormat(attributes["mode"], tuple(attributes["fields"]), attributes.get("srh", False))

    def set(self, profile_id: int, state: ProfileState, attributes: dict[str, Any]) -> None:
        """It is as another endpoint's controller has left it. Raises ControlError, and then nothing has changed."""
        if state != INIT:
            self._check(attributes)
        self[profile_id] = Slot(state, attributes)
