# SPDX-License-Identifier: BSD-2-Clause
"""The transport ACK and NAK (wire.md section 5; behaviour.md, Responder)."""

from __future__ import annotations

from mrc.conformance.script import Bench, case, ms, one_of, pattern, us, wire


@case("MRC-ACK-01", look_at="the length of the packet and where its MSN begins")
def an_aeth_has_four_bytes(bench: Bench) -> None:
    """An ACK is BTH, 4 bytes of AETH and the ICRC: 28 bytes of UDP. Its MSN is in the three last of the four."""
    bench.send(*(bench.make.request(psn) for psn in range(3)))
    ack = bench.expect("ACK", psn=2, udp_len=8 + 12 + 4 + 4)
    aeth = ack.frame[-8:-4]
    bench.check(aeth == bytes((0x1F, 0, 0, 3)), "AETH 1f 00 00 03", f"it is {aeth.hex(' ')}")


@case("MRC-ACK-02", look_at="which syndromes count as an ACK: all from 0x00 to 0x1f")
def any_credit_is_an_ack(bench: Bench) -> None:
    """ACKs with credits 0, 0x0d and 0x1f each complete a write."""
    for number, syndrome in enumerate((0x00, 0x0D, 0x1F)):
        bench.written(number, pattern(16))
        bench.send(bench.make.aeth(number, syndrome, msn=number + 1))
        bench.wait(us(10))
        bench.expect_completion("WRITE", wr_id=number)
    bench.expect_state("RTS")


@case("MRC-ACK-03", connections=2, look_at="which syndrome a refusal for a bad R_Key has, and one for a bad length")
def refusals_have_their_syndromes(bench: Bench) -> None:
    """A bad R_Key is NAKed with 0x62, a length that contradicts the opcode with 0x61."""
    bench.request(0, pattern(8), rkey=bench.target.rkey ^ 1)
    bench.expect("NAK", psn=0, syndrome=0x62)
    other = bench.another()
    other.request(0, pattern(8), dmalen=12)
    other.expect("NAK", psn=0, syndrome=0x61)


def _nakked(bench: Bench, syndrome: int, status: str) -> None:
    bench.written(0, pattern(16))
    bench.nak(0, syndrome)
    bench.wait(us(10))
    bench.expect_completion("WRITE", wr_id=0, status=status)
    bench.expect_state("ERROR")


@case("MRC-ACK-03/invalid-request", look_at="the status a requestor completes work with after syndrome 0x61")
def syndrome_61_is_an_invalid_request(bench: Bench) -> None:
    """The target's write is NAKed with 0x61: it completes with REMOTE_INVALID_REQUEST."""
    _nakked(bench, 0x61, "REMOTE_INVALID_REQUEST")


@case("MRC-ACK-03/remote-access", look_at="the status a requestor completes work with after syndrome 0x62")
def syndrome_62_is_a_remote_access_error(bench: Bench) -> None:
    """The target's write is NAKed with 0x62: it completes with REMOTE_ACCESS_ERROR."""
    _nakked(bench, 0x62, "REMOTE_ACCESS_ERROR")


@case("MRC-ACK-03/remote-operational", look_at="the status a requestor completes work with after syndrome 0x63")
def syndrome_63_is_a_remote_operational_error(bench: Bench) -> None:
    """The target's write is NAKed with 0x63: it completes with REMOTE_OPERATION_ERROR."""
    _nakked(bench, 0x63, "REMOTE_OPERATION_ERROR")


@case("MRC-ACK-04", look_at="the credits in an ACK: all ones, since nobody counts them")
def an_ack_has_no_credits(bench: Bench) -> None:
    """Each of three ACKs has syndrome 0x1f."""
    for psn in range(3):
        bench.request(psn)
        bench.expect("ACK", psn=psn, syndrome=0x1F)


@case("MRC-ACK-05", look_at="what is left of RoCEv2's sequence errors: a gap is no error in MRC")
def a_gap_is_not_nakked(bench: Bench) -> None:
    """PSNs 0 and 5 come, with all in between missing: no NAK, neither at once nor in 20 ms, and PSN 3 is welcome."""
    bench.request(0, ackreq=1)
    bench.request(5, ackreq=1)
    bench.expect_no("NAK", within=ms(20))
    bench.request(3, ackreq=1)
    bench.expect("SACK", ack_psn=3, cack_psn=0, above=[3, 5])


@case("MRC-ACK-06", look_at="when a message counts as completed: when its last packet and all before it have come")
def the_msn_counts_completed_messages(bench: Bench) -> None:
    """A message of three packets and two of one. The MSN of the ACK goes 0, 0, 1, 2, 3."""
    long = bench.make.message(0, pattern(2 * bench.mtu + 10))
    for packet, completed in zip(long, (0, 0, 1), strict=True):
        bench.send(packet)
        bench.expect("ACK", psn=packet.psn, msn=completed)
    bench.request(3, msn=1)
    bench.expect("ACK", psn=3, msn=2)
    bench.request(4, msn=2)
    bench.expect("ACK", psn=4, msn=3)


