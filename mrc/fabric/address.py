# SPDX-License-Identifier: BSD-2-Clause
"""The addresses of a fabric's nodes: the plain IPv6 address and the uSID of each, and the node that a uSID names.

h0     fd4d:5243:PLANE::1      a host has both in every plane; its uSID is that of the leaf's port towards it
p0l1   fd4d:5243:0:1::2        a switch has both in its own plane
p0s1   fd4d:5243:0:2::2
"""

from __future__ import annotations

import ipaddress

from mrc.errors import CallerError
from mrc.fabric.block import PLAIN_BLOCK, block_text
from mrc.fabric.names import host_name, leaf_name, parse_host, parse_switch, spine_name
from mrc.wire.usid import (
    BLOCK_BITS,
    HOST_BASE,
    LEAF_NIBBLE,
    MAX_PLANES,
    SPINE_NIBBLE,
    host_usid,
    leaf_usid,
    spine_usid,
)

__all__ = ["address", "node_of_usid", "usid"]

# All plain addresses.
PLAIN = block_text(PLAIN_BLOCK)
# By kind of node: the group after the plane's in a plain address, and the uSID plan's function.
_KINDS = {"h": (0, host_usid), "l": (1, leaf_usid), "s": (2, spine_usid)}


def address(node: str, plane: int) -> str:
    """The plain (inner) IPv6 address of a host or switch in one plane. Raises CallerError when it has none there.

    >>> address("h1", plane=0), address("p0s1", plane=0)
    ('fd4d:5243::2', 'fd4d:5243:0:2::2')
    """
    kind, number = _place(node, plane)
    return _plain(plane, _KINDS[kind][0], number + 1)


def usid(node: str, plane: int) -> int:
    """The uSID of a switch, or of the port towards a host, in one plane. Raises CallerError when it has none there."""
    kind, number = _place(node, plane)
    return _KINDS[kind][1](plane, number)


def node_of_usid(value: int) -> tuple[int, str] | None:
    """(plane, node) that a uSID names; None when the uSID plan does not use it.

    >>> node_of_usid(0x2001)
    (0, 'p0s1')
    """
    plane, number = value >> 8 & 0xF, value & 0xFF
    if value & 0xF000 == LEAF_NIBBLE:
        return plane, leaf_name(plane, number)
    if value & 0xF000 == SPINE_NIBBLE:
        return plane, spine_name(plane, number)
    if HOST_BASE <= value < HOST_BASE + (MAX_PLANES << 8):
        return plane, host_name(number)
    return None


def node_prefix(node: str, plane: int) -> str:
    """The plain address of one node alone. Raises CallerError when it has none in that plane."""
    return f"{address(node, plane)}/128"


def host_prefix(host: int, plane: int) -> str:
    """The plain address of one host alone."""
    return node_prefix(host_name(host), plane)


def plane_prefix(plane: int) -> str:
    """All plain addresses of one plane."""
    return f"{_plain(plane, 0, 0)}/{BLOCK_BITS + 16}"


def hosts_prefix(plane: int) -> str:
    """The plain addresses of all hosts in one plane."""
    return f"{_plain(plane, 0, 0)}/64"


def leaves_prefix(plane: int) -> str:
    """The plain addresses of all leaves of one plane."""
    return f"{_plain(plane, 1, 0)}/64"


def _plain(plane: int, group: int, number: int) -> str:
    return str(ipaddress.IPv6Address(PLAIN_BLOCK << 96 | plane << 80 | group << 64 | number))


def _place(node: str, plane: int) -> tuple[str, int]:
    host = parse_host(node)
    if host is not None:
        return "h", host
    own, kind, number = parse_switch(node)
    if own != plane:
        raise CallerError(f"{node} has no address in plane {plane}: it is a switch of plane {own}")
    return kind, number
