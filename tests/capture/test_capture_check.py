# SPDX-License-Identifier: BSD-2-Clause
"""`--check`: traffic with nothing wrong, and one thing wrong at a time, each under the requirement it breaks."""

from __future__ import annotations

import io
import random
import re
import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from capture_forms import on_ethernet, pcap
from drawn_forms import FORMS
from packet_vectors import PACKETS
from test_capture_columns import under_srv6
from vector_forms import REQUESTOR, RESPONDER, octets, with_icrc

from mrc.capture.check import Check, packets, sequence
from mrc.capture.columns import Columns, read_columns

ROOT = Path(__file__).resolve().parents[2]
REQUIREMENTS = set(
    re.findall(r"^\| (MRC-[A-Z0-9]+-\d+) \|", (ROOT / "docs" / "contributing" / "requirements.md").read_text(), re.M)
)
MTU = 256
FIRST, MIDDLE, LAST, LAST_IMM, ONLY, ONLY_IMM = range(0xC6, 0xCC)


def over_ipv6(transport: bytes, tc: int = 0x12, checksum: int = 0) -> bytes:
    """Addresses, ports and lengths by hand; the ICRC too."""
    length = 8 + len(transport) + 4
    head = struct.pack(">IHBB", 6 << 28 | tc << 20 | 0x100, length, 17, 64)
    addresses = octets("fc000000000000000000000000000001 fc000000000000000000000000000002")
    return with_icrc(head + addresses + struct.pack(">HHHH", 3, 4791, length, checksum) + transport)


def bth(
    opcode: int, dqp: int, psn: int, *, flags: int = 0, pkey: int = 0xFFFF, reserved: int = 0, bits: int = 0
) -> bytes:
    return struct.pack(">BBHBBHI", opcode, flags, pkey, reserved, dqp >> 16, dqp & 0xFFFF, bits << 24 | psn & 0xFFFFFF)


def write(
    opcode: int,
    psn: int,
    msn: int,
    va: int,
    dmalen: int,
    payload: int,
    *,
    rqmsn: int = 0,
    bits: int = 0,
    stamp: int | None = None,
    tseth_word: int = 1,
    flags: int = 0,
    fill: int = 0xAB,
    **transport: int,
) -> bytes:
    """One request to RESPONDER; with `stamp` it has a TSETH."""
    extension = struct.pack(">HH", rqmsn, msn)
    if stamp is not None:
        extension += struct.pack(">HH", stamp, tseth_word)
        bits |= 0x10
    extension += struct.pack(">QII", va, 0xCAFE, dmalen)
    if opcode in (LAST_IMM, ONLY_IMM):
        extension += bytes(4)
    pad = -payload % 4
    head = bth(opcode, RESPONDER, psn, flags=flags | pad << 4, bits=bits, **transport)
    return head + extension + bytes([fill]) * payload + bytes(pad)


def message(psn: int, msn: int, length: int, immediate: bool = False, rqmsn: int = 0) -> list[bytes]:
    """A message cut into packets of MTU bytes."""
    va = 0x7F00_0000_0000 + 0x10000 * msn
    starts = range(0, max(length, 1), MTU)
    found = []
    for number, start in enumerate(starts):
        size = min(MTU, length - start)
        last = number == len(starts) - 1
        opcode = (ONLY if last else FIRST) if not number else (LAST if last else MIDDLE)
        opcode += immediate and last
        found.append(write(opcode, psn + number, msn, va + start, length, size, rqmsn=rqmsn))
    return found


def sack(*, psn: int = 9, dqp: int = REQUESTOR, bits: int = 0, cack: int = 9, **seth: int) -> bytes:
    """Header words of section 6, by hand."""
    word = seth.get("word", 0)
    middle = struct.pack(
        ">HhIHHI",
        word,
        seth.get("offset", 0),
        7,
        seth.get("spdcid", RESPONDER & 0xFFFF),
        seth.get("dpdcid", dqp & 0xFFFF),
        cack,
    )
    tail = struct.pack(">BBhQ", seth.get("cc", 0), 0, seth.get("sack_offset", 1), seth.get("bitmap", 0))
    return bth(0xDC, dqp, psn, bits=bits) + middle + tail + struct.pack(">HHI", 0, seth.get("ooo", 0), 0)


