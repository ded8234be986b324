# SPDX-License-Identifier: BSD-2-Clause
"""IPv4 packets in rows shaped like IPv6, against Linux Soft-RoCE and a packet written out by hand."""

from __future__ import annotations

import ipaddress

import numpy as np
import pytest
from icrcs import icrcs_right
from packet_vectors import PACKETS
from test_wire_icrc import _flipped, _ip_packets, _masked_bits
from vector_forms import icrc_by_hand, octets

from mrc.wire.fields import ACK, COMMON
from mrc.wire.frames import Frames
from mrc.wire.header_rows import mapped_rows
from mrc.wire.ipv4 import address_number, is_mapped
from mrc.wire.received_batch import ReceivedBatch
from mrc.wire.templates import packet_template
from mrc.wire.transmit_batch import TransmitBatch

# wire.md sections 1, 3, 5 and 9: IPv4 20, UDP 8, BTH 12, AETH 4, ICRC 4 = 48 bytes; UDP 28 = 1c hex.
ACK_HEADERS = octets(
    """45b80030 0000 4000 40 11 0000 0a000001 0a010002   # ToS 46 << 2, id 0, DF, TTL 64, UDP, 10.0.0.1 to 10.1.0.2
       c123 12b7 001c 0000                               # source port c123, 4791, checksum 0
       d1 00 ffff 00 abcdef 00 000007                    # Acknowledge, P_Key ffff, DQP abcdef, PSN 7
       1f 000003                                         # syndrome 1f, MSN 3"""
)


def _checksummed(packet: bytes) -> bytes:
    """With the header checksum of RFC 791: the ones' complement of the ones' complement sum of its ten words."""
    total = sum(int.from_bytes(packet[at : at + 2], "big") for at in range(0, 20, 2))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return packet[:10] + (total ^ 0xFFFF).to_bytes(2, "big") + packet[12:]


def _acknowledge(batch: TransmitBatch, source: str, destination: str) -> None:
    template = packet_template(address_number(source), address_number(destination), 0xC123, 0)
    frames = Frames()
    frames.add(template, 0, bytes(28))
    row = batch.open_row(frames, 0, 0xB8, 64)
    fields = batch.fields(ACK, row, row + 1)
    fields["opcode"], fields["dqp_word"], fields["psn_word"], fields["aeth_word"] = 0xD1, 0xABCDEF, 7, 0x1F000003


def test_an_acknowledge_over_ipv4_has_every_byte_written_out_by_hand() -> None:
    """MRC-WIRE-04, MRC-ICRC-04, MRC-ICRC-09."""
    batch = TransmitBatch(1)
    _acknowledge(batch, "10.0.0.1", "10.1.0.2")
    batch.seal(0)
    whole = _checksummed(ACK_HEADERS)
    assert batch.packet(0) == whole + icrc_by_hand(whole)


def test_ipv4_and_ipv6_in_one_batch() -> None:
    alone = {}
    ends = (("10.0.0.1", "10.1.0.2"), ("fd00::1", "fd00::2"), ("::1", "::2"))
    for pair in ends:
        single = TransmitBatch(1)
        _acknowledge(single, *pair)
        single.seal(0)
        alone[pair] = single.packet(0)
    batch = TransmitBatch(7)
    order = [0, 1, 2, 0, 0, 1, 2]
    for index in order:
        _acknowledge(batch, *ends[index])
    batch.seal(0)
    packets = [batch.packet(row) for row in range(7)]
    assert packets == [alone[ends[index]] for index in order]
    assert [packet[0] >> 4 for packet in packets] == [4, 6, 6, 4, 4, 6, 6]
    received = ReceivedBatch.from_packets(packets)
    assert icrcs_right(received, np.arange(7)).all()
    assert [received.packet(row) for row in range(7)] == packets
    assert received.length.tolist() == [68] * 7


