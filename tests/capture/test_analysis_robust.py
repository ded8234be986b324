# SPDX-License-Identifier: BSD-2-Clause
"""Junk, mutations and cut captures: an analysis always ends, and never with an exception."""

from __future__ import annotations

import contextlib
import random
from pathlib import Path

import pytest
from analyzing import analysis_of
from crafted_flows import MICROSECOND, Crafted, CraftedRc, ev_of, pcap_of, transfer
from draws import draws
from hypothesis import given, settings
from hypothesis import strategies as st

from mrc.capture.analysis.document import document
from mrc.capture.analysis.findings import findings
from mrc.capture.analysis.report import report
from mrc.errors import PeerError

ROOT = Path(__file__).resolve().parents[2]
PATHS = [ev_of(0, 0), ev_of(0, 1), ev_of(1, 0)]


def taken_to_the_end(capture: bytes) -> None:
    analysis = analysis_of(capture)
    found = findings(analysis)
    document("x", analysis, found)
    report("x", analysis, found)


def short_transfer() -> list[tuple[int, bytes]]:
    crafted = Crafted(payload=32)
    transfer(crafted, 60, PATHS, lambda chance, ev: chance.random() < 0.1)
    crafted.probe(10**6, PATHS[0], 3)
    crafted.sack(1_100_000, 59, 59, PATHS[0], probe_id=3)
    crafted.port_status(10**6, 4, 1)
    crafted.nack(1_200_000, 5, PATHS[1], 1)
    crafted.trimmed(1_300_000, 61, PATHS[1])
    rc = CraftedRc()
    rc.write(0, 0, 10)
    rc.ack(50, 0, 0x60)
    rc.read(60, 1, 3000)
    rc.response(70, 1, 13, 1024)
    rc.cnp(80)
    return crafted.records + rc.records


RECORDS = short_transfer()


@settings(max_examples=draws(20), deadline=None)
@given(st.integers(0, 2**32))
def test_packets_with_bytes_changed(seed: int) -> None:
    """Changes in headers of good packets: PSNs, QPNs, opcodes, lengths, addresses that no sender would send."""
    chance = random.Random(seed)
    records = []
    for when, frame in RECORDS:
        changed = bytearray(frame)
        for _ in range(chance.choice((0, 0, 1, 3))):
            changed[chance.randrange(14, min(len(changed), 160))] = chance.randrange(256)
        if chance.random() < 0.1:
            del changed[chance.randrange(14, len(changed)) :]
        records.append((chance.choice((when, 0, chance.randrange(2**61))), bytes(changed)))
    # A time of 2^61 ns does not fit the file's 32 bits of seconds.
    taken_to_the_end(pcap_of([(when % 10**18, frame) for when, frame in records]))


@settings(max_examples=draws(13), deadline=None)
@given(st.lists(st.sampled_from(range(len(RECORDS))), max_size=80))
def test_packets_in_any_order_any_number_of_times(chosen: list[int]) -> None:
    taken_to_the_end(pcap_of([RECORDS[index] for index in chosen]))


def test_random_psns_on_one_qp_are_many_flows_but_not_without_end() -> None:
    chance, crafted = random.Random(1), Crafted(payload=0)
    for number in range(6000):
        crafted.data(number, chance.randrange(1 << 24), PATHS[0], opcode=0xCA)
    analysis = analysis_of(crafted.pcap())
    assert len(analysis.directions) <= 4096
    assert sum(each.figures.packets for each in analysis.directions) + analysis.left_out == 6000


def test_a_capture_cut_at_any_byte_gives_what_came_before() -> None:
    whole = pcap_of(RECORDS[:12])
    ends = {24 + sum(16 + len(frame) for _, frame in RECORDS[:count]) for count in range(13)}
    for end in (*range(24, len(whole), 37), *ends):
        if end in ends:
            taken_to_the_end(whole[:end])
            continue
        with pytest.raises(PeerError, match="cut short"):
            taken_to_the_end(whole[:end])


def test_snapped_packets_are_analysed_by_their_headers() -> None:
    """As tcpdump -s 160 keeps them: no payload, no ICRC, lengths as they were."""
    crafted = Crafted()
    truth = transfer(crafted, 400, PATHS, lambda chance, ev: ev == PATHS[1] and chance.random() < 0.1)
    parts = [crafted.pcap()[:24]]
    for when, frame in crafted.records:
        kept = frame[:160]
        lengths = (when // 10**9, when % 10**9, len(kept), len(frame))
        parts += [b"".join(value.to_bytes(4, "little") for value in lengths), kept]
    (direction,) = analysis_of(b"".join(parts)).directions
    assert direction.figures.lost == sum(truth.lost.values())
    assert direction.figures.goodput_bytes == 400 * 1024


def test_a_capture_without_times() -> None:
    """pcapng's simple packet blocks have none."""
    from capture_forms import interface, section, simple

    crafted = Crafted()
    for psn in range(4):
        crafted.data(psn * MICROSECOND, psn, PATHS[0])
    crafted.sack(10 * MICROSECOND, 3, 3, PATHS[0])
    capture = section() + interface() + b"".join(simple(frame) for _, frame in crafted.records)
    analysis = analysis_of(capture)
    assert (analysis.start_ns, analysis.duration_ns, analysis.without_time) == (None, 0, 5)
    assert analysis.directions[0].figures.goodput_gbps is None
    taken_to_the_end(capture)


@pytest.mark.parametrize("path", sorted((ROOT / "pcaps").glob("*.pcap")), ids=lambda path: path.name)
def test_the_projects_captures(path: Path) -> None:
    taken_to_the_end(path.read_bytes())


def test_other_peoples_captures(external_captures: list[Path]) -> None:
    for path in external_captures:
        # One of them is cut short.
        with contextlib.suppress(PeerError):
            taken_to_the_end(path.read_bytes())
