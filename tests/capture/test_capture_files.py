# SPDX-License-Identifier: BSD-2-Clause
"""Reading capture files: every form of the two formats, and what is said of damaged ones."""

from __future__ import annotations

import gzip
import io
import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest
import zstandard
from capture_forms import START_S, block, enhanced, interface, option, pcap, section, simple
from hypothesis import given
from hypothesis import strategies as st

from mrc.capture import source
from mrc.capture.files import read_capture
from mrc.capture.frames import Record
from mrc.errors import CallerError, MrcError, PeerError

PACKETS = [bytes(range(length)) for length in (60, 0, 61, 90)]
BILLION = 10**9


def read(data: bytes) -> list[Record]:
    return list(read_capture(io.BytesIO(data), "it"))


def read_until_error(data: bytes) -> tuple[list[Record], MrcError | None]:
    """The packets handed out before the error, and the error."""
    found: list[Record] = []
    try:
        for record in read_capture(io.BytesIO(data), "it"):
            found.append(record)  # noqa: PERF402 - what came before the error is what is looked at
    except MrcError as error:
        return found, error
    return found, None


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(("nanoseconds", "unit"), [(False, 1000), (True, 1)])
def test_pcap(order: str, nanoseconds: bool, unit: int) -> None:
    records = read(pcap(PACKETS, 113, order, nanoseconds))
    assert [record.data for record in records] == PACKETS
    assert [record.time_ns for record in records] == [(START_S + i) * BILLION + i * unit for i in range(4)]
    assert {record.link_type for record in records} == {113}
    assert [record.wire_length for record in records] == [60, 0, 61, 90]


def test_a_frame_check_length_in_the_link_type_is_no_part_of_it() -> None:
    assert [record.link_type for record in read(pcap(PACKETS, 0x3000_00E5))] == [229] * 4


def test_a_packet_the_capture_kept_in_part() -> None:
    record = read(pcap([PACKETS[3]], missing=20))[0]
    assert (len(record.data), record.wire_length) == (70, 90)


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(
    ("options", "units", "expected_ns"),
    [
        (b"", START_S * 10**6 + 7, START_S * BILLION + 7000),
        (b"\x09", START_S * BILLION + 7, START_S * BILLION + 7),
        (b"\x00", START_S, START_S * BILLION),
        (b"\x8a", START_S * 1024 + 512, START_S * BILLION + BILLION // 2),
    ],
)
def test_pcapng_time_resolutions(order: str, options: bytes, units: int, expected_ns: int) -> None:
    chosen = option(9, options, order) + option(0, b"", order) if options else b""
    data = section(order) + interface(options=chosen, order=order) + enhanced(PACKETS[0], units, order=order)
    assert read(data) == [Record(expected_ns, PACKETS[0], 60, 1)]


def test_pcapng_time_offset() -> None:
    data = section() + interface(options=option(14, struct.pack("<q", -10))) + enhanced(b"x", 15_000_000)
    assert read(data)[0].time_ns == 5 * BILLION


def test_pcapng_interfaces_sections_simple_obsolete_and_other_blocks() -> None:
    obsolete = block(2, struct.pack("<HHIIII", 1, 0, 0, 3_000_000, 60, 60) + PACKETS[0])
    data = section() + interface(1, snaplen=32) + interface(113) + block(5, bytes(12))
    data += enhanced(PACKETS[2], 1_000_000, number=1, wire_length=99) + simple(PACKETS[3][:32], 90) + obsolete
    data += section(">") + interface(276, order=">") + enhanced(PACKETS[0], 2_000_000, order=">")
    assert read(data) == [
        Record(BILLION, PACKETS[2], 99, 113),
        Record(None, PACKETS[3][:32], 90, 1),
        Record(3 * BILLION, PACKETS[0], 60, 113),
        Record(2 * BILLION, PACKETS[0], 60, 276),
    ]


@pytest.mark.parametrize("data", [pcap(PACKETS), section() + interface() + enhanced(PACKETS[0], 5)])
def test_gzip_is_read_like_what_it_holds(data: bytes) -> None:
    assert read(gzip.compress(data, mtime=0)) == read(data) != []


def test_packets_larger_than_a_chunk_and_across_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "RUN_BYTES", 37)
    monkeypatch.setattr(source, "HEAD_BYTES", 37)
    assert [record.data for record in read(pcap(PACKETS))] == PACKETS
    data = section() + interface() + b"".join(enhanced(packet, 1) for packet in PACKETS)
    assert [record.data for record in read(data)] == PACKETS
    assert [record.data for record in read(gzip.compress(data, mtime=0))] == PACKETS


