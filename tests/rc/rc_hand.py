# SPDX-License-Identifier: BSD-2-Clause
"""One real RC queue pair whose peer is the test: packets in as bytes built by hand, packets out read by hand.

Headers are laid out here after IBTA volume 1, the ICRC is computed with zlib over a mask written after its annex A17.
"""

from __future__ import annotations

import ctypes
import ipaddress
import struct
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from mrc.endpoint.completions import Completion, WorkStatus
from mrc.endpoint.memory import MemoryRegion
from mrc.endpoint.paths.addressing import PlanePair, udp_paths
from mrc.endpoint.work import WriteRequest
from mrc.rc import RcConfig, RcEndpoint, RcPeer
from mrc.wire.received_batch import ReceivedBatch
from mrc.wire.transmit_batch import TransmitBatch

FIRST, MIDDLE, LAST, LAST_IMMEDIATE, ONLY, ONLY_IMMEDIATE, ACKNOWLEDGE = 6, 7, 8, 9, 10, 11, 0x11
ACK, SEQUENCE_ERROR, INVALID_REQUEST, REMOTE_ACCESS, REMOTE_OPERATION = 0x1F, 0x60, 0x61, 0x62, 0x63
MICROSECOND, MILLISECOND = 1_000, 1_000_000
OUR_QPN, PEER_QPN = 0x1A0111, 0x2B0222
OUR_PSN, PEER_PSN = 5000, 1000
REGION_VA, RKEY = 0x7F0000000000, 0xCAFE0001
SOURCE_PORT = 0xC111
ADDRESSES = {4: ("10.9.0.1", "10.9.0.2"), 6: ("fd09::1", "fd09::2")}
PSN_MASK = 0xFFFFFF


def icrc(packet: bytes) -> bytes:
    """The four bytes behind a packet given from its IP header on."""
    masked = bytearray(packet)
    if packet[0] >> 4 == 6:
        masked[0] |= 0x0F
        masked[1:4] = b"\xff\xff\xff"
        masked[7] = 0xFF
        udp = 40
    else:
        masked[1] = masked[8] = 0xFF
        masked[10:12] = b"\xff\xff"
        udp = 20
    masked[udp + 6 : udp + 8] = b"\xff\xff"
    masked[udp + 12] = 0xFF
    return zlib.crc32(b"\xff" * 8 + masked).to_bytes(4, "little")


def in_ip(transport: bytes, version: int = 6, *, source: str | None = None, dport: int = 4791) -> bytes:
    """A whole packet from the peer: IP, UDP, `transport` and the ICRC."""
    ours, peers = ADDRESSES[version]
    addresses = b"".join(ipaddress.ip_address(address).packed for address in (source or peers, ours))
    length = 8 + len(transport) + 4
    if version == 6:
        head = struct.pack(">IHBB", 6 << 28, length, 17, 64) + addresses
    else:
        head = struct.pack(">BBHHHBBH", 0x45, 0, 20 + length, 0x1234, 0x4000, 64, 17, 0) + addresses
    packet = head + struct.pack(">HHHH", SOURCE_PORT, dport, length, 0) + transport
    return packet + icrc(packet)


def bth(opcode: int, psn: int, *, ackreq: bool = False, pad: int = 0, dqp: int = OUR_QPN) -> bytes:
    return struct.pack(">BBHII", opcode, pad << 4, 0xFFFF, dqp, ackreq << 31 | psn & PSN_MASK)


def write(
    opcode: int,
    psn: int,
    payload: bytes = b"",
    *,
    va: int = REGION_VA,
    rkey: int = RKEY,
    dmalen: int | None = None,
    immediate: int | None = None,
    ackreq: bool = False,
) -> bytes:
    """A write request of the peer's, from its BTH on; a RETH where `dmalen` is given or the opcode has one."""
    pad = -len(payload) % 4
    head = bth(opcode, psn, ackreq=ackreq, pad=pad)
    if opcode in (FIRST, ONLY, ONLY_IMMEDIATE):
        head += struct.pack(">QII", va, rkey, len(payload) if dmalen is None else dmalen)
    if opcode in (LAST_IMMEDIATE, ONLY_IMMEDIATE):
        head += struct.pack(">I", immediate or 0)
    return head + payload + bytes(pad)


def answer(psn: int, syndrome: int = ACK, msn: int = 0) -> bytes:
    """An ACK or NAK of the peer's."""
    return bth(ACKNOWLEDGE, psn) + struct.pack(">I", syndrome << 24 | msn)


@dataclass(frozen=True, slots=True)
class Sent:
    """A packet of ours: what its headers say, its payload without padding."""

    opcode: int
    dqp: int
    psn: int
    ackreq: bool
    pad: int
    extension: bytes
    payload: bytes
    whole: bytes

    @property
    def aeth(self) -> tuple[int, int]:
        """Syndrome and MSN."""
        return self.extension[0], int.from_bytes(self.extension[1:4], "big")

    @property
    def reth(self) -> tuple[int, int, int]:
        """VA, R_Key, length."""
        va, rkey, length = struct.unpack(">QII", self.extension[:16])
        return va, rkey, length


