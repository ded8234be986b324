# SPDX-License-Identifier: BSD-2-Clause
"""Which PSNs a responder takes, and what it answers."""

from __future__ import annotations

from mrc.rc.conformance.script import RcBench, between, ms, pattern, rc_case, us, wire

HALF = 1 << 23


@rc_case("RC-RESP-01", look_at="where the expected PSN starts: the first PSN the tester named out of band")
def psns_count_up(bench: RcBench) -> None:
    """Five requests from the first PSN on are acknowledged one by one and written."""
    for psn in range(5):
        bench.request(psn, pattern(8, psn), offset=8 * psn, ackreq=1)
        bench.expect("ACK", psn=psn)
        bench.expect_memory(8 * psn, pattern(8, psn))


@rc_case("RC-RESP-01/wrap", first_psn=(1 << 24) - 2, look_at="the expected PSN + 1 modulo 2^24")
def psns_wrap(bench: RcBench) -> None:
    """PSN 0xffffff is followed by PSN 0, between messages and within one."""
    for psn in range(4):
        bench.request(psn, pattern(8, psn), offset=8 * psn, ackreq=1)
        bench.expect("ACK", psn=psn)
        bench.expect_memory(8 * psn, pattern(8, psn))


@rc_case("RC-RESP-01/wrap-within", region=65536, first_psn=(1 << 24) - 2, look_at="the expected PSN within a message")
def a_message_wraps(bench: RcBench) -> None:
    """A message of five packets lies across PSN 0."""
    data = pattern(4 * bench.mtu + 9)
    bench.message(0, data)
    bench.request(5, ackreq=1)
    bench.expect_ack(5, msn=2)
    bench.expect_memory(0, data)


@rc_case("RC-RESP-02", look_at="the AckReq bit of any packet, in the middle of a message too")
def ackreq_is_answered(bench: RcBench) -> None:
    """AckReq in a First, in a Middle and in a Last of one message: each is acknowledged when it comes."""
    first, middle, last = bench.make.message(0, pattern(3 * bench.mtu))
    for psn, packet in enumerate((first, middle, last)):
        bench.send(packet.but(ackreq=1))
        bench.expect("ACK", psn=psn, msn=int(psn == 2))


@rc_case("RC-RESP-03", look_at="acknowledging many requests that come at once")
def one_ack_may_say_all(bench: RcBench) -> None:
    """Of a burst of ten requests that all ask for an answer, an ACK comes for the last, whatever came before it."""
    bench.send(*(bench.make.request(psn, pattern(4, psn), offset=4 * psn, ackreq=1) for psn in range(10)))
    bench.expect_ack(9, msn=10)


@rc_case("RC-RESP-04", look_at="what is answered to a PSN before the expected one: the newest taken, not its own")
def a_duplicate_is_acknowledged(bench: RcBench) -> None:
    """After PSNs 0 to 3, PSN 1 comes again: the answer acknowledges PSN 3."""
    for psn in range(4):
        bench.request(psn, pattern(8, psn), offset=8 * psn)
    bench.read()
    bench.request(1, pattern(8, 1), offset=8, ackreq=1)
    bench.expect("ACK", psn=3, msn=4)


@rc_case("RC-RESP-04/half", look_at="where before ends and beyond begins: half of the circle")
def half_the_circle_is_before(bench: RcBench) -> None:
    """With PSN 1 expected, 2^23 PSNs before it is a duplicate, one more is beyond it."""
    bench.request(0, ackreq=1)
    bench.expect("ACK", psn=0)
    bench.request(1 - HALF, ackreq=1)
    bench.expect("ACK", psn=0, msn=1)
    bench.request(-HALF, ackreq=1)
    bench.expect("NAK", psn=1, syndrome=wire.SEQUENCE_ERROR)


@rc_case("RC-RESP-05", look_at="whether a duplicate is written, or consumes a receive, a second time")
def a_duplicate_is_not_executed(bench: RcBench) -> None:
    """A write and a write with immediate come twice, with other payload the second time: only the first is written, one
    receive of two is consumed, the MSN stays at 2."""
    first, second = bench.post_receives(2)
    bench.request(0, pattern(8, 1), ackreq=1)
    bench.request(1, pattern(8, 2), offset=8, immediate=5, ackreq=1)
    bench.expect_ack(1, msn=2)
    bench.expect_memory(0, pattern(8, 1) + pattern(8, 2))
    bench.expect_completion("RECEIVE", wr_id=first, immediate=5)
    bench.request(0, pattern(8, 3), ackreq=1)
    bench.expect("ACK", psn=1, msn=2)
    bench.request(1, pattern(8, 4), offset=8, immediate=5, ackreq=1)
    bench.expect("ACK", psn=1, msn=2)
    bench.expect_nothing_written()
    bench.expect_no_completion()
    bench.request(2, pattern(8), offset=16, immediate=6, ackreq=1)
    bench.expect("ACK", psn=2, msn=3)
    bench.expect_completion("RECEIVE", wr_id=second, immediate=6)


@rc_case("RC-RESP-06", look_at="the NAK of a gap: syndrome 0x60, and the PSN that is missing, not the one that came")
def a_gap_is_nakked(bench: RcBench) -> None:
    """PSN 0 comes, then PSN 3: a NAK for PSN 1, and nothing of PSN 3 is written."""
    bench.request(0, pattern(8))
    bench.expect_memory(0, pattern(8))
    bench.request(3, pattern(8, 3), offset=8)
    bench.expect("NAK", psn=1, syndrome=wire.SEQUENCE_ERROR, msn=1)
    bench.expect_nothing_written()