def nack(psn: int, nack_psn: int, reserved: int = 0) -> bytes:
    head = struct.pack(">HBBIHHI", reserved, 1, 0, 7, RESPONDER & 0xFFFF, REQUESTOR & 0xFFFF, nack_psn)
    return bth(0xDD, REQUESTOR, psn) + head + struct.pack(">BBH", 0x20, 0, 0)


def probe(psn: int = 0, reserved: int = 0) -> bytes:
    return bth(0xDE, RESPONDER, psn) + struct.pack(">HBBHHHHHH", reserved, 0, 0, 5, 0, 1, 2, 0, 1)


def request(dqp: int = 2, psn: int = 0x1234, op: int = 1, reserved: int = 0) -> bytes:
    return bth(0xD8, dqp, psn) + struct.pack(">HBBIIHH", op, reserved, 0, 0, 0, 0, 1)


def response(dqp: int = 2, op: int = 1, reserved: int = 0) -> bytes:
    return bth(0xD9, dqp, 0x1234) + struct.pack(">HBB", op << 2, reserved, 0) + bytes(32)


def acknowledge(syndrome: int = 0x1F) -> bytes:
    return bth(0xD1, REQUESTOR, 9) + struct.pack(">I", syndrome << 24 | 3)


GOOD = [
    *message(0xFFFFFE, 7, 5 * MTU),
    *message(3, 8, 10),
    *message(4, 9, 3 * MTU - 5, immediate=True),
    *message(7, 10, 100, immediate=True, rqmsn=1),
    *message(8, 11, 0),
]
CONTROL = [acknowledge(), sack(), sack(word=2, sack_offset=1), nack(5, 5), probe(), request(), response()]


def found(frames: Sequence[bytes], seconds: Sequence[float] | None = None) -> dict[str, list[int]]:
    """Requirement -> the first packets that break it, for frames of Ethernet."""
    data = pcap(frames)
    check = Check()
    for columns in read_columns(io.BytesIO(data), "it"):
        if seconds is not None:
            columns.frames.time_ns[:] = (np.array(seconds) * 1e9).astype(np.int64)
        check.add(columns)
    violations = check.violations
    assert {violation.requirement for violation in violations} <= REQUIREMENTS
    for violation in violations:
        assert violation.count >= len(violation.first) > 0
    together: dict[str, list[int]] = {}
    for violation in violations:
        together.setdefault(violation.requirement, []).extend(violation.first)
    return {requirement: sorted(set(numbers)) for requirement, numbers in together.items()}


def sent(*transports: bytes) -> list[bytes]:
    return [on_ethernet(over_ipv6(transport)) for transport in transports]


def test_nothing_is_wrong_with_good_traffic() -> None:
    assert found(sent(*GOOD, *CONTROL)) == {}


@pytest.mark.parametrize("form", sorted(FORMS))
def test_headers_around_the_packet_are_nobodys_violation(form: str) -> None:
    """A mirror or an overlay over IPv4 carries SRv6, two IP headers, as well as a packet with one."""
    frames = sent(*GOOD, *CONTROL) + [on_ethernet(under_srv6(over_ipv6(transport))) for transport in GOOD]
    assert found([FORMS[form](frame, number) for number, frame in enumerate(frames)]) == {}


def test_order_loss_and_double_capture_are_nobodys_violation() -> None:
    seeded = random.Random(1)
    for _ in range(30):
        frames = sent(*GOOD, *CONTROL)
        frames = [frame for frame in frames for _ in range(seeded.choice((0, 1, 1, 2)))]
        seeded.shuffle(frames)
        assert found(frames) == {}


