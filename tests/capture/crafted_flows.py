# SPDX-License-Identifier: BSD-2-Clause
"""MRC and RC packets written out byte by byte from wire.md, and whole transfers of them, for the tests of analysis.

Nothing here uses the package under test: what a capture made with this shows is known beforehand.
"""

from __future__ import annotations

import heapq
import random
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

MICROSECOND = 1_000
FIRST, MIDDLE, LAST, ONLY, LAST_IMM = 0xC6, 0xC7, 0xC8, 0xCA, 0xC9
TRIMMED, TRIMMED_LASTHOP, NO_RESOURCE, UNEXP_EVENT = 0x01, 0x02, 0x0A, 0x19
REQUESTOR_QPN, RESPONDER_QPN = 0x1A0111, 0x2B0222
BASE_PSN = 0xFFFFF0  # so that PSNs wrap

_ETHER = bytes.fromhex("020000000002 020000000001 86dd")


def ev_of(plane: int, spine: int) -> int:
    return plane << 24 | spine


@cache
def _inner(plane: int, host: int) -> bytes:
    return bytes.fromhex("fd4d5243") + struct.pack("!H", plane) + bytes(8) + struct.pack("!H", host + 1)


@cache
def _outer_ends(plane: int, spine: int, source: int, destination: int, passed: int) -> bytes:
    """Source and destination of an outer header, with the uSIDs that are left when `passed` are gone."""
    usids = [0x1000 | plane << 8 | source, 0x2000 | plane << 8 | spine, 0x1000 | plane << 8 | destination]
    usids.append(0x4000 + plane * 256 + destination)
    left = b"".join(struct.pack("!H", usid) for usid in usids[passed:])
    return _inner(plane, source) + (bytes.fromhex("5f000000") + left).ljust(16, b"\0")


def _crc(inner: bytes) -> bytes:
    """wire.md section 9, over an IPv6 packet from its header to the last byte before the ICRC."""
    head = bytearray(inner)
    head[0] |= 0x0F
    head[1:4] = b"\xff\xff\xff"
    head[7] = 0xFF
    head[46:48] = b"\xff\xff"
    head[52] = 0xFF
    return struct.pack("<I", zlib.crc32(bytes(head), zlib.crc32(b"\xff" * 8)))


