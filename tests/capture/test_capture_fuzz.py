# SPDX-License-Identifier: BSD-2-Clause
"""Damaged captures: cut at every offset, changed as radamsa changes files. Never an exception, never without end."""

from __future__ import annotations

import gzip
import io
import json
import random
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import numpy as np
import pytest
from capture_forms import enhanced, interface, on_ethernet, pcap, section, simple
from click.testing import CliRunner
from draws import draws
from packet_vectors import PACKETS
from test_capture_check import GOOD, over_ipv6
from test_capture_columns import IPV6, SRH, WHOLE, linked, under_srv6

from mrc.capture.check import Check
from mrc.capture.columns import read_columns
from mrc.capture.columns.documents import documents
from mrc.capture.columns.lines import Lines
from mrc.capture.fields import packet_document
from mrc.capture.files import read_capture
from mrc.capture.filter import Filter
from mrc.capture.frames import Record
from mrc.capture.walk import walk
from mrc.cli import main
from mrc.errors import MrcError

ENDLESS_S = 60
FILTERS = (
    "bth.psn > 100 and seth.m == 1 or malformed",
    "ipv6.dst in 5f00::/16 or srh.segments == ::1 or ipv4.src == 10.0.0.1 or ether.src == 2:0:0:0:0:1",
    "ev > 3 or icrc_ok == false or time_relative > 1 or payload.length in {1..9} or bth.psn != seth.cack_psn",
    "eeth.reserved3 > 1 or ipv6[1].plen & 3 or vlan.vid == 7 or reth.va > 0xffffffff or icrc.crc & 1",
)


