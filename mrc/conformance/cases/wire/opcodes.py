# SPDX-License-Identifier: BSD-2-Clause
"""The opcodes: what each is sent for, and what is done with those that are not in the table (wire.md section 2)."""

from __future__ import annotations

from mrc.conformance.script import FOR_A_RECEIVE, Bench, case, ms, pattern, seconds, us, wire


def _expect_opcode(bench: Bench, kind: str, opcode: int, **fields: int) -> None:
    """The next packet of a kind has this opcode: its first byte behind UDP."""
    packet = bench.expect(kind, **fields)
    found = packet.frame[len(packet.frame) - (packet.udp_len - 8)]
    bench.check(found == opcode, f"opcode {opcode:#04x}", f"it is {found:#04x}: {packet}")


@case("MRC-WIRE-10", look_at="which opcode the first, middle, last and only packet of a plain write has")
def a_write_is_sent_as_first_middle_last_or_only(bench: Bench) -> None:
    """The target's write of four packets goes out as 0xc6, 0xc7, 0xc7, 0xc8, of two as 0xc6, 0xc8, of one as 0xca."""
    for packets in (4, 2, 1):
        bench.post_write(pattern(packets * bench.mtu))
    for psn, opcode in enumerate((0xC6, 0xC7, 0xC7, 0xC8, 0xC6, 0xC8, 0xCA)):
        _expect_opcode(bench, "WRITE", opcode, psn=psn)


@case("MRC-WIRE-10/received", region=65536, look_at="what is done with each of the four opcodes")
def first_middle_last_and_only_are_taken(bench: Bench) -> None:
    """A message as 0xc6, 0xc7, 0xc8 and one as 0xca are written and counted as two messages."""
    payload = pattern(2 * bench.mtu + 7)
    sent = bench.message(0, payload)
    opcodes = [packet.fields["bth"]["opcode"] for packet in sent]
    bench.check(opcodes == [0xC6, 0xC7, 0xC8], "the tester to send 0xc6, 0xc7, 0xc8", f"it sent {opcodes}")
    bench.expect("ACK", psn=2, msn=1)
    bench.expect_memory(0, payload)
    bench.request(3, pattern(40), offset=8192, msn=1, opcode=0xCA)
    bench.expect("ACK", psn=3, msn=2)
    bench.expect_memory(8192, pattern(40))


@case("MRC-WIRE-11", look_at="which opcode the last packet of a write with immediate has")
def a_write_with_immediate_ends_in_its_own_opcode(bench: Bench) -> None:
    """The target's write with immediate of three packets goes out as 0xc6, 0xc7, 0xc9, of one as 0xcb."""
    bench.post_write(pattern(3 * bench.mtu), immediate=1)
    bench.post_write(pattern(8), immediate=2)
    for psn, opcode in enumerate((0xC6, 0xC7, 0xC9, 0xCB)):
        _expect_opcode(bench, "WRITE", opcode, psn=psn)


@case(
    "MRC-WIRE-11/received",
    region=65536,
    immediates=1,
    look_at="what is done with 0xc9 and 0xcb, and where their ImmDt is looked for",
)
def writes_with_immediate_are_taken(bench: Bench) -> None:
    """A message that ends in 0xc9 and one that is 0xcb: both are written, both immediates are told."""
    first, second = bench.post_receives(2)
    payload = pattern(bench.mtu + 7)
    sent = bench.message(0, payload, immediate=0x11223344)
    bench.check(sent[-1].fields["bth"]["opcode"] == 0xC9, "the tester to send 0xc9", f"it sent {sent[-1]}")
    bench.expect("ACK", psn=1, msn=1)
    bench.expect_memory(0, payload)
    bench.expect_completion("RECEIVE", wr_id=first, immediate=0x11223344, length=len(payload))
    bench.request(2, pattern(5), offset=8192, msn=1, rqmsn=1, opcode=0xCB, immediate=0x55667788)
    bench.expect("ACK", psn=2, msn=2)
    bench.expect_memory(8192, pattern(5))
    bench.expect_completion("RECEIVE", wr_id=second, immediate=0x55667788, length=5)


@case("MRC-WIRE-12", look_at="the opcode of the transport ACK, and of the NAK")
def an_ack_has_opcode_d1(bench: Bench) -> None:
    """The target's ACK and its NAK have opcode 0xd1."""
    bench.request(0)
    _expect_opcode(bench, "ACK", 0xD1, psn=0)
    bench.request(1, pattern(4), rkey=bench.target.rkey ^ 1)
    _expect_opcode(bench, "NAK", 0xD1, psn=1)


@case("MRC-WIRE-12/received", look_at="what a requestor does with 0xd1")
def an_ack_is_taken(bench: Bench) -> None:
    """An ACK with opcode 0xd1 completes the target's write."""
    bench.written(0, pattern(8))
    bench.send(bench.make.ack(0, msn=1, opcode=0xD1))
    bench.wait(us(10))
    bench.expect_completion("WRITE", wr_id=0)


