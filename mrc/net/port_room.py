# SPDX-License-Identifier: BSD-2-Clause
"""Whether each port has room for full packets, by its interface's MTU and by what the kernel refuses all the same."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence

from mrc.endpoint.node.local_ports import PortLimit
from mrc.net.driven import Driven
from mrc.net.mtu import interface_mtu
from mrc.net.ports import Port

# A port that refuses what its MTU has room for, as under IPsec, is tried again so much later.
REFUSED_NS = 1_000_000_000


class PortRoom:
    """Notifies an endpoint which ports carry no full packets, and which do again."""

    __slots__ = ("_endpoint", "_limited", "_ports", "_refused")

    def __init__(self, endpoint: Driven, ports: Sequence[Port]) -> None:
        self._endpoint = endpoint
        self._ports = {port.port: port for port in ports}
        self._limited: set[int] = set()
        # Ports that are tried again, and when (ns).
        self._refused: dict[int, int] = {}

    def on_mtu(self, port: int, mtu: int, now: int) -> None:
        """The interface of a port has this MTU, bytes."""
        self._refused.pop(port, None)
        full, interface = self._ports[port].full, self._ports[port].interface
        if mtu >= full.length:
            self._limit_port(port, None, now)
        else:
            self._limit_port(port, PortLimit(mtu - full.headers, f"interface {interface} has MTU {mtu}"), now)

    def on_refused(self, ports: Iterable[int], now: int) -> None:
        """The kernel refused packets on these ports for their length. Its link event may still be on its way."""
        for number in ports:
            port = self._ports[number]
            with contextlib.suppress(OSError):  # the interface is gone; a link event reports it
                mtu, length = interface_mtu(port.sender, port.interface), port.full.length
                if mtu < length:
                    self.on_mtu(number, mtu, now)
                    continue
                self._refused[number] = now + REFUSED_NS
                says = f"interface {port.interface} has MTU {mtu}, but the kernel refuses packets of {length} (IPsec?)"
                self._limit_port(number, PortLimit(0, says), now)

    def look(self, now: int) -> None:
        """Give back the ports that are to be tried again."""
        for port in [port for port, until in self._refused.items() if now >= until]:
            del self._refused[port]
            self._limit_port(port, None, now)

    def _limit_port(self, port: int, limit: PortLimit | None, now: int) -> None:
        if limit is not None or port in self._limited:
            (self._limited.discard if limit is None else self._limited.add)(port)
            self._endpoint.limit_port(port, limit, now)
