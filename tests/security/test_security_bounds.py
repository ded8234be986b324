# SPDX-License-Identifier: BSD-2-Clause
"""Every number of a packet by which compiled code finds a place in memory, at its limits and beyond (compiled.md,
Indices). Compiled without checks, a place that is not there is memory of somebody else; interpreted it is an error."""

from __future__ import annotations

import os
import socket

import numpy as np
import pytest
from hand_peer import ONLY, ONLY_IMMEDIATE, REGION_VA, HandPeer, icrc

from mrc.endpoint.config import QpConfig
from mrc.endpoint.datapath.qp_datapath import MAX_PORTS, PeerSources
from mrc.endpoint.qp_states import QpState
from mrc.errors import CallerError, SystemRefused
from mrc.fabric.host_view import Fabric, FabricPort
from mrc.net import system
from mrc.net.device import open_device
from mrc.wire.received_batch import ReceivedBatch

CONFIG = QpConfig(path_mtu=256)
FAR = (-(1 << 63), -(1 << 31), -MAX_PORTS - 1, -1, 2, MAX_PORTS - 1, MAX_PORTS, 255, 1 << 31, (1 << 63) - 1)
BTH = 48  # of a packet: behind IPv6 and UDP
SETH = BTH + 12  # its ack_psn_offset at 2, its sack_offset at 18, then the bitmap


def changed(packet: bytes, at: int, value: bytes) -> bytes:
    """The packet with other bytes at `at`, its ICRC right."""
    whole = packet[:at] + value + packet[at + len(value) : -4]
    return whole + icrc(whole)


def dropped_or_answered(hand: HandPeer, packet: bytes, port: int = 0, traffic_class: int | None = None) -> None:
    """The endpoint goes on, whatever became of the packet."""
    classes = () if traffic_class is None else (traffic_class,)
    hand.receive(packet, port=port, traffic_class=classes)
    hand.transmitted()


# ------------------------------------------------------------------ ports


@pytest.mark.parametrize("port", FAR)
def test_a_port_that_cannot_be_is_nobodys(port: int) -> None:
    """`PeerSources.has_sent` by the port a packet came in on: 16 places."""
    hand = HandPeer(CONFIG)
    packets = [hand.request(0, b"x"), hand.sack(-1), hand.nack(0, 1), hand.probe()]
    batch = ReceivedBatch.from_packets(packets, 0)
    ports = np.full(len(packets), port, np.int64)
    odd = ReceivedBatch(batch.flat, batch.room, batch.count, batch.lengths, ports, np.zeros(len(packets), np.int64))
    hand.endpoint.receive(odd, hand.now)
    assert hand.transmitted() == []
    assert hand.buffer[0] == 0
    assert hand.qp.state == QpState.RTS
    assert hand.counters.get("bad_source", 0) >= 3


def test_a_peers_port_is_one_of_sixteen() -> None:
    sources = PeerSources()
    sources.add(0, 1)
    sources.add(MAX_PORTS - 1, 1)
    for port in FAR:
        if not 0 <= port < MAX_PORTS:
            with pytest.raises(CallerError, match=r"ports are numbered 0\.\.15"):
                sources.add(port, 1)


def test_a_fabric_has_no_more_ports_than_an_endpoint() -> None:
    def fabric(count: int) -> Fabric:
        ports = tuple(FabricPort(plane, f"p{plane}", f"fd00:{plane:x}::1", 0, 1) for plane in range(count))
        return Fabric("mrc", 0, 1500, ports)

    assert len(fabric(MAX_PORTS).ports) == MAX_PORTS
    with pytest.raises(CallerError, match="at most 16 ports, got 17"):
        fabric(MAX_PORTS + 1)


# ------------------------------------------------------------------ bytes that are looked up


@pytest.mark.parametrize("opcode", range(256))
def test_every_opcode_in_every_form(opcode: int) -> None:
    """`arrivals`, `packet_checks`, `message_checks`, `request_checks`, `responder`: tables of 256 places by opcode.
    Lengths from nothing behind the BTH to more than any header."""
    hand = HandPeer(CONFIG)
    hand.post(600)
    hand.transmitted()
    for packet in (hand.request(1, bytes(64), op=ONLY_IMMEDIATE), hand.sack(0, [2]), hand.nack(0, 1), hand.probe()):
        for cut in (len(packet), 60 + 4, 60 + 5, 60 + 8 + 4, 60 + 24 + 4):
            shorter = packet[: cut - 4] + packet[-4:]
            length = len(shorter) - 40
            shorter = shorter[:4] + length.to_bytes(2, "big") + shorter[6:44] + length.to_bytes(2, "big") + shorter[46:]
            dropped_or_answered(hand, changed(shorter, BTH, bytes((opcode,))))