@dataclass
class Crafted:
    """A capture in the making. `at` is where it is taken: "sender" (the source's link), "receiver" or "middle" (a
    spine's input), which shows in the uSIDs left in the outer address. `hosts` are the requestor's and the responder's
    number. Without `srv6` there is no outer header. `hop_limits` of requests and of answers, as captured.
    `dcids_of_data`: spdcid of SACKs and NACKs is the requestor's."""

    at: str = "sender"
    requestor: int = REQUESTOR_QPN
    responder: int = RESPONDER_QPN
    payload: int = 1024
    hosts: tuple[int, int] = (0, 1)
    srv6: bool = True
    hop_limits: tuple[int, int] = (64, 64)
    dcids_of_data: bool = False
    records: list[tuple[int, bytes]] = field(default_factory=list)

    def frame(self, time_ns: int, ev: int, transport: bytes, *, forward: bool, dscp: int = 4, ecn: int = 2) -> int:
        """Add a packet; its number (from 1, in order of adding). `transport` from the BTH to before the ICRC."""
        plane, spine = ev >> 24, ev & 0xFFFF
        source, destination = self.hosts if forward else self.hosts[::-1]
        hop_limit = self.hop_limits[0 if forward else 1]
        passed = {"sender": 0, "middle": 1, "receiver": 3}[self.at]
        udp = struct.pack("!HHHH", ev & 0xFFFF, 4791, 8 + len(transport) + 4, 0)
        traffic = dscp << 2 | ecn
        label = ev >> 16
        length = 8 + len(transport) + 4
        inner = struct.pack("!IHBB", 6 << 28 | traffic << 20 | label, length, 17, 64 if self.srv6 else hop_limit)
        inner += _inner(plane, source) + _inner(plane, destination) + udp + transport
        inner += _crc(inner)
        outer = b""
        if self.srv6:
            outer = struct.pack("!IHBB", 6 << 28 | traffic << 20, len(inner), 41, hop_limit)
            outer += _outer_ends(plane, spine, source, destination, passed if forward else 3 - passed)
        self.records.append((time_ns, _ETHER + outer + inner))
        return len(self.records)

    def bth(
        self, opcode: int, dqp: int, psn: int, *, ackreq: bool = False, rtx: bool = False, ts: bool = False
    ) -> bytes:
        flags = ackreq << 7 | rtx << 5 | ts << 4
        return struct.pack("!BBHII", opcode, 0, 0xFFFF, dqp, flags << 24 | psn & 0xFFFFFF)

    def data(
        self,
        time_ns: int,
        psn: int,
        ev: int,
        *,
        opcode: int | None = None,
        msn: int = 0,
        rtx: bool = False,
        ackreq: bool = False,
        ce: bool = False,
        payload: int | None = None,
        corrupt: bool = False,
    ) -> int:
        """A request with a time stamp; PSNs count from BASE_PSN. All are of one message, if nothing else is said."""
        if opcode is None:
            opcode = MIDDLE if psn else FIRST
        stamp = (time_ns // 128) & 0xFFFF
        transport = self.bth(opcode, self.responder, BASE_PSN + psn, ackreq=ackreq, rtx=rtx, ts=True)
        transport += struct.pack("!HH", 0, msn) + struct.pack("!HH", stamp, 1)
        size = self.payload if payload is None else payload
        transport += struct.pack("!QII", 0x100000 + psn * self.payload, 0x77, 1 << 20) + bytes(size)
        number = self.frame(time_ns, ev, transport, forward=True, dscp=8 if rtx else 4, ecn=3 if ce else 2)
        if corrupt:
            when, frame = self.records[-1]
            self.records[-1] = when, frame[:-1] + bytes((frame[-1] ^ 1,))
        return number

    def trimmed(self, time_ns: int, psn: int, ev: int, *, msn: int = 0, **fields: Any) -> int:
        """What a trimming switch leaves of a request: BTH, METH and TSETH, the outer length made right."""
        self.data(time_ns, psn, ev, msn=msn, **fields)
        when, frame = self.records.pop()
        kept = bytearray(frame[: 14 + 40 * (1 + self.srv6) + 8 + 12 + 8])
        kept[14:16] = struct.pack("!H", 0x6000 | 12 << 6 | 2 << 4)
        kept[18:20] = struct.pack("!H", len(kept) - 54)
        self.records.append((when, bytes(kept)))
        return len(self.records)

    def sack(
        self,
        time_ns: int,
        cack: int,
        trigger: int,
        ev: int,
        *,
        received: tuple[int, ...] = (),
        m: int = 0,
        rtx: bool = False,
        held: int = 0,
        own_ev: int = 0,
        probe_id: int | None = None,
    ) -> int:
        """A SACK with sack_offset 1; `received` are PSNs above `cack`."""
        bitmap = 0
        for psn in received:
            bitmap |= 1 << (psn - cack - 1)
        offset = (trigger - cack) & 0xFFFF if probe_id is None else probe_id
        seth = struct.pack("!HHIHH", m << 5 | (probe_id is not None) << 1, offset, ev, *self._dcids())
        seth += struct.pack("!IBBhQ", BASE_PSN + cack & 0xFFFFFF, 0, 8, 1, bitmap)
        cc_state = struct.pack("!HHI", 0, held, 0)
        transport = self.bth(0xDC, self.requestor, BASE_PSN + cack, rtx=rtx) + seth + cc_state
        return self.frame(time_ns, own_ev, transport, forward=False, dscp=46)

    def _dcids(self) -> tuple[int, int]:
        own = self.responder & 0xFFFF, self.requestor & 0xFFFF
        return own[::-1] if self.dcids_of_data else own

    def ack(self, time_ns: int, cack: int, msn: int = 0, *, syndrome: int = 0x1F, own_ev: int = 0) -> int:
        transport = self.bth(0xD1, self.requestor, BASE_PSN + cack) + struct.pack("!I", syndrome << 24 | msn)
        return self.frame(time_ns, own_ev, transport, forward=False, dscp=46)

    def nack(self, time_ns: int, psn: int, ev: int, reason: int, *, rtx: bool = False, own_ev: int = 0) -> int:
        neth = struct.pack("!HBBIHH", 0, reason, 0, ev, *self._dcids())
        neth += struct.pack("!IBBH", BASE_PSN + psn & 0xFFFFFF, 0x20, 0, 0)
        transport = self.bth(0xDD, self.requestor, BASE_PSN + psn, rtx=rtx) + neth
        return self.frame(time_ns, own_ev, transport, forward=False, dscp=46)

    def probe(self, time_ns: int, ev: int, probe_id: int) -> int:
        peth = struct.pack("!HBBHHHHHH", 0, 0, 0, probe_id, 0, 0x111, 0x222, 0, 1)
        return self.frame(time_ns, ev, self.bth(0xDE, self.responder, -BASE_PSN + BASE_PSN) + peth, forward=True)

    def port_status(self, time_ns: int, request_id: int, mask: int, *, ev: int = 0, forward: bool = True) -> int:
        """`forward`: by the host of the requestor."""
        erth = struct.pack("!HBBIIHH", 0, 0, 0, mask, 0, 0, 1)
        return self.frame(time_ns, ev, self.bth(0xD8, 2, request_id) + erth, forward=forward)

    def port_status_response(self, time_ns: int, request_id: int, *, ev: int = 0, forward: bool = False) -> int:
        return self.frame(time_ns, ev, self.bth(0xD9, 2, request_id) + bytes(36), forward=forward, dscp=46)

    def pcap(self) -> bytes:
        return pcap_of(self.records)


def pcap_of(records: list[tuple[int, bytes]], snaplen: int = 65535) -> bytes:
    """Nanosecond pcap, packets in this order."""
    parts = [struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, 1)]
    for time_ns, frame in records:
        parts.append(
            struct.pack(
                "<IIII", 1_700_000_000 + time_ns // 10**9, time_ns % 10**9, min(snaplen, len(frame)), len(frame)
            )
        )
        parts.append(frame[:snaplen])
    return b"".join(parts)


