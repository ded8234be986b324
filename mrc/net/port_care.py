# SPDX-License-Identifier: BSD-2-Clause
"""What becomes of a node's ports while it runs: links go down and come back, interfaces are made again, MTUs change."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Sequence

from mrc.errors import SystemRefused
from mrc.net.driven import Driven
from mrc.net.link_events import LinkChange, LinkWatch
from mrc.net.mmsg import BatchSender
from mrc.net.port_room import PortRoom
from mrc.net.ports import Port


class PortCare:
    """Keeps an endpoint informed of its ports. `links` says what the kernel has told about them."""

    def __init__(self, endpoint: Driven, ports: Sequence[Port], sender: BatchSender) -> None:
        self.links = LinkWatch({port.port: port.interface for port in ports})
        self._ports = {port.port: port for port in ports}
        self._sender = sender
        self.use(endpoint)

    def use(self, endpoint: Driven) -> None:
        """Inform this one from now on."""
        self._endpoint = endpoint
        self._room = PortRoom(endpoint, list(self._ports.values()))

    def look(self, changes: Iterable[LinkChange], now: int) -> None:
        """Between two turns, the endpoint in hand; `changes` are of `links`, `now` in ns. Asks the system only where
        something is wrong. Raises SystemRefused for an interface that was made again and cannot be used."""
        sender = self._sender
        if sender.refused_length:
            sender.refused_length = False
            self._room.on_refused(sender.too_long, now)
            sender.too_long.clear()
        for change in changes:
            if change.made_again:
                self._bind_again(change.port)
            if change.up is not None:
                self._endpoint.set_port(change.port, change.up, now)
            if change.mtu is not None:
                self._room.on_mtu(change.port, change.mtu, now)
        self._room.look(now)

    def _bind_again(self, number: int) -> None:
        port = self._ports[number]
        try:
            port.bind_again()
        except OSError as error:
            # Where it is gone again, it will be heard of again.
            if error.errno != errno.ENODEV:
                raise SystemRefused(
                    error.errno,
                    f"interface {port.interface} was deleted and made again, and cannot be used again: "
                    f"{error.strerror}; start this program again",
                ) from None
