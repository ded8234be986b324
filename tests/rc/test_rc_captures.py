# SPDX-License-Identifier: BSD-2-Clause
"""Our two halves in the place of Soft-RoCE's, in its own captures: the same packets in must bring the same out."""

from __future__ import annotations

import ipaddress
import struct
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from rc_hand import ACKNOWLEDGE, FIRST, ONLY, Sent, parsed

from mrc.endpoint.completions import WorkStatus
from mrc.endpoint.memory import MemoryRegion
from mrc.endpoint.paths.addressing import PlanePair, udp_paths
from mrc.endpoint.work import WriteRequest
from mrc.rc import RcConfig, RcEndpoint, RcPeer, RcQueuePair
from mrc.wire.received_batch import ReceivedBatch
from mrc.wire.transmit_batch import TransmitBatch

PATH_MTU = 1024  # pcaps/README.md
WRITES = range(6, 12)
# The lengths of the captured writes, and how many of each there are.
RUNS = {1: 5, 1001: 5, 5003: 6}


@dataclass(slots=True)
class Flow:
    """One run of RDMA writes: packets (time in us, IP packet) in the order captured, and the two addresses."""

    requestor: str
    responder: str
    packets: list[tuple[int, bytes]] = field(default_factory=list)

    @property
    def parsed(self) -> list[Sent]:
        return [parsed(packet) for _, packet in self.packets]

    @property
    def requests(self) -> list[Sent]:
        return [each for each in self.parsed if each.opcode != ACKNOWLEDGE]

    @property
    def answers(self) -> list[Sent]:
        return [each for each in self.parsed if each.opcode == ACKNOWLEDGE]

    @property
    def version(self) -> int:
        return ipaddress.ip_address(self.requestor).version

    @property
    def source_port(self) -> int:
        packet = self.packets[0][1]
        return int.from_bytes(packet[40:42] if self.version == 6 else packet[20:22], "big")


def ip_packets(capture: Path) -> list[tuple[int, bytes]]:
    """A classic pcap file of Ethernet frames, written by a little-endian machine; padding of short frames taken off."""
    data = capture.read_bytes()
    assert struct.unpack_from("<IHH12xI", data) == (0xA1B2C3D4, 2, 4, 1)
    found, at = [], 24
    while at < len(data):
        seconds, micros, length, _ = struct.unpack_from("<IIII", data, at)
        frame = data[at + 16 : at + 16 + length]
        at += 16 + length
        packet = frame[14:]
        (whole,) = struct.unpack_from(">H", packet, 2 if packet[0] >> 4 == 4 else 4)
        found.append((seconds * 1_000_000 + micros, packet[: whole if packet[0] >> 4 == 4 else whole + 40]))
    return found


def ends(packet: bytes) -> tuple[str, str]:
    addresses = packet[12:20] if packet[0] >> 4 == 4 else packet[8:40]
    half = len(addresses) // 2
    return str(ipaddress.ip_address(addresses[:half])), str(ipaddress.ip_address(addresses[half:]))


def opcode_and_qp(packet: bytes) -> tuple[int, int]:
    bth = packet[28:] if packet[0] >> 4 == 4 else packet[48:]
    return bth[0], int.from_bytes(bth[5:8], "big")


@pytest.fixture(scope="module")
def flows(softroce_capture: Path) -> list[Flow]:
    """Both ends of a run have the same QPN; a run of another kind than writes has acknowledgements, too."""
    by_qpn: dict[int, list[tuple[int, bytes]]] = defaultdict(list)
    for when, packet in ip_packets(softroce_capture):
        by_qpn[opcode_and_qp(packet)[1]].append((when, packet))
    found = []
    for packets in by_qpn.values():
        opcodes = {opcode_and_qp(packet)[0] for _, packet in packets}
        if opcodes <= {*WRITES, ACKNOWLEDGE}:
            requestor, responder = ends(packets[0][1])
            found.append(Flow(requestor, responder, packets))
    assert len(found) == 2 * len(RUNS)
    assert {flow.version for flow in found} == {4, 6}
    return found


