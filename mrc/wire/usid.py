# SPDX-License-Identifier: BSD-2-Clause
"""SRv6 uSID addressing: from an entropy value to the list of switches a packet passes (wire.md section 11).

One function, one table: the plan below is this project's choice (grade C) inside the published structure of a
32-bit block and up to six 16-bit uSIDs (RFC 9800 NEXT-C-SID, F3216). Each switch matches block + its own uSID,
shifts the uSIDs left by 16 bits and looks the result up.
"""

from __future__ import annotations

import ipaddress
from typing import Protocol

from mrc.errors import CallerError
from mrc.records import record

__all__ = [
    "DEFAULT_BLOCK",
    "address_text",
    "container",
    "ev_of_address",
    "ev_of_path",
    "host_usid",
    "leaf_usid",
    "path_of_ev",
    "shifted",
    "spine_usid",
]

BLOCK_BITS = 32
USID_BITS = 16
# From 5f00::/16, the addresses set aside for segment routing (RFC 9602).
DEFAULT_BLOCK = 0x5F000000
USIDS_PER_CONTAINER = (128 - BLOCK_BITS) // USID_BITS
MAX_PLANES = 16
MAX_PER_PLANE = 256

# The uSID plan: nibble 1 a leaf, nibble 2 a spine, nibble 4 and up the ports towards hosts.
LEAF_NIBBLE = 0x1000
SPINE_NIBBLE = 0x2000
HOST_BASE = 0x4000

_EV_FORM = "plane(8) zero(8) uplink(16)"


def _checked(name: str, value: int, limit: int) -> int:
    if not 0 <= value < limit:
        raise CallerError(f"{name} must be 0..{limit - 1}, got {value}")
    return value


def leaf_usid(plane: int, leaf: int) -> int:
    """uSID of leaf (T0) `leaf` of plane `plane`: `1 p ll`."""
    return LEAF_NIBBLE | _checked("plane", plane, MAX_PLANES) << 8 | _checked("leaf", leaf, MAX_PER_PLANE)


def spine_usid(plane: int, spine: int) -> int:
    """uSID of spine (T1) `spine` of plane `plane`: `2 p ss`. The uplink number of a leaf is its spine's number."""
    return SPINE_NIBBLE | _checked("plane", plane, MAX_PLANES) << 8 | _checked("spine", spine, MAX_PER_PLANE)


def host_usid(plane: int, host: int) -> int:
    """uSID of the leaf's port towards host `host` (numbered across the fabric): `4000 + p * 256 + h`."""
    return HOST_BASE + (_checked("plane", plane, MAX_PLANES) << 8) + _checked("host", host, MAX_PER_PLANE)


def container(block: int, usids: tuple[int, ...]) -> int:
    """The 128-bit address `block : usid : usid ... : 0`. Raises CallerError beyond six uSIDs."""
    if len(usids) > USIDS_PER_CONTAINER:
        raise CallerError(f"a container holds {USIDS_PER_CONTAINER} uSIDs, got {len(usids)}: use an SRH")
    address = block << (128 - BLOCK_BITS)
    for position, usid in enumerate(usids):
        address |= usid << (128 - BLOCK_BITS - USID_BITS * (position + 1))
    return address


def shifted(address: int) -> int:
    """What a switch makes of its own container: the uSIDs move left by one, zeros follow (RFC 9800 section 4.1)."""
    usids = (1 << (128 - BLOCK_BITS)) - 1
    return address & ~usids | address << USID_BITS & usids


class PathTemplate(Protocol):
    """Everything about one destination that does not depend on the EV: the plane and uplink go into it."""

    def count(self, uplinks: int) -> int:
        """How many distinct paths a plane has whose leaves have so many uplinks. Their numbers begin at 0."""

    def ev(self, plane: int, uplink: int) -> int:
        """The EV that names one path."""

    def uplink_of(self, plane: int, ev: int) -> int | None:
        """The number of the path that an EV names in this plane; None where it is of another plane. Raises CallerError
        for an EV that names none."""

    def usids(self, plane: int, uplink: int) -> tuple[int, ...]:
        """The uSID list of one path."""

    def address(self, plane: int, uplink: int) -> int:
        """The 128-bit outer destination as it leaves the host."""


