# SPDX-License-Identifier: BSD-2-Clause
"""Requests that end a QP, and what a requestor does whose request did."""

from __future__ import annotations

from mrc.rc.conformance.script import (
    INVALID_REQUEST,
    REMOTE_ACCESS_ERROR,
    REMOTE_OPERATIONAL_ERROR,
    Crafted,
    RcBench,
    ms,
    pattern,
    rc_case,
    wire,
)


def _is_refused(bench: RcBench, *packets: Crafted, psn: int, syndrome: int) -> None:
    """The last of these is answered with a NAK and none of its bytes written."""
    bench.send(*packets)
    bench.expect("NAK", psn=psn, syndrome=syndrome)
    bench.expect_state("ERROR")


@rc_case("RC-ERR-01", look_at="the lookup of the R_Key, and what a refused request has done before")
def a_key_that_opens_nothing(bench: RcBench) -> None:
    """A write with another R_Key: NAK remote access error, nothing written."""
    request = bench.make.request(0, pattern(64), rkey=bench.target.rkey ^ 0x100, ackreq=1)
    _is_refused(bench, request, psn=0, syndrome=REMOTE_ACCESS_ERROR)
    bench.expect_nothing_written()


@rc_case("RC-ERR-02", look_at="the end of the memory: the last byte of a message, not its first")
def beyond_the_memory(bench: RcBench) -> None:
    """Sixteen bytes end one byte behind the memory."""
    request = bench.make.request(0, pattern(16), offset=bench.target.region_length - 15, ackreq=1)
    _is_refused(bench, request, psn=0, syndrome=REMOTE_ACCESS_ERROR)
    bench.expect_nothing_written()


@rc_case("RC-ERR-02/before", look_at="the beginning of the memory")
def before_the_memory(bench: RcBench) -> None:
    """Sixteen bytes begin one byte before the memory."""
    _is_refused(bench, bench.make.request(0, pattern(16), offset=-1), psn=0, syndrome=REMOTE_ACCESS_ERROR)
    bench.expect_nothing_written()


@rc_case("RC-ERR-02/wraps", look_at="an addition that goes past 2^64")
def past_the_end_of_all_addresses(bench: RcBench) -> None:
    """Sixteen bytes begin 8 bytes before 2^64."""
    _is_refused(bench, bench.make.request(0, pattern(16), va=(1 << 64) - 8), psn=0, syndrome=REMOTE_ACCESS_ERROR)
    bench.expect_nothing_written()


@rc_case("RC-ERR-02/whole-message", look_at="the length in the RETH: all of it has to fit when the First comes")
def a_message_that_will_not_fit(bench: RcBench) -> None:
    """A First whose own bytes fit, of a message that does not: refused at once, nothing written."""
    offset = bench.target.region_length - bench.mtu
    first = bench.make.message(0, pattern(2 * bench.mtu), offset=offset)[0]
    _is_refused(bench, first, psn=0, syndrome=REMOTE_ACCESS_ERROR)
    bench.expect_nothing_written()


@rc_case("RC-ERR-02/exact", look_at="the last byte of the memory, which may be written")
def to_the_last_byte(bench: RcBench) -> None:
    """Sixteen bytes that end with the memory are written."""
    offset = bench.target.region_length - 16
    bench.request(0, pattern(16), offset=offset, ackreq=1)
    bench.expect("ACK", psn=0)
    bench.expect_memory(offset, pattern(16))


@rc_case("RC-ERR-03", look_at="which opcodes may follow which: a Last needs a First before it")
def a_last_without_a_first(bench: RcBench) -> None:
    """A Last as the first packet: NAK invalid request."""
    last = bench.make.request(0, pattern(8), opcode=wire.RC_LAST, ackreq=1)
    _is_refused(bench, last, psn=0, syndrome=INVALID_REQUEST)
    bench.expect_nothing_written()


@rc_case("RC-ERR-03/middle", look_at="a Middle where no message is under way")
def a_middle_without_a_first(bench: RcBench) -> None:
    """A Middle behind a complete message: NAK invalid request."""
    bench.request(0, pattern(8))
    middle = bench.make.request(1, pattern(bench.mtu), opcode=wire.RC_MIDDLE)
    _is_refused(bench, middle, psn=1, syndrome=INVALID_REQUEST)


