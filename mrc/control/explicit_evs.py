# SPDX-License-Identifier: BSD-2-Clause
"""EVs of EXPLICIT profiles that have fields: the array holds the bits of the masks, packets carry what they expand to.

api.md, Controller. Without fields an EV of the array is the one that packets carry.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from errno import EINVAL
from typing import Any

from mrc.control.errors import ControlError, arguments
from mrc.endpoint.paths.formats import EvFormat
from mrc.endpoint.paths.profiles import EvProfileMode
from mrc.wire.entropy import EvMode, expanded
from mrc.wire.usid import ev_of_address

_EV_BITS = 32
_ADDRESS_BITS = 128


def on_the_wire(ev: int, attributes: Mapping[str, Any], fmt: EvFormat) -> int:
    """The 32 bits that packets carry for an EV of a profile with these attributes.

    In SRV6 mode an EV of more bits is the front of an outer address, which names the path as our address plan does.
    Raises ControlError EINVAL for an EV that the fields cannot expand, or whose address is not of the plan.
    """
    fields = attributes.get("fields", ())
    if attributes["ev_mode"] != EvProfileMode.EXPLICIT or not fields:
        return ev
    widths = fmt.widths or tuple(field.width for field in fields)
    bits = sum(widths)
    with arguments():
        value = expanded(ev, fields, widths)
        if bits <= _EV_BITS:
            return value
        if fmt.mode != EvMode.SRV6:
            raise ControlError(EINVAL, f"an EV of {bits} bits does not fit the {_EV_BITS} that packets carry")
        front = value >> bits - _ADDRESS_BITS if bits > _ADDRESS_BITS else value << _ADDRESS_BITS - bits
        return ev_of_address(front)


def names(attributes: Mapping[str, Any], array: Iterable[int | None], fmt: EvFormat) -> dict[int, int]:
    """What the controller calls EVs that packets carry and that it calls otherwise: of entries that expand to the same
    the first."""
    if not attributes.get("fields") or attributes["ev_mode"] != EvProfileMode.EXPLICIT:
        return {}
    found: dict[int, int] = {}
    for ev in array:
        if ev is not None:
            found.setdefault(on_the_wire(ev, attributes, fmt), ev)
    return found