@contextmanager
def not_endless() -> Iterator[None]:
    """Whatever takes a minute where milliseconds are enough will take for ever."""

    def ring(signum: int, frame: FrameType | None) -> None:
        pytest.fail(f"no end after {ENDLESS_S} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, ENDLESS_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def export(packets: list[bytes]) -> bytes:
    """The shape of what tshark exports."""
    listed = [
        {"_source": {"layers": {"frame_raw": [data.hex(), 0, len(data), 0, 1], "frame": {"frame.time_epoch": "1.5"}}}}
        for data in packets
    ]
    return json.dumps(listed, indent=1).encode()


def pcapng(packets: list[bytes]) -> bytes:
    links = (1, 101, 113, 276)
    data = section() + b"".join(map(interface, links))
    for number, packet in enumerate(packets):
        data += enhanced(linked(packet, links[number % 4]), 1_000_000 * number, number % 4)
    return (
        data + simple(linked(packets[0], 1)) + section(">") + interface(order=">") + enhanced(b"x" * 60, 5, order=">")
    )


FEW = [WHOLE[0], next(p.packet for p in PACKETS if p.trimmed), under_srv6(IPV6[3], SRH), over_ipv6(GOOD[0])]
SMALL = {
    "pcap": pcap([on_ethernet(packet) for packet in FEW]),
    "big-endian": pcap(FEW[1:], 101, ">", nanoseconds=True),
    "pcapng": pcapng(FEW),
    "gzip": gzip.compress(pcap([on_ethernet(packet) for packet in FEW]), mtime=0),
    "export": export([on_ethernet(packet) for packet in FEW[:2]]),
}


@contextmanager
def only_errors_of_ours() -> Iterator[None]:
    """They are a line, and name the file."""
    said = None
    with not_endless():
        try:
            yield
        except MrcError as error:
            said = str(error)
    assert said is None or (said.startswith("it: ") and "\n" not in said)


def survives(data: bytes) -> int:
    """Goes through a file in every way but Scapy's; how many packets it has. Only errors of ours may come out."""
    packets = 0
    lines, check, filters = Lines(), Check(), [Filter(text) for text in FILTERS]
    with only_errors_of_ours():
        for columns in read_columns(io.BytesIO(data), "it"):
            packets += len(columns)
            assert len(lines.lines(columns)) == len(columns)
            check.add(columns)
            for wanted in filters:
                assert len(wanted.chosen(columns)) == len(columns)
            few = np.arange(min(len(columns), 50))
            for row, text in zip(few.tolist(), documents(columns, few), strict=True):
                record = columns.frames.record(row)
                walked = walk(record.data, record.link_type, record.wire_length)
                document = packet_document(columns.first + row, record, walked)
                assert text == json.dumps(document)
                assert columns.malformed.get(row) == document["malformed"]
    return packets


def records(data: bytes) -> tuple[Record, ...]:
    """What is read of a file before its end, or an error of ours."""
    read: list[Record] = []
    with only_errors_of_ours():
        read.extend(read_capture(io.BytesIO(data), "it"))
    return tuple(read)


@pytest.mark.parametrize("form", SMALL)
def test_cut_at_every_offset(form: str) -> None:
    data = SMALL[form]
    whole = survives(data)
    assert whole >= 2
    # Most cuts leave the packets of the cut before.
    counts, before = [], None
    for length in range(len(data)):
        if (read := records(data[:length])) != before:
            assert survives(data[:length]) == len(read)
        counts.append(len(read))
        before = read
    assert counts == sorted(counts)
    assert counts[0] == 0
    assert counts[-1] >= whole - 1


def test_every_packet_cut_at_every_offset_in_one_file() -> None:
    for packet in (*FEW, *WHOLE[::9]):
        frame = on_ethernet(packet)
        assert survives(pcap([frame[:length] for length in range(len(frame) + 1)])) == len(frame) + 1
        kept = (
            section()
            + interface()
            + b"".join(enhanced(frame[:length], 0, wire_length=len(frame)) for length in range(len(frame) + 1))
        )
        assert survives(kept) == len(frame) + 1


INTERESTING = [
    b"\0",
    b"\xff",
    b"\x7f",
    b"\x80",
    b"\0\0\0\0",
    b"\xff" * 4,
    b"\xff" * 8,
    b"\x00\x10",
    b"9" * 20,
    b"{",
    b'"',
]


def mutated(data: bytes, seeded: random.Random) -> bytes:
    """As radamsa does: bytes flipped, dropped, doubled; runs repeated, swapped, cut; numbers made odd; ends cut off."""
    changed = bytearray(data)
    for _ in range(seeded.choice((1, 1, 2, 4, 16))):
        if not changed:
            break
        at, to = sorted(seeded.randrange(len(changed) + 1) for _ in range(2))
        length = min(to - at, seeded.choice((1, 4, 16, 64, 4096)))
        kind = seeded.randrange(9)
        if kind == 0:
            changed[at % len(changed)] ^= 1 << seeded.randrange(8)
        elif kind == 1:
            changed[at % len(changed)] = seeded.randrange(256)
        elif kind == 2:
            del changed[at : at + length]
        elif kind == 3:
            changed[at:at] = changed[at : at + length] * seeded.choice((1, 2, 100))
        elif kind == 4:
            middle = at + length
            changed[at : middle + length] = changed[middle : middle + length] + changed[at:middle]
        elif kind == 5:
            value = seeded.choice(INTERESTING)
            changed[at : at + len(value)] = value
        elif kind == 6:
            changed[at:at] = seeded.randbytes(length)
        elif kind == 7:
            del changed[to:]
        else:
            changed[at : at + length] = changed[to : to + length]
    return bytes(changed[: 1 << 20])


@pytest.mark.parametrize("seed", range(draws(2)))
def test_mutated_files(seed: int, softroce_capture: Path) -> None:
    seeded = random.Random(seed)
    soft_roce = softroce_capture.read_bytes()
    whole = pcap([on_ethernet(packet) for packet in (*WHOLE, *map(over_ipv6, GOOD))])
    bases = [*SMALL.values(), soft_roce[:20_000], whole, pcapng(WHOLE)]
    packets = 0
    for _ in range(100):
        packets += survives(mutated(seeded.choice(bases), seeded))
        # Of two files, one after the other in the middle.
        one, other = seeded.choice(bases), seeded.choice(bases)
        packets += survives(one[: seeded.randrange(len(one))] + other[seeded.randrange(len(other)) :])
    assert packets > 200


@pytest.mark.parametrize("seed", range(draws(2)))
def test_mutated_packets_in_a_whole_file(seed: int) -> None:
    seeded = random.Random(1000 + seed)
    frames = [mutated(on_ethernet(seeded.choice(WHOLE)), seeded)[:3000] for _ in range(400)]
    for link_type in (1, 101, 113, 276):
        assert survives(pcap(frames, link_type)) == 400


def test_external_captures_mutated(external_captures: list[Path]) -> None:
    seeded = random.Random(7)
    for path in external_captures:
        data = path.read_bytes()
        assert survives(data) > 0
        for length in range(0, len(data), 3):
            survives(data[:length])
        for _ in range(30):
            survives(mutated(data, seeded))


@pytest.mark.parametrize("form", ["--json", "--jsonl", "--summary", "--verbose", "--check"])
def test_the_command_fails_with_one_line_or_not_at_all(form: str, external_captures: list[Path]) -> None:
    seeded = random.Random(11)
    bases = [*SMALL.values(), *(path.read_bytes() for path in external_captures)]
    cases = [*bases, *(mutated(seeded.choice(bases), seeded) for _ in range(40))]
    for data in cases:
        with not_endless():
            result = CliRunner().invoke(main, ["dissect", "-", form], input=data)
        assert isinstance(result.exception, SystemExit | None), result.exception
        assert result.exit_code in (0, 1)
        assert len(result.stderr.splitlines()) == (result.exit_code == 1 or "no packets" in result.stderr)


def test_malformed_external_packets_have_a_reason(external_captures: list[Path]) -> None:
    """Those whose names say so, and no other."""
    reasons = {}
    for path in external_captures:
        result = CliRunner().invoke(main, ["dissect", str(path), "--json"])
        assert result.exit_code == 0, result.output
        found = json.loads(result.stdout)
        assert len(found) > 0
        reasons[path.stem] = [packet["malformed"] for packet in found if packet["malformed"]]
    broken = {name: found for name, found in reasons.items() if found}
    assert broken.keys() == {"tcpdump-ipv6-rthdr-oobr", "tcpdump-ipv6-srh-tlv-pad1-padn-5-trunc"}
    assert all(reason.startswith("cut_short: ") for found in broken.values() for reason in found)