def test_a_pcap_cut_anywhere_gives_what_was_whole_and_says_where() -> None:
    data = pcap(PACKETS)
    starts = [24]
    for packet in PACKETS:
        starts.append(starts[-1] + 16 + len(packet))
    for length in range(24, len(data)):
        found, error = read_until_error(data[:length])
        whole = sum(end <= length for end in starts[1:])
        assert [record.data for record in found] == PACKETS[:whole]
        if length in starts:
            assert error is None
        else:
            assert isinstance(error, PeerError)
            assert f"cut short: the packet record at byte {starts[whole]} takes" in str(error)
            assert f"{length - starts[whole]} are there" in str(error)


def test_a_pcapng_cut_anywhere_gives_what_was_whole_and_says_where() -> None:
    blocks = [section(), interface(), *(enhanced(packet, 1) for packet in PACKETS)]
    starts = [sum(map(len, blocks[:count])) for count in range(len(blocks) + 1)]
    data = b"".join(blocks)
    for length in range(4, len(data)):
        found, error = read_until_error(data[:length])
        whole = sum(end <= length for end in starts[1:])
        assert len(found) == max(0, whole - 2)
        assert (error is None) == (length in starts)
        if error is not None:
            assert f"the block at byte {starts[whole]} takes" in str(error)


def test_a_gzip_file_cut_short_still_gives_packets() -> None:
    packets = [os.urandom(1000) for _ in range(200)]
    data = gzip.compress(pcap(packets))
    found, error = read_until_error(data[: len(data) // 2])
    assert [record.data for record in found] == packets[: len(found)]
    assert 90 < len(found) < 100
    assert isinstance(error, PeerError)
    assert "the compressed data is damaged" in str(error)


@given(st.lists(st.binary(min_size=60, max_size=400), min_size=1, max_size=30), st.integers(1, 19))
def test_zstd_is_read_like_what_it_holds(packets: list[bytes], level: int) -> None:
    data = pcap(packets)
    packed = zstandard.ZstdCompressor(level=level, write_checksum=True).compress(data)
    assert read(packed) == read(data) != []
    # Frames one after another, as `cat a.zst b.zst` makes them; without the size in front, as a pipe has it.
    half = len(data) // 2
    streaming = zstandard.ZstdCompressor(write_content_size=False)
    assert read(streaming.compress(data[:half]) + streaming.compress(data[half:])) == read(data)


def test_a_zstd_file_cut_short_still_gives_packets() -> None:
    packets = [bytes([number % 256]) * 1000 for number in range(3000)]
    data = zstandard.ZstdCompressor(level=1).compress(pcap(packets))
    got, error = read_until_error(data[: len(data) - 30])
    assert "the compressed data is damaged" in str(error)
    assert [record.data for record in got] == packets[: len(got)]
    damaged = bytearray(zstandard.ZstdCompressor(write_checksum=True).compress(pcap(PACKETS)))
    damaged[-1] ^= 1
    with pytest.raises(PeerError, match="the compressed data is damaged"):
        list(read_capture(io.BytesIO(bytes(damaged)), "capture"))


def test_without_the_library_zstd_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    packed = zstandard.compress(pcap(PACKETS))
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(CallerError, match=r"pip install 'softmrc\[zstd\]'"):
        read_capture(io.BytesIO(packed), "capture")


def test_a_gzip_file_with_a_wrong_checksum_is_damaged() -> None:
    data = bytearray(gzip.compress(pcap(PACKETS)))
    data[-5] ^= 1
    assert "the compressed data is damaged" in str(read_until_error(bytes(data))[1])


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "it: the file is empty"),
        (b"#!/bin/sh\n", "begins with 23 21 2f 62 at byte 0: neither pcap nor pcapng"),
        (gzip.compress(b"#!/bin/sh\n", mtime=0), "after decompression the file begins with 23 21 2f 62"),
        (pcap([])[:23], "ends inside the 24-byte pcap header, at byte 23"),
    ],
)
def test_what_is_no_capture_is_the_callers_mistake(data: bytes, said: str) -> None:
    with pytest.raises(CallerError) as raised:
        read_capture(io.BytesIO(data), "it")
    assert said in str(raised.value)


