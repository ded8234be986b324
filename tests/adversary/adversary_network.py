# SPDX-License-Identifier: BSD-2-Clause
"""A network in an adversary's hands: it holds every packet in flight and lets the adversary choose what becomes of it.

Packets wait in one list per node they go to. Nothing leaves a list by itself: they are delivered in whatever order,
and lost, doubled, damaged, trimmed or marked by whoever holds the network. Lists are named by index modulo their
length, so that any number names a packet.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from mrc.wire.received_batch import ReceivedBatch

NODES = (0, 1)
DSCP_TRIMMABLE = frozenset({4, 8})  # first transmissions and probes, retransmissions (wire.md section 12)
DSCP_TRIMMED, DSCP_TRIMMED_LASTHOP = 12, 16
CE = 0b11
ACK, SACK, NACK, PROBE = 0xD1, 0xDC, 0xDD, 0xDE
ENDPOINT_REQUEST, ENDPOINT_RESPONSE = 0xD8, 0xD9
REASON_AT = 62  # of a NACK
BTH_AT, TRIMMED_LENGTH = 48, 48 + 12 + 8  # a trimmer keeps the BTH and the 8 bytes after it
MOST_IN_FLIGHT = 512  # towards one node; a queue is not longer


def icrc(packet: bytes) -> bytes:
    """wire.md section 9, of a packet over IPv6 without its last 4 bytes."""
    masked = bytearray(packet)
    masked[0] |= 0x0F
    masked[1] = masked[2] = masked[3] = masked[7] = masked[46] = masked[47] = masked[52] = 0xFF
    return zlib.crc32(b"\xff" * 8 + masked).to_bytes(4, "little")


@dataclass(frozen=True, slots=True)
class Packet:
    """A packet in flight, from its inner IPv6 header on; `plane` is also the number of the port at either end."""

    data: bytes
    plane: int
    ev: int
    traffic_class: int
    trimmed: bool = False

    @property
    def intact(self) -> bool:
        """Whether a receiver has to take it for good."""
        return len(self.data) >= BTH_AT + 16 and not self.trimmed and icrc(self.data[:-4]) == self.data[-4:]


class Network:
    """Two directions, each a list of packets. `events` counts what was done; `harm` says whether bits were changed
    that no checksum covers."""

    def __init__(self) -> None:
        self.flying: tuple[list[Packet], list[Packet]] = ([], [])
        self.events: Counter[str] = Counter()
        self.harm = False
        self._aside: tuple[list[Packet], list[Packet]] = ([], [])
        self._cuts: set[tuple[int, int]] = set()
        self._planes_down: tuple[set[int], set[int]] = (set(), set())

    def launch(self, to: int, packet: Packet) -> None:
        """A packet leaves for node `to`: lost at once where its path is cut or a port at either end is down."""
        if packet.plane in self._planes_down[0] | self._planes_down[1] or (to, packet.ev) in self._cuts:
            self.events["lost on a dead path"] += 1
        elif len(self.flying[to]) >= MOST_IN_FLIGHT:
            self.events["lost to a full queue"] += 1
        else:
            self.flying[to].append(packet)

    # ------------------------------------------------------------------ paths

    def cut(self, to: int, ev: int) -> None:
        """Nobody is told."""
        self.events["path cut"] += 1
        self._cuts.add((to, ev))

    def heal(self) -> None:
        self._cuts.clear()

    def set_port(self, node: int, plane: int, up: bool) -> None:
        (self._planes_down[node].discard if up else self._planes_down[node].add)(plane)

    # ------------------------------------------------------------------ packets

    def take(self, to: int, picks: Iterable[int]) -> list[Packet]:
        """Remove these packets, one after the other."""
        flying = self.flying[to]
        return [flying.pop(pick % len(flying)) for pick in picks if flying]

    def take_run(self, to: int, start: int, count: int) -> list[Packet]:
        """Remove `count` packets from place `start` on, in the order in which they were sent."""
        flying = self.flying[to]
        if not flying:
            return []
        start %= len(flying)
        taken = flying[start : start + count]
        del flying[start : start + count]
        return taken

    def duplicate(self, to: int, start: int, count: int) -> None:
        """Copies come last."""
        flying = self.flying[to]
        if flying:
            start %= len(flying)
            copies = flying[start : start + count]
            self.events["packets duplicated"] += len(copies)
            flying += copies

    def set_aside(self, to: int, start: int, count: int) -> None:
        """These packets go a very long way: they come back when `let_go` is called."""
        taken = self.take_run(to, start, count)[: MOST_IN_FLIGHT - len(self._aside[to])]
        self.events["packets set aside"] += len(taken)
        self._aside[to].extend(taken)

    def let_go(self, to: int) -> None:
        self.flying[to][:0] = self._aside[to]
        self._aside[to].clear()

    def corrupt(self, to: int, at: int, bit: int) -> None:
        """Flip one bit of one packet, anywhere from the IP header to the ICRC."""
        flying = self.flying[to]
        if not flying:
            return
        at %= len(flying)
        packet = flying[at]
        data = bytearray(packet.data)
        bit %= len(data) * 8
        data[bit // 8] ^= 1 << bit % 8
        self.events["packets corrupted"] += 1
        flying[at] = replace(packet, data=bytes(data))
        # What was trimmed has no checksum, and some of the IP header and the BTH's reserved byte is covered by none.
        if packet.trimmed or flying[at].intact:
            self.harm = True

    def trim(self, to: int, start: int, count: int, lasthop: bool) -> None:
        """Trim those of these packets that their codepoint lets a switch trim. Every other time the inner lengths are
        rewritten as well: a receiver accepts both."""
        flying = self.flying[to]
        dscp = DSCP_TRIMMED_LASTHOP if lasthop else DSCP_TRIMMED
        for at in range(start % len(flying), len(flying))[:count] if flying else ():
            packet = flying[at]
            if packet.traffic_class >> 2 not in DSCP_TRIMMABLE or len(packet.data) <= TRIMMED_LENGTH:
                continue
            if not packet.intact:
                self.harm = True
            data = bytearray(packet.data[:TRIMMED_LENGTH])
            self.events["packets trimmed" + (" on the last hop" if lasthop else "")] += 1
            if self.events["packets trimmed"] & 1:
                data[4:6] = data[44:46] = (TRIMMED_LENGTH - 40).to_bytes(2, "big")
            traffic_class = dscp << 2 | packet.traffic_class & CE
            flying[at] = replace(packet, data=bytes(data), traffic_class=traffic_class, trimmed=True)

    def change_reasons(self, to: int, start: int, count: int, reason: int) -> list[Packet]:
        """The NACKs among these packets give another reason, as those of a peer that knows more of them. Returns
        them."""
        flying = self.flying[to]
        changed = []
        for at in range(start % len(flying), len(flying))[:count] if flying else ():
            if flying[at].data[48] == NACK and flying[at].intact:
                data = bytearray(flying[at].data[:-4])
                data[REASON_AT] = reason
                flying[at] = replace(flying[at], data=bytes(data) + icrc(bytes(data)))
                changed.append(flying[at])
        self.events["NACKs given another reason"] += len(changed)
        return changed

    def mark(self, to: int, start: int, count: int) -> None:
        """Set CE on the outer header of those of these packets that are ECN-capable."""
        flying = self.flying[to]
        for at in range(start % len(flying), len(flying))[:count] if flying else ():
            if flying[at].traffic_class & CE:
                self.events["packets marked"] += 1
                flying[at] = replace(flying[at], traffic_class=flying[at].traffic_class | CE)


def as_batch(packets: list[Packet]) -> ReceivedBatch:
    """What a node receives at once."""
    batch = ReceivedBatch.from_packets([packet.data for packet in packets], 0, [p.traffic_class for p in packets])
    batch.port[:] = [packet.plane for packet in packets]
    return batch


def brief(packet: Packet) -> str:
    """A packet in a log."""
    data = packet.data
    names = {ACK: "ACK", SACK: "SACK", NACK: "NACK", PROBE: "PROBE", ENDPOINT_REQUEST: "ERQ", ENDPOINT_RESPONSE: "ERS"}
    flags = "r" * bool(data[56] & 0x20) + "a" * bool(data[56] & 0x80) + "t" * packet.trimmed
    return f"{names.get(data[48], 'W')}{flags}{int.from_bytes(data[57:60], 'big')}/{packet.ev:x}"
