# SPDX-License-Identifier: BSD-2-Clause
"""Malformed input: nothing is raised, nothing changes, each packet is counted (behaviour.md, Errors)."""

from __future__ import annotations

from collections.abc import Iterator

from mrc.conformance.cases.robustness.hostile import know_ordinary_counters, transport
from mrc.conformance.script import Bench, Crafted, Heard, case, pattern, us, wire

COUNTED = "what is done with the packet that the story ends with, and under which name it is counted"


def _with_byte(packet: Crafted, at: int, value: int) -> Crafted:
    """With another byte `at` of its (inner) IPv6 header."""
    frame = bytearray(packet.frame())
    frame[len(frame) - packet.size + at] = value
    return packet.but(whole=bytes(frame))


def _malformed(bench: Bench, write: Heard) -> Iterator[tuple[str, Crafted]]:
    """One packet of each kind of malformation, each with the next PSN or about PSN 0 of the target's, and what is wrong
    with it."""
    make = bench.make
    good = make.request(0, pattern(32), ackreq=1)
    yield "11 bytes from the BTH on", good.but(body=bytes(11))
    yield (
        "a METH that is cut short",
        good.but(body=b"\xca\0\xff\xff\0" + bench.target.qpn.to_bytes(3, "big") + bytes(6)),
    )
    yield "TCP instead of UDP", _with_byte(good, 6, 6)
    yield "IP version 5", _with_byte(good, 0, 0x50)
    yield "a UDP length of 8", good.but(udp_len=8)
    yield "UDP port 4790", good.but(dport=4790)
    yield "TVer 2", good.but(tver=2)
    yield "opcode 0x0a", good.but(opcode=0x0A)
    yield "a wrong ICRC", good.but(icrc=good.right_icrc ^ 1)
    yield "a QP that there is not", good.but(dqp=bench.target.qpn ^ 0x800000)
    yield "a source that is not the peer", good.but(src=good.carriage.src ^ 0x100)
    yield "a write to the QP of endpoint operations", good.but(dqp=wire.ENDPOINT_QPN)
    yield "an endpoint request to another QP", make.endpoint_request(1).but(dqp=bench.target.qpn)
    yield "op 3", make.endpoint_request(1, op=3)
    yield (
        "a SACK of 4 bytes too few",
        make.sack(0, to=write).but(
            body=transport(make.sack(0, to=write))[:-4],
        ),
    )
    yield "a SACK for PSN 1, never sent", make.sack(1, to=write)
    yield "an ACK for PSN 1, never sent", make.ack(1)
    yield "a NAK for PSN 1, never sent", make.aeth(1, wire.REMOTE_ACCESS_ERROR)
    yield (
        "a NACK for PSN 1, never sent",
        make.nack(write, wire.UNEXP_EVENT).but(nack_psn=bench.target.first_psn + 1 & 0xFFFFFF),
    )
    yield "a NAK with syndrome 0x70", make.aeth(0, 0x70)


def _write_out(bench: Bench) -> Heard:
    """A write of the target's that nobody has acknowledged, PSN 0; and it is known what counts good packets."""
    know_ordinary_counters(bench)
    return bench.written(0, pattern(16))


def _expect_as_before(bench: Bench) -> None:
    """The next PSN is 0, the target's write is out still, nothing is written, the QP is in RTS."""
    bench.expect_state("RTS")
    bench.expect_nothing_written()
    bench.expect_no_completion()
    bench.probe(3)
    bench.expect("SACK", probe_id=3, cack_psn=-1, bitmap=0)
    bench.ack(0, msn=1)
    bench.wait(us(10))
    bench.expect_completion("WRITE")
    bench.expect_works(0)


@case("MRC-ERR-01", connections=2, look_at=COUNTED)
def good_packets_are_taken_among_malformed_ones(bench: Bench) -> None:
    """One burst has a packet of each kind of malformation with good requests between them: these are written and
    acknowledged, and the target raises nothing."""
    write = _write_out(bench)
    burst = []
    for psn, (_, packet) in enumerate(_malformed(bench, write)):
        burst += [packet, bench.make.request(psn, pattern(8), offset=8 * psn)]
    count = len(burst) // 2
    bench.send(*burst)
    bench.expect("ACK", psn=count - 1)
    bench.expect_memory(0, count * pattern(8))
    bench.expect_nothing_written()
    bench.expect_no_completion()
    bench.expect_state("RTS")
    bench.expect_works(count)


@case("MRC-ERR-02", connections=2, look_at=COUNTED)
def malformed_packets_are_dropped_and_counted(bench: Bench) -> None:
    """A packet of each kind of malformation comes by itself: it is not answered, one counter rises by one, and the
    state of requestor and responder is what it was."""
    write = _write_out(bench)
    for what, packet in _malformed(bench, write):
        bench.mark_counters()
        bench.send(packet)
        bench.wait(us(1))
        answers = [packet for packet in bench.read() if packet.kind != "PROBE"]  # that asks for the write
        bench.check(not answers, f"no answer to a packet with {what}", f"{answers[0] if answers else ''}")
        bench.expect_counted(1)
    _expect_as_before(bench)


@case("MRC-ERR-02/many", connections=2, look_at="whether each of several packets that come at once is counted")
def malformed_packets_are_counted_one_by_one(bench: Bench) -> None:
    """Ten of each kind of malformation come in one burst: one counter rises by ten, and the state is what it was."""
    write = _write_out(bench)
    for what, packet in _malformed(bench, write):
        bench.mark_counters()
        bench.send(*[packet] * 10)
        bench.wait(us(1))
        answers = [packet for packet in bench.read() if packet.kind != "PROBE"]  # that asks for the write
        bench.check(not answers, f"no answer to packets with {what}", f"{answers[0] if answers else ''}")
        bench.expect_counted(10)
    _expect_as_before(bench)
