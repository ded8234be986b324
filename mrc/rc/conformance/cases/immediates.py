# SPDX-License-Identifier: BSD-2-Clause
"""Writes with immediate, and receivers that are not ready for them."""

from __future__ import annotations

from mrc.rc.conformance.script import RcBench, between, ms, pattern, rc_case, wire

_ANY_RNR = between(wire.RNR_NAK, wire.RNR_NAK | 0x1F)


@rc_case("RC-IMM-01", look_at="the completion of a receive: number, length of the whole message, and order")
def immediates_complete_receives(bench: RcBench) -> None:
    """An Only with Immediate and a message of three packets with immediate: the receives complete in the order they
    were posted."""
    first, second = bench.post_receives(2)
    bench.request(0, pattern(7), immediate=0xFFFFFFFF, ackreq=1)
    bench.expect("ACK", psn=0, msn=1)
    bench.expect_completion("RECEIVE", wr_id=first, immediate=0xFFFFFFFF, length=7)
    *before, last = bench.make.message(1, pattern(2 * bench.mtu + 5), immediate=9, ackreq=1)
    bench.send(*before)
    bench.expect_ack(2)
    bench.expect_no_completion()
    bench.send(last)
    bench.expect_ack(3, msn=2)
    bench.expect_completion("RECEIVE", wr_id=second, immediate=9, length=2 * bench.mtu + 5)
    bench.expect_memory(0, pattern(2 * bench.mtu + 5))


@rc_case("RC-IMM-02", look_at="what consumes a receive: the immediate, not the write")
def plain_writes_leave_receives(bench: RcBench) -> None:
    """Five plain writes beside one receive, then an immediate: the receive was still there."""
    (only,) = bench.post_receives(1)
    for psn in range(5):
        bench.request(psn, pattern(8), ackreq=1)
    bench.expect_ack(4)
    bench.expect_no_completion()
    bench.request(5, immediate=1, ackreq=1)
    bench.expect("ACK", psn=5)
    bench.expect_completion("RECEIVE", wr_id=only, immediate=1, length=0)


@rc_case("RC-IMM-03", look_at="what is done with an immediate that finds no receive: an RNR NAK, and nothing written")
def no_receive(bench: RcBench) -> None:
    """An Only with Immediate without a receive: RNR NAK with its PSN, nothing written. With a receive it is done."""
    bench.request(0, pattern(8), immediate=5, ackreq=1)
    bench.expect("NAK", psn=0, syndrome=_ANY_RNR, msn=0)
    bench.expect_nothing_written()
    (receive,) = bench.post_receives(1)
    bench.request(0, pattern(8), immediate=5, ackreq=1)
    bench.expect("ACK", psn=0, msn=1)
    bench.expect_completion("RECEIVE", wr_id=receive, immediate=5)
    bench.expect_memory(0, pattern(8))


@rc_case("RC-IMM-03/again", look_at="an immediate that comes back too soon")
def still_no_receive(bench: RcBench) -> None:
    """Each time it comes again without a receive there is another RNR NAK."""
    for _ in range(3):
        bench.request(0, immediate=5, ackreq=1)
        bench.expect("NAK", psn=0, syndrome=_ANY_RNR)


@rc_case("RC-IMM-04", look_at="what follows an immediate that was sent back: no NAK of a sequence error, no RNR NAK")
def silence_behind_an_rnr_nak(bench: RcBench) -> None:
    """Behind an RNR NAK come three requests that were already on the way, though a receive is there by now: silence,
    nothing written; then all of it again."""
    bench.request(0, pattern(8), immediate=5, ackreq=1)
    bench.expect("NAK", psn=0, syndrome=_ANY_RNR)
    bench.post_receives(1)
    for psn in (1, 2, 3):
        bench.request(psn, pattern(8, psn), offset=8 * psn, ackreq=1)
    bench.expect_silence(ms(1))
    bench.expect_nothing_written()
    bench.request(0, pattern(8), immediate=5, ackreq=1)
    bench.request(1, pattern(8, 1), offset=8, ackreq=1)
    bench.expect_ack(1, msn=2)
    bench.expect_memory(0, pattern(8) + pattern(8, 1))


@rc_case("RC-IMM-05", look_at="which packets of a message go back with its immediate: only the one that has it")
def only_the_last_comes_again(bench: RcBench) -> None:
    """The Last with Immediate of three packets finds no receive: the RNR NAK names it, and it alone comes again."""
    data = pattern(2 * bench.mtu + 8)
    packets = bench.make.message(0, data, immediate=5, ackreq=1)
    bench.send(*packets)
    bench.expect("NAK", psn=2, syndrome=_ANY_RNR, msn=0)
    (receive,) = bench.post_receives(1)
    bench.send(packets[2])
    bench.expect("ACK", psn=2, msn=1)
    bench.expect_completion("RECEIVE", wr_id=receive, immediate=5, length=len(data))
    bench.expect_memory(0, data)


def _timer(bench: RcBench, code: int) -> None:
    bench.request(0, immediate=5, ackreq=1)
    bench.expect("NAK", psn=0, syndrome=wire.RNR_NAK | code)


@rc_case("RC-IMM-06", options={"min_rnr_timer": 14}, look_at="the lower five bits of an RNR NAK's syndrome")
def the_timers_code(bench: RcBench) -> None:
    """With min_rnr_timer 14 the syndrome is 0x2E."""
    _timer(bench, 14)


@rc_case("RC-IMM-06/zero", options={"min_rnr_timer": 0}, look_at="code 0, which is the longest time and not none")
def the_timers_code_0(bench: RcBench) -> None:
    """With min_rnr_timer 0 the syndrome is 0x20."""
    _timer(bench, 0)
