# SPDX-License-Identifier: BSD-2-Clause
"""Sending packets through a lab by hand, and looking at them on the way."""

from __future__ import annotations

import ipaddress
import itertools
import mmap
import select
import socket
import struct
import subprocess
import time
from contextlib import suppress
from functools import partial
from typing import Any

from patience import PATIENCE_S, Fence

from mrc.fabric import Clos
from mrc.lab import Lab
from mrc.wire.usid import UsidTemplate, address_text

IPPROTO_IPV6 = 41
_ETH_P_ALL = 0x0003
_SOL_PACKET, _PACKET_RX_RING = 263, 5
_FRAMES, _FRAME_BYTES = 32, 8192
_TEXT: dict[str, Any] = {"check": True, "capture_output": True, "text": True, "timeout": PATIENCE_S}
# struct sockaddr_ll in a frame of the ring, and in it whether the frame came in or went out (packet(7)).
_ADDRESS_AT, _PACKET_TYPE_AT, _OUTGOING = 32, 10, 4


class Tap:
    """A packet socket with a ring, which holds copies.

    Without a ring it would queue the frame itself, and a switch rewrites the destination in place: the tap at its
    input would show the address it leaves with. The same goes for one protocol only, which is served after the switch.
    """

    def __init__(self, interface: str, kind: socket.SocketKind = socket.SOCK_DGRAM) -> None:
        self._socket = socket.socket(socket.AF_PACKET, kind, 0)
        ring = struct.pack("=IIII", _FRAMES * _FRAME_BYTES, 1, _FRAME_BYTES, _FRAMES)
        self._socket.setsockopt(_SOL_PACKET, _PACKET_RX_RING, ring)
        self._ring = mmap.mmap(self._socket.fileno(), _FRAMES * _FRAME_BYTES)
        self._next = 0
        self._socket.bind((interface, _ETH_P_ALL))

    def packet(self, timeout_s: float = PATIENCE_S) -> bytes:
        """The next frame, from the network header on. Raises TimeoutError."""
        start = self._next * _FRAME_BYTES
        deadline = time.monotonic() + timeout_s
        while not self._ring[start] & 1:
            if not select.select([self._socket], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise TimeoutError("no packet")
        _, _, captured, _, network = struct.unpack_from("@LIIHH", self._ring, start)
        data = self._ring[start + network : start + network + captured]
        struct.pack_into("@L", self._ring, start, 0)
        self._next = (self._next + 1) % _FRAMES
        return data

    def arrived(self) -> list[bytes]:
        """All frames that have come in, Ethernet header and all; for a tap of kind SOCK_RAW."""
        found = []
        while self._ring[(start := self._next * _FRAME_BYTES)] & 1:
            _, _, captured, frame, _ = struct.unpack_from("@LIIHH", self._ring, start)
            if self._ring[start + _ADDRESS_AT + _PACKET_TYPE_AT] != _OUTGOING:
                found.append(self._ring[start + frame : start + frame + captured])
            struct.pack_into("@L", self._ring, start, 0)
            self._next = (self._next + 1) % _FRAMES
        return found

    def send(self, frame: bytes) -> None:
        """Let a frame leave by the interface; for a tap of kind SOCK_RAW."""
        self._socket.send(frame)

    def waiting(self) -> list[bytes]:
        """All frames that are there already."""
        found = []
        while self._ring[self._next * _FRAME_BYTES] & 1:
            found.append(self.packet())
        return found

    def close(self) -> None:
        self._ring.close()
        self._socket.close()


class Wire:
    """Sends and sees IPv6-in-IPv6 packets in a lab: what the kernel does with them is what is under test."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self._sockets: list[socket.socket] = []
        self._taps: list[Tap] = []
        self.fence = Fence.of(lab)

    def raw(self, node: str) -> socket.socket:
        """A raw protocol 41 socket: sends an inner packet to a uSID address, receives one without its outer header."""
        opened = self.lab.inside(node, lambda: socket.socket(socket.AF_INET6, socket.SOCK_RAW, IPPROTO_IPV6))
        opened.settimeout(PATIENCE_S)
        self._sockets.append(opened)
        return opened

    def keep(self, opened: socket.socket) -> None:
        """Close it with the rest."""
        self._sockets.append(opened)

    def tap(self, node: str, interface: str) -> Tap:
        """Every frame on `interface`, both ways, from the network header on."""
        opened = self.lab.inside(node, lambda: Tap(interface))
        self._taps.append(opened)
        return opened

    def close(self) -> None:
        for each in (*self._sockets, *self._taps, self.fence):
            each.close()


def inner_packet(source: str, destination: str, payload: bytes) -> bytes:
    """IPv6 | UDP | payload, by hand (RFC 8200 section 3, RFC 768), checksum 0 as MRC sends it."""
    udp = struct.pack("!HHHH", 0xC001, 4791, 8 + len(payload), 0) + payload
    header = struct.pack("!IHBB", 6 << 28, len(udp), socket.IPPROTO_UDP, 64)
    return header + ipaddress.IPv6Address(source).packed + ipaddress.IPv6Address(destination).packed + udp


def next_tunnelled(tap: Tap, inner: bytes) -> bytes:
    """The outer header (40 bytes) of the next packet on `tap` that carries `inner`."""
    while True:
        packet = tap.packet()
        if len(packet) > 40 and packet[6] == IPPROTO_IPV6 and packet[40:] == inner:
            return packet[:40]


def outer_addresses(header: bytes) -> tuple[str, str]:
    return str(ipaddress.IPv6Address(header[8:24])), str(ipaddress.IPv6Address(header[24:40]))


def paths(topology: Clos) -> list[tuple[int, int]]:
    return [(plane, uplink) for plane in range(topology.planes) for uplink in range(topology.spines)]


def usid_address(topology: Clos, source: int, destination: int, plane: int, uplink: int) -> str:
    leaves = topology.leaf_of_host(source), topology.leaf_of_host(destination)
    template = UsidTemplate(*leaves, destination, topology.block)
    return address_text(template.address(plane, uplink))


def deliveries(wire: Wire, source: int = 0, destination: int = 1) -> dict[tuple[int, int], bool]:
    """Send one packet along every path; which of them arrived."""
    lab = wire.lab
    sender, receiver = wire.raw(f"h{source}"), wire.raw(f"h{destination}")
    outcome = dict.fromkeys(paths(lab.topology), False)
    sent = {}
    for plane, uplink in outcome:
        inner = inner_packet(
            lab.addresses(f"h{source}")[plane], lab.addresses(f"h{destination}")[plane], b"path %d %d" % (plane, uplink)
        )
        sent[inner] = (plane, uplink)
        try:
            sender.sendto(inner, (usid_address(lab.topology, source, destination, plane, uplink), 0))
        except OSError:
            continue
    wire.fence.wait()
    for inner in arrived(receiver):
        outcome[sent[inner]] = True
    sender.close()
    receiver.close()
    return outcome


def arrived(receiver: socket.socket) -> list[bytes]:
    """Every packet that is there already."""
    receiver.setblocking(False)
    found = []
    with suppress(BlockingIOError):
        while True:
            found.append(receiver.recv(65536))
    return found


def configuration(lab: Lab, ip: str) -> dict[str, tuple[str, ...]]:
    """What iproute2 says of every node: rules, routes of all tables, addresses, neighbours, link settings."""
    commands = "rule show", "route show table all", "address show", "neigh show nud permanent"
    asked = [ip, "-6", "-details", "-oneline", "-batch", "-"]
    found = {}
    for node in lab.topology.nodes:
        told = lab.inside(node, partial(subprocess.run, asked, input="\n".join(commands), **_TEXT))
        found[node] = tuple(sorted(told.stdout.splitlines()))
    return found


def touches(target: str, plane: int, uplink: int) -> bool:
    """Whether the path from h0 (leaf 0) to h1 (leaf 1) passes what `target` names."""
    way = ["h0", f"p{plane}l0", f"p{plane}s{uplink}", f"p{plane}l1", "h1"]
    if target.startswith("plane:"):
        return plane == int(target[6:])
    if "-" in target:
        ends = set(target.split("-"))
        return any({a, b} == ends for a, b in itertools.pairwise(way))
    return target in way


def run(lab: Lab, node: str, *argv: str) -> str:
    """The output of a program on a node; it has to succeed."""
    process = lab.popen(node, argv, stdout=subprocess.PIPE, text=True)
    output, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, f"{argv} on {node} ended with {process.returncode}"
    return str(output)
