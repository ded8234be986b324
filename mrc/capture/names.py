# SPDX-License-Identifier: BSD-2-Clause
"""Words for numbers below the transport, for lines that people read; the protocol's own are in `mrc.wire.names`."""

from __future__ import annotations

from mrc.fabric.address import node_of_usid
from mrc.wire.usid import BLOCK_BITS, USIDS_PER_CONTAINER

IP_PROTOCOLS = {0: "hop-by-hop options", 1: "ICMP", 2: "IGMP", 6: "TCP", 17: "UDP", 44: "fragment", 58: "ICMPv6"}
ETHER_TYPES = {0x0806: "ARP", 0x88CC: "LLDP", 0x8915: "RoCEv1"}

# RFC 9602: the addresses set aside for SRv6 segment identifiers, where our plan's block comes from.
_SID_PREFIX = b"\x5f\x00"
_BLOCK = BLOCK_BITS // 8


def usid_name(usid: int) -> str:
    """What our plan (wire.md section 11) calls a uSID: leaf `p1l0`, spine `p1s3`, port towards a host `p1h1`; else its
    four hex digits."""
    named = node_of_usid(usid)
    if named is None:
        return f"{usid:04x}"
    plane, node = named
    return f"p{plane}{node}" if node.startswith("h") else node


def container_names(address: bytes) -> list[str] | None:
    """The uSIDs left in a container of 16 bytes, by name; None when it is not one of a uSID block (5f00::/16)."""
    if address[:2] != _SID_PREFIX:
        return None
    names = []
    for position in range(_BLOCK, _BLOCK + 2 * USIDS_PER_CONTAINER, 2):
        usid = address[position] << 8 | address[position + 1]
        if not usid:
            break
        names.append(usid_name(usid))
    return names
