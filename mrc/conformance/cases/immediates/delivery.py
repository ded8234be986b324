# SPDX-License-Identifier: BSD-2-Clause
"""Writes with immediate: how many there may be, when they are due, and what they consume (behaviour.md, Responder)."""

from __future__ import annotations

from mrc.conformance.script import FOR_A_RECEIVE, Bench, Unsupported, case, ms, pattern, us


@case("MRC-IMM-01", max_wimm=3, look_at="what is counted against max_wimm_dest, and when it is given back")
def no_more_immediates_leave_than_granted(bench: Bench) -> None:
    """The tester grants three. Of six writes with immediate three leave; each that is acknowledged lets one out."""
    for number in range(6):
        bench.post_write(pattern(16), immediate=number)
    writes = [bench.expect("WRITE", psn=psn, data=psn, rqmsn=psn) for psn in range(3)]
    bench.expect_no("WRITE", within=us(500), rtx=0)
    for acked in range(3):
        bench.sack(acked, to=writes[acked])
        writes.append(bench.expect("WRITE", psn=acked + 3, data=acked + 3, rtx=0))
        bench.expect_no("WRITE", within=us(10), rtx=0)


@case("MRC-IMM-02", immediates=1, look_at="when an immediate above a hole is delivered")
def an_early_immediate_waits(bench: Bench) -> None:
    """A write with immediate comes two PSNs early: written at once, no completion until both holes have closed."""
    (receive,) = bench.post_receives()
    bench.request(2, pattern(32), immediate=0xABCD)
    bench.expect_memory(0, pattern(32))
    bench.expect_no_completion()
    bench.request(1)
    bench.expect_no_completion()
    bench.request(0)
    bench.expect("ACK", psn=2)
    bench.expect_completion("RECEIVE", wr_id=receive, immediate=0xABCD, length=32)


@case(
    "MRC-IMM-02/last",
    region=65536,
    immediates=1,
    look_at="what an immediate waits for: all requests before it, not those of its message alone",
)
def an_immediate_waits_for_other_messages(bench: Bench) -> None:
    """A message of two packets with immediate is complete, a plain write before it is missing: it waits."""
    (receive,) = bench.post_receives()
    bench.message(1, pattern(bench.mtu + 9), msn=1, immediate=7)
    bench.expect_no_completion()
    bench.request(0, pattern(8), offset=8192)
    bench.expect("ACK", psn=2)
    bench.expect_completion("RECEIVE", wr_id=receive, immediate=7, length=bench.mtu + 9)


@case("MRC-IMM-03", immediates=4, look_at="in which order immediates find their receives when they come in another")
def immediates_are_delivered_in_rqmsn_order(bench: Bench) -> None:
    """Four writes with immediate come in the order 3, 1, 0, 2: the receives complete in the order 0, 1, 2, 3."""
    receives = bench.post_receives(4)
    for psn, due in ((3, ()), (1, ()), (0, (0, 1)), (2, (2, 3))):
        bench.request(psn, pattern(8 + psn), offset=64 * psn, rqmsn=psn, immediate=0x100 + psn)
        for number in due:
            bench.expect_completion("RECEIVE", wr_id=receives[number], immediate=0x100 + number, length=8 + number)
        bench.expect_no_completion()


@case("MRC-IMM-03/in-one-burst", immediates=4, look_at="in which order the immediates of one burst find their receives")
def immediates_of_a_burst_are_delivered_in_order(bench: Bench) -> None:
    """Four writes with immediate come in one burst in the order 3, 1, 0, 2: the receives complete in the order 0, 1,
    2, 3."""
    receives = bench.post_receives(4)
    bench.send(*(bench.make.request(psn, rqmsn=psn, immediate=0x100 + psn) for psn in (3, 1, 0, 2)))
    bench.expect("ACK", psn=3)
    for number, wr_id in enumerate(receives):
        bench.expect_completion("RECEIVE", wr_id=wr_id, immediate=0x100 + number)
    bench.expect_no_completion()


