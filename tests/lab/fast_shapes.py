# SPDX-License-Identifier: BSD-2-Clause
"""Frames of every shape for a fabric of uSIDs, made by hand, and what two labs do with them, side by side."""

from __future__ import annotations

import ipaddress
import random
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from lab_wire import Tap, paths, usid_address
from patience import Fence

from mrc.fabric import Clos
from mrc.lab import Lab
from mrc.lab.plan import plan

HOP_BY_HOP, TCP, UDP, IPV6, ROUTING, FRAGMENT, ICMP, NONE, OPTIONS = 0, 6, 17, 41, 43, 44, 58, 59, 60


@dataclass(frozen=True, slots=True)
class Shape:
    """A frame that `node` sends by `interface`; `content` is behind the Ethernet header, and `tag` is in it."""

    node: str
    interface: str
    content: bytes
    ethertype: int = 0x86DD
    to: bytes = b""

    @property
    def tag(self) -> bytes:
        """What tells frames of this one, and errors about it, from all others; of a short one, its address."""
        at = self.content.find(b"shape")
        return self.content[at : at + 12] if at > 0 else self.content[8:24]


def header(destination: str, length: int, *, next_header: int = IPV6, hops: int = 64, source: str = "fd4d:5243::1",
           first: int = 6 << 28) -> bytes:  # fmt: skip
    ends = ipaddress.IPv6Address(source).packed + ipaddress.IPv6Address(destination).packed
    return struct.pack("!IHBB", first, length, next_header, hops) + ends


def packet(destination: str, body: bytes, **fields: int | str) -> bytes:
    return header(destination, len(body), **fields) + body  # type: ignore[arg-type]


def tagged(number: int, length: int = 64) -> bytes:
    """What no other packet carries: an inner packet, so that it is one to whoever looks."""
    tag = b"shape%06d." % number
    return header("fd4d:5243::2", length - 40, source="fd4d:5243::1", next_header=NONE) + tag.ljust(length - 40, b"-")


