# SPDX-License-Identifier: BSD-2-Clause
"""The sockets of a port in SRv6 mode: raw IPv6 sockets for next header 41, or 43 with a segment routing header.

Packets leave with their outer IPv6 header written (mrc.net.outer); the kernel finds the way to the destination of the
message, the packet's uSID address. It takes the outer header off what arrives. A routing header is part of what we are
given: one that the kernel takes off itself leaves an ordinary packet behind, without its outer header.
"""

from __future__ import annotations

import ipaddress
import socket

from mrc.errors import SystemRefused
from mrc.fabric.host_view import FabricPort
from mrc.net.filters import accept_srh, attach_filter
from mrc.net.mtu import FullPackets, ignore_path_mtu
from mrc.net.ports import RAW_SOCKET_ADVICE, SRV6, SRV6_SRH, Framing, bind_to_interface, dropped_by, grow
from mrc.wire.srh import IPV6_IN_IPV6, ROUTING

_IPV6_HDRINCL = 36


class Srv6Port:
    """One local port: a socket to send from its address, one to receive what the fabric brings to it.

    Two, because a raw socket bound to the port's plain address would not be given packets for its uSID address.
    Raises SystemRefused without the privilege for raw sockets, or when the interface is missing.
    """

    __slots__ = ("framing", "full", "interface", "local_address", "port", "receive_buffer", "receiver", "sender")

    def __init__(self, port: int, fabric_port: FabricPort, full: FullPackets, *, srh: bool = False) -> None:
        """`full`: outer headers count among the headers. `srh`: with a segment routing header."""
        self.port = port
        self.full = full
        self.framing: Framing = SRV6_SRH if srh else SRV6
        protocol = ROUTING if srh else IPV6_IN_IPV6
        self.interface = fabric_port.interface
        self.local_address = ipaddress.IPv6Address(fabric_port.address).packed
        self.sender = _raw_socket(self.interface, protocol)
        try:
            self.receiver = _raw_socket(self.interface, protocol)
        except BaseException:
            self.sender.close()
            raise
        try:
            self.sender.bind((fabric_port.address, 0))
            self.sender.setsockopt(socket.IPPROTO_IPV6, _IPV6_HDRINCL, 1)
            ignore_path_mtu(self.sender)
            # Nothing is addressed to the sending socket; keep what strays there from filling memory.
            self.sender.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 0)
            grow(self.sender, "SND")
            self.receive_buffer = grow(self.receiver, "RCV")
            if srh:
                attach_filter(self.receiver, accept_srh())
            self.receiver.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVTCLASS, 1)
            self.receiver.setblocking(False)
            # What is too long is refused when it is sent (EMSGSIZE): say so before.
            full.check_room(self.sender, self.interface)
        except OSError as error:
            self.close()
            if isinstance(error, SystemRefused):
                raise
            raise SystemRefused(
                error.errno, f"port {self.interface} ({fabric_port.address}): {error.strerror}; is the fabric up?"
            ) from None

    def drops(self) -> int:
        """Packets the kernel dropped because the receive buffer was full."""
        return dropped_by(self.receiver)

    def bind_again(self) -> None:
        """Use the interface of this name as it is now. Raises OSError where it is gone, or CAP_NET_RAW is."""
        for each in (self.sender, self.receiver):
            bind_to_interface(each, self.interface)

    def close(self) -> None:
        self.sender.close()
        self.receiver.close()


def _raw_socket(interface: str, protocol: int) -> socket.socket:
    try:
        sock = socket.socket(socket.AF_INET6, socket.SOCK_RAW, protocol)
    except PermissionError as error:
        raise SystemRefused(error.errno, RAW_SOCKET_ADVICE) from None
    try:
        bind_to_interface(sock, interface)
    except OSError as error:
        sock.close()
        raise SystemRefused(
            error.errno, f"no interface {interface!r} here: is MRC_FABRIC the description of this host?"
        ) from None
    return sock