def test_retransmissions_are_no_violation() -> None:
    again = [packet[:8] + bytes([packet[8] | 0x20]) + packet[9:] for packet in GOOD]
    assert found(sent(*GOOD, *again, *GOOD)) == {}
    # The first transmission may come to the capture after the retransmission.
    assert found(sent(*again, *GOOD)) == {}


def test_real_captures_and_the_vectors(softroce_capture: Path) -> None:
    """Of other people's RoCEv2 the ICRC alone is looked at."""
    check = Check()
    with softroce_capture.open("rb") as stream:
        for columns in read_columns(stream, "it"):
            check.add(columns)
    assert check.violations == []
    trimmed = [on_ethernet(packet.packet) for packet in PACKETS if packet.trimmed]
    assert found(trimmed) == {} != trimmed


def damaged(packet: bytes, at: int, value: int) -> bytes:
    """A packet from its BTH on with one byte changed, its ICRC still right."""
    return packet[:at] + bytes([value]) + packet[at + 1 :]


ONE = message(9, 12, 10)[0]
ONE_IMM = message(9, 12, 10, immediate=True, rqmsn=1)[0]
ONE_PACKET = [
    ("MRC-WIRE-07", damaged(ONE, 1, ONE[1] | 1)),
    ("MRC-WIRE-20", damaged(ONE, 4, 1)),
    ("MRC-WIRE-20", damaged(ONE, 8, 0x40)),
    ("MRC-WIRE-20", damaged(ONE, 8, 0x08)),
    ("MRC-WIRE-22", damaged(ONE, 1, ONE[1] | 0x80)),
    ("MRC-WIRE-22", damaged(ONE, 1, ONE[1] | 0x40)),
    ("MRC-WIRE-22", damaged(ONE_IMM, 1, ONE_IMM[1] | 0x40)),
    ("MRC-WIRE-24", damaged(ONE, 3, 0)),
    ("MRC-WIRE-17", damaged(ONE, 0, 0xC0)),
    ("MRC-WIRE-23", write(ONLY, 9, 12, 0, 0, 0, flags=0x10)),
    ("MRC-WIRE-28", damaged(acknowledge(), 8, 0x10)),
    ("MRC-WIRE-02", acknowledge() + bytes(4)),
    ("MRC-WIRE-02", sack()[:-12]),
    ("MRC-WIRE-01", ONE[:20]),
    ("MRC-REQ-04", write(ONLY, 9, 12, 0, 10, 10, rqmsn=1)),
    ("MRC-REQ-05", write(ONLY, 9, 12, 0, 10, 10, stamp=5, tseth_word=2)),
    ("MRC-REQ-05", write(ONLY, 9, 12, 0, 10, 10, stamp=5, tseth_word=0x11)),
    ("MRC-REQ-10", write(ONLY, 9, 12, 0, 11, 10)),
    ("MRC-REQ-10", write(FIRST, 9, 12, 0, MTU, MTU)),
    ("MRC-REQ-13", write(FIRST, 9, 12, 0, 5000, 300)),
    ("MRC-REQ-15", write(LAST, 9, 12, 0, 5000, 0)),
    ("MRC-REQ-15", write(ONLY, 9, 12, 0, 4100, 4100)),
    ("MRC-WIRE-18", acknowledge(0x20)),
    ("MRC-ACK-03", acknowledge(0x64)),
    ("MRC-ACK-04", acknowledge(0x1E)),
    ("MRC-ACK-05", acknowledge(0x60)),
    ("MRC-WIRE-30", sack(psn=8)),
    ("MRC-SACK-01", sack(word=1)),
    ("MRC-SACK-01", sack(word=1 << 7)),
    ("MRC-SACK-01", sack(word=1 << 12)),
    ("MRC-SACK-01", sack(cack=0x1000009)),
    ("MRC-SACK-05", sack(dpdcid=1)),
    ("MRC-SACK-10", sack(word=3 << 5)),
    ("MRC-SACK-11", sack(ooo=0x8000)),
    ("MRC-SACK-23", sack(bits=0x20, sack_offset=2)),
    ("MRC-SACK-23", sack(word=2, sack_offset=0)),
    ("MRC-NACK-01", nack(5, 5, reserved=1)),
    ("MRC-NACK-02", nack(5, 6)),
    ("MRC-WIRE-32", probe(psn=1)),
    ("MRC-PROBE-01", probe(reserved=1)),
    ("MRC-OP-01", request(reserved=1)),
    ("MRC-OP-02", request(op=2)),
    ("MRC-OP-02", response(op=3)),
    ("MRC-OP-04", response(reserved=1)),
    ("MRC-WIRE-33", request(dqp=3)),
    ("MRC-WIRE-33", request(psn=0x10000)),
    ("MRC-WIRE-33", response(dqp=3)),
]