def shapes(topology: Clos) -> Iterator[Shape]:
    """From h0 by plane 0, unless it says something else. Leaf 0 has h0 and h1, leaf 1 has h2 and h3."""
    number = 0

    def body(length: int = 64) -> bytes:
        nonlocal number
        number += 1
        return tagged(number, length)

    def at_leaf(content: bytes, **frame: int | bytes) -> Shape:
        return Shape("h0", "p0", content, **frame)  # type: ignore[arg-type]

    for source in range(topology.host_count):
        for destination in range(topology.host_count):
            for plane, uplink in paths(topology):
                way = usid_address(topology, source, destination, plane, uplink)
                yield Shape(f"h{source}", f"p{plane}", packet(way, body(), source=f"fd4d:5243:{plane}::{source + 1}"))
    way = usid_address(topology, 0, 2, 0, 1)
    ends_and_unknown = (
        # The end of the list, at a leaf and at a spine; the own uSID twice; back where it came from.
        "5f00:0:1000::", "5f00:0:1000:2001::", "5f00:0:1000:1000:4001::", "5f00:0:1000:2001:2001:1001:4002::",
        "5f00:0:1000:4000::", "5f00:0:1000:2001:1000:4001::",
        # Not the switch's, unknown next ones, another plane's, another leaf's host, not the block.
        "5f00:0:1001:4002::", "5f00:0:1000:20ff::", "5f00:0:1000:2101:1001:4002::", "5f00:0:1000:4002::",
        "5f00:0:1000:2001:20ff::", "5f00:1:1000:2001:1001:4002::", "5f00:0:1000:2001:1001:4fff::",
        # All places taken; behind a gap; something behind the host's.
        "5f00:0:1000:2000:1001:2001:1000:4001", "5f00:0:1000:2000:1001:2001:1000:2001",
        "5f00:0:1000:0:2001:1001:4002::", "5f00:0:1000:2001:1001:4002:7:8", "5f00:0:1000::1",
        # Plain IPv6, multicast, link-local, loopback.
        "fd4d:5243::2", "fd4d:5243::3", "fd4d:5243:0:1::1", "fd4d:5243:0:2::2", "ff02::1", "fe80::1:2", "::1", "::",
    )  # fmt: skip
    for destination in ends_and_unknown:
        yield at_leaf(packet(destination, body()))
    for spine_destination in ("5f00:0:2001:1001:4002::", "5f00:0:2001:1000:4001::", "5f00:0:2001::", "5f00:0:1001::"):
        yield Shape("p0l0", "p0s1", packet(spine_destination, body()))
    for hops in (0, 1, 2, 3, 4, 5, 255):
        yield at_leaf(packet(way, body(), hops=hops))
    for traffic_class in range(0, 256, 3):
        yield at_leaf(packet(way, body(), first=6 << 28 | traffic_class << 20 | number * 977 & 0xFFFFF))
    for next_header in (HOP_BY_HOP, TCP, UDP, ROUTING, FRAGMENT, ICMP, NONE, OPTIONS, 253):
        yield at_leaf(packet(way, body(), next_header=next_header))
        yield at_leaf(packet("5f00:0:1000::", body(), next_header=next_header))
    for left in (0, 1):
        segments = struct.pack("!BBBBBBH", IPV6, 2, 4, left, 0, 0, 0) + ipaddress.IPv6Address("5f00:0:4002::").packed
        for destination in ("5f00:0:1000:2001:1001::", "5f00:0:1000:2001::", way):
            yield at_leaf(packet(destination, segments + body(), next_header=ROUTING))
    for source in (
        "::",
        "::1",
        "::ffff:1.2.3.4",
        "fe80::1",
        "fec0::1",
        "ff02::1",
        "5f00:0:4000::",
        "2001:db8::1",
        "0:1::",
    ):
        yield at_leaf(packet(way, body(), source=source))
    for length in (0, 1, 63, 65, 4000, 65535):
        yield at_leaf(header(way, length) + body())
    for version in (0, 4, 5, 7, 15):
        yield at_leaf(packet(way, body(), first=version << 28))
    yield at_leaf(packet(way, body(topology.mtu - 40)))
    yield at_leaf(packet(way, body())[:30])
    yield at_leaf(packet(way, body()), ethertype=0x0800)
    yield at_leaf(struct.pack("!HH", 5, 0x86DD) + packet(way, body()), ethertype=0x8100)
    for to in (b"\xff" * 6, bytes.fromhex("333300000001"), bytes.fromhex("024d52999901")):
        yield at_leaf(packet(way, body()), to=to)
    dice = random.Random(20)
    for _ in range(600):
        content = bytearray(packet(usid_address(topology, 0, dice.randrange(1, 4), 0, dice.randrange(2)), body()))
        for _ in range(dice.randint(1, 3)):
            content[dice.randrange(40)] = dice.choice([0, 0xFF, dice.randrange(256), content[dice.randrange(24, 40)]])
        yield at_leaf(bytes(content))


class Watched:
    """A lab with a raw socket at each interface: sends shapes, and says which frames arrived where."""

    def __init__(self, lab: Lab) -> None:
        self.lab, self.fence = lab, Fence.of(lab)
        self._plans = plan(lab.topology)
        self._taps: dict[tuple[str, str], Tap] = {}
        for node, planned in self._plans.items():
            lab.inside(node, _answer_everything)
            for end in planned.interfaces:
                self._taps[node, end.name] = lab.inside(node, partial(Tap, end.name, socket.SOCK_RAW))

    def seen(self, shape: Shape) -> list[tuple[str, str, bytes]]:
        """Each frame with a tag that arrived on the way of this one, its node and interface before it."""
        end = next(each for each in self._plans[shape.node].interfaces if each.name == shape.interface)
        own, peer = (bytes.fromhex(address.replace(":", "")) for address in (end.mac, end.peer_mac))
        frame = (shape.to or peer) + own + struct.pack("!H", shape.ethertype) + shape.content
        self._taps[shape.node, shape.interface].send(frame)
        self.fence.wait()
        found = []
        for (node, interface), tap in self._taps.items():
            found += [(node, interface, arrived) for arrived in tap.arrived() if shape.tag in arrived]
        return sorted(found)

    def forwarded(self) -> dict[str, int]:
        """How many IPv6 packets the kernel of each switch has forwarded."""
        return {node: self.lab.inside(node, _forwarded) for node, each in self._plans.items() if each.is_switch}

    def close(self) -> None:
        for opened in (*self._taps.values(), self.fence):
            opened.close()


def _answer_everything() -> None:
    with open("/proc/sys/net/ipv6/icmp/ratelimit", "w") as setting:
        setting.write("0")


def _forwarded() -> int:
    with open("/proc/thread-self/net/snmp6") as counters:
        return int(dict(line.split() for line in counters)["Ip6OutForwDatagrams"])
