# SPDX-License-Identifier: BSD-2-Clause
"""Forged ICMP errors of every kind, with what they quote: a real packet, as on the path, or a guess, as off it."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import ip_address

ICMPV6, ICMP, TCP, UDP, IPV6_IN_IPV6, ROUTING = 58, 1, 6, 17, 41, 43
MRC_PORT = 4791
_SOURCE_PORT = 0xC123  # an EV's low half
# RFC 4443 section 2.4 (c): as much as fits the least IPv6 MTU. RFC 1812 section 4.3.2.3: no more than 576 bytes.
_MOST_QUOTED = {6: 1280 - 40 - 8, 4: 576 - 20 - 8}


@dataclass(frozen=True)
class Kind:
    """One ICMP error. `rest` is what follows the checksum: an MTU, a pointer, a gateway."""

    name: str
    version: int
    type: int
    code: int
    rest: bytes = bytes(4)


def _mtu6(mtu: int) -> bytes:
    return struct.pack("!I", mtu)


def _mtu4(mtu: int) -> bytes:
    return struct.pack("!HH", 0, mtu)


# RFC 4443 section 3; RFC 4861 section 4.5 for the redirect is in `redirect6`.
KINDS6 = (
    *(Kind(f"destination unreachable, code {code}", 6, 1, code) for code in range(8)),
    *(Kind(f"packet too big, MTU {mtu}", 6, 2, 0, _mtu6(mtu)) for mtu in (1280, 68, 0)),
    *(Kind(f"time exceeded, code {code}", 6, 3, code) for code in range(2)),
    *(Kind(f"parameter problem, code {code}", 6, 4, code, _mtu6(6)) for code in range(3)),
)
# RFC 792, RFC 1191 and RFC 1812 section 5.2.7.1.
KINDS4 = (
    *(Kind(f"destination unreachable, code {code}", 4, 3, code) for code in range(16) if code != 4),
    *(Kind(f"fragmentation needed, MTU {mtu}", 4, 3, 4, _mtu4(mtu)) for mtu in (576, 68, 0)),
    Kind("source quench", 4, 4, 0),
    *(Kind(f"time exceeded, code {code}", 4, 11, code) for code in range(2)),
    *(Kind(f"parameter problem, code {code}", 4, 12, code, bytes([9, 0, 0, 0])) for code in range(3)),
)
TOO_BIG = {
    6: Kind("packet too big", 6, 2, 0, _mtu6(1280)),
    4: Kind("fragmentation needed", 4, 3, 4, _mtu4(576)),
}


def redirects4(gateway: str) -> Iterator[Kind]:
    """Redirects to another gateway (RFC 792)."""
    for code in range(4):
        yield Kind(f"redirect, code {code}", 4, 5, code, ip_address(gateway).packed)


def redirect6(target: str, destination: str) -> Kind:
    """A redirect to another neighbour (RFC 4861 section 4.5); the option with the quote is left out."""
    rest = bytes(4) + ip_address(target).packed + ip_address(destination).packed
    return Kind("redirect", 6, 137, 0, rest)


def error(kind: Kind, source: str, destination: str, quote: bytes, *, hops: int = 64) -> bytes:
    """The whole packet of an error from `source` to `destination`, IP header first."""
    message = bytes([kind.type, kind.code, 0, 0]) + kind.rest + quote[: _MOST_QUOTED[kind.version]]
    if kind.version == 4:
        return ipv4(ICMP, source, destination, _summed(message, b""), hops=hops)
    ends = ip_address(source).packed + ip_address(destination).packed
    return ipv6(ICMPV6, source, destination, _summed(message, ends + struct.pack("!I3xB", len(message), ICMPV6)), hops)


def guesses(local: str, remote: str) -> dict[str, bytes]:
    """What somebody off the path can make up that `local` might have sent to `remote`. The last is what the kernel
    believes without asking any socket."""
    udp = struct.pack("!HHHH", MRC_PORT, MRC_PORT, 4000, 0)
    other_udp = struct.pack("!HHHH", _SOURCE_PORT, MRC_PORT, 4000, 0)
    if ip_address(local).version == 4:
        return {
            "UDP of an EV": ipv4(UDP, local, remote, other_udp),
            "UDP of port 4791": ipv4(UDP, local, remote, udp),
            "an echo request": ipv4(ICMP, local, remote, bytes([8, 0, 0, 0, 0, 1, 0, 1])),
        }
    inner = ipv6(UDP, local, remote, other_udp + bytes(8))
    return {
        "IPv6 in IPv6": ipv6(IPV6_IN_IPV6, local, remote, inner),
        "a routing header": ipv6(ROUTING, local, remote, bytes([IPV6_IN_IPV6, 2, 4, 0]) + bytes(20) + inner),
        "UDP of an EV": ipv6(UDP, local, remote, other_udp + bytes(8)),
        "UDP of port 4791": ipv6(UDP, local, remote, udp + bytes(8)),
        "an echo request": ipv6(ICMPV6, local, remote, bytes([128, 0, 0, 0, 0, 1, 0, 1])),
    }


def ipv6(next_header: int, source: str, destination: str, body: bytes, hops: int = 64) -> bytes:
    ends = ip_address(source).packed + ip_address(destination).packed
    return struct.pack("!IHBB", 6 << 28, len(body), next_header, hops) + ends + body


def ipv4(protocol: int, source: str, destination: str, body: bytes, *, hops: int = 64) -> bytes:
    """With "don't fragment" and its checksum."""
    ends = ip_address(source).packed + ip_address(destination).packed
    head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(body), 0, 0x4000, hops, protocol, 0) + ends
    return head[:10] + _sum(head).to_bytes(2, "big") + head[12:] + body


def _summed(message: bytes, pseudo: bytes) -> bytes:
    return message[:2] + _sum(pseudo + message).to_bytes(2, "big") + message[4:]


def _sum(content: bytes) -> int:
    """The Internet checksum (RFC 1071)."""
    total = sum(struct.unpack(f"!{(len(content) + 1) // 2}H", content + bytes(len(content) % 2)))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


class Forger:
    """Sends whole packets of somebody else's from the namespace it is made in."""

    def __init__(self) -> None:
        self._sockets = {
            6: socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_RAW),
            4: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW),
        }

    def send(self, packet: bytes, interface: str = "") -> None:
        version = packet[0] >> 4
        destination = packet[24:40] if version == 6 else packet[16:20]
        if interface:
            self._sockets[version].setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, interface.encode())
        self._sockets[version].sendto(packet, (str(ip_address(destination)), 0))

    def close(self) -> None:
        for each in self._sockets.values():
            each.close()