def parsed(packet: bytes) -> Sent:
    assert packet[-4:] == icrc(packet[:-4]), "wrong ICRC"
    data = packet[(40 if packet[0] >> 4 == 6 else 20) + 8 : -4]
    opcode, flags, pkey, dqp, word = struct.unpack(">BBHII", data[:12])
    assert (pkey, flags & 0xCF, dqp >> 24, word >> 24 & 0x7F) == (0xFFFF, 0, 0, 0)
    pad = flags >> 4 & 3
    lengths = {FIRST: 16, ONLY: 16, ONLY_IMMEDIATE: 20, LAST_IMMEDIATE: 4, ACKNOWLEDGE: 4}
    end = 12 + lengths.get(opcode, 0)
    assert data[len(data) - pad :] == bytes(pad)
    payload = data[end : len(data) - pad]
    return Sent(opcode, dqp, word & PSN_MASK, bool(word >> 31), pad, data[12:end], payload, packet)


class HandPeer:
    """A QP in RTS with a region of `memory` bytes at REGION_VA, and a clock that stands still until it is moved."""

    def __init__(
        self,
        *,
        version: int = 6,
        memory: int = 8192,
        peer_psn: int = PEER_PSN,
        complete: Callable[[Completion], None] | None = None,
        **config: int,
    ) -> None:
        self.version = version
        self.now = 0
        self.endpoint = RcEndpoint(draw_rkey=lambda: RKEY)
        self.memory = bytearray(memory)
        self.region: MemoryRegion = self.endpoint.memory.register(self.memory, va=REGION_VA)
        settings = {"path_mtu": 256, **config}
        self.psn = settings.pop("first_psn", OUR_PSN)
        self.qp = self.endpoint.create_qp(RcConfig(**settings), qpn=OUR_QPN, first_psn=self.psn, complete=complete)
        ours, peers = ADDRESSES[version]
        (path,) = udp_paths(PlanePair(0, 0, ours, peers, 0), [SOURCE_PORT])
        source = int(ipaddress.ip_address(peers)) | (0xFFFF << 32 if version == 4 else 0)
        self.qp.to_init()
        self.qp.to_rtr(RcPeer(PEER_QPN, peer_psn, path, source))
        self.qp.to_rts()

    def receive(self, *transports: bytes) -> None:
        """All in one batch."""
        self.receive_packets([in_ip(transport, self.version) for transport in transports])

    def receive_packets(self, packets: Sequence[bytes]) -> None:
        self.endpoint.receive(ReceivedBatch.from_packets(packets), self.now)

    def sent(self, room: int = 1000) -> list[Sent]:
        """What leaves now."""
        batch = TransmitBatch(room)
        count = self.endpoint.transmit(batch, self.now)
        assert count == batch.count
        for row, payload in enumerate(batch.payloads):
            # Sockets take it from there.
            assert ctypes.string_at(int(batch.payload_address[row]), len(payload)) == payload
        return [parsed(batch.packet(row)) for row in range(count)]

    def answers(self, *transports: bytes) -> list[tuple[int, int, int]]:
        """What these requests, one after the other, are answered with: PSN, syndrome, MSN."""
        found = []
        for transport in transports:
            self.receive(transport)
            found += self.sent()
        assert all((each.opcode, each.dqp) == (ACKNOWLEDGE, PEER_QPN) for each in found)
        return [(each.psn, *each.aeth) for each in found]

    def post(self, length: int, immediate: int | None = None, *, wr_id: int = 1, va: int = 0x1000) -> None:
        self.qp.post_write(WriteRequest(wr_id, self.region, 0, length, va, 0xBEEF, immediate))
        self.endpoint.wake(self.qp)

    def pass_time(self, ns: int) -> None:
        """Let so much time pass, the timer run whenever it asks to."""
        until = self.now + ns
        while (deadline := self.endpoint.next_deadline()) is not None and deadline <= until:
            self.now = max(self.now, deadline)
            self.endpoint.on_timer(self.now)
            if self.endpoint.next_deadline() == deadline:
                break
        self.now = until

    def completed(self) -> list[tuple[int, WorkStatus]]:
        """Completions since it was last asked."""
        return [(done.wr_id, done.status) for done in self.taken()]

    def taken(self) -> list[Completion]:
        found = list(self.endpoint.completions)
        self.endpoint.completions.clear()
        return found

    def count(self, name: str) -> int:
        return self.endpoint.total_counters().as_dict(zeros=True)[name]


def shapes(packets: Iterable[Sent]) -> list[tuple[int, int, bool]]:
    """Opcode, PSN, AckReq."""
    return [(each.opcode, each.psn, each.ackreq) for each in packets]
