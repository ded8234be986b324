# SPDX-License-Identifier: BSD-2-Clause
"""Times keep their nanoseconds: in the table as many digits as the file has, in documents text with nine."""

from __future__ import annotations

import io
import json
import struct

import numpy as np
import pytest
from capture_forms import enhanced, interface, on_ethernet, option, section, simple
from packet_vectors import PACKETS

from mrc.capture.columns import read_columns
from mrc.capture.columns.documents import documents
from mrc.capture.columns.lines import Lines
from mrc.capture.filter import Filter
from mrc.capture.texts import seconds_text

PACKET = on_ethernet(PACKETS[0].packet)
START_NS = 1_700_000_000_123_456_789


def pcap(times_ns: list[int], nanoseconds: bool) -> bytes:
    data = struct.pack("<IHHiIII", 0xA1B23C4D if nanoseconds else 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
    for time_ns in times_ns:
        seconds, part = divmod(time_ns, 1_000_000_000)
        data += struct.pack("<IIII", seconds, part if nanoseconds else part // 1000, len(PACKET), len(PACKET)) + PACKET
    return data


def shown(data: bytes) -> tuple[list[str], list[str]]:
    """The times in the table and in the documents."""
    lines, table, texts = Lines(), [], []
    for columns in read_columns(io.BytesIO(data), "it"):
        table += [line.split()[1] for line in lines.lines(columns)]
        texts += [json.loads(text)["time"] for text in documents(columns, np.arange(len(columns)))]
    return table, texts


def test_nanoseconds_are_shown_where_the_file_has_them() -> None:
    # Beyond 2^53 a double has no odd nanoseconds.
    table, texts = shown(pcap([START_NS, START_NS + 1, START_NS + 61_000_000_003], nanoseconds=True))
    assert table == ["0.000000000", "0.000000001", "61.000000003"]
    assert texts == ["1700000000.123456789", "1700000000.123456790", "1700000061.123456792"]


def test_microseconds_have_six_digits() -> None:
    table, texts = shown(pcap([START_NS, START_NS + 5_000, START_NS - 2_000_000], nanoseconds=False))
    assert table == ["0.000000", "0.000005", "-0.002000"]
    assert texts == ["1700000000.123456000", "1700000000.123461000", "1700000000.121456000"]


@pytest.mark.parametrize(
    ("resolution", "units", "expected"),
    [
        (9, [START_NS, START_NS + 7], "0.000000007"),
        (6, [START_NS // 1000, START_NS // 1000 + 7], "0.000007"),
        (3, [START_NS // 10**6, START_NS // 10**6 + 7], "0.007000"),
        (0, [1_700_000_000, 1_700_000_007], "7.000000"),
        (12, [10**18, 10**18 + 7999], "0.000000007"),
        # 2^-10 s, of which three are 2,929,687.5 ns.
        (0x8A, [1_700_000_000 << 10, (1_700_000_000 << 10) + 3], "0.002929687"),
    ],
)
def test_pcapng_of_any_resolution(resolution: int, units: list[int], expected: str) -> None:
    described = interface(options=option(9, bytes([resolution])))
    data = section() + described + b"".join(enhanced(PACKET, unit) for unit in units)
    assert shown(data)[0][1] == expected


def test_a_packet_without_a_time_has_none() -> None:
    table, texts = shown(
        section() + interface(options=option(9, b"\x09")) + enhanced(PACKET, START_NS) + simple(PACKET)
    )
    assert table == ["0.000000000", "-"]
    assert texts == ["1700000000.123456789", None]


def test_a_filter_knows_each_nanosecond() -> None:
    data = pcap([START_NS, START_NS + 1], nanoseconds=True)
    for text, wanted in (
        ('time == "1700000000.123456789"', [True, False]),
        ("time == 1700000000.123456790", [False, True]),
        ('time == "2023-11-14 22:13:20.123456789"', [True, False]),
        ('time > "2023-11-14T22:13:20.123456789Z"', [False, True]),
        ("time_relative == 0.000000001", [False, True]),
    ):
        (columns,) = read_columns(io.BytesIO(data), "it")
        assert Filter(text).chosen(columns).tolist() == wanted, text


@pytest.mark.parametrize(
    ("time_ns", "digits", "text"),
    [
        (0, 9, "0.000000000"),
        (1_999_999_999, 9, "1.999999999"),
        (1_999_999_999, 6, "1.999999"),
        (-1, 9, "-0.000000001"),
        (-1_500_000_000, 6, "-1.500000"),
        ((1 << 63) - 1, 9, "9223372036.854775807"),
    ],
)
def test_seconds_as_text(time_ns: int, digits: int, text: str) -> None:
    assert seconds_text(time_ns, digits) == text


def test_extreme_times_do_not_wrap_around() -> None:
    described = interface(options=option(9, b"\x09"))
    moved = interface(options=option(9, b"\x09") + option(14, struct.pack("<q", -9_223_372_036)))
    data = section() + described + moved + enhanced(PACKET, (1 << 63) - 1) + enhanced(PACKET, 0, 1)
    table, texts = shown(data)
    assert table == ["0.000000000", "-18446744072.854775807"]
    assert texts == ["9223372036.854775807", "-9223372036.000000000"]
