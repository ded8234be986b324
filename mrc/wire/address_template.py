# SPDX-License-Identifier: BSD-2-Clause
"""A deployment's own address plan: where the bits of an EV go in the outer destination (wire.md section 11).

For a source and a destination there are `template_data`, the address without an EV, `template_mask`, the bits of it
that an EV fills, and `ps_mask`, the bits of the EV that go there, the most significant first. `ps_list` are the EVs
(path selectors) in use.
"""

from __future__ import annotations

import ipaddress
from typing import Any

from mrc.errors import CallerError
from mrc.records import record
from mrc.wire.usid import BLOCK_BITS, USID_BITS, USIDS_PER_CONTAINER

__all__ = ["AddressTemplate"]

_MEMBERS = ("template_data", "template_mask", "ps_mask", "ps_list")
_MOST_EVS = 1 << 16
_EV_BITS = 32


@record(frozen=True, slots=True)
class AddressTemplate:
    """The paths to one destination: those of the EVs of `ps_list`, numbered in its order.

    `template_data` and `template_mask` are 128-bit addresses, `ps_mask` and the EVs have 32 bits. Raises CallerError
    where the two masks have not equally many bits, an address has bits under the mask, or an EV is there twice.

    >>> words = {"template_data": "5f00::1:104:0:0", "template_mask": "0:0:70:7003:70::", "ps_mask": "0x1ffc"}
    >>> template = AddressTemplate.from_document(words | {"ps_list": [2345]}, "this template")
    >>> ipaddress.IPv6Address(template.address(plane=0, uplink=0))
    IPv6Address('5f00:0:20:2001:21:104::')
    """

    template_data: int
    template_mask: int
    ps_mask: int
    ps_list: tuple[int, ...]

    def __post_init__(self) -> None:
        mask, bits = self.template_mask.bit_count(), self.ps_mask.bit_count()
        if mask != bits:
            raise CallerError(f"template_mask has {mask} bits and ps_mask {bits}: each bit of an EV needs its place")
        if self.template_data & self.template_mask:
            raise CallerError("template_data has bits under template_mask: they are the EV's")
        if not 1 <= len(self.ps_list) <= _MOST_EVS:
            raise CallerError(f"ps_list has {len(self.ps_list)} EVs: it needs 1 to {_MOST_EVS}")
        if len(set(self.ps_list)) != len(self.ps_list):
            raise CallerError("ps_list has an EV twice: a SACK names a path by its EV")
        if any(not 0 <= ev < 1 << _EV_BITS for ev in (*self.ps_list, self.ps_mask)):
            raise CallerError("ps_mask and the EVs of ps_list have 32 bits at most")

    @classmethod
    def from_document(cls, document: Any, where: str) -> AddressTemplate:
        """Read a template of a file, as `where` names it: addresses are texts, the other numbers may be texts in
        hexadecimal (0x1ffc). Raises CallerError."""
        if not isinstance(document, dict):
            raise CallerError(f"{where} is no object with {', '.join(_MEMBERS)}")
        missing = [name for name in _MEMBERS if name not in document]
        if missing:
            raise CallerError(f"{where} has no {missing[0]}")
        evs = document["ps_list"]
        if not isinstance(evs, list):
            raise CallerError(f"{where}: ps_list is no list of EVs")
        try:
            return cls(
                int(ipaddress.IPv6Address(document["template_data"])),
                int(ipaddress.IPv6Address(document["template_mask"])),
                _number(document["ps_mask"], f"{where}: ps_mask"),
                tuple(_number(ev, f"{where}: an EV of ps_list") for ev in evs),
            )
        except ipaddress.AddressValueError as error:
            raise CallerError(f"{where}: {error}") from None
        except CallerError as error:
            raise CallerError(str(error) if str(error).startswith(where) else f"{where}: {error}") from None

    def to_document(self) -> dict[str, Any]:
        """What `from_document` reads."""
        return {
            "template_data": str(ipaddress.IPv6Address(self.template_data)),
            "template_mask": str(ipaddress.IPv6Address(self.template_mask)),
            "ps_mask": hex(self.ps_mask),
            "ps_list": list(self.ps_list),
        }

    def address_of(self, ev: int) -> int:
        """The outer destination of any EV: its bits under ps_mask, deposited under template_mask."""
        address, mask, selected = self.template_data, self.template_mask, self.ps_mask
        # Both from the least significant bit on: the order is the same.
        while mask:
            place, bit = mask & -mask, selected & -selected
            if ev & bit:
                address |= place
            mask, selected = mask ^ place, selected ^ bit
        return address

    # The methods of mrc.wire.usid.PathTemplate. Plane and leaf are in the template: one is made for each.

    def count(self, uplinks: int) -> int:
        """How many paths there are, whatever the leaf has."""
        return len(self.ps_list)

    def ev(self, plane: int, uplink: int) -> int:
        """The EV at this place of `ps_list`."""
        return self.ps_list[uplink]

    def uplink_of(self, plane: int, ev: int) -> int | None:
        """The place of an EV in `ps_list`; None where it is not there: it may be another plane's."""
        return self.ps_list.index(ev) if ev in self.ps_list else None

    def usids(self, plane: int, uplink: int) -> tuple[int, ...]:
        """What is behind the block, 16 bits each, up to the last that is not 0."""
        address = self.address(plane, uplink)
        groups = [address >> 128 - BLOCK_BITS - USID_BITS * (at + 1) & 0xFFFF for at in range(USIDS_PER_CONTAINER)]
        while groups and not groups[-1]:
            groups.pop()
        return tuple(groups)

    def address(self, plane: int, uplink: int) -> int:
        """The outer destination of the EV at this place of `ps_list`."""
        return self.address_of(self.ps_list[uplink])


def _number(value: Any, what: str) -> int:
    try:
        return int(value, 0) if isinstance(value, str) else _whole(value)
    except (ValueError, TypeError):
        raise CallerError(f"{what} is {value!r}: it has to be a whole number") from None


def _whole(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError
    return value