@dataclass
class CraftedRc:
    """RoCEv2 RC over IPv4 between 10.0.0.1 (requests) and 10.0.0.2; PSNs count from 100."""

    qpn: int = 0x11
    answers_qpn: int = 0x22
    hosts: tuple[int, int] = (1, 2)
    records: list[tuple[int, bytes]] = field(default_factory=list)

    def frame(self, time_ns: int, transport: bytes, *, forward: bool, ttl: int = 64, ecn: int = 2) -> int:
        length = 20 + 8 + len(transport) + 4
        source, destination = [bytes((10, 0, 0, host)) for host in self.hosts[:: 1 if forward else -1]]
        ip = struct.pack("!BBHHHBBH", 0x45, ecn, length, 7, 0x4000, ttl, 17, 0) + source + destination
        udp = struct.pack("!HHHH", 49152, 4791, length - 20, 0)
        masked = ip[:1] + b"\xff" + ip[2:8] + b"\xff" + ip[9:10] + b"\xff\xff" + ip[12:] + udp[:6] + b"\xff\xff"
        masked += transport[:4] + b"\xff" + transport[5:]
        icrc = struct.pack("<I", zlib.crc32(masked, zlib.crc32(b"\xff" * 8)))
        self.records.append((time_ns, _ETHER[:12] + b"\x08\x00" + ip + udp + transport + icrc))
        return len(self.records)

    def bth(self, opcode: int, qpn: int, psn: int, ackreq: bool = False) -> bytes:
        return struct.pack("!BBHII", opcode, 0, 0xFFFF, qpn, ackreq << 31 | 100 + psn)

    def write(self, time_ns: int, psn: int, opcode: int, size: int = 1024, ackreq: bool = False) -> int:
        """WRITE First (6), Middle (7), Last (8) or Only (10)."""
        reth = struct.pack("!QII", 0x1000, 1, 4096) if opcode in (6, 10) else b""
        return self.frame(time_ns, self.bth(opcode, self.qpn, psn, ackreq) + reth + bytes(size), forward=True)

    def read(self, time_ns: int, psn: int, size: int) -> int:
        return self.frame(time_ns, self.bth(12, self.qpn, psn, True) + struct.pack("!QII", 0, 1, size), forward=True)

    def response(self, time_ns: int, psn: int, opcode: int, size: int) -> int:
        """READ response First (13), Middle (14), Last (15)."""
        aeth = b"" if opcode == 14 else struct.pack("!I", 0x1F << 24)
        return self.frame(time_ns, self.bth(opcode, self.answers_qpn, psn) + aeth + bytes(size), forward=False)

    def ack(self, time_ns: int, psn: int, syndrome: int = 0x1F) -> int:
        aeth = struct.pack("!I", syndrome << 24)
        return self.frame(time_ns, self.bth(0x11, self.answers_qpn, psn) + aeth, forward=False)

    def cnp(self, time_ns: int) -> int:
        return self.frame(time_ns, self.bth(0x81, self.answers_qpn, -100) + bytes(16), forward=False)

    def pcap(self) -> bytes:
        return pcap_of(self.records)


