# SPDX-License-Identifier: BSD-2-Clause
"""Violations of the protocol by an established peer: that QP is over, and nothing else is (behaviour.md, Errors)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mrc.conformance.script import FOR_A_RECEIVE, TRIM_NACK, Bench, case, pattern, us, wire

REST = "what else goes into ERROR, or stops working, with the QP that was violated"


def _only_this_qp(bench: Bench, violate: Callable[[Bench], None], status: str | None = None) -> None:
    """Of three connections with the same node the second is violated: it goes to ERROR; the others go on in both
    directions, with what they had under way. With `status` the violation is about a write of the target's, PSN 0."""
    first, second = bench, bench.another()
    third = bench.another()
    under_way = {each: (each.post_write(pattern(16)), each.expect("WRITE", psn=0)) for each in (first, third)}
    for each in (first, third):
        each.request(1, pattern(8), offset=64)
    violate(second)
    bench.wait(us(100))
    second.expect_state("ERROR")
    second.expect_nothing_written()
    if status is not None:
        second.expect_completion("WRITE", status=status)
    for each, (wr_id, write) in under_way.items():
        each.expect_state("RTS")
        each.expect_works(0, cack_psn=1)
        each.expect_memory(64, pattern(8))
        each.expect_no_completion()
        each.sack(0, to=write)
        each.wait(us(10))
        each.expect_completion("WRITE", wr_id=wr_id)
        each.post_write(pattern(16))
        each.expect("WRITE", psn=1)
    works = bench.another()
    works.expect_works(0)


def _request(**fields: Any) -> Callable[[Bench], None]:
    def violate(bench: Bench) -> None:
        bench.request(0, pattern(64), **fields)
        bench.expect("NAK", psn=0)

    return violate


@case("MRC-ERR-03", connections=4, look_at=REST)
def a_bad_rkey_ends_that_qp_only(bench: Bench) -> None:
    """On the second of three connections a request names an R_Key that opens nothing: that QP goes to ERROR, the other
    two go on with what they had under way, and another comes up."""
    _only_this_qp(bench, lambda qp: _request(rkey=qp.target.rkey ^ 0x00FF0000)(qp))


@case("MRC-ERR-03/length", connections=4, look_at=REST)
def a_bad_length_ends_that_qp_only(bench: Bench) -> None:
    """On the second of three connections an Only has a DMALen of more than its payload: that QP alone goes to ERROR."""
    _only_this_qp(bench, _request(dmalen=128))


@case("MRC-ERR-03/immediate", connections=4, look_at=REST)
def an_immediate_without_a_receive_ends_that_qp_only(bench: Bench) -> None:
    """A write with immediate finds no receive on the second of three connections: that QP alone goes to ERROR."""

    def violate(second: Bench) -> None:
        second.request(0, immediate=7)
        second.expect("NAK", psn=0, within=FOR_A_RECEIVE)

    bench.post_receives(2)
    _only_this_qp(bench, violate)


@case("MRC-ERR-03/rqmsn", connections=4, immediates=2, look_at=REST)
def an_rqmsn_out_of_order_ends_that_qp_only(bench: Bench) -> None:
    """On the second of three connections two writes with immediate have the same RQMSN: that QP alone goes to ERROR."""

    def violate(second: Bench) -> None:
        second.post_receives(2)
        second.request(0, immediate=7, rqmsn=0)
        second.request(1, immediate=8, rqmsn=0)
        second.expect("NAK", psn=1)

    _only_this_qp(bench, violate)


def _of_its_write(violate: Callable[[Bench, Any], object]) -> Callable[[Bench], None]:
    def posted(bench: Bench) -> None:
        violate(bench, bench.written(0, pattern(16)))

    return posted


@case("MRC-ERR-03/nak", connections=4, look_at=REST)
def a_nak_ends_that_qp_only(bench: Bench) -> None:
    """The target's write on the second of three connections is NAKed with remote access error: its completion says
    so, and that QP alone goes to ERROR."""
    _only_this_qp(
        bench,
        _of_its_write(lambda second, write: second.nak(0, wire.REMOTE_ACCESS_ERROR)),
        "REMOTE_ACCESS_ERROR",
    )


@case("MRC-ERR-03/unexpected-event", connections=4, agreed=[TRIM_NACK], look_at=REST)
def an_unexpected_event_ends_that_qp_only(bench: Bench) -> None:
    """The target's write on the second of three connections is answered with NACK UNEXP_EVENT: that QP alone goes to
    ERROR."""
    _only_this_qp(
        bench,
        _of_its_write(lambda second, write: second.nack(write, wire.UNEXP_EVENT)),
        "REMOTE_OPERATION_ERROR",
    )


@case(
    "MRC-ERR-03/same-burst", connections=3, look_at="whether what came in the same burst for other QPs is still taken"
)
def the_burst_of_a_violation_is_taken(bench: Bench) -> None:
    """One burst brings a request for each of three connections, the second of them with a wrong R_Key: those of the
    first and third are written and answered."""
    second, third = bench.another(), bench.another()
    bench.send(
        bench.make.request(0, pattern(32), ackreq=1),
        second.make.request(0, pattern(32), rkey=second.target.rkey ^ 1, ackreq=1),
        third.make.request(0, pattern(32), ackreq=1),
    )
    for each in (bench, third):
        each.expect("SACK", ack_psn=0, cack_psn=0)
        each.expect_memory(0, pattern(32))
    second.expect("NAK", psn=0)
    second.expect_nothing_written()
