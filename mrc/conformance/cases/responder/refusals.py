# SPDX-License-Identifier: BSD-2-Clause
"""Requests that may not be: what they name, how long they are, and what becomes of the QP (behaviour.md, Responder)."""

from __future__ import annotations

from typing import Any

from mrc.conformance.script import Bench, case, ms, pattern, wire

ACCESS = "the checks of R_Key and range: both ends of the range, and sums that wrap"
LENGTH = "the check of the payload's length against opcode, path MTU and DMALen"


def _refused(bench: Bench, syndrome: int, payload: bytes, **fields: Any) -> None:
    """One bad request after a good one: NAKed with its PSN, nothing of it written, the QP in ERROR."""
    bench.request(0, pattern(32))
    bench.expect("ACK", psn=0)
    bench.expect_memory(0, pattern(32))
    bench.request(1, payload, **fields)
    bench.expect("NAK", psn=1, syndrome=syndrome)
    bench.expect_nothing_written()


@case("MRC-RESP-13", look_at=ACCESS)
def a_wrong_rkey_is_refused(bench: Bench) -> None:
    """An R_Key that opens no region: NAK remote access error."""
    _refused(bench, wire.REMOTE_ACCESS_ERROR, pattern(64), offset=64, rkey=bench.target.rkey ^ 0x00010000)


@case("MRC-RESP-13/below", look_at=ACCESS)
def a_range_that_begins_below_the_region_is_refused(bench: Bench) -> None:
    """A range that begins one byte below the region: NAK remote access error."""
    _refused(bench, wire.REMOTE_ACCESS_ERROR, pattern(64), offset=-1)


@case("MRC-RESP-13/above", look_at=ACCESS)
def a_range_that_ends_above_the_region_is_refused(bench: Bench) -> None:
    """A range whose last byte lies one behind the region: NAK remote access error."""
    _refused(bench, wire.REMOTE_ACCESS_ERROR, pattern(64), offset=bench.target.region_length - 63)


@case("MRC-RESP-13/wraps", look_at=ACCESS)
def a_range_that_wraps_is_refused(bench: Bench) -> None:
    """A range at the end of the address space, whose end wraps to small numbers: NAK remote access error."""
    _refused(bench, wire.REMOTE_ACCESS_ERROR, pattern(64), va=(1 << 64) - 8)


@case("MRC-RESP-13/last-byte", look_at=ACCESS)
def the_last_bytes_of_the_region_may_be_written(bench: Bench) -> None:
    """A range that ends with the region is inside it: written, and no NAK."""
    offset = bench.target.region_length - 64
    bench.request(0, pattern(64), offset=offset)
    bench.expect("ACK", psn=0)
    bench.expect_memory(offset, pattern(64))


@case("MRC-RESP-14", look_at=LENGTH)
def a_first_that_is_short_is_refused(bench: Bench) -> None:
    """A First carries exactly one path MTU: with 4 bytes less it is an invalid request."""
    mtu = bench.mtu
    _refused(bench, wire.INVALID_REQUEST, pattern(mtu - 4), opcode=wire.FIRST, dmalen=2 * mtu, offset=1024)


@case("MRC-RESP-14/middle", look_at=LENGTH)
def a_middle_that_is_short_is_refused(bench: Bench) -> None:
    """A Middle carries exactly one path MTU: with 4 bytes less it is an invalid request."""
    mtu = bench.mtu
    _refused(bench, wire.INVALID_REQUEST, pattern(mtu - 4), opcode=wire.MIDDLE, dmalen=3 * mtu, offset=1024)


@case("MRC-RESP-14/last-empty", look_at=LENGTH)
def a_last_that_is_empty_is_refused(bench: Bench) -> None:
    """A Last carries at least one byte: without any it is an invalid request."""
    _refused(bench, wire.INVALID_REQUEST, b"", opcode=wire.LAST, dmalen=2 * bench.mtu, offset=1024)


