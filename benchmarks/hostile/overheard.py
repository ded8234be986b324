# SPDX-License-Identifier: BSD-2-Clause
"""What an attacker on the path knows: a request and a SACK of the QP, taken off a host's port."""

from __future__ import annotations

import socket
import time
from dataclasses import dataclass

from mrc.errors import PeerError
from mrc.lab import Lab
from mrc.wire.opcodes import REQUEST_OPCODES, Op
from mrc.wire.rows import BTH_AT, UDP_AT

_ETH_P_ALL = 3
_IPPROTO_IPV6 = 41
_PATIENCE_S = 20.0


@dataclass(frozen=True, slots=True)
class Overheard:
    """Inner packets, from the IPv6 header to the ICRC: what the sender sends and what the receiver answers."""

    request: bytes
    sack: bytes


def overhear(lab: Lab, node: str, interface: str) -> Overheard:
    """A request and a SACK as they pass `interface` of `node`. Raises PeerError when none do."""

    def opened() -> socket.socket:
        sock = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 0)
        sock.bind((interface, _ETH_P_ALL))
        return sock

    request = sack = b""
    by = time.monotonic() + _PATIENCE_S
    with lab.inside(node, opened) as listening:
        listening.settimeout(1.0)
        while not (request and sack):
            if time.monotonic() >= by:
                raise PeerError(f"no MRC packets pass {interface} of {node}: is anything being written?")
            try:
                frame = listening.recv(65536)
            except TimeoutError:
                continue
            inner = frame[UDP_AT:]
            if len(inner) <= BTH_AT or frame[6] != _IPPROTO_IPV6:
                continue
            if inner[BTH_AT] in REQUEST_OPCODES:
                request = inner
            elif inner[BTH_AT] == Op.SACK:
                sack = inner
    return Overheard(request, sack)
