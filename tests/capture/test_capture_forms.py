# SPDX-License-Identifier: BSD-2-Clause
"""The forms that a capture comes in: compressed, text in UTF-16, modified pcap, exports for Elasticsearch; and what is
refused, with its name and a way out."""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import json
import lzma
import os
import random
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import lz4.frame
import pytest
from capture_forms import on_ethernet, pcap
from click.testing import CliRunner
from packet_vectors import PACKETS as VECTORS

from mrc.capture.files import read_capture
from mrc.capture.frames import Record
from mrc.cli import main
from mrc.errors import CallerError, PeerError

needs_tshark = [
    pytest.mark.tshark,
    pytest.mark.skipif(shutil.which("tshark") is None and not os.environ.get("CI"), reason="tshark is not installed"),
]
PACKETS = [on_ethernet(vector.packet) for vector in VECTORS]
FILE = pcap(PACKETS)
# What does not become small: damage in the middle of it is in the middle of the packed file, too.
NOISE = [random.Random(number).randbytes(1000) for number in range(400)]
PACK: dict[str, Callable[[bytes], bytes]] = {
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "lz4": lz4.frame.compress,
}


def read(data: bytes) -> list[Record]:
    return list(read_capture(io.BytesIO(data), "it"))


def until_error(data: bytes) -> tuple[list[Record], str]:
    found: list[Record] = []
    with pytest.raises(PeerError) as error:
        found.extend(_each(data))
    return found, str(error.value)


def _each(data: bytes) -> Iterator[Record]:
    yield from read_capture(io.BytesIO(data), "it")