@pytest.mark.parametrize(
    ("requirement", "transport"), ONE_PACKET, ids=[f"{name}-{i}" for i, (name, _) in enumerate(ONE_PACKET)]
)
def test_one_packet_that_is_wrong(requirement: str, transport: bytes) -> None:
    assert found(sent(*GOOD[:3], transport)) == {requirement: [4]}


def test_the_end_of_a_solicited_message_may_say_so() -> None:
    end = message(9, 12, 10, immediate=True, rqmsn=2)[0]
    assert found(sent(*GOOD, damaged(end, 1, end[1] | 0x80))) == found(sent(*GOOD, end))
    assert "MRC-WIRE-22" not in found(sent(damaged(end, 1, end[1] | 0x80)))


def test_every_rule_about_one_packet_is_tried() -> None:
    assert {rule.requirement for rule in packets.RULES} <= {requirement for requirement, _ in ONE_PACKET}


def test_what_carries_a_packet() -> None:
    good = over_ipv6(ONE)
    wrong_icrc = good[:-1] + bytes([good[-1] ^ 1])
    assert found([on_ethernet(wrong_icrc)]) == {"MRC-ICRC-01": [1]}
    assert found([on_ethernet(over_ipv6(ONE, checksum=1))]) == {"MRC-ICRC-09": [1]}
    assert found([on_ethernet(over_ipv6(ONE, tc=0x10))]) == {"MRC-ECN-01": [1]}
    assert found([on_ethernet(over_ipv6(ONE, tc=0x11))]) == {"MRC-ECN-01": [1]}
    # Congestion marked on the way; and control packets need not be markable.
    assert found([on_ethernet(over_ipv6(ONE, tc=0x13)), on_ethernet(over_ipv6(acknowledge(), tc=0xB8))]) == {}
    # Under SRv6 the outer header counts.
    assert found([on_ethernet(under_srv6(over_ipv6(ONE, tc=0x10)))]) == {}
    four = next(packet.packet for packet in PACKETS if packet.name == "ipv4_acknowledge")
    around = bytes.fromhex("61200000") + struct.pack(">HBB", len(four), 4, 63) + bytes(32)
    assert found([on_ethernet(four)]) == {}
    assert found([on_ethernet(around + four)]) == {"MRC-WIRE-04": [1]}


def test_what_was_corrupted_on_its_way_is_nobodys_violation() -> None:
    """Unless most ICRCs are wrong: those of a tool that writes none."""
    good, probing = on_ethernet(over_ipv6(acknowledge())), over_ipv6(probe(reserved=1), tc=0xB8)
    corrupted = on_ethernet(probing[:-1] + bytes([probing[-1] ^ 1]))
    assert found([good, good, corrupted]) == {"MRC-ICRC-01": [3]}
    assert found([good, good, on_ethernet(probing)]).keys() == {"MRC-PROBE-01"}
    assert found([corrupted, corrupted, good]) == {"MRC-ICRC-01": [1, 2], "MRC-PROBE-01": [1, 2]}


def test_the_icrc_of_standard_packets_counts_too(softroce_capture: Path) -> None:
    with softroce_capture.open("rb") as stream:
        frame = next(read_columns(stream, "it")).frames.record(0).data
    assert found([frame, frame[:-1] + bytes([frame[-1] ^ 1])]) == {"MRC-ICRC-01": [2]}