@pytest.mark.parametrize("first", range(0, 256, 32))
def test_every_reason_syndrome_and_traffic_class(first: int) -> None:
    """`nacked` by reason, `refusals` by syndrome: 256; `packet_checks` by DSCP: 64."""
    for value in range(first, first + 32):
        hand = HandPeer(CONFIG)
        hand.post(600)
        hand.transmitted()
        dropped_or_answered(hand, hand.nack(0, value))
        dropped_or_answered(hand, hand.ack(1, syndrome=value))
        request = hand.request(0, b"x" * 16)
        dropped_or_answered(hand, request, traffic_class=value)
        dropped_or_answered(hand, request[:68], traffic_class=value)


# ------------------------------------------------------------------ rings


@pytest.mark.parametrize("first_psn", [0, 1, 0x7FFFFF, 0x800000, 0xFFFFFF])
def test_every_distance_from_what_was_sent(first_psn: int) -> None:
    """`sack_reading`, `sent`, `loss`, `requests` by PSN: rings with a mask. SACKs, NACKs and ACKs for PSNs near the
    window's edges, half a circle away, and at the limits of the bitmap and its offset."""
    hand = HandPeer(CONFIG, first_psn=first_psn)
    hand.post(256 * 40)
    hand.transmitted()
    near = [edge + step for edge in (0, 40, 64, 1024, 32_640, 1 << 16, 1 << 23) for step in (-2, -1, 0, 1, 2)]
    for number in [*near, *(-each for each in near)]:
        dropped_or_answered(hand, hand.nack(number, 1))
        for offset in (-32_768, -1024, -1, 0, 1, 63, 1024, 32_767):
            packet = hand.sack(number % (1 << 24), offset=1)
            dropped_or_answered(hand, changed(packet, SETH + 18, (offset & 0xFFFF).to_bytes(2, "big") + b"\xff" * 8))
            dropped_or_answered(hand, changed(packet, SETH + 2, (offset & 0xFFFF).to_bytes(2, "big")))
    for number in near:
        if hand.qp.state != QpState.RTS:
            break
        dropped_or_answered(hand, hand.ack(number))


@pytest.mark.parametrize("first_psn", [0, 0x7FFFFF, 0xFFFFFF])
def test_every_distance_from_what_arrived(first_psn: int) -> None:
    """`received`, `message_checks`, `receives` by PSN: rings that follow the window."""
    for edge in (0, 127, 128, 1023, 1024, 32_639, 32_640, 1 << 16, (1 << 23) - 1, 1 << 23):
        for step in (-1, 0, 1):
            hand = HandPeer(CONFIG, peer_first_psn=first_psn)
            hand.qp.post_receive(1)
            for op, rqmsn in ((ONLY, 0), (ONLY_IMMEDIATE, 0), (ONLY_IMMEDIATE, 0xFFFF), (ONLY_IMMEDIATE, 31)):
                dropped_or_answered(hand, hand.request(edge + step, b"x", op=op, rqmsn=rqmsn))
                dropped_or_answered(hand, hand.request(-edge + step, b"x", op=op, rqmsn=rqmsn))


@pytest.mark.parametrize("dmalen", [0, 1, 255, 256, 257, 1 << 20, (1 << 31) - 1, 1 << 31, (1 << 32) - 1])
@pytest.mark.parametrize(
    "va", [0, REGION_VA - 1, REGION_VA, REGION_VA + (1 << 20) - 1, 1 << 48, 1 << 63, (1 << 64) - 1]
)
def test_every_address_and_length(va: int, dmalen: int) -> None:
    """`request_checks`: where payload is copied to, from 64 bits of the peer's."""
    for op in range(0xC6, 0xCC):
        hand = HandPeer(CONFIG)
        before = bytes(hand.buffer)
        dropped_or_answered(hand, hand.request(0, b"y" * 256, op=op, va=va, dmalen=dmalen))
        inside = va == REGION_VA and ((dmalen == 256 and op in (ONLY, ONLY_IMMEDIATE)) or (op == 0xC6 and dmalen > 256))
        if not inside:
            assert bytes(hand.buffer) == before


# ------------------------------------------------------------------ descriptors


def test_as_many_descriptors_as_a_mask_has_bits() -> None:
    """`system_wait` fills an array of MOST_FDS: more are not looked at, and `Turn.watch` refuses them."""
    readable, other = socket.socketpair()
    other.send(b"x")
    quiet, silent = socket.socketpair()
    try:
        for count in (1, 62, 63, 64, 65, 200):
            fds = memoryview(np.full(count, quiet.fileno(), np.int64))
            fds[min(count, system.MOST_FDS) - 1] = readable.fileno()
            assert system.wait(fds, count, 0) == 1 << min(count, system.MOST_FDS) - 1
    finally:
        for each in (readable, other, quiet, silent):
            each.close()


def test_a_loop_refuses_more_descriptors_than_it_can_watch() -> None:
    with open_device(addresses=["127.0.0.1"]) as device:
        turn = device.node.driver._turn
        read, write = os.pipe()
        try:
            with pytest.raises(SystemRefused, match="62 are the most"):
                turn.watch([read], [write] * 62)
        finally:
            os.close(read)
            os.close(write)
