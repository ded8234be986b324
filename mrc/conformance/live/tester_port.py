# SPDX-License-Identifier: BSD-2-Clause
"""A port of the tester's in one plane: whole IP packets out, as they are made, and whole IP packets in, with the time
they came.

The kernel neither writes nor checks their headers: out they go through a raw socket with headers of our own, in they
come through a packet socket, which sees what arrives at the interface. Sockets that drop everything keep the kernel
from telling the target that nobody is here.
"""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import struct
import time
from collections.abc import Iterable

from mrc.errors import CallerError, SystemRefused
from mrc.fabric.host_view import FabricPort
from mrc.net.filters import DROP_ALL, Instruction, attach_filter
from mrc.net.mtu import ignore_path_mtu
from mrc.net.ports import LOOPBACK, RAW_SOCKET_ADVICE, grow

_SOL_PACKET, _PACKET_IGNORE_OUTGOING = 263, 23
_SO_TIMESTAMPNS = 35
_TIMESPEC = struct.Struct("@qq")
_ETH_P_IP, _ETH_P_IPV6 = 0x0800, 0x86DD
_IPV6_IN_IPV6, _ROUTING = 41, 43
_LONGEST = 1 << 16
_LOAD_BYTE, _JUMP_IF_EQUAL, _RETURN = 0x30, 0x15, 0x06
_NEXT_HEADER = {6: 6, 4: 9}  # where an IP header has it
_DESTINATION = {6: slice(24, 40), 4: slice(16, 20)}
_HEADER = {6: 40, 4: 20}
_UDP_NO_CHECK6_RX = 102


class TesterPort:
    """One port. `uses_usids`: packets have an outer IPv6 header.

    Raises SystemRefused without the privilege for raw sockets, and when interface or address are not there.
    """

    def __init__(self, port: FabricPort, *, uses_usids: bool, udp_ports: tuple[int, ...]) -> None:
        self.plane = port.plane
        self.address = port.address
        self._version = ipaddress.ip_address(port.address).version
        self._sockets: list[socket.socket] = []
        try:
            self._sender = self._opened(*self._raw_kind())
            ignore_path_mtu(self._sender)
            if port.interface != LOOPBACK:
                self._sender.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, port.interface.encode())
            grow(self._sender, "SND")
            self.listener = self._listener(port.interface, uses_usids)
            self._keep_the_kernel_quiet(uses_usids, udp_ports)
        except OSError as error:
            self.close()
            if isinstance(error, PermissionError):
                raise SystemRefused(error.errno, RAW_SOCKET_ADVICE) from None
            raise SystemRefused(
                error.errno, f"port {port.interface} ({port.address}): {error.strerror}; is the fabric up?"
            ) from None

    def _raw_kind(self) -> tuple[int, int, int]:
        return socket.AF_INET6 if self._version == 6 else socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW

    def _opened(self, family: int, kind: int, protocol: int) -> socket.socket:
        opened = socket.socket(family, kind, protocol)
        self._sockets.append(opened)
        return opened

    def _listener(self, interface: str, uses_usids: bool) -> socket.socket:
        ethertype = _ETH_P_IPV6 if self._version == 6 else _ETH_P_IP
        listener = self._opened(socket.AF_PACKET, socket.SOCK_DGRAM, 0)
        wanted = (_IPV6_IN_IPV6, _ROUTING) if uses_usids else (socket.IPPROTO_UDP,)
        attach_filter(listener, _accept_next_headers(_NEXT_HEADER[self._version], wanted))
        if interface != LOOPBACK:
            listener.setsockopt(_SOL_PACKET, _PACKET_IGNORE_OUTGOING, 1)
        listener.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        grow(listener, "RCV")
        listener.setblocking(False)
        listener.bind((interface, ethertype))
        return listener

    def _keep_the_kernel_quiet(self, uses_usids: bool, udp_ports: tuple[int, ...]) -> None:
        if uses_usids:
            for protocol in (_IPV6_IN_IPV6, _ROUTING):
                attach_filter(self._opened(socket.AF_INET6, socket.SOCK_RAW, protocol), DROP_ALL)
            return
        family = socket.AF_INET6 if self._version == 6 else socket.AF_INET
        for udp_port in sorted(set(udp_ports)):
            sink = self._opened(family, socket.SOCK_DGRAM, 0)
            attach_filter(sink, DROP_ALL)
            sink.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                sink.setsockopt(socket.IPPROTO_UDP, _UDP_NO_CHECK6_RX, 1)
            # Another process that has the port keeps the kernel quiet as well.
            with contextlib.suppress(OSError):
                sink.bind((self.address, udp_port))

    def send(self, packet: bytes) -> None:
        """Send a packet that begins with its outermost IP header. Raises OSError; CallerError for a header that the
        first router would drop it for."""
        if len(packet) < _HEADER[self._version] or packet[0] >> 4 != self._version:
            raise CallerError("no router carries a packet without a whole IP header")
        if _told_length(packet, self._version) != len(packet):
            raise CallerError("no router carries a packet that is shorter or longer than its IP header says")
        destination = str(ipaddress.ip_address(packet[_DESTINATION[self._version]]))
        self._sender.sendto(packet, (destination, 0))

    def receive(self) -> list[tuple[int, bytes]]:
        """(when, packet) of all that has come: nanoseconds of CLOCK_MONOTONIC, the packet from its IP header on."""
        found: list[tuple[int, bytes]] = []
        ahead = time.clock_gettime_ns(time.CLOCK_REALTIME) - time.monotonic_ns()
        while True:
            try:
                packet, controls, _, _ = self.listener.recvmsg(_LONGEST, 64)
            except BlockingIOError:
                return found
            at = time.monotonic_ns()
            for level, kind, data in controls:
                if (level, kind) == (socket.SOL_SOCKET, _SO_TIMESTAMPNS):
                    seconds, nanoseconds = _TIMESPEC.unpack(data[: _TIMESPEC.size])
                    at = min(at, seconds * 1_000_000_000 + nanoseconds - ahead)
            found.append((at, packet))

    def close(self) -> None:
        for each in self._sockets:
            each.close()


def open_ports(ports: Iterable[FabricPort], *, uses_usids: bool, udp_ports: tuple[int, ...]) -> list[TesterPort]:
    """All of these, or none. Raises as `TesterPort` does."""
    opened: list[TesterPort] = []
    try:
        for port in ports:
            opened += [TesterPort(port, uses_usids=uses_usids, udp_ports=udp_ports)]
    except BaseException:
        for each in opened:
            each.close()
        raise
    return opened


def _told_length(packet: bytes, version: int) -> int:
    """The length that an IP header says, itself included."""
    if version == 4:
        return int.from_bytes(packet[2:4], "big")
    return _HEADER[6] + int.from_bytes(packet[4:6], "big")


def _accept_next_headers(at: int, wanted: tuple[int, ...]) -> list[Instruction]:
    program: list[Instruction] = [(_LOAD_BYTE, 0, 0, at)]
    program += [(_JUMP_IF_EQUAL, len(wanted) - number, 0, each) for number, each in enumerate(wanted)]
    return [*program, (_RETURN, 0, 0, 0), (_RETURN, 0, 0, 0xFFFFFFFF)]