def test_what_the_capture_did_not_keep_is_no_violation() -> None:
    for missing in (1, 50, 290):
        check = Check()
        for columns in read_columns(io.BytesIO(pcap(sent(*GOOD[:4]), missing=missing)), "it"):
            check.add(columns)
        assert check.violations == []


A, B = write(FIRST, 5, 3, 0x1000, 600, MTU), write(MIDDLE, 6, 3, 0x1000 + MTU, 600, MTU)
C = write(LAST, 7, 3, 0x1000 + 2 * MTU, 600, 600 - 2 * MTU)
D = write(ONLY_IMM, 8, 4, 0x9000, 10, 10, rqmsn=2)
E = write(ONLY_IMM, 9, 5, 0x9000, 10, 10, rqmsn=3)
IN_ORDER = [A, B, C, D, E]
AFTER_ANOTHER = [
    ("MRC-WIRE-25", write(MIDDLE, 6, 3, 0x1000 + MTU, 600, MTU, fill=1)),
    ("MRC-REQ-02", write(MIDDLE, 6, 4, 0x1000 + MTU, 600, MTU, bits=0x20)),
    ("MRC-REQ-03", write(MIDDLE, 6, 3, 0x1000 + MTU, 600, MTU, bits=0x20, rqmsn=1)),
    ("MRC-REQ-09", write(MIDDLE, 6, 3, 0x1001 + MTU, 600, MTU, bits=0x20)),
    ("MRC-REQ-10", write(MIDDLE, 6, 3, 0x1000 + MTU, 601, MTU, bits=0x20)),
]


def test_the_good_sequence_is_good() -> None:
    assert found(sent(*IN_ORDER)) == {}


@pytest.mark.parametrize(("requirement", "transport"), AFTER_ANOTHER)
def test_a_retransmission_that_differs(requirement: str, transport: bytes) -> None:
    assert found(sent(*IN_ORDER, transport)) == {requirement: [6]}


NEIGHBOURS = [
    ({"MRC-SEND-04": [2]}, [C, write(LAST, 8, 4, 0, 600, 10)]),
    ({"MRC-SEND-04": [2]}, [A, write(ONLY, 6, 4, 0, 10, 10)]),
    ({"MRC-REQ-02": [2]}, [C, write(ONLY, 8, 3, 0, 10, 10)]),
    ({"MRC-REQ-02": [2]}, [C, write(ONLY, 8, 5, 0, 10, 10)]),
    ({"MRC-REQ-02": [2]}, [A, write(MIDDLE, 6, 4, 0x1000 + MTU, 600, MTU)]),
    ({"MRC-REQ-03": [2]}, [A, write(MIDDLE, 6, 3, 0x1000 + MTU, 600, MTU, rqmsn=1)]),
    ({"MRC-REQ-03": [2]}, [D, write(ONLY_IMM, 9, 5, 0, 10, 10, rqmsn=2)]),
    ({"MRC-REQ-09": [2]}, [A, write(MIDDLE, 6, 3, 0x1000 + 2 * MTU, 600, MTU)]),
    ({"MRC-REQ-10": [2]}, [A, write(MIDDLE, 6, 3, 0x1000 + MTU, 700, MTU)]),
    ({"MRC-REQ-10": [2]}, [B, write(LAST, 7, 3, 0x1000 + 2 * MTU, 600, 80)]),
    ({"MRC-REQ-14": [2]}, [A, write(MIDDLE, 6, 3, 0x1000 + MTU, 600, 512)]),
    ({"MRC-REQ-15": [2]}, [A, write(LAST, 6, 3, 0x1000 + MTU, 600, 344)]),
]


@pytest.mark.parametrize(("expected", "transports"), NEIGHBOURS)
def test_neighbours_that_do_not_go_together(expected: dict[str, list[int]], transports: list[bytes]) -> None:
    """In whatever order they are captured, and with whatever between."""
    assert found(sent(*transports)) == expected
    assert found(sent(*reversed(transports))) == expected
    later = {requirement: [9] for requirement in expected}
    assert found(sent(transports[0], *CONTROL, transports[1])) == later


