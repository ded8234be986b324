# SPDX-License-Identifier: BSD-2-Clause
"""The lab's numbers: MACs, link-local addresses, prefixes of uSIDs, names of interfaces."""

from __future__ import annotations

from mrc.fabric import Link
from mrc.wire.usid import BLOCK_BITS, USID_BITS, address_text, container

USID_PREFIX = BLOCK_BITS + USID_BITS
# Nibble 1 and the plane's nibble of a leaf's uSID: all leaves of one plane.
PLANE_LEAVES_PREFIX = BLOCK_BITS + 8


def mac(number: int, upper: bool) -> str:
    """A locally administered address that names its cable: 02:4d:52, link number, end (1 lower, 2 upper)."""
    return f"02:4d:52:{number >> 8:02x}:{number & 0xFF:02x}:{1 + upper:02x}"


def link_local(number: int, upper: bool) -> str:
    return f"fe80::{number + 1:x}:{1 + upper}"


def usid_prefix(block: int, usid: int, length: int = USID_PREFIX) -> str:
    """What is routed to one uSID, or with a shorter length to a range of them."""
    return f"{address_text(container(block, (usid,)))}/{length}"


def block_prefix(block: int) -> str:
    """Every address with our block."""
    return f"{address_text(container(block, ()))}/{BLOCK_BITS}"


def interface_name(link: Link, node: str) -> str:
    """What `node` calls its end of `link`: a host names the plane (`p0`), a switch its neighbour (`h0`, `p0s1`)."""
    if node != link.lower:
        return link.lower
    return f"p{link.plane}" if link.is_host_link else link.upper