@dataclass
class Truth:
    """What really happened in a `transfer`: packets sent and lost by EV, retransmissions."""

    sent: dict[int, int] = field(default_factory=dict)
    lost: dict[int, int] = field(default_factory=dict)
    retransmissions: int = 0


def transfer(
    crafted: Crafted,
    count: int,
    paths: list[int],
    lost: Callable[[random.Random, int], bool],
    seed: int = 1,
    every_ns: int = 4 * MICROSECOND,
    one_way_ns: int = 50 * MICROSECOND,
) -> Truth:
    """`count` PSNs sent in turn over `paths`, `lost(random, ev)` of them; a SACK for each fourth arrival and for each
    retransmission; what a SACK shows as a hole three PSNs below its highest is sent again at once, on the next path.
    """
    chance, truth = random.Random(seed), Truth(dict.fromkeys(paths, 0), dict.fromkeys(paths, 0))
    held: set[int] = set()
    edge, arrivals, turn = -1, 0, 0
    resent_at: dict[int, int] = {}
    acked = -1
    # (time, tie, what, arguments): "send" at the sender, "arrive" at the receiver, "sack" back at the sender.
    events: list[tuple[int, int, str, tuple[int, ...]]] = [(0, 0, "send", (0,))]
    tie = 0

    def at(time: int, what: str, *arguments: int) -> None:
        nonlocal tie
        tie += 1
        heapq.heappush(events, (time, tie, what, arguments))

    def put(now: int, psn: int, rtx: bool) -> None:
        nonlocal turn
        ev = paths[turn % len(paths)]
        turn += 1
        truth.sent[ev] += 1
        truth.retransmissions += rtx
        last = psn % 64 == 63 or psn == count - 1
        opcode = LAST if last else FIRST if psn % 64 == 0 else MIDDLE
        crafted.data(now, psn, ev, opcode=opcode, msn=psn // 64 & 0xFFFF, rtx=rtx, ackreq=psn == count - 1)
        if lost(chance, ev):
            truth.lost[ev] += 1
            at(now + 10 * one_way_ns, "timer", psn)
        else:
            at(now + one_way_ns, "arrive", psn, ev, rtx)

    while events:
        now, _, what, arguments = heapq.heappop(events)
        if what == "send":
            (psn,) = arguments
            put(now, psn, False)
            if psn + 1 < count:
                at(now + every_ns, "send", psn + 1)
        elif what == "arrive":
            psn, ev, rtx = arguments
            arrivals += 1
            if psn > edge:
                held.add(psn)
            while edge + 1 in held:
                edge += 1
                held.discard(edge)
            if rtx or arrivals % 4 == 0 or psn == count - 1:
                above = sorted(each for each in held if each - edge <= 64)
                at(now + one_way_ns, "sack", edge, psn, ev, rtx, len(held), *above)
        elif what == "sack":
            cack, trigger, ev, rtx, number, *above = arguments
            crafted.sack(now, cack, trigger, ev, received=tuple(above), rtx=bool(rtx), held=number, own_ev=paths[0])
            acked = max(acked, cack)
            highest = max(above, default=cack)
            for psn in range(acked + 1, highest - 2):
                if psn not in above and now - resent_at.get(psn, -(10**12)) > 3 * one_way_ns:
                    resent_at[psn] = now
                    put(now, psn, True)
        elif what == "timer":
            (psn,) = arguments
            if psn > acked and psn not in held and now - resent_at.get(psn, -(10**12)) > 9 * one_way_ns:
                resent_at[psn] = now
                put(now, psn, True)
    return truth