@rc_case("RC-ERR-03/first", look_at="a message that begins before the one before it has ended")
def a_first_within_a_message(bench: RcBench) -> None:
    """Two Firsts behind each other: NAK invalid request for the second."""
    first = bench.make.message(0, pattern(3 * bench.mtu))[0]
    again = bench.make.message(1, pattern(3 * bench.mtu))[0]
    _is_refused(bench, first, again, psn=1, syndrome=INVALID_REQUEST)


@rc_case("RC-ERR-03/only", look_at="an Only within a message")
def an_only_within_a_message(bench: RcBench) -> None:
    """First, Only: NAK invalid request for the Only."""
    first = bench.make.message(0, pattern(3 * bench.mtu))[0]
    _is_refused(bench, first, bench.make.request(1, pattern(8)), psn=1, syndrome=INVALID_REQUEST)


@rc_case("RC-ERR-04", look_at="the payload of a First: it is a full path MTU")
def a_short_first(bench: RcBench) -> None:
    """A First with one byte less than the path MTU: NAK invalid request."""
    short = bench.make.request(0, pattern(bench.mtu - 1), opcode=wire.RC_FIRST, dmalen=2 * bench.mtu)
    _is_refused(bench, short, psn=0, syndrome=INVALID_REQUEST)
    bench.expect_nothing_written()


@rc_case("RC-ERR-04/middle", look_at="the payload of a Middle: it is a full path MTU")
def a_short_middle(bench: RcBench) -> None:
    """A Middle with four bytes less than the path MTU: NAK invalid request."""
    first, middle, _ = bench.make.message(0, pattern(3 * bench.mtu))
    _is_refused(bench, first, middle.but(payload=pattern(bench.mtu - 4)), psn=1, syndrome=INVALID_REQUEST)


@rc_case("RC-ERR-04/only", look_at="the length in the RETH of an Only against its payload")
def an_only_with_another_length(bench: RcBench) -> None:
    """An Only of 64 bytes whose RETH says 65: NAK invalid request."""
    _is_refused(bench, bench.make.request(0, pattern(64), dmalen=65), psn=0, syndrome=INVALID_REQUEST)
    bench.expect_nothing_written()


@rc_case("RC-ERR-04/longer", look_at="what all packets of a message carry together: no more than the RETH says")
def more_than_was_announced(bench: RcBench) -> None:
    """A Last that brings a byte more than its First announced: NAK invalid request, and nothing behind the end is
    written."""
    first, last = bench.make.message(0, pattern(bench.mtu + 8))
    _is_refused(bench, first, last.but(payload=pattern(9)), psn=1, syndrome=INVALID_REQUEST)
    bench.expect_memory(0, pattern(bench.mtu))
    bench.expect_nothing_written()


@rc_case("RC-ERR-04/shorter", look_at="a Last that comes too early")
def less_than_was_announced(bench: RcBench) -> None:
    """A Last that brings a byte less than its First announced: NAK invalid request."""
    first, last = bench.make.message(0, pattern(bench.mtu + 8))
    _is_refused(bench, first, last.but(payload=pattern(7)), psn=1, syndrome=INVALID_REQUEST)


@rc_case("RC-ERR-05", look_at="opcodes that are right and not served: they are refused, not dropped")
def a_send_is_refused(bench: RcBench) -> None:
    """A SEND Only with a receive posted: NAK invalid request."""
    bench.post_receives(1)
    send = bench.make.request(0, pattern(8), opcode=wire.SEND_ONLY, ackreq=1)
    _is_refused(bench, send, psn=0, syndrome=INVALID_REQUEST)


@rc_case("RC-ERR-05/read", look_at="a READ: refused, and above all not answered with memory")
def a_read_is_refused(bench: RcBench) -> None:
    """A READ of 64 bytes: NAK invalid request."""
    read = bench.make.request(0, opcode=wire.READ_REQUEST, dmalen=64, ackreq=1)
    _is_refused(bench, read, psn=0, syndrome=INVALID_REQUEST)


