# SPDX-License-Identifier: BSD-2-Clause
"""What Wireshark exports as JSON with bytes, read back: the same packets as in the capture it came from."""

from __future__ import annotations

import gzip
import io
import json
import math
import os
import shutil
import subprocess
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from capture_forms import enhanced, interface, on_ethernet, section
from packet_vectors import PACKETS

from mrc.capture import source
from mrc.capture.files import read_capture
from mrc.capture.frames import Record
from mrc.errors import MrcError

needs_tshark = [
    pytest.mark.tshark,
    pytest.mark.skipif(shutil.which("tshark") is None and not os.environ.get("CI"), reason="tshark is not installed"),
]

INFINITE_LENGTH = b'[{"_source":{"layers":{"frame_raw":["00",0,1,0,1],"frame":{"frame.len":1e999}}}}]'


def read(data: bytes) -> list[Record]:
    return list(read_capture(io.BytesIO(data), "it"))


def exported(path: Path, *options: str) -> bytes:
    """What `tshark -T json -x` prints, which is what the Wireshark window exports."""
    command = ["tshark", "-r", str(path), "-T", "json", "-x", *options]
    return subprocess.run(command, capture_output=True, check=True).stdout


def packet(data: bytes = b"abc", **frame: Any) -> dict[str, Any]:
    """One packet as tshark 4.0 lays it out, shortened to what is read."""
    fields = {"frame.encap_type": "1", "frame.time_epoch": "1700000000.000000007", "frame.len": "3", **frame}
    return {"_source": {"layers": {"frame_raw": [data.hex(), 0, len(data), 0, 1], "frame": fields}}}


def text(*packets: Any) -> bytes:
    return json.dumps(list(packets), indent=2).encode()


class TestTshark:
    pytestmark = needs_tshark

    def test_soft_roce(self, softroce_capture: Path) -> None:
        found = read(exported(softroce_capture))
        assert found == read(softroce_capture.read_bytes())
        assert len(found) == 212

    def test_one_key_once(self, softroce_capture: Path) -> None:
        """The other form tshark has, for readers that take every key once."""
        assert read(exported(softroce_capture, "--no-duplicate-keys")) == read(softroce_capture.read_bytes())

    def test_external_captures(self, external_captures: list[Path]) -> None:
        for path in external_captures:
            assert read(exported(path)) == read(path.read_bytes()), path.name

    def test_link_types_and_packets_kept_in_part(self, tmp_path: Path) -> None:
        whole = PACKETS[1].packet
        frames = {
            1: on_ethernet(whole),
            101: whole,
            113: bytes.fromhex("0004 0001 0006 020000000001 0000 86dd") + whole,
            228: PACKETS[0].packet,
            229: whole,
            276: bytes.fromhex("86dd 0000 00000003 0001 04 06 0200000000010000") + whole,
        }
        data = section() + b"".join(map(interface, frames))
        for number, frame in enumerate(frames.values()):
            data += enhanced(frame, 1_700_000_000_000_000, number) + enhanced(frame[:60], 7, number, len(frame))
        path = tmp_path / "links.pcapng"
        path.write_bytes(data)
        found = read(exported(path))
        assert found == read(data)
        assert [record.link_type for record in found[::2]] == list(frames)
        assert {record.wire_length - len(record.data) for record in found[1::2]} > {0} or len(found) == 12


def test_an_export_in_any_spelling() -> None:
    expected = [Record(1_700_000_000_000_000_007, b"abc", 3, 1), Record(None, b"", 70, 147)]
    second = packet(b"", **{"frame.encap_type": "9999", "frame.len": "70", "frame.time_epoch": None})
    second["_source"]["layers"]["x"] = {'"}{': ["\\", '\\"', "]}"]}
    for data in (text(packet(), second), json.dumps([packet(), second], separators=(",", ":")).encode()):
        assert read(data) == read(b" \n" + data) == read(gzip.compress(data)) == expected
    assert read(b"[]") == read(b"[\n\n]\n") == []


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        ("1.5", 1_500_000_000),
        ("2023-11-14T22:13:20.000000007Z", 1_700_000_000_000_000_007),
        ("1e400", None),
        ("1e999999999", None),
        ("-1e999999999999999999", None),
        (1e308, None),
    ],
)
def test_times_in_the_forms_that_versions_print(time: str | float, expected: int | None) -> None:
    assert read(text(packet(**{"frame.time_epoch": time})))[0].time_ns == expected


def read_until_error(data: bytes) -> tuple[list[Record], MrcError | None]:
    """The packets handed out before the error, and the error."""
    found: list[Record] = []
    try:
        for record in read_capture(io.BytesIO(data), "it"):
            found.append(record)  # noqa: PERF402 - what came before the error is what is looked at
    except MrcError as error:
        return found, error
    return found, None


