# SPDX-License-Identifier: BSD-2-Clause
"""The ICRC (wire.md section 9) against Linux Soft-RoCE and against a CRC worked out bit by bit."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from icrcs import icrcs_right
from packet_vectors import PACKETS
from vector_forms import Vector, crc32_bit_by_bit, icrc_by_hand, ipv6_packet
from vectors import STANDARD_VECTORS, VECTORS

from mrc.wire.icrc import icrc_bytes, icrc_ipv4, icrc_ipv6
from mrc.wire.received_batch import ReceivedBatch

CAPTURE = Path(__file__).resolve().parents[2] / "pcaps" / "softroce-rc-ipv4-ipv6.pcap"


def _frames() -> Iterator[bytes]:
    """The Ethernet frames of a classic pcap file."""
    data = CAPTURE.read_bytes()
    order = "<" if data[:4] == b"\xd4\xc3\xb2\xa1" else ">"
    at = 24
    while at < len(data):
        length = struct.unpack_from(order + "I", data, at + 8)[0]
        yield data[at + 16 : at + 16 + length]
        at += 16 + length


def _ip_packets() -> list[bytes]:
    """From the IP header to the ICRC: what the IP header's length says, Ethernet's own padding left out."""
    packets = []
    for frame in _frames():
        packet = frame[14:]
        length = int.from_bytes(packet[2:4], "big") if packet[0] >> 4 == 4 else 40 + int.from_bytes(packet[4:6], "big")
        packets.append(packet[:length])
    return packets


def test_every_soft_roce_frame_has_the_icrc_we_compute() -> None:
    """MRC-ICRC-01."""
    packets = _ip_packets()
    versions = [packet[0] >> 4 for packet in packets]
    assert len(packets) == 212
    assert versions.count(4) > 0
    assert versions.count(6) > 0
    for number, (packet, version) in enumerate(zip(packets, versions, strict=True), 1):
        value = (icrc_ipv4 if version == 4 else icrc_ipv6)(packet[:-4])
        assert icrc_bytes(value) == packet[-4:], f"frame {number}"


def test_batches_find_every_soft_roce_icrc_over_ipv6_right_and_none_damaged() -> None:
    packets = [packet for packet in _ip_packets() if packet[0] >> 4 == 6]
    batch = ReceivedBatch.from_packets(packets)
    rows = np.arange(len(packets))
    assert icrcs_right(batch, rows).all()
    for row, length in enumerate(batch.length.tolist()):
        batch.data[row, (row * 7919) % (length - 60) + 60 if length > 64 else length - 1] ^= 0x10
    assert not icrcs_right(batch, rows).any()


def _flipped(packet: bytes, bit: int) -> bytes:
    damaged = bytearray(packet)
    damaged[bit // 8] ^= 0x80 >> bit % 8
    return bytes(damaged)


def _masked_bits(version: int) -> set[int]:
    """Bits of the packet section 9 sets to ones, by position from the first bit of the IP header."""
    if version == 4:
        ip = {*range(8, 16), *range(64, 72), *range(80, 96)}  # ToS, TTL, header checksum
        udp = 160
    else:
        ip = {*range(4, 32), *range(56, 64)}  # traffic class and flow label; hop limit
        udp = 320
    return ip | set(range(udp + 48, udp + 64)) | set(range(udp + 64 + 32, udp + 64 + 40))


@pytest.mark.parametrize("index", [0, 1], ids=[PACKETS[0].name, PACKETS[1].name])
def test_a_covered_bit_changes_it_and_a_masked_bit_does_not(index: int) -> None:
    """MRC-ICRC-03, MRC-ICRC-04, MRC-ICRC-05, MRC-ICRC-06, MRC-ICRC-07."""
    packet = PACKETS[index].packet[:-4]
    version = packet[0] >> 4
    compute = icrc_ipv4 if version == 4 else icrc_ipv6
    value = compute(packet)
    assert icrc_bytes(value) == PACKETS[index].packet[-4:]
    masked = _masked_bits(version)
    # The header length nibble of IPv4 says where UDP begins; turning it over makes another packet of it.
    for bit in range(8 if version == 4 else 0, 8 * len(packet)):
        assert (compute(_flipped(packet, bit)) == value) == (bit in masked), f"bit {bit}"


def test_batches_cover_and_mask_the_same_bits() -> None:
    packet = PACKETS[1].packet
    bits = range(8 * len(packet))
    batch = ReceivedBatch.from_packets([_flipped(packet, bit) for bit in bits])
    right = set(np.flatnonzero(icrcs_right(batch, np.arange(len(bits)))).tolist())
    assert right == _masked_bits(6)


def test_under_srv6_the_inner_packet_alone_is_covered() -> None:
    """IPv6 in IPv6: the CRC by hand over the inner packet, the outer header as the switches left it or not.

    MRC-ICRC-02, MRC-ICRC-08.
    """
    srv6 = PACKETS[2].packet
    inner = srv6[40:]
    masked = bytearray(inner[:-4])
    masked[0] |= 0x0F
    masked[1] = masked[2] = masked[3] = masked[7] = masked[46] = masked[47] = masked[52] = 0xFF
    assert inner[-4:] == crc32_bit_by_bit(b"\xff" * 8 + bytes(masked)).to_bytes(4, "little")
    assert icrc_bytes(icrc_ipv6(inner[:-4])) == inner[-4:]


@pytest.mark.parametrize("vector", [*VECTORS, *STANDARD_VECTORS], ids=lambda vector: vector.name)
def test_every_vector_has_the_icrc_worked_out_by_hand(vector: Vector) -> None:
    """MRC-ICRC-01, MRC-ICRC-02."""
    packet = ipv6_packet(vector.transport)
    assert icrc_bytes(icrc_ipv6(packet[:-4])) == icrc_by_hand(packet[:-4]) == packet[-4:]
    assert icrc_ipv6(memoryview(packet)[:-4]) == icrc_ipv6(bytearray(packet[:-4]))


def test_ipv4_options_move_udp_and_are_covered() -> None:
    """Section 9 masks ToS, TTL and checksum of the IP header; the options before UDP stay as they are."""
    plain = PACKETS[0].packet[:-4]
    options = b"\x94\x04\x00\x00"  # router alert
    packet = bytes((0x46,)) + plain[1:20] + options + plain[20:]
    masked = bytearray(packet)
    masked[1] = masked[8] = masked[10] = masked[11] = masked[24 + 6] = masked[24 + 7] = masked[24 + 8 + 4] = 0xFF
    assert icrc_ipv4(packet) == crc32_bit_by_bit(b"\xff" * 8 + bytes(masked))
