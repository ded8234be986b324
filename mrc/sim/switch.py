# SPDX-License-Identifier: BSD-2-Clause
"""Switches: a forwarding function over the ports. In SRv6 mode it is the uSID plan's match and shift."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mrc.sim.link import Egress, SimPacket
from mrc.wire.usid import BLOCK_BITS, USID_BITS, shifted

_USID_MASK = (1 << USID_BITS) - 1
_BLOCK_SHIFT = 128 - BLOCK_BITS
_FIRST_USID_SHIFT = _BLOCK_SHIFT - USID_BITS

# From the packet to the port it leaves by; the function rewrites what the switch rewrites. None: no route.
Forwarding = Callable[[SimPacket], Egress | None]


class UsidForwarding:
    """Matches block and own uSID, shifts, and looks the next uSID up in `routes` (wire.md section 11)."""

    __slots__ = ("_block", "_known", "_own", "_routes")

    def __init__(self, block: int, own_usid: int, routes: Mapping[int, Egress]) -> None:
        self._block = block
        self._own = own_usid
        self._routes = routes
        # Answers already worked out: there are as many as paths through this switch.
        self._known: dict[int, tuple[Egress, int] | None] = {}

    def __call__(self, packet: SimPacket) -> Egress | None:
        destination = packet.destination
        try:
            found = self._known[destination]
        except KeyError:
            found = self._known[destination] = self._look_up(destination)
        if found is None:
            return None
        egress, packet.destination = found
        return egress

    def _look_up(self, destination: int) -> tuple[Egress, int] | None:
        if first_usid(destination) != (self._block, self._own):
            return None
        onward = shifted(destination)
        egress = self._routes.get(first_usid(onward)[1])
        return None if egress is None else (egress, onward)


def first_usid(destination: int) -> tuple[int, int]:
    """(block, first uSID) of an outer destination."""
    return destination >> _BLOCK_SHIFT, destination >> _FIRST_USID_SHIFT & _USID_MASK


class Switch:
    """A leaf or spine. `no_route` counts packets it had no way for."""

    __slots__ = ("forward", "name", "no_route")

    def __init__(self, name: str) -> None:
        self.name = name
        self.forward: Forwarding = lambda packet: None
        self.no_route = 0

    def receive(self, packet: SimPacket) -> None:
        egress = self.forward(packet)
        if egress is None:
            self.no_route += 1
        else:
            egress.accept(packet)