@rc_case(
    "RC-RESP-07", look_at="whether each packet behind a gap draws a NAK: one is enough for the requestor to go back"
)
def one_nak_for_a_gap(bench: RcBench) -> None:
    """Behind a gap come ten packets, one by one: one NAK, and silence."""
    for psn in range(1, 11):
        bench.request(psn, pattern(8), ackreq=1)
        bench.wait(us(50))
    bench.expect("NAK", psn=0, syndrome=wire.SEQUENCE_ERROR)
    bench.expect_silence(ms(5))
    bench.expect_goes_on(0)


@rc_case("RC-RESP-08", look_at="what is remembered of a gap once it is closed")
def after_a_gap(bench: RcBench) -> None:
    """A gap, its NAK, everything again from there: written and acknowledged. A second gap has a second NAK."""
    packets = bench.make.message(0, pattern(4 * bench.mtu), ackreq=1)
    bench.send(packets[0])
    bench.send(packets[2], packets[3])
    bench.expect("NAK", psn=1, syndrome=wire.SEQUENCE_ERROR)
    bench.read()
    bench.send(*packets[1:])
    bench.expect_ack(3, msn=1)
    bench.expect_memory(0, pattern(4 * bench.mtu))
    bench.request(6, ackreq=1)
    bench.expect("NAK", psn=4, syndrome=wire.SEQUENCE_ERROR, msn=1)


@rc_case("RC-RESP-08/twice", look_at="a gap that opens again when what is sent again gets lost, too")
def a_gap_behind_a_gap(bench: RcBench) -> None:
    """PSN 0 is missing; it comes, and PSN 1 is missing now: a NAK of its own, although PSN 1 had been sent behind the
    first gap already."""
    bench.request(2, ackreq=1)
    bench.expect("NAK", psn=0)
    bench.request(0)
    bench.request(2, ackreq=1)
    bench.expect("NAK", psn=1, syndrome=wire.SEQUENCE_ERROR, msn=1)


@rc_case("RC-RESP-09", look_at="the MSN of an AETH: messages that are complete")
def the_msn_counts_messages(bench: RcBench) -> None:
    """0 before anything has come, in a NAK too; 0 within the first message, 1 at its end, 2 after the next."""
    bench.request(3, ackreq=1)
    bench.expect("NAK", psn=0, msn=0)
    packets = bench.make.message(0, pattern(3 * bench.mtu), ackreq=1)
    for psn, packet in enumerate(packets):
        bench.send(packet)
        bench.expect("ACK", psn=psn, msn=int(psn == 2))
    bench.request(3, ackreq=1)
    bench.expect("ACK", psn=3, msn=2)


@rc_case("RC-RESP-10", region=65536, look_at="where the second packet of a message goes")
def a_message_is_written_in_one_piece(bench: RcBench) -> None:
    """A message of 5.5 path MTUs to an odd address, in one burst and then packet by packet: each byte where it belongs
    and none beside it."""
    data = pattern(5 * bench.mtu + bench.mtu // 2 + 1)
    bench.message(0, data, offset=13)
    bench.expect_memory(13, data)
    for packet in bench.make.message(6, data[::-1], offset=20_001):
        bench.send(packet)
    bench.expect_memory(20_001, data[::-1])
    bench.expect_goes_on(12)


@rc_case("RC-RESP-11", look_at="the check of R_Key and VA where no byte is written")
def nothing_needs_no_key(bench: RcBench) -> None:
    """A write of 0 bytes with an R_Key that nobody has, to address 0, is acknowledged."""
    bench.request(0, va=0, rkey=bench.target.rkey ^ 0xFFFF, ackreq=1)
    bench.expect("ACK", psn=0, msn=1)


@rc_case("RC-RESP-12", look_at="the lookup of the DQP")
def an_unknown_qp_is_not_answered(bench: RcBench) -> None:
    """A request for a QPN that the target does not have is dropped and counted, and the QP beside it goes on."""
    bench.expect_ignored(bench.make.request(0, pattern(64), dqp=bench.target.qpn ^ 0x800000, ackreq=1), within=ms(1))
    bench.expect_goes_on(0)


@rc_case("RC-RESP-13", look_at="the source address each packet is compared with")
def a_stranger_is_not_answered(bench: RcBench) -> None:
    """A request that is right in all but its source address is dropped and counted, and its PSN has not arrived."""
    true = bench.make.request(0, pattern(64), ackreq=1)
    bench.expect_ignored(true.but(src=true.carriage.src + 0x77), within=ms(1))
    bench.expect_goes_on(0)


@rc_case("RC-RESP-14", look_at="the credits of an ACK: an endpoint without flow control says 0x1f, which is none")
def no_credits(bench: RcBench) -> None:
    """The syndrome of an ACK is 0x1F; where an endpoint counts credits it is one of 0 to 0x1E."""
    bench.request(0, pattern(8), ackreq=1)
    answer = bench.expect("ACK", psn=0, syndrome=between(0, 0x1F))
    bench.check(answer.syndrome == 0x1F, "syndrome 0x1f", f"{answer.syndrome:#04x}: this endpoint counts credits")


@rc_case("RC-RESP-15", look_at="duplicates without AckReq: the requestor may go back because an ACK was lost")
def an_unasked_duplicate_is_acknowledged(bench: RcBench) -> None:
    """PSN 0 and 1 come, then PSN 0 again without AckReq: PSN 1 is acknowledged."""
    bench.request(0)
    bench.request(1, ackreq=1)
    bench.expect_ack(1)
    bench.request(0)
    bench.expect("ACK", psn=1, msn=2)
