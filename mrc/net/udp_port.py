# SPDX-License-Identifier: BSD-2-Clause
"""The sockets of a port in UDP and STEV modes: one raw UDP socket that sends and receives, and sinks behind it.

A raw socket, because each packet's source port carries its EV. It receives too, for what a bound UDP socket keeps
back: the identification and flags of an IPv4 header, which the ICRC covers. Raw sockets are given copies, so a UDP
socket on each accepted port takes the originals and drops them, or the kernel would answer "port unreachable".
"""

from __future__ import annotations

import errno
import ipaddress
import socket
from collections.abc import Iterable, Sequence

from mrc.errors import SystemRefused
from mrc.fabric.host_view import FabricPort
from mrc.net.filters import DROP_ALL, accept_ports, attach_filter
from mrc.net.mtu import FullPackets, ignore_path_mtu
from mrc.net.ports import LOOPBACK, RAW_SOCKET_ADVICE, UDP_IPV4, UDP_IPV6, Framing, bind_to_interface, dropped_by, grow
from mrc.wire.ipv4 import IPV4_HEADER, address_number
from mrc.wire.opcodes import BTH_LENGTH, HEADER_LENGTHS, ICRC_LENGTH, REQUEST_HEADERS

IPV6_HEADER, UDP_HEADER = 40, 8
IPV6_FLOWINFO, IPV6_FLOWINFO_SEND, IPV6_AUTOFLOWLABEL = 11, 33, 70
UDP_NO_CHECK6_RX = 102


class UdpPort:
    """One local port at an IPv4 or IPv6 address: packets to and from it, and the kernel kept quiet.

    `udp_ports` are the destination ports accepted, `full` the longest packets to carry. Raises SystemRefused
    without the privilege for raw sockets, when the address is not this host's, or the interface's MTU is too small.
    """

    __slots__ = (
        "_sinks",
        "framing",
        "full",
        "interface",
        "local_address",
        "port",
        "receive_buffer",
        "receiver",
        "sender",
    )

    def __init__(self, port: int, fabric_port: FabricPort, full: FullPackets, udp_ports: Sequence[int]) -> None:
        self.port = port
        self.full = full
        self.interface = fabric_port.interface
        address = fabric_port.address
        ipv4 = ipaddress.ip_address(address).version == 4
        self.framing: Framing = UDP_IPV4 if ipv4 else UDP_IPV6
        self.local_address = address_number(address).to_bytes(16, "big")
        family = socket.AF_INET if ipv4 else socket.AF_INET6
        self._sinks: list[socket.socket] = []
        try:
            self.sender = self.receiver = socket.socket(family, socket.SOCK_RAW, socket.IPPROTO_UDP)
        except PermissionError as error:
            raise SystemRefused(error.errno, RAW_SOCKET_ADVICE) from None
        try:
            attach_filter(self.receiver, accept_ports(udp_ports, ipv4=ipv4))
            self.bind_again()
            self._bind(address)
            self._set_options(ipv4=ipv4)
            self._sinks += [_sink(family, address, udp_port) for udp_port in sorted(set(udp_ports))]
            full.check_room(self.sender, self.interface)
        except BaseException:
            self.close()
            raise

    def _bind(self, address: str) -> None:
        try:
            self.sender.bind((address, 0))
        except OSError as error:
            raise SystemRefused(
                error.errno, f"{address} cannot be used here ({error.strerror}): is it an address of this host?"
            ) from None

    def _set_options(self, *, ipv4: bool) -> None:
        sock = self.sender
        grow(sock, "SND")
        self.receive_buffer = grow(sock, "RCV")
        sock.setblocking(False)
        ignore_path_mtu(sock)
        if ipv4:
            return
        sock.setsockopt(socket.IPPROTO_IPV6, IPV6_FLOWINFO_SEND, 1)
        # A flow label of 0 is half an EV like any other: the kernel must not choose one instead.
        sock.setsockopt(socket.IPPROTO_IPV6, IPV6_AUTOFLOWLABEL, 0)
        sock.setsockopt(socket.IPPROTO_IPV6, IPV6_FLOWINFO, 1)

    def drops(self) -> int:
        """Packets the kernel dropped because the receive buffer was full."""
        return dropped_by(self.receiver)

    def bind_again(self) -> None:
        """Use the interface of this name as it is now. Raises OSError where it is gone, or CAP_NET_RAW is."""
        # An address on the loopback interface may be reached over any other.
        if self.interface != LOOPBACK:
            bind_to_interface(self.sender, self.interface)

    def close(self) -> None:
        for sock in (self.sender, *self._sinks):
            sock.close()


def full_packets(address: str, path_mtu: int, extensions: Iterable[str] = REQUEST_HEADERS) -> FullPackets:
    """Packets from this address with these headers behind the BTH; the IP header counts."""
    ip = IPV4_HEADER if ipaddress.ip_address(address).version == 4 else IPV6_HEADER
    behind = sum(HEADER_LENGTHS[name] for name in extensions)
    return FullPackets(path_mtu, ip + UDP_HEADER + BTH_LENGTH + behind + ICRC_LENGTH)


def _sink(family: socket.AddressFamily, address: str, udp_port: int) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_DGRAM)
    try:
        attach_filter(sock, DROP_ALL)
        # Several processes may share an address: each has a raw socket, and drops what is not for its QPs.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_UDP, UDP_NO_CHECK6_RX, 1)
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind((address, udp_port))
    except OSError as error:
        sock.close()
        # Where another program has the port no "port unreachable" goes out either, and our copies come all the same.
        if error.errno != errno.EADDRINUSE:
            raise SystemRefused(error.errno, f"UDP port {udp_port} of {address}: {error.strerror}") from None
    return sock