@case("MRC-RESP-14/last-long", look_at=LENGTH)
def a_last_that_is_long_is_refused(bench: Bench) -> None:
    """A Last carries at most one path MTU: with 4 bytes more it is an invalid request."""
    mtu = bench.mtu
    _refused(bench, wire.INVALID_REQUEST, pattern(mtu + 4), opcode=wire.LAST, dmalen=2 * mtu + 4, offset=1024)


@case("MRC-RESP-14/only-dmalen", look_at=LENGTH)
def an_only_that_is_not_dmalen_long_is_refused(bench: Bench) -> None:
    """An Only is the whole message: with a DMALen 4 bytes longer than its payload it is an invalid request."""
    _refused(bench, wire.INVALID_REQUEST, pattern(64), dmalen=68, offset=1024)


@case("MRC-RESP-14/only-long", look_at=LENGTH)
def an_only_that_is_long_is_refused(bench: Bench) -> None:
    """An Only carries at most one path MTU: with 4 bytes more it is an invalid request."""
    _refused(bench, wire.INVALID_REQUEST, pattern(bench.mtu + 4), offset=1024)


@case("MRC-RESP-15", look_at="what happens between the NAK and ERROR: later requests must not slip in")
def a_refused_request_ends_the_qp(bench: Bench) -> None:
    """After the NAK the QP is in ERROR: a good request behind the bad one is not written either."""
    _refused(bench, wire.REMOTE_ACCESS_ERROR, pattern(64), offset=64, rkey=bench.target.rkey ^ 1)
    bench.expect_state("ERROR")
    bench.request(2, pattern(64), offset=2048)
    bench.expect_no("ACK", within=ms(1))
    bench.expect_nothing_written()


@case("MRC-RESP-15/in-one-burst", look_at="whether a burst is checked as a whole before any of it is written")
def what_follows_a_refused_request_in_its_burst_is_not_written(bench: Bench) -> None:
    """A bad request and a good one behind it come in one burst: NAK, ERROR, nothing of either is written."""
    bad = bench.make.request(0, pattern(64), rkey=bench.target.rkey ^ 1)
    bench.send(bad, bench.make.request(1, pattern(64), offset=2048))
    bench.expect("NAK", psn=0, syndrome=wire.REMOTE_ACCESS_ERROR)
    bench.expect_state("ERROR")
    bench.expect_no("ACK")
    bench.expect_nothing_written()


@case("MRC-RESP-15/length", look_at="whether the length is checked before anything is written")
def a_request_of_wrong_length_ends_the_qp(bench: Bench) -> None:
    """After the NAK of a length that contradicts the opcode the QP is in ERROR."""
    _refused(bench, wire.INVALID_REQUEST, pattern(64), dmalen=128, offset=1024)
    bench.expect_state("ERROR")


@case("MRC-RESP-16", look_at="whether a write without payload uses up a PSN and counts as a message")
def a_zero_length_write_uses_a_psn_and_nothing_else(bench: Bench) -> None:
    """An empty Only: acknowledged, counted as a message, nothing written."""
    bench.request(0, b"")
    bench.expect("ACK", psn=0, msn=1)
    bench.expect_nothing_written()
    bench.request(1, pattern(8))
    bench.expect("ACK", psn=1, msn=2)
    bench.expect_memory(0, pattern(8))


@case("MRC-RESP-21", look_at="whether the R_Key and the range of a write without payload are looked at")
def the_rkey_of_a_zero_length_write_is_not_checked(bench: Bench) -> None:
    """An empty Only with an R_Key and a VA that open nothing: acknowledged, counted as a message, nothing written."""
    bench.request(0, b"", rkey=bench.target.rkey ^ 0xFFFF, va=0x1234)
    bench.expect("ACK", psn=0, msn=1)
    bench.expect_nothing_written()
    bench.request(1, pattern(8))
    bench.expect("ACK", psn=1, msn=2)
    bench.expect_memory(0, pattern(8))
