"""The sockets of a port in SRv6 mode: raw IPv6 sockets for next header 41.

The kernel writes the outer IPv6 header; the packet's uSID address is simply the destination of the message.
"""

from __future__ import annotations

import errno
import ipaddress
import socket

from mrc.errors import SystemRefused
from mrc.net.ports import RAW_SOCKET_ADVICE, SRV6, Framing, dropped_by, grow, interface_mtu
from mrc.topology.fabric import FabricPort

IPPROTO_IPV6_IN_IPV6 = 41


class Srv6Port:
    """One local port: a socket to send from its address, one to receive what the fabric brings to it.

    Two, because a raw socket bound to the port's plain address would not be given packets for its uSID address.
    Raises SystemRefused without the privilege for raw sockets, or when the interface is missing.
    """

    __slots__ = ("interface", "local_address", "port", "receive_buffer", "receiver", "sender")
    framing: Framing = SRV6

    def __init__(self, port: int, fabric_port: FabricPort, mtu: int) -> None:
        self.port = port
        self.interface = fabric_port.interface
        self.local_address = ipaddress.IPv6Address(fabric_port.address).packed
        self.sender = _raw_socket(self.interface)
        try:
            self.receiver = _raw_socket(self.interface)
        except BaseException:
            self.sender.close()
            raise
        try:
            self.sender.bind((fabric_port.address, 0))
            # Nothing is addressed to the sending socket; keep what strays there from filling memory.
            self.sender.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 0)
            grow(self.sender, "SND")
            self.receive_buffer = grow(self.receiver, "RCV")
            self.receiver.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVTCLASS, 1)
            self.receiver.setblocking(False)
            self._check_mtu(mtu)
        except OSError as error:
            self.close()
            if isinstance(error, SystemRefused):
                raise
            raise SystemRefused(
                error.errno, f"port {self.interface} ({fabric_port.address}): {error.strerror}; is the fabric up?"
            ) from None

    def _check_mtu(self, mtu: int) -> None:
        # The kernel fragments what is too long without a word, even when told not to: so look once.
        actual = interface_mtu(self.sender, self.interface)
        if actual < mtu:
            raise SystemRefused(
                errno.EMSGSIZE,
                f"interface {self.interface} has MTU {actual}, packets here take {mtu}: raise it or lower --mtu",
            )

    def drops(self) -> int:
        """Packets the kernel dropped because the receive buffer was full."""
        return dropped_by(self.receiver)

    def close(self) -> None:
        self.sender.close()
        self.receiver.close()


def _raw_socket(interface: str) -> socket.socket:
    try:
        sock = socket.socket(socket.AF_INET6, socket.SOCK_RAW, IPPROTO_IPV6_IN_IPV6)
    except PermissionError as error:
        raise SystemRefused(error.errno, RAW_SOCKET_ADVICE) from None
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, interface.encode())
    except OSError as error:
        sock.close()
        raise SystemRefused(
            error.errno, f"no interface {interface!r} here: is MRC_FABRIC the description of this host?"
        ) from None
    return sock