class PlannedEvs:
    """EVs of the plan below: `ev` and `uplink_of` of a PathTemplate."""

    __slots__ = ()

    def ev(self, plane: int, uplink: int) -> int:
        """The EV that names one path."""
        return ev_of_path(plane, uplink)

    def uplink_of(self, plane: int, ev: int) -> int | None:
        """The path's number; None where the EV is of another plane. Raises CallerError for one not of the plan."""
        named, uplink = path_of_ev(ev)
        return uplink if named == plane else None


@record(frozen=True, slots=True)
class UsidTemplate(PlannedEvs):
    """The paths to one destination in a fabric of leaves and spines (wire.md section 11, Address plan)."""

    source_leaf: int
    destination_leaf: int
    destination_host: int
    block: int = DEFAULT_BLOCK

    def count(self, uplinks: int) -> int:
        """The uplinks of a leaf; one under a shared leaf."""
        return 1 if self.source_leaf == self.destination_leaf else uplinks

    def usids(self, plane: int, uplink: int) -> tuple[int, ...]:
        """The uSID list of one path. Hosts under one leaf have one path per plane and `uplink` plays no part."""
        ends = (leaf_usid(plane, self.destination_leaf), host_usid(plane, self.destination_host))
        if self.source_leaf == self.destination_leaf:
            return ends
        return (leaf_usid(plane, self.source_leaf), spine_usid(plane, uplink), *ends)

    def address(self, plane: int, uplink: int) -> int:
        """The 128-bit outer destination as it leaves the host."""
        return container(self.block, self.usids(plane, uplink))


def ev_of_path(plane: int, uplink: int) -> int:
    """Our EV plan in SRV6 mode: plane(8) zero(8) uplink(16), most significant first.

    >>> hex(ev_of_path(plane=1, uplink=3))
    '0x1000003'
    """
    return _checked("plane", plane, MAX_PLANES) << 24 | _checked("uplink", uplink, MAX_PER_PLANE)


def path_of_ev(ev: int) -> tuple[int, int]:
    """(plane, uplink) of an SRV6-mode EV. Raises CallerError when the EV is not of that plan.

    >>> path_of_ev(0x01000003)
    (1, 3)
    """
    plane, zero, uplink = ev >> 24, ev >> 16 & 0xFF, ev & 0xFFFF
    if zero:
        raise CallerError(f"EV {ev:#010x} is not of the form {_EV_FORM}: the zero is {zero:#04x}")
    # The EV has more room for both than the uSIDs have.
    for name, number, limit in (("plane", plane, MAX_PLANES), ("uplink", uplink, MAX_PER_PLANE)):
        if number >= limit:
            raise CallerError(f"EV {ev:#010x} names {name} {number} in {_EV_FORM}: it must be 0..{limit - 1}")
    return plane, uplink


def ev_of_address(address: int) -> int:
    """The EV of the path that an outer address names by its first two uSIDs: a leaf, then a spine of the same plane.

    What comes after them, the way down to the host, depends on the peer and is not looked at. Raises CallerError for an
    address that begins otherwise.

    >>> hex(ev_of_address(container(DEFAULT_BLOCK, (leaf_usid(1, 0), spine_usid(1, 3)))))
    '0x1000003'
    """
    leaf, spine = (address >> 128 - BLOCK_BITS - USID_BITS * place & 0xFFFF for place in (1, 2))
    plane = spine >> 8 & 0xF
    if leaf & 0xF000 != LEAF_NIBBLE or spine & 0xF000 != SPINE_NIBBLE or leaf >> 8 & 0xF != plane:
        raise CallerError(f"{address_text(address)} does not lead over a leaf and a spine of one plane")
    return ev_of_path(plane, spine & 0xFF)


def address_text(address: int) -> str:
    """The usual text form of a 128-bit address.

    >>> address_text(container(DEFAULT_BLOCK, (leaf_usid(0, 0), spine_usid(0, 1), leaf_usid(0, 1), host_usid(0, 1))))
    '5f00:0:1000:2001:1001:4001::'
    """
    return str(ipaddress.IPv6Address(address))
