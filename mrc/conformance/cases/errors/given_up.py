# SPDX-License-Identifier: BSD-2-Clause
"""What a QP that goes to ERROR leaves behind: error completions for all its work, and an event (behaviour.md,
Errors)."""

from __future__ import annotations

from mrc.conformance.script import Bench, case, ms, pattern, us, wire
from mrc.conformance.target import QP_ERROR

LEFT = "work that is neither completed nor flushed when the QP goes to ERROR"


def _work(bench: Bench) -> tuple[list[int], list[int]]:
    """Three writes, the first of them done, the second out, the third waiting for the window of 128 PSNs; and two
    receives. (The two writes not done, the receives.)"""
    done = bench.post_write(pattern(16))
    write = bench.expect("WRITE", psn=0)
    bench.wait(us(100))
    bench.sack(0, to=write)
    bench.wait(us(10))
    bench.expect_completion("WRITE", wr_id=done)
    out, waits = bench.post_write(pattern(128 * bench.mtu)), bench.post_write(pattern(16))
    receives = bench.post_receives(2)
    bench.wait(us(100))
    count = len(bench.read("WRITE"))
    bench.check(count == 128, "128 packets on their way", f"{count} came")
    return [out, waits], receives


def _expect_flushed(bench: Bench, writes: list[int], receives: list[int], first: str = "FLUSHED") -> None:
    """Each piece of work completes with an error, once, writes in post order; the oldest write with `first`."""
    bench.wait(us(100))
    found: list[tuple[str, int, str]] = []
    while len(found) < len(writes) + len(receives):
        each = bench.next_completion()
        if each is None:
            return
        found.append((each.kind, each.wr_id, each.status))
    wanted = [("WRITE", wr_id, first if wr_id == writes[0] else "FLUSHED") for wr_id in writes]
    of_writes = [each for each in found if each[0] == "WRITE"]
    bench.check(of_writes == wanted, f"completions {wanted}", f"they are {of_writes}")
    wanted = [("RECEIVE", wr_id, "FLUSHED") for wr_id in receives]
    of_receives = [each for each in found if each[0] == "RECEIVE"]
    bench.check(of_receives == wanted, f"completions {wanted}", f"they are {of_receives}")
    bench.expect_no_completion()


@case("MRC-ERR-04", mpr=1, look_at=LEFT)
def work_is_flushed(bench: Bench) -> None:
    """The peer sends a request with a wrong R_Key: a write that is out, one that waits for the window and two receives
    complete with FLUSHED, each once, and nothing is sent any more but the NAK."""
    writes, receives = _work(bench)
    bench.request(0, pattern(8), rkey=bench.target.rkey ^ 1)
    bench.expect("NAK", psn=0)
    _expect_flushed(bench, writes, receives)
    bench.read()
    bench.expect_silence(ms(100))


@case("MRC-ERR-04/nak", mpr=1, look_at="which write a NAK is told for: the one that holds its PSN")
def the_write_that_was_refused_says_so(bench: Bench) -> None:
    """The peer NAKs PSN 1 with remote access error: the write that holds it completes with that, all else with
    FLUSHED."""
    writes, receives = _work(bench)
    bench.nak(1, wire.REMOTE_ACCESS_ERROR)
    _expect_flushed(bench, writes, receives, "REMOTE_ACCESS_ERROR")


@case("MRC-ERR-04/told", mpr=1, look_at=LEFT)
def work_is_flushed_when_its_owner_gives_up(bench: Bench) -> None:
    """The target's own side puts the QP into ERROR: all its work completes with FLUSHED."""
    writes, receives = _work(bench)
    bench.ask(bench.qp.to_error)
    _expect_flushed(bench, writes, receives)


@case(
    "MRC-ERR-04/early-immediates",
    immediates=1,
    look_at="receives that an immediate which never came due might have consumed",
)
def early_immediates_are_not_delivered(bench: Bench) -> None:
    """A write with immediate waits above a hole when the QP goes to ERROR: its receive is flushed, not completed, and
    no other completion comes."""
    receives = bench.post_receives(1)
    bench.request(1, pattern(8), immediate=1)
    bench.request(2, pattern(8), rkey=bench.target.rkey ^ 1)
    bench.expect("NAK", psn=2)
    _expect_flushed(bench, [], receives)


@case("MRC-ERR-04/posted-later", look_at="what becomes of work that is posted on a QP in ERROR")
def what_is_posted_in_error_is_flushed(bench: Bench) -> None:
    """The QP is in ERROR: a write and a receive posted then complete with FLUSHED, and no request leaves."""
    bench.ask(bench.qp.to_error)
    write, receives = bench.post_write(pattern(16)), bench.post_receives(1)
    _expect_flushed(bench, [write], receives)
    bench.expect_no("WRITE")


def _expect_event(bench: Bench, qpn: int) -> None:
    """One event says that this QP went to ERROR, and no other of a QP."""
    found = [event for event in bench.events() if event.kind == QP_ERROR]
    named = [event.qpn for event in found]
    bench.check(
        named == [qpn], f"an event for QP {qpn:#08x}, one", f"there are events for {[hex(n or 0) for n in named]}"
    )
    bench.check(bool(found[0].detail), "an event that says why", "it says nothing")


@case("MRC-ERR-05", connections=2, look_at="the event of a QP that the peer ended, and which QP it names")
def a_qp_that_was_violated_leaves_an_event(bench: Bench) -> None:
    """Of two connections the second is sent a wrong R_Key: one event, which names its QP and says why."""
    second = bench.another()
    bench.check(not bench.events(), "no events before", "there are some")
    second.request(0, pattern(8), rkey=second.target.rkey ^ 1)
    second.expect("NAK", psn=0)
    bench.expect_works(0)
    _expect_event(bench, second.target.qpn)


@case(
    "MRC-ERR-05/retries",
    options={"timeout": 8, "linear_retries": 1, "exponential_retries": 0},
    look_at="the event of a QP whose retry budget is gone",
)
def a_qp_that_gave_up_leaves_an_event(bench: Bench) -> None:
    """Nobody answers a write, and its budget is gone: one event, which names the QP and says why."""
    bench.post_write(pattern(8))
    bench.wait(ms(50))
    bench.expect_state("ERROR")
    _expect_event(bench, bench.target.qpn)


@case("MRC-ERR-05/told", look_at="the event of a QP that its owner put into ERROR, twice")
def a_qp_leaves_one_event(bench: Bench) -> None:
    """The target's own side puts the QP into ERROR, and again: one event."""
    bench.ask(bench.qp.to_error)
    bench.ask(bench.qp.to_error)
    _expect_event(bench, bench.target.qpn)