@case("MRC-IMM-04", options={"max_wimm_dest": 2}, look_at="how many early immediates there may be, and the NAK")
def one_immediate_too_many_ends_the_qp(bench: Bench) -> None:
    """The target grants two. Above a hole come three writes with immediate: the third is NAKed, the QP in ERROR."""
    bench.post_receives(4)
    for psn in (1, 2):
        bench.request(psn, immediate=psn, rqmsn=psn - 1)
    bench.expect_no("NAK", within=us(10))
    bench.request(3, immediate=3, rqmsn=2)
    bench.expect("NAK", psn=3)
    bench.expect_state("ERROR")


@case(
    "MRC-IMM-04/as-many", options={"max_wimm_dest": 2}, look_at="whether an immediate that was delivered still counts"
)
def as_many_immediates_as_granted_are_taken(bench: Bench) -> None:
    """The target grants two: two above a hole are taken, and when it has closed two more above the next one."""
    receives = bench.post_receives(4)
    for hole in (0, 3):
        for psn in (hole + 1, hole + 2):
            bench.request(psn, immediate=psn, rqmsn=psn - 1 - (hole > 0))
        bench.request(hole)
        bench.expect("ACK", psn=hole + 2)
    for wr_id, immediate in zip(receives, (1, 2, 4, 5), strict=True):
        bench.expect_completion("RECEIVE", wr_id=wr_id, immediate=immediate)


@case("MRC-IMM-05", immediates=1, look_at="what becomes of an immediate that is due and finds no receive")
def an_immediate_without_a_receive_ends_the_qp(bench: Bench) -> None:
    """One receive is posted, two writes with immediate come: the first completes it, the second is NAKed, at once or
    after it waited for a receive, and the QP is in ERROR."""
    (receive,) = bench.post_receives()
    bench.request(0, immediate=1)
    bench.expect("ACK", psn=0)
    bench.expect_completion("RECEIVE", wr_id=receive, immediate=1)
    bench.request(1, immediate=2, rqmsn=1)
    bench.expect("NAK", psn=1, within=FOR_A_RECEIVE)
    bench.expect_state("ERROR")


@case(
    "MRC-IMM-05/early",
    immediates=1,
    look_at="when a receive is looked for: when the immediate is due, not when it comes",
)
def an_early_immediate_needs_no_receive_yet(bench: Bench) -> None:
    """A write with immediate comes early, without a receive; one is posted before the hole closes: it completes."""
    bench.request(1, immediate=9)
    bench.expect_no("NAK", within=us(10))
    (receive,) = bench.post_receives()
    bench.request(0)
    bench.expect("ACK", psn=1)
    bench.expect_completion("RECEIVE", wr_id=receive, immediate=9)


@case("MRC-IMM-07", immediates=1, look_at="when the credit of an immediate comes back: with its receive, not before")
def an_immediate_waits_for_its_receive(bench: Bench) -> None:
    """A write with immediate is due and finds no receive: it is reported as arrived and not acknowledged. A receive is
    posted: it completes, and is acknowledged. A target may refuse it at once."""
    bench.request(0, immediate=7, ackreq=1)
    bench.wait(ms(1))
    if bench.read("NAK"):
        raise Unsupported("the target refuses an immediate that finds no receive at once")
    bench.expect("SACK", ack_psn=0, cack_psn=-1, above=[0])
    bench.expect_no("ACK", psn=0)
    bench.expect_no_completion()
    (receive,) = bench.post_receives()
    bench.expect("ACK", psn=0)
    bench.expect_completion("RECEIVE", wr_id=receive, immediate=7)


@case("MRC-IMM-06", region=65536, immediates=1, look_at="what consumes a receive: immediates alone")
def a_plain_write_makes_no_completion(bench: Bench) -> None:
    """Plain writes of one packet, of three and of none: no completion. The receive is there for the immediate."""
    (receive,) = bench.post_receives()
    bench.request(0, pattern(40))
    bench.expect("ACK", psn=0)
    bench.message(1, pattern(3 * bench.mtu), msn=1, offset=4096)
    bench.expect("ACK", psn=3)
    bench.request(4)
    bench.expect("ACK", psn=4)
    bench.expect_no_completion()
    bench.request(5, immediate=1)
    bench.expect("ACK", psn=5)
    bench.expect_completion("RECEIVE", wr_id=receive, immediate=1)
