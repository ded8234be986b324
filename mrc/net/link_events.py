# SPDX-License-Identifier: BSD-2-Clause
"""Carrier and MTU of local ports as they change, by the kernel's events: within a fraction of a millisecond."""

from __future__ import annotations

import fcntl
import socket
import struct
from typing import NamedTuple

from mrc import netlink
from mrc.net.mtu import interface_mtu

RTMGRP_LINK = 1
RTM_NEWLINK, RTM_DELLINK = 16, 17
IFF_UP, IFF_RUNNING = 0x1, 0x40
SIOCGIFFLAGS, SIOCGIFINDEX = 0x8913, 0x8933


class LinkChange(NamedTuple):
    """What changed of a port: whether it is `up`, the MTU of its interface (bytes), or both. None: that did not.

    `made_again`: the interface was deleted, and there is another of its name.
    """

    port: int
    up: bool | None
    mtu: int | None
    made_again: bool = False


class LinkWatch:
    """A netlink socket that hears of every link change in this namespace. `interfaces` names each local port's."""

    __slots__ = ("_index_of_port", "_ioctl", "_look_again", "_mtu", "_names", "_socket", "_up")

    def __init__(self, interfaces: dict[int, str]) -> None:
        # Several ports may share an interface: one address each.
        self._index_of_port = {port: socket.if_nametoindex(name) for port, name in interfaces.items()}
        # What was last reported; ports are taken to be up until the first look says otherwise.
        self._up = dict.fromkeys(interfaces, True)
        self._mtu = dict.fromkeys(interfaces, 0)
        self._names = dict(interfaces)
        self._look_again = True
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
        self._socket.bind((0, RTMGRP_LINK))
        self._socket.setblocking(False)
        self._ioctl = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)

    def fileno(self) -> int:
        return self._socket.fileno()

    def changes(self) -> list[LinkChange]:
        """What changed since the last call; the first reports every port's MTU."""
        changed: list[LinkChange] = []
        if self._look_again:
            self._look_again = False
            changed += self._states()
        while True:
            try:
                data = self._socket.recv(65536)
            except BlockingIOError:
                return changed
            except OSError:
                # Events were lost to an overflow: ask how things stand.
                changed += self._states()
                continue
            for kind, _, _, body in netlink.messages(data):
                if kind in (RTM_NEWLINK, RTM_DELLINK):
                    _, _, index, flags, _ = netlink.LINK.unpack_from(body)
                    again = self._made_again(index) if kind == RTM_NEWLINK else set()
                    for port in [port for port, its in self._index_of_port.items() if its == index]:
                        changed += self._change_of(port, kind == RTM_NEWLINK and _is_up(flags), port in again)

    def _made_again(self, index: int) -> set[int]:
        """The ports whose interface has this index now, and had another."""
        if index in self._index_of_port.values():
            return set()
        return {port for port in self._names if self._index_now(port) == index and self._follow(port)}

    def _index_now(self, port: int) -> int:
        try:
            request = fcntl.ioctl(
                self._ioctl.fileno(), SIOCGIFINDEX, struct.pack("16si20x", self._names[port].encode(), 0)
            )
        except OSError:
            return 0  # the interface is gone
        return int(struct.unpack_from("i", request, 16)[0])

    def _follow(self, port: int) -> bool:
        """Watch the interface that has the port's name now. Returns whether it is another one."""
        index = self._index_now(port)
        if index in (0, self._index_of_port[port]):
            return False
        self._index_of_port[port] = index
        return True

    def _states(self) -> list[LinkChange]:
        """Every port whose state is not what was last reported."""
        changed = []
        for port, name in self._names.items():
            request = struct.pack("16sH14x", name.encode(), 0)
            try:
                (flags,) = struct.unpack_from("H", fcntl.ioctl(self._ioctl.fileno(), SIOCGIFFLAGS, request), 16)
            except OSError:
                flags = 0  # the interface is gone
            changed += self._change_of(port, _is_up(flags), self._follow(port))
        return changed

    def _change_of(self, port: int, up: bool, made_again: bool) -> list[LinkChange]:
        try:
            mtu = interface_mtu(self._ioctl, self._names[port])
        except OSError:
            mtu = self._mtu[port]  # the interface is gone
        if (self._up[port], self._mtu[port]) == (up, mtu) and not made_again:
            return []
        now_up, now_mtu = up if self._up[port] != up else None, mtu if self._mtu[port] != mtu else None
        change = LinkChange(port, now_up, now_mtu, made_again)
        self._up[port], self._mtu[port] = up, mtu
        return [change]

    def close(self) -> None:
        self._socket.close()
        self._ioctl.close()


def _is_up(flags: int) -> bool:
    return flags & (IFF_UP | IFF_RUNNING) == IFF_UP | IFF_RUNNING
