# SPDX-License-Identifier: BSD-2-Clause
"""How large a path MTU the links of a fabric have room for."""

from __future__ import annotations

from mrc.fabric.shape import Shape

PATH_MTUS = (256, 512, 1024, 2048, 4096)


def largest_path_mtu(topology: Shape) -> int:
    """The largest path MTU whose packets, with every header the mode adds, fit the links' MTU. Bytes of payload."""
    headers = _headers(topology.mode)
    return max(mtu for mtu in PATH_MTUS if mtu + headers <= topology.mtu)


def _headers(mode: str) -> int:
    from mrc.wire.opcodes import HEADER_LENGTHS, ICRC_LENGTH, REQUEST_HEADERS
    from mrc.wire.rows import EXTENSION_AT, HEADER_ROOM, UDP_AT
    from mrc.wire.srh import SRH_LENGTH

    if mode in ("srv6", "srv6-srh"):
        # What an endpoint asks for before it sends: the outer header, and all the room it keeps for the inner ones.
        return UDP_AT + HEADER_ROOM + (SRH_LENGTH if mode == "srv6-srh" else 0)
    return EXTENSION_AT + sum(HEADER_LENGTHS[name] for name in REQUEST_HEADERS) + ICRC_LENGTH
