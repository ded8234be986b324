# SPDX-License-Identifier: BSD-2-Clause
"""Packets along chosen paths in every forwarding mode, and what the fabric does with them."""

from __future__ import annotations

import ipaddress
import socket
import struct
from collections.abc import Iterable, Sequence
from contextlib import suppress

from lab_wire import IPPROTO_IPV6, Tap, Wire, arrived, inner_packet, usid_address

from mrc.lab import Lab

ROUTING = 43
_UDP_NO_CHECK6_RX = 102
_SO_RCVBUFFORCE = 33
_IPV6_FLOWINFO_SEND, _IPV6_AUTOFLOWLABEL = 33, 70
# The kernel's counters of ICMPv6 errors sent: no way there, too many hops, a header nobody takes.
_ERRORS = ("Icmp6OutDestUnreachs", "Icmp6OutTimeExcds", "Icmp6OutParmProblems", "Icmp6OutPktTooBigs")


def stev_ev(plane: int, spine: int) -> int:
    """By hand from wire.md section 10: the first field, 8 bits, names the spine; no switch reads the rest."""
    return spine << 24 | plane


def udp_packet(source_port: int, payload: bytes) -> bytes:
    return struct.pack("!HHHH", source_port, 4791, 8 + len(payload), 0) + payload


def _sink() -> socket.socket:
    sock = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    sock.setsockopt(socket.IPPROTO_UDP, _UDP_NO_CHECK6_RX, 1)
    sock.bind(("::", 4791))
    return sock


class Host:
    """A host's raw sockets: packets out on a path of the lab's mode, and what arrives for it."""

    def __init__(self, wire: Wire, name: str) -> None:
        self.lab, self.number, self.fence = wire.lab, int(name[1:]), wire.fence
        protocol = {"srv6": IPPROTO_IPV6, "srv6-srh": ROUTING}.get(self.lab.topology.mode, socket.IPPROTO_UDP)
        self.socket = self.lab.inside(name, lambda: socket.socket(socket.AF_INET6, socket.SOCK_RAW, protocol))
        self.socket.setsockopt(socket.IPPROTO_IPV6, _IPV6_FLOWINFO_SEND, 1)
        # A flow label of 0 is meant.
        self.socket.setsockopt(socket.IPPROTO_IPV6, _IPV6_AUTOFLOWLABEL, 0)
        # All of a test's packets fit.
        with suppress(PermissionError):  # in a user namespace
            self.socket.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, 1 << 20)
        wire.keep(self.socket)
        if protocol == socket.IPPROTO_UDP:
            # Somebody has to have the port, or the kernel says that nobody has.
            wire.keep(self.lab.inside(name, _sink))

    def send(self, to: Host, plane: int, spine: int, payload: bytes) -> None:
        """On one path, where the mode lets the sender choose it."""
        source, destination = (self.lab.addresses(f"h{host}")[plane] for host in (self.number, to.number))
        mode = self.lab.topology.mode
        if mode == "stev":
            self.send_ev(to, plane, stev_ev(plane, spine), payload)
            return
        inner = inner_packet(source, destination, payload)
        whole = usid_address(self.lab.topology, self.number, to.number, plane, spine)
        if mode == "srv6":
            self._send(inner, whole)
            return
        # The last uSID, the host's port, moves into the header (RFC 8754 section 2).
        usids = whole.removesuffix("::").split(":")
        following = ipaddress.IPv6Address(":".join((*usids[:2], usids[-1])) + "::").packed
        header = struct.pack("!BBBBBBH", IPPROTO_IPV6, 2, 4, 1, 0, 0, 0)
        self._send(header + following + inner, ":".join(usids[:-1]) + "::")

    def send_ev(self, to: Host, plane: int, ev: int, payload: bytes) -> None:
        """Plain UDP with an EV: low half in the source port, high half in the flow label."""
        self._send(udp_packet(ev & 0xFFFF, payload), self.lab.addresses(f"h{to.number}")[plane], ev >> 16)

    def _send(self, packet: bytes, address: str, flow_label: int = 0) -> None:
        self.socket.sendto(packet, (address, 0, flow_label, 0))

    def received(self) -> list[bytes]:
        """The payloads of all that has been sent to it and arrives."""
        header = {"srv6": 48, "srv6-srh": 24 + 48}.get(self.lab.topology.mode, 8)
        self.fence.wait()
        return [packet[header:] for packet in arrived(self.socket)]


class SpineTaps:
    """What each spine of some planes gets from one leaf."""

    def __init__(self, wire: Wire, leaf: int = 0) -> None:
        shape = wire.lab.topology
        self._taps: dict[tuple[int, int], Tap] = {
            (plane, spine): wire.tap(f"p{plane}s{spine}", f"p{plane}l{leaf}")
            for plane in range(shape.planes)
            for spine in range(shape.spines)
        }

    def seen(self, payloads: Iterable[bytes]) -> dict[bytes, list[tuple[int, int]]]:
        """Where each payload came by, and how often."""
        found: dict[bytes, list[tuple[int, int]]] = {payload: [] for payload in payloads}
        for way, tap in self._taps.items():
            for packet in tap.waiting():
                for payload, ways in found.items():
                    if packet.endswith(payload):
                        ways.append(way)
        return found


def icmp_errors(lab: Lab, nodes: Sequence[str] = ()) -> dict[str, int]:
    """ICMPv6 errors sent so far, by every node that sent any."""

    def read() -> int:
        with open("/proc/thread-self/net/snmp6") as counters:
            values = dict(line.split() for line in counters)
        return sum(int(values.get(name, 0)) for name in _ERRORS)

    counted = {node: lab.inside(node, read) for node in nodes or lab.topology.nodes}
    return {node: count for node, count in counted.items() if count}


def arrivals(lab: Lab) -> dict[str, int]:
    """Packets that arrived at the upper end of each link so far, by its name."""
    return {link.name: link.toward[link.name.partition("-")[2]].packets for link in lab.status().links}