def test_every_soft_roce_frame_over_ipv4_is_right_in_a_batch_and_none_damaged() -> None:
    """Linux Soft-RoCE is the oracle. MRC-ICRC-04, MRC-ICRC-11."""
    packets = [packet for packet in _ip_packets() if packet[0] >> 4 == 4]
    assert packets
    batch = ReceivedBatch.from_packets(packets)
    rows = np.arange(len(packets))
    assert icrcs_right(batch, rows).all()
    assert icrcs_right(batch, rows[::-2]).all()
    assert [batch.packet(row) for row in rows.tolist()] == packets
    for row, length in enumerate(batch.length.tolist()):
        batch.data[row, length - 1] ^= 0x10
    assert not icrcs_right(batch, rows).any()


def test_soft_roce_frames_of_both_ip_versions_in_one_batch() -> None:
    packets = _ip_packets()
    batch = ReceivedBatch.from_packets(packets)
    assert icrcs_right(batch, np.arange(len(packets))).all()


def test_a_row_says_what_the_ipv4_header_said() -> None:
    """Addresses become IPv4-mapped ones (RFC 4291), ToS the traffic class, TTL the hop limit; no flow label."""
    packet = PACKETS[0].packet
    assert packet[0] == 0x45
    batch = ReceivedBatch.from_packets([packet])
    fields = batch.fields(COMMON)
    assert fields["ip_word"][0] == 6 << 28 | packet[1] << 20
    assert fields["ip_plen"][0] == fields["udp_len"][0] == len(packet) - 20
    assert fields["ip_nh"][0] == 17
    assert fields["ip_hlim"][0] == packet[8]
    assert batch.traffic_class.tolist() == [packet[1]]
    assert fields["src_high"][0] == fields["dst_high"][0] == 0
    assert fields["src_low"][0] == 0xFFFF << 32 | int.from_bytes(packet[12:16], "big")
    assert fields["dst_low"][0] == 0xFFFF << 32 | int.from_bytes(packet[16:20], "big")


def test_batches_cover_and_mask_the_same_bits_of_ipv4() -> None:
    """MRC-ICRC-04, MRC-ICRC-05, MRC-ICRC-06: but for the first byte, which says where UDP begins."""
    packet = PACKETS[0].packet
    bits = range(8, 8 * len(packet))
    batch = ReceivedBatch.from_packets([_flipped(packet, bit) for bit in bits])
    right = {bits[row] for row in np.flatnonzero(icrcs_right(batch, np.arange(len(bits))))}
    assert right == _masked_bits(4)


@pytest.mark.parametrize("first", [0x40, 0x44, 0x46, 0x4F, 0x55])
def test_a_first_byte_that_is_no_plain_ipv4_leaves_the_row_as_it_came(first: int) -> None:
    packet = bytes((first,)) + PACKETS[0].packet[1:]
    batch = ReceivedBatch.from_packets([packet])
    assert batch.packet(0) == packet
    assert batch.fields(COMMON)["ip_word"][0] >> 28 == first >> 4


def test_addresses_as_numbers() -> None:
    assert address_number("10.0.0.1") == int(ipaddress.IPv6Address("::ffff:10.0.0.1"))
    assert address_number("fd00::1") == 0xFD << 120 | 1
    assert is_mapped(address_number("255.255.255.255"))
    assert not any(is_mapped(address_number(text)) for text in ("::1", "::10.0.0.1", "fd00::1", "::fffe:10.0.0.1"))
    with pytest.raises(ValueError, match="host"):
        address_number("host")


def test_only_mapped_sources_are_rows_over_ipv4() -> None:
    sources = ("10.0.0.1", "::1", "::10.0.0.1", "fd00::ffff:10.0.0.1", "0.0.0.0")
    rows = np.array([list(packet_template(address_number(source), 1, 0, 0)) for source in sources], np.uint8)
    assert mapped_rows(rows).tolist() == [True, False, False, False, True]