_HEAD = section() + interface()


@pytest.mark.parametrize(
    ("data", "whole", "said"),
    [
        (pcap(PACKETS[:1]) + struct.pack("<IIII", 0, 0, 0xFFFFFFF0, 60), 1, "4294967280 bytes, more than the 262144 "),
        (_HEAD + enhanced(b"abcd", 1) + struct.pack("<II", 6, 13) + bytes(4), 1, "length 13, given at byte 88"),
        (_HEAD + struct.pack("<II", 6, 1 << 31) + bytes(4), 0, "length 2147483648, given at byte 52"),
        (_HEAD + enhanced(b"abcd", 1)[:-4] + bytes(4), 0, "does not end with the length it began with, at byte 80"),
        (_HEAD + enhanced(b"abcd", 1, number=1), 0, "a packet of interface 1, which the file does not describe"),
        (_HEAD + block(6, bytes(16)), 0, "too short for its fields, at byte 48"),
        (_HEAD + block(6, struct.pack("<IIIII", 0, 0, 0, 9, 9) + bytes(4)), 0, "says 9 bytes, more than it has"),
        (section() + block(1, bytes(4)), 0, "interface description of less than 20 bytes at byte 28"),
        (section() + interface(options=b"\x09\x00\x40\x00"), 0, "an option says 64 bytes, more than its block has"),
        (block(0x0A0D0D0A, bytes(16)), 0, "without its byte-order magic at byte 8"),
    ],
)
def test_damage_is_named_with_its_byte(data: bytes, whole: int, said: str) -> None:
    found, error = read_until_error(data)
    assert len(found) == whole
    assert isinstance(error, PeerError)
    assert said in str(error)


@given(st.binary(max_size=200), st.sampled_from([b"", pcap(PACKETS)[:24], _HEAD, gzip.compress(pcap(PACKETS))[:30]]))
def test_any_bytes_are_packets_or_an_error_of_ours(data: bytes, head: bytes) -> None:
    found, error = read_until_error(head + data)
    assert error is not None or len(found) * 12 <= len(head + data)


@given(st.data())
def test_any_flipped_byte_is_packets_or_an_error_of_ours(data: st.DataObject) -> None:
    whole = data.draw(st.sampled_from([pcap(PACKETS), _HEAD + b"".join(enhanced(packet, 1) for packet in PACKETS)]))
    damaged = bytearray(whole)
    damaged[data.draw(st.integers(0, len(whole) - 1))] ^= data.draw(st.integers(1, 255))
    found, error = read_until_error(bytes(damaged))
    assert error is not None or len(found) <= len(PACKETS)


@pytest.mark.tshark
@pytest.mark.skipif(
    shutil.which("editcap") is None and not os.environ.get("CI"), reason="editcap (of tshark) is not installed"
)
@pytest.mark.parametrize("form", ["pcapng", "nsecpcap", "modpcap"])
def test_wiresharks_own_files_hold_the_same_packets(form: str, softroce_capture: Path, tmp_path: Path) -> None:
    converted = tmp_path / "converted"
    subprocess.run(["editcap", "-F", form, str(softroce_capture), str(converted)], check=True)
    records = read(converted.read_bytes())
    assert records == read(softroce_capture.read_bytes())
    assert len(records) == 212
