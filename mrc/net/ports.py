# SPDX-License-Identifier: BSD-2-Clause
"""What the loop needs of a local port, whatever carries its packets."""

from __future__ import annotations

import contextlib
import socket
from typing import Protocol

from mrc.net.mtu import FullPackets
from mrc.records import record
from mrc.wire.ipv4 import IPV4_AT
from mrc.wire.rows import UDP_AT
from mrc.wire.srh import SRH_LENGTH

LOOPBACK = "lo"
SO_MEMINFO = 55
_MEMINFO_RMEM_ALLOC, _MEMINFO_DROPS = 0, 8
WANTED_BUFFER = 64 * 1024 * 1024
# What a full packet takes of a receive buffer: the kernel rounds up to 8 KiB and adds its own record of it.
PACKET_BUFFER_BYTES = 9 * 1024
# A full window of 1,024 packets takes about that.
NEEDED_BUFFER = 8 * 1024 * 1024
RAW_SOCKET_ADVICE = "raw sockets need root or CAP_NET_RAW: use sudo, or a lab inside `mrc lab shell`"


@record(frozen=True, slots=True)
class Framing:
    """Which part of a batch's row a socket is given and gives, and what of an IP header goes in front of it.

    `send_from` and `receive_at` are byte offsets in the row, below 0 for what comes before it. `outer`: an outer IPv6
    header goes in front of the row, with `srh` and a segment routing header. Otherwise the kernel writes the IP header,
    and `class_level` and `class_type` name the control message that sets a packet's traffic class.
    """

    send_from: int
    receive_at: int
    class_level: int = 0
    class_type: int = 0
    outer: bool = False
    srh: bool = False


# Both IPv6 headers are ours; the kernel takes off the outer one.
SRV6 = Framing(0, 0, outer=True)
SRV6_SRH = Framing(0, -SRH_LENGTH, outer=True, srh=True)
# The kernel writes the IP header. Raw IPv6 sockets keep it to themselves, raw IPv4 sockets give it back.
UDP_IPV6 = Framing(UDP_AT, UDP_AT, socket.IPPROTO_IPV6, socket.IPV6_TCLASS)
UDP_IPV4 = Framing(UDP_AT, IPV4_AT, socket.IPPROTO_IP, socket.IP_TOS)


class Port(Protocol):
    """One local port: the sockets of one plane. `local_address` in 16 bytes, an IPv4-mapped one for IPv4."""

    @property
    def port(self) -> int: ...
    @property
    def interface(self) -> str: ...
    @property
    def framing(self) -> Framing: ...
    @property
    def full(self) -> FullPackets:
        """The longest packets it is to carry."""
        ...

    @property
    def local_address(self) -> bytes: ...
    @property
    def sender(self) -> socket.socket: ...
    @property
    def receiver(self) -> socket.socket: ...
    @property
    def receive_buffer(self) -> int:
        """Bytes the kernel keeps for packets not taken yet."""
        ...

    def drops(self) -> int:
        """Packets the kernel dropped because the receive buffer was full."""
        ...

    def bind_again(self) -> None:
        """Use the interface of this name as it is now. Raises OSError where it is gone, or CAP_NET_RAW is."""
        ...

    def close(self) -> None: ...


def bind_to_interface(sock: socket.socket, interface: str) -> None:
    """Let a socket use this interface alone. The kernel keeps its index: an interface that is made again under its name
    is another one, and nothing passes the socket until it is bound again. Raises OSError."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, interface.encode())


def dropped_by(sock: socket.socket) -> int:
    """Packets dropped because this socket's receive buffer was full."""
    return _memory_figure(sock, _MEMINFO_DROPS)


def waiting_in(sock: socket.socket) -> int:
    """Bytes of this socket's receive buffer that packets take which wait to be read."""
    return _memory_figure(sock, _MEMINFO_RMEM_ALLOC)


def _memory_figure(sock: socket.socket, which: int) -> int:
    info = sock.getsockopt(socket.SOL_SOCKET, SO_MEMINFO, 4 * (_MEMINFO_DROPS + 1))
    return int.from_bytes(info[4 * which : 4 * which + 4], "little")


def grow(sock: socket.socket, which: str) -> int:
    """Make a socket buffer (`SND` or `RCV`) as large as allowed. Returns the bytes it has."""
    force = getattr(socket, f"SO_{which}BUFFORCE", 33 if which == "RCV" else 32)
    plain = getattr(socket, f"SO_{which}BUF")
    try:
        sock.setsockopt(socket.SOL_SOCKET, force, WANTED_BUFFER)
    except PermissionError:
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, plain, WANTED_BUFFER)
    return sock.getsockopt(socket.SOL_SOCKET, plain)
