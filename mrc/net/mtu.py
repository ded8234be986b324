# SPDX-License-Identifier: BSD-2-Clause
"""What leaves whole: full packets, the MTU of an interface, and no path MTU learned from ICMP."""

from __future__ import annotations

import errno
import socket
import struct
from fcntl import ioctl

from mrc.endpoint.node.local_ports import advice
from mrc.errors import SystemRefused
from mrc.records import record

_SIOCGIFMTU = 0x8921
# linux/in.h, linux/in6.h; the two values of PROBE are the same.
_IP_MTU_DISCOVER, _IPV6_MTU_DISCOVER, _PROBE = 10, 23, 3


def ignore_path_mtu(sock: socket.socket) -> None:
    """Let only the interface's MTU limit what an IPv4 or IPv6 socket sends. For every socket that sends MRC packets.

    ICMP errors are not authenticated: after a forged "packet too big" the kernel would refuse or fragment full packets
    for ten minutes (docs/security.md). IPv4 packets keep "don't fragment", so their identification is 0 (MRC-ICRC-04).
    """
    if sock.family == socket.AF_INET6:
        sock.setsockopt(socket.IPPROTO_IPV6, _IPV6_MTU_DISCOVER, _PROBE)
    else:
        sock.setsockopt(socket.IPPROTO_IP, _IP_MTU_DISCOVER, _PROBE)


def interface_mtu(sock: socket.socket, interface: str) -> int:
    """The MTU of an interface in bytes, asked through any socket of its namespace. Raises OSError without one."""
    request = struct.pack("16si12x", interface.encode(), 0)
    (mtu,) = struct.unpack_from("i", ioctl(sock.fileno(), _SIOCGIFMTU, request), 16)
    return int(mtu)


@record(frozen=True, slots=True)
class FullPackets:
    """The longest packets a port is to carry: `path_mtu` bytes of payload, `headers` bytes of all that goes with it."""

    path_mtu: int
    headers: int

    @property
    def length(self) -> int:
        return self.headers + self.path_mtu

    def check_room(self, sock: socket.socket, interface: str) -> None:
        """Raises SystemRefused when the MTU of the interface has no room for them, OSError without the interface."""
        mtu = interface_mtu(sock, interface)
        if mtu < self.length:
            raise SystemRefused(
                errno.EMSGSIZE,
                f"interface {interface} has MTU {mtu}, and packets with a path MTU of {self.path_mtu} take "
                f"{self.length}: {advice(mtu - self.headers)}",
            )
