# SPDX-License-Identifier: BSD-2-Clause
"""uSID blocks: the first 32 bits of every uSID address of a fabric."""

from __future__ import annotations

import ipaddress

from mrc.errors import CallerError
from mrc.wire.usid import BLOCK_BITS

# The first 32 bits of the plain addresses of all nodes.
PLAIN_BLOCK = 0xFD4D5243
# Unicast addresses below fe00::/8.
_LEAST_BLOCK, _MOST_BLOCK = 0x20000000, 0xFDFFFFFF


def check_block(block: int) -> None:
    """Raises CallerError for a block that a fabric cannot have."""
    if not _LEAST_BLOCK <= block <= _MOST_BLOCK or block == PLAIN_BLOCK:
        raise CallerError(
            f"block must be a /32 from 2000::/32 to fdff:ffff::/32 other than fd4d:5243::/32 "
            f"(the plain addresses), such as 5f00:0::/32, got {block:#010x}"
        )


def parse_block(text: str) -> int:
    """The 32-bit number of a uSID block written as an IPv6 prefix: `5f00:0::/32`. Raises CallerError."""
    try:
        network = ipaddress.IPv6Network(text)
    except ValueError as error:
        raise CallerError(f"{text!r} is not an IPv6 prefix of 32 bits such as 5f00:0::/32: {error}") from None
    if network.prefixlen != BLOCK_BITS:
        raise CallerError(f"{text!r} is not an IPv6 prefix of 32 bits such as 5f00:0::/32")
    return int(network.network_address) >> 128 - BLOCK_BITS


def block_text(block: int) -> str:
    """A uSID block as a prefix: `5f00::/32`."""
    return f"{ipaddress.IPv6Address(block << 128 - BLOCK_BITS)}/{BLOCK_BITS}"