@case("MRC-WIRE-13", look_at="the opcode of the answer to an endpoint request")
def an_endpoint_request_is_answered_with_d9(bench: Bench) -> None:
    """A request with opcode 0xd8 is answered with opcode 0xd9 and an EETH."""
    bench.endpoint_request(9, opcode=0xD8)
    _expect_opcode(bench, "ENDPOINT_RESPONSE", 0xD9, request_id=9, udp_len=8 + 12 + 36 + 4)


@case("MRC-WIRE-13/sent", look_at="the opcode of an endpoint request")
def an_endpoint_request_is_sent_as_d8(bench: Bench) -> None:
    """The target is told to probe an EV: a packet with opcode 0xd8 and an ERTH."""
    bench.probe_ev(bench.planes[0].target_evs[0])
    _expect_opcode(bench, "ENDPOINT_REQUEST", 0xD8, op=wire.EV_PROBE, udp_len=8 + 12 + 16 + 4)


@case("MRC-WIRE-14", look_at="the opcode of a SACK")
def a_sack_has_opcode_dc(bench: Bench) -> None:
    """The target's SACK has opcode 0xdc."""
    bench.request(0, ackreq=1)
    _expect_opcode(bench, "SACK", 0xDC, ack_psn=0)


@case("MRC-WIRE-14/received", look_at="what a requestor does with 0xdc")
def a_sack_is_taken(bench: Bench) -> None:
    """A SACK with opcode 0xdc completes the target's write, without any ACK."""
    bench.sack(0, to=bench.written(0, pattern(8)), opcode=0xDC)
    bench.wait(us(10))
    bench.expect_completion("WRITE", wr_id=0)


@case("MRC-WIRE-15", look_at="the opcode of a NACK")
def a_nack_has_opcode_dd(bench: Bench) -> None:
    """The target's NACK of a PSN beyond its window has opcode 0xdd."""
    bench.request(bench.window)
    _expect_opcode(bench, "NACK", 0xDD, nack_psn=bench.window)


@case("MRC-WIRE-15/received", look_at="what a requestor does with 0xdd")
def a_nack_is_taken(bench: Bench) -> None:
    """A NACK TRIMMED_LASTHOP with opcode 0xdd makes the target send its write again, sooner than any timer would."""
    bench.nack(bench.written(0, pattern(8)), wire.TRIMMED_LASTHOP, opcode=0xDD)
    bench.expect("WRITE", psn=0, rtx=1, within=us(100))


@case("MRC-WIRE-16", look_at="the opcode of a reliability probe")
def a_probe_has_opcode_de(bench: Bench) -> None:
    """The target's write is not answered: the probe that asks for it has opcode 0xde."""
    bench.written(0, pattern(8))
    _expect_opcode(bench, "PROBE", 0xDE, within=ms(40))


@case("MRC-WIRE-16/received", look_at="what a responder does with 0xde")
def a_probe_is_taken(bench: Bench) -> None:
    """A probe with opcode 0xde is answered with a SACK that has its id."""
    bench.probe(0x0102, opcode=0xDE)
    bench.expect("SACK", probe_id=0x0102)


@case("MRC-WIRE-17", look_at="opcodes that are not MRC's: RoCEv2's own SEND, READ and ATOMIC above all")
def other_opcodes_are_dropped(bench: Bench) -> None:
    """Packets with each of the 244 opcodes that MRC does not have: none is answered, written or forgotten to count."""
    others = [opcode for opcode in range(256) if opcode not in wire.OPCODES]
    bench.mark_counters()
    for opcode in others:
        bench.request(0, pattern(32), opcode=opcode, ackreq=1)
    bench.expect_silence(ms(1))
    bench.expect_counted(len(others))
    bench.expect_goes_on(0)


@case("MRC-WIRE-18", look_at="what is said when no receive is posted: a NAK that ends the QP, and no RNR")
def there_is_no_rnr_nak(bench: Bench) -> None:
    """A write with immediate that finds no receive posted is NAKed, but with no syndrome from 0x20 to 0x3f."""
    bench.request(0, pattern(4), immediate=1)
    bench.expect("NAK", psn=0, within=FOR_A_RECEIVE)
    for packet in bench.all_heard:
        if packet.kind == "NAK":
            syndrome = packet.syndrome
            bench.check(not 0x20 <= syndrome <= 0x3F, "no syndrome from 0x20 to 0x3f", f"it is {syndrome:#04x}")


@case("MRC-WIRE-19", look_at="whatever the target sends here: a keepalive, or a timer nobody stopped")
def an_idle_qp_sends_nothing(bench: Bench) -> None:
    """A QP that has just come up says nothing for 5 s. It writes and is written to; 1 s later it is silent for 20 s."""
    bench.expect_silence(seconds(5))
    bench.post_write(pattern(3 * bench.mtu))
    bench.send(*(bench.make.request(psn, pattern(64)) for psn in range(3)))
    bench.wait(us(50))
    bench.sack(2, to=bench.expect("WRITE", psn=2))
    bench.wait(seconds(1))
    bench.expect_completion("WRITE", wr_id=0)
    bench.read()
    bench.expect_silence(seconds(20))