class TestCompressed:
    @pytest.mark.parametrize("how", PACK)
    def test_is_read_like_what_it_holds(self, how: str) -> None:
        pack = PACK[how]
        expected = read(FILE)
        assert len(expected) == len(PACKETS)
        assert read(pack(FILE)) == expected
        assert read(pack(FILE[:100]) + pack(FILE[100:])) == expected
        assert read(pack(FILE) + b"no member") == expected
        assert read(pack(pcap(NOISE))) == read(pcap(NOISE))

    @pytest.mark.parametrize("how", PACK)
    def test_that_ends_early_gives_what_was_whole(self, how: str) -> None:
        packed = PACK[how](pcap(NOISE))
        found, said = until_error(packed[: len(packed) * 3 // 4])
        # Of the file itself no byte is known.
        assert "the compressed data is damaged (it ends before its end mark): what it unpacks to ends at byte" in said
        assert found == read(pcap(NOISE))[: len(found)]

    @pytest.mark.parametrize("how", ["bzip2", "xz"])
    def test_that_is_damaged_says_so(self, how: str) -> None:
        """Of lz4 only the lengths would tell: its checksum is left out by default."""
        packed = bytearray(PACK[how](pcap([str(number).encode() * 50 for number in range(2000)])))
        for at in range(len(packed) // 2, len(packed) // 2 + 40):
            packed[at] ^= 0xFF
        _, said = until_error(bytes(packed))
        assert "damaged" in said or "the packet record" in said

    def test_without_the_library_lz4_is_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "lz4", None)
        monkeypatch.setitem(sys.modules, "lz4.frame", None)
        with pytest.raises(CallerError, match=r"pip install 'softmrc\[lz4\]'.*lz4 -dc FILE"):
            read(lz4.frame.compress(FILE))

    def test_through_a_pipe(self, tmp_path: Path) -> None:
        (tmp_path / "packets.pcap.xz").write_bytes(lzma.compress(FILE))
        argv = [sys.executable, "-m", "mrc", "dissect", "-", "--summary"]
        with (tmp_path / "packets.pcap.xz").open("rb") as stream:
            done = subprocess.run(argv, stdin=stream, capture_output=True, text=True, check=True)
        assert len(done.stdout.splitlines()) == len(PACKETS)


class TestModifiedPcap:
    @pytest.mark.parametrize("order", "<>")
    def test_is_read(self, order: str) -> None:
        data = struct.pack(order + "IHHiIII", 0xA1B2CD34, 2, 4, 0, 0, 65535, 1)
        for number, packet in enumerate(PACKETS):
            head = struct.pack(order + "IIII", 1_700_000_000 + number, number, len(packet), len(packet))
            data += head + struct.pack(order + "IHBB", 3, 0x86DD, 4, 0) + packet
        assert read(data) == read(FILE)

    def test_cut_short_names_the_byte(self) -> None:
        data = struct.pack("<IHHiIII", 0xA1B2CD34, 2, 4, 0, 0, 65535, 1) + bytes(30)
        found, said = until_error(data[:-10])
        assert found == []
        assert "cut short" in said
        assert "byte 24" in said


def exported(*packets: bytes) -> str:
    layers = [
        {"frame_raw": [packet.hex(), 0, len(packet), 0, 1], "frame": {"frame.time_epoch": "1700000000.000000007"}}
        for packet in packets
    ]
    return json.dumps([{"_source": {"layers": layer}} for layer in layers], indent=1)


class TestText:
    @pytest.mark.parametrize(
        ("encoding", "mark"),
        [("utf-8", codecs.BOM_UTF8), ("utf-16-le", codecs.BOM_UTF16_LE), ("utf-16-be", codecs.BOM_UTF16_BE)],
    )
    def test_with_a_byte_order_mark(self, encoding: str, mark: bytes) -> None:
        """What PowerShell makes of `tshark -T json -x > FILE`."""
        text = exported(*PACKETS)
        data = mark + text.replace("\n", "\r\n").encode(encoding)
        assert read(data) == read(text.encode())
        assert [record.data for record in read(data)] == PACKETS
        assert read(gzip.compress(data)) == read(data)

    def test_cut_within_a_character_says_so(self) -> None:
        data = codecs.BOM_UTF16_LE + exported(*PACKETS).encode("utf-16-le")
        found, said = until_error(data[:-901])
        assert len(found) < len(PACKETS)
        assert "it:" in said

    def test_for_elasticsearch(self) -> None:
        lines = []
        for number, packet in enumerate(PACKETS):
            frame = {"frame_frame_encap_type": "1", "frame_frame_len": str(len(packet) + 4)}
            frame["frame_frame_time_epoch"] = f"1700000000.00000000{number % 10}"
            lines.append(json.dumps({"index": {"_index": "packets-2023-11-14", "_type": "doc"}}))
            lines.append(json.dumps({"timestamp": "1", "layers": {"frame_raw": packet.hex(), "frame": frame}}))
        found = read("\n".join(lines).encode() + b"\n")
        assert [record.data for record in found] == PACKETS
        assert [record.wire_length for record in found] == [len(packet) + 4 for packet in PACKETS]
        assert [record.time_ns for record in found][:3] == [1_700_000_000 * 10**9 + number for number in range(3)]

    def test_for_elasticsearch_without_bytes_names_the_option(self) -> None:
        _, said = until_error(b'{"index":{}}\n{"timestamp":"1","layers":{"frame":{}}}\n')
        assert "packet 1 comes without its bytes (export with tshark -T ek -x)" in said


class TestTshark:
    pytestmark = needs_tshark

    @pytest.mark.parametrize("form", ["json", "ek"])
    def test_its_exports_hold_the_same_packets(self, form: str, softroce_capture: Path) -> None:
        command = ["tshark", "-r", str(softroce_capture), "-T", form, "-x"]
        printed = subprocess.run(command, capture_output=True, check=True).stdout
        assert read(printed) == read(softroce_capture.read_bytes())

    @pytest.mark.parametrize("form", ["pdml", "psml", "text"])
    def test_its_prints_without_bytes_are_named(self, form: str, softroce_capture: Path, tmp_path: Path) -> None:
        command = ["tshark", "-r", str(softroce_capture), "-T", form]
        (tmp_path / "printed").write_bytes(subprocess.run(command, capture_output=True, check=True).stdout)
        result = CliRunner().invoke(main, ["dissect", str(tmp_path / "printed")])
        assert result.exit_code == 1
        assert len(result.stderr.splitlines()) == 1
        assert form == "text" or "export with `tshark -T json -x`" in result.stderr

    @pytest.mark.parametrize("form", ["snoop", "netmon1", "netmon2", "ngsniffer"])
    def test_other_captures_are_named(self, form: str, softroce_capture: Path, tmp_path: Path) -> None:
        converted = tmp_path / "converted"
        subprocess.run(["editcap", "-F", form, str(softroce_capture), str(converted)], check=True)
        with pytest.raises(CallerError, match="editcap -F pcapng"):
            read(converted.read_bytes())


@pytest.mark.parametrize(
    ("head", "said"),
    [
        (b"PK\x03\x04", "zip archive"),
        (b"7z\xbc\xaf\x27\x1c", "7-Zip"),
        (b"\x1f\x9d\x90", "zcat FILE"),
        (b"LZIP\x01", "lzip -dc"),
        (b"\x02\x21\x4c\x18", "lz4 -dc"),
        (b'\xef\xbb\xbf<?xml version="1.0"?>\n<pdml', "PDML"),
        (b"\xff\xfe<\0?\0x\0m\0l\0 \0", "PDML"),
        (b"# 1: IPv6 / UDP", "mrc craft ... -o -"),
        (b"\x1c\x00\x01\xac", "IXIA"),
        (b"hello", "neither pcap nor pcapng"),
        (b"", "is empty"),
    ],
)
def test_what_is_refused_is_named(head: bytes, said: str) -> None:
    with pytest.raises(CallerError) as error:
        read(head)
    assert said in str(error.value)
    assert "\n" not in str(error.value)