def test_neighbours_in_different_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    expected, transports = NEIGHBOURS[7]
    filler = sent(acknowledge()) * 9000
    frames = [*sent(transports[0]), *filler, *sent(transports[1]), *sent(transports[1])]
    assert found(frames) == {requirement: [9002] for requirement in expected}
    monkeypatch.setattr(sequence, "FLOWS_KEPT", 0)
    assert found(frames) == {}


def test_a_connection_that_follows_another_on_the_same_numbers() -> None:
    filler = sent(acknowledge()) * 9000
    expected, transports = NEIGHBOURS[7]
    before = sent(write(ONLY, 50_000, 900, 0, 10, 10))
    assert found([*before, *filler, *sent(transports[0]), *filler, *sent(transports[1])]) == {
        requirement: [18_003] for requirement in expected
    }


def test_timestamps_tell_what_was_sent_late() -> None:
    early, late = write(ONLY, 5, 3, 0, 10, 10, stamp=100), write(ONLY, 6, 4, 0, 10, 10, stamp=99)
    assert found(sent(early, late), seconds=(1.0001, 1.0)) == {"MRC-SEND-04": [2]}
    assert found(sent(early, late), seconds=(1.0, 1.0)) == {"MRC-SEND-04": [2]}
    # They passed in PSN order: the sender stood still for 7.8 ms between stamp and port, 0.6 ms short of the wrap.
    held, next_one = write(ONLY, 5, 3, 0, 10, 10, stamp=3415), write(ONLY, 6, 4, 0, 10, 10, stamp=64088)
    assert found(sent(held, next_one), seconds=(1.0, 1.000155)) == {}
    # Too far apart for 16 bits of 128 ns to tell; another unit; sent again.
    assert found(sent(early, late), seconds=(1.1, 1.0)) == {}
    assert found(sent(early, write(ONLY, 6, 4, 0, 10, 10, stamp=99, tseth_word=0x8001)), seconds=(1.0, 1.0)) == {}
    assert found(sent(early, write(ONLY, 6, 4, 0, 10, 10, stamp=99, bits=0x20)), seconds=(1.0, 1.0)) == {}
    # Across the wrap.
    wrapped = write(ONLY, 6, 4, 0, 10, 10, stamp=2)
    assert found(sent(write(ONLY, 5, 3, 0, 10, 10, stamp=0xFFFF), wrapped), seconds=(1.0, 1.0)) == {}


def test_flows_are_told_apart() -> None:
    other = bytearray(over_ipv6(write(ONLY, 6, 9, 0, 10, 10))[:-4])
    other[23] = 9  # another source
    assert found([*sent(A), on_ethernet(with_icrc(bytes(other)))]) == {}
    dqp = bytearray(write(ONLY, 6, 9, 0, 10, 10))
    dqp[7] ^= 1
    assert found(sent(A, bytes(dqp))) == {}


def test_only_packets_that_pass_count_but_all_are_looked_at() -> None:
    frames = sent(*NEIGHBOURS[7][1], acknowledge(0x20))
    (columns,) = read_columns(io.BytesIO(pcap(frames)), "it")

    def violated(passing: list[bool]) -> list[str]:
        check = Check()
        check.add(columns, np.array(passing))
        return [violation.requirement for violation in check.violations]

    assert violated([True, False, False]) == []
    assert violated([False, True, False]) == ["MRC-REQ-09"]
    assert violated([False, False, True]) == ["MRC-WIRE-18"]
    assert violated([True, True, True]) == ["MRC-REQ-09", "MRC-WIRE-18"]


def test_counts_and_the_first_five() -> None:
    check = Check()
    for columns in read_columns(io.BytesIO(pcap(sent(acknowledge(), acknowledge(0x20)) * 6000)), "it"):
        assert isinstance(columns, Columns)
        check.add(columns)
    (violation,) = check.violations
    assert (violation.count, violation.first) == (6000, [2, 4, 6, 8, 10])
