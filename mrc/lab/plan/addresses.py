"""The lab's numbers: which MAC, link-local, plain and uSID address is whose, and what an interface is called."""

from __future__ import annotations

import ipaddress

from mrc.fabric import Link
from mrc.fabric.clos import parse_switch
from mrc.wire.usid import BLOCK_BITS, USID_BITS, address_text, container

USID_PREFIX = BLOCK_BITS + USID_BITS
# Nibble 1 and the plane's nibble of a leaf's uSID: all leaves of one plane.
PLANE_LEAVES_PREFIX = BLOCK_BITS + 8
# All plain addresses.
PLAIN = "fd4d:5243::/32"


def mac(number: int, upper: bool) -> str:
    """A locally administered address that names its cable: 02:4d:52, link number, end (1 lower, 2 upper)."""
    return f"02:4d:52:{number >> 8:02x}:{number & 0xFF:02x}:{1 + upper:02x}"


def link_local(number: int, upper: bool) -> str:
    return f"fe80::{number + 1:x}:{1 + upper}"


def _plain(plane: int, tier: int, number: int) -> str:
    return str(ipaddress.IPv6Address(f"fd4d:5243:{plane:x}:{tier:x}::{number:x}"))


def host_address(plane: int, host: int) -> str:
    """A host's plain (inner) IPv6 address in one plane: `fd4d:5243:PLANE::HOST+1`, both hexadecimal."""
    return _plain(plane, 0, host + 1)


def leaf_address(plane: int, leaf: int) -> str:
    return _plain(plane, 1, leaf + 1)


def spine_address(plane: int, spine: int) -> str:
    return _plain(plane, 2, spine + 1)


def plane_prefix(plane: int) -> str:
    """All plain addresses of one plane."""
    return f"fd4d:5243:{plane:x}::/48"


def hosts_prefix(plane: int) -> str:
    """The plain addresses of all hosts in one plane."""
    return f"fd4d:5243:{plane:x}::/64"


def leaves_prefix(plane: int) -> str:
    return f"fd4d:5243:{plane:x}:1::/64"


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
    return link.upper if link.lower[0] == "p" else f"p{parse_switch(link.upper)[0]}"