@rc_case("RC-ERR-06", look_at="the PSN and the MSN of a NAK that ends a QP")
def what_came_before_is_done(bench: RcBench) -> None:
    """Two good writes and one with a wrong R_Key in one burst: the NAK has PSN 2 and MSN 2, the two are written."""
    good = [bench.make.request(psn, pattern(8, psn), offset=8 * psn) for psn in range(2)]
    bench.send(*good, bench.make.request(2, pattern(8), rkey=bench.target.rkey ^ 1, ackreq=1))
    bench.expect("NAK", psn=2, syndrome=REMOTE_ACCESS_ERROR, msn=2)
    bench.expect_memory(0, pattern(8, 0) + pattern(8, 1))


@rc_case("RC-ERR-07", look_at="what a QP in ERROR still does: nothing but to repeat its NAK")
def nothing_after_it(bench: RcBench) -> None:
    """Behind a refused request comes a good one, then the refused one's PSN with a right R_Key: neither is written or
    acknowledged, and the posted receives complete flushed."""
    receives = bench.post_receives(2)
    bad = bench.make.request(0, pattern(8), rkey=bench.target.rkey ^ 1, ackreq=1)
    _is_refused(bench, bad, psn=0, syndrome=REMOTE_ACCESS_ERROR)
    for receive in receives:
        bench.expect_completion("RECEIVE", wr_id=receive, status="FLUSHED")
    bench.request(1, pattern(8), ackreq=1)
    bench.request(0, pattern(8), ackreq=1)
    bench.expect_no("ACK", within=ms(1))
    bench.expect_nothing_written()


def _ends_with(bench: RcBench, syndrome: int, status: str) -> None:
    failed = bench.post_write(pattern(2 * bench.mtu))
    flushed = bench.post_write(pattern(8))
    for psn in range(3):
        bench.expect("WRITE", psn=psn)
    bench.nak(1, syndrome)
    bench.expect_completion("WRITE", wr_id=failed, status=status)
    bench.expect_completion("WRITE", wr_id=flushed, status="FLUSHED")
    bench.expect_state("ERROR")
    bench.expect_silence(ms(200))
    later = bench.post_write(pattern(8))
    bench.expect_completion("WRITE", wr_id=later, status="FLUSHED")
    bench.expect_silence(ms(1))


@rc_case("RC-ERR-08", look_at="a NAK 0x62 at the requestor: which work it ends, and with which status")
def remote_access_error(bench: RcBench) -> None:
    """Of two writes the first gets a NAK remote access error: it fails so, the other is flushed, and all is over."""
    _ends_with(bench, REMOTE_ACCESS_ERROR, "REMOTE_ACCESS_ERROR")


@rc_case("RC-ERR-08/invalid", look_at="a NAK 0x61 at the requestor")
def remote_invalid_request(bench: RcBench) -> None:
    """Of two writes the first gets a NAK invalid request: it fails so, the other is flushed, and all is over."""
    _ends_with(bench, INVALID_REQUEST, "REMOTE_INVALID_REQUEST")


@rc_case("RC-ERR-08/operational", look_at="a NAK 0x63 at the requestor")
def remote_operational_error(bench: RcBench) -> None:
    """Of two writes the first gets a NAK remote operational error: it fails so, the other is flushed, and all is
    over."""
    _ends_with(bench, REMOTE_OPERATIONAL_ERROR, "REMOTE_OPERATION_ERROR")


@rc_case("RC-ERR-09", look_at="writes before the one that a NAK names: the NAK acknowledges them")
def writes_before_it_are_done(bench: RcBench) -> None:
    """Three writes, a NAK remote access error for the second: the first has succeeded."""
    first, second, third = (bench.post_write(pattern(8)) for _ in range(3))
    for psn in range(3):
        bench.expect("WRITE", psn=psn)
    bench.nak(1, REMOTE_ACCESS_ERROR)
    bench.expect_completion("WRITE", wr_id=first)
    bench.expect_completion("WRITE", wr_id=second, status="REMOTE_ACCESS_ERROR")
    bench.expect_completion("WRITE", wr_id=third, status="FLUSHED")