@case("MRC-ACK-06/out-of-order", look_at="messages above a hole: they have come, but are not completed")
def messages_above_a_hole_are_not_completed(bench: Bench) -> None:
    """Messages 1, 2 and 3 wait above the hole that message 0 leaves; then all four are completed at once."""
    for psn in (1, 2, 3):
        bench.request(psn)
    bench.expect_no("ACK", within=us(100))
    bench.request(0)
    bench.expect("ACK", psn=3, msn=4)


@case(
    "MRC-ACK-07", look_at="DQP and PSN of the ACK: the requestor's QPN, and cack_psn rather than the PSN just received"
)
def an_ack_names_the_requestor_and_cack_psn(bench: Bench) -> None:
    """PSNs 0, 1 and 3 come: the ACK says PSN 1 to the tester's QP. PSN 2 follows: it says PSN 3."""
    bench.send(*(bench.make.request(psn) for psn in (0, 1, 3)))
    bench.expect("ACK", psn=1, dqp=bench.tester.qpn)
    bench.request(2)
    bench.expect("ACK", psn=3, dqp=bench.tester.qpn)


@case("MRC-ACK-07/wrap", first_psn=(1 << 24) - 2, look_at="the PSN of an ACK beyond 0xffffff")
def the_psn_of_an_ack_wraps(bench: Bench) -> None:
    """Four requests across the end of the circle: the ACKs say 0xfffffe, 0xffffff, 0 and 1."""
    for psn in range(4):
        bench.request(psn)
        ack = bench.expect("ACK", psn=psn)
        on_wire = ack.layers["bth"]["psn"]
        bench.check(on_wire == (0xFFFFFE + psn) % (1 << 24), "PSN modulo 2^24", f"it is {on_wire:#x}")


@case("MRC-ACK-08", look_at="the PSN of a NAK: that of the request it refuses, not cack_psn or epsn")
def a_nak_names_the_offending_psn(bench: Bench) -> None:
    """Of four requests in one burst the third has a bad R_Key: the NAK names PSN 2."""
    good = [bench.make.request(psn, pattern(8), offset=8 * psn) for psn in range(4)]
    bench.send(*good[:2], good[2].but(rkey=bench.target.rkey ^ 1), good[3])
    bench.expect("NAK", psn=2, syndrome=wire.REMOTE_ACCESS_ERROR)


@case("MRC-ACK-08/above-a-hole", look_at="the PSN of a NAK for a request above a hole")
def a_nak_names_the_offending_psn_above_a_hole(bench: Bench) -> None:
    """PSN 7 has a bad R_Key and PSNs 0 to 6 have not come: the NAK names PSN 7 all the same."""
    bench.request(7, pattern(8), rkey=bench.target.rkey ^ 1)
    bench.expect("NAK", psn=7, syndrome=wire.REMOTE_ACCESS_ERROR)


@case("MRC-ACK-09", look_at="whether ACKs are made per packet or per batch")
def a_batch_has_one_ack(bench: Bench) -> None:
    """Twenty requests come in one burst: one ACK, for the last of them. So they do with a hole, and after it."""
    bench.needs_virtual_time("what the target takes as one batch")
    bench.send(*(bench.make.request(psn) for psn in range(20)))
    bench.expect("ACK", psn=19)
    bench.expect_no("ACK", within=us(100))
    bench.send(*(bench.make.request(psn) for psn in (20, 21, 23, 24)))
    bench.expect("ACK", psn=21)
    bench.expect_no("ACK", within=us(100))


@case("MRC-ACK-10", look_at="what an ACK is due for: the left edge moved, or an old duplicate came")
def an_ack_is_due_for_two_reasons_only(bench: Bench) -> None:
    """PSN 0 moves the left edge, PSN 0 again is an old duplicate: ACKs. PSN 2, PSN 2 again and a probe: none."""
    bench.request(0)
    bench.expect("ACK", psn=0)
    bench.request(0)
    bench.expect("ACK", psn=0)
    for packet in (bench.make.request(2, ackreq=1), bench.make.request(2, ackreq=1), bench.make.probe(5)):
        bench.send(packet)
        bench.expect_no("ACK", within=us(100))
    bench.expect("SACK", probe_id=5, cack_psn=0, above=[2])


@case("MRC-ACK-11", look_at="one ACK for all when a hole closes, and none before")
def a_hole_holds_back_the_ack(bench: Bench) -> None:
    """PSNs 1, 2 and 3 come one by one: no ACK. PSN 0 closes the hole: one ACK for all four."""
    for psn in (1, 2, 3):
        bench.request(psn, ackreq=1)
        bench.expect("SACK", ack_psn=psn, cack_psn=-1)
        bench.expect_no("ACK", within=us(100))
    bench.request(0)
    bench.expect("ACK", psn=3, syndrome=one_of(*range(0x20)))
    bench.expect_no("ACK", within=us(100))