def test_cut_anywhere_it_gives_what_was_whole() -> None:
    data = text(*(packet(bytes([i]) * i) for i in range(4)))
    # Two more spaces than a packet's own closing brace has.
    ends = [at + 4 for at in range(len(data)) if data[at : at + 4] == b"\n  }"]
    assert len(ends) == 4
    for length in range(4, len(data)):
        found, error = read_until_error(data[:length])
        assert [record.data for record in found] == [bytes([i]) * i for i in range(sum(end <= length for end in ends))]
        assert str(error).startswith("it: cut short: the ")
    assert read_until_error(data)[1] is None


def test_packets_across_buffers(monkeypatch: pytest.MonkeyPatch) -> None:
    data = text(*(packet(bytes([i]) * i) for i in range(20)))
    expected = read(data)
    monkeypatch.setattr(source, "RUN_BYTES", 64)
    monkeypatch.setattr(source, "HEAD_BYTES", 64)
    assert read(data) == expected
    assert len(expected) == 20


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (
            text({"_source": {"layers": {"frame": {}}}}),
            "packet 1 comes without its bytes (export with tshark -T json -x)",
        ),
        (text(packet(), {}), "packet 2 has no _source.layers"),
        (text({"_source": {"layers": {"frame_raw": "xy"}}}), "packet 1: its JSON object cannot be read (ValueError"),
        (text({"_source": {"layers": {"frame_raw": [5]}}}), "packet 1: its JSON object cannot be read (TypeError"),
        (text(packet(**{"frame.len": "-1"})), "packet 1: _source.layers.frame.frame.len is -1"),
        (text(packet(**{"frame.time_epoch": "yesterday"})), "packet 1: its JSON object cannot be read (ValueError"),
        (text(packet(), 7), "b'7' where a packet's JSON object should begin at byte"),
        (b'[{"a": tru}]', "packet 1 is not JSON: Expecting value at line 1 column 7"),
        (b"[" * 5000, "b'[' where a packet's JSON object should begin at byte 1"),
        (
            b"[" + b'{"a":' * 5000 + b"1" + b"}" * 5000 + b"]",
            "packet 1 is nested more than 32 levels deep at line 1 column 161",
        ),
        (INFINITE_LENGTH, 'packet 1 is not JSON: 1e999 is beyond a double at _source.layers.frame["frame.len"]'),
        (text(packet(**{"frame.len": float("nan")})), 'NaN is no JSON number at _source.layers.frame["frame.len"]'),
        (text(packet(**{"frame.len": 1.5})), "frame.len is 1.5, not a whole number"),
        (text(packet(**{"frame.len": True})), "frame.len is True, not a whole number"),
        (text(packet(**{"frame.len": 1 << 40})), "packet 1: _source.layers.frame.frame.len is 1099511627776"),
        (text(packet(**{"frame.len": "9" * 5000})), "frame.len is '9999"),
        (text(packet(**{"frame.encap_type": -math.inf})), "-Infinity is no JSON number at"),
        (text(packet(**{"frame.time_epoch": math.inf})), "Infinity is no JSON number at"),
        (text(packet(**{"frame.time_epoch": [1, 2]})), "frame.time_epoch is [1, 2], not a time"),
        (text(packet(b"", note="\ud800")), "half of a surrogate pair at _source.layers.frame.note"),
        (text(packet(), packet(**{"frame.len": -math.inf})), "packet 2 is not JSON: -Infinity"),
    ],
)
def test_damage_is_named(data: bytes, said: str) -> None:
    with pytest.raises(MrcError) as raised:
        read(data)
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


# What is read ahead, and what a file is unpacked into, however short it is.
READ_AHEAD = 9 << 20
ESCAPED = b'[{"_source":"' + b'\\"' * 150_000
NESTED = b'[{"_source":' + b"[" * 300_000
OBJECTS = b'[{"_source":[' + b"{}," * 20_000 + b"{}]}]"
SMALL_OBJECTS = b'[{"_source":[' + b'{"":0},' * 9_000 + b"{}]}]"
LONG_STRING = b'[{"_source":"' + b"a" * 300_000 + b'"}]'


@pytest.mark.parametrize("data", [ESCAPED, NESTED, OBJECTS, SMALL_OBJECTS, LONG_STRING])
def test_much_of_anything_takes_a_few_times_its_size(data: bytes) -> None:
    """One packet's JSON of 300 KB, long in every way; a string of 3 MB took 400 MB, 150 KB of quotes took minutes."""
    tracemalloc.start()
    try:
        found, error = read_until_error(data)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found == []
    assert error is not None
    assert peak < 6 * len(data) + READ_AHEAD