def connected(flow: Flow, local: str, peer: str, first_psn: int, rkey: int) -> tuple[RcEndpoint, RcQueuePair]:
    """A QP of ours with the numbers of one that was captured."""
    endpoint = RcEndpoint(draw_rkey=lambda: rkey)
    qpn = flow.requests[0].dqp
    qp = endpoint.create_qp(RcConfig(path_mtu=PATH_MTU), qpn=qpn, first_psn=first_psn)
    (path,) = udp_paths(PlanePair(0, 0, local, peer, 0), [flow.source_port])
    source = int(ipaddress.ip_address(peer)) | (0xFFFF << 32 if flow.version == 4 else 0)
    qp.to_init()
    qp.to_rtr(RcPeer(qpn, first_psn, path, source))
    qp.to_rts()
    return endpoint, qp


def transmitted(endpoint: RcEndpoint, now: int) -> list[bytes]:
    batch = TransmitBatch(64)
    endpoint.transmit(batch, now)
    return [batch.packet(row) for row in range(batch.count)]


def fields(packet: Sent) -> tuple[object, ...]:
    """All but what carries it: an IPv4 identification of the kernel's choice is in the ICRC."""
    return packet.opcode, packet.dqp, packet.psn, packet.ackreq, packet.pad, packet.extension, packet.payload


def memory_of(flow: Flow, endpoint: RcEndpoint) -> tuple[bytearray, MemoryRegion]:
    """A region where the captured writes go."""
    names = [each.reth for each in flow.requests if each.opcode in (FIRST, ONLY)]
    start = min(va for va, _, _ in names)
    memory = bytearray(max(va + length for va, _, length in names) - start)
    return memory, endpoint.memory.register(memory, va=start)


def written(flow: Flow, start: int, length: int) -> bytes:
    """What the captured packets write there, worked out packet by packet."""
    memory = bytearray(length)
    at = 0
    for each in flow.requests:
        at = each.reth[0] - start if each.opcode in (FIRST, ONLY) else at
        memory[at : at + len(each.payload)] = each.payload
        at += len(each.payload)
    return bytes(memory)


def test_our_responder_answers_as_soft_roces_did(flows: list[Flow]) -> None:
    for flow in flows:
        first = flow.requests[0]
        endpoint, _ = connected(flow, flow.responder, flow.requestor, first.psn, first.reth[1])
        memory, region = memory_of(flow, endpoint)
        out: list[bytes] = []
        for when, packet in flow.packets:
            if opcode_and_qp(packet)[0] != ACKNOWLEDGE:
                endpoint.receive(ReceivedBatch.from_packets([packet]), when * 1000)
                out += transmitted(endpoint, when * 1000)
        assert [fields(parsed(packet)) for packet in out] == [fields(each) for each in flow.answers]
        if flow.version == 6:
            assert out == [each.whole for each in flow.answers]
        assert bytes(memory) == written(flow, region.va, len(memory))
        assert memory.count(0) < len(memory)
        counters = endpoint.total_counters()
        assert counters.requests_received == len(flow.requests)
        assert (counters.duplicates_old, counters.out_of_sequence) == (0, 0)


def test_our_requestor_sends_what_soft_roces_did(flows: list[Flow]) -> None:
    for flow in flows:
        first = flow.requests[0]
        endpoint, qp = connected(flow, flow.requestor, flow.responder, first.psn, 1)
        content = b"".join(each.payload for each in flow.requests)
        source = endpoint.memory.register(bytearray(content))
        offset = 0
        for number, each in enumerate(each for each in flow.requests if each.opcode in (FIRST, ONLY)):
            va, rkey, length = each.reth
            qp.post_write(WriteRequest(number, source, offset, length, va, rkey))
            endpoint.wake(qp)
            offset += length
        count = RUNS[length]
        assert (offset, number) == (len(content), count - 1)
        out: list[bytes] = []
        for when, packet in flow.packets:
            out += transmitted(endpoint, when * 1000)
            if opcode_and_qp(packet)[0] == ACKNOWLEDGE:
                endpoint.receive(ReceivedBatch.from_packets([packet]), when * 1000)
        assert [fields(parsed(packet)) for packet in out] == [fields(each) for each in flow.requests]
        if flow.version == 6:
            assert out == [each.whole for each in flow.requests]
        done = [(each.wr_id, each.status, each.byte_len) for each in endpoint.completions]
        assert done == [(number, WorkStatus.SUCCESS, length) for number in range(count)]
        assert endpoint.total_counters().retransmitted_packets == 0
