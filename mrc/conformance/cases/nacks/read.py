# SPDX-License-Identifier: BSD-2-Clause
"""What a requestor makes of NACKs (wire.md section 7; behaviour.md, Requestor)."""

from __future__ import annotations

from mrc.conformance.script import Bench, Heard, case, ms, other_than, pattern, us, wire

RTT = us(100)
# Live, the wait for room (one round trip) has to be far longer than late processes and questions to the target take.
LIVE_RTT = ms(100)


def _written(bench: Bench, psn: int) -> Heard:
    """One write of the target's, one packet."""
    return bench.written(psn, pattern(64, psn), rtx=0)


def _measured(bench: Bench, rtt: int = RTT) -> None:
    """The target's write 0 and its SACK, one round trip later: now the target knows its RTT."""
    bench.answer_after = rtt
    write = _written(bench, 0)
    bench.sack(0, to=write, at=write.at + rtt)
    bench.expect_completion("WRITE", wr_id=0)


def _expect_ev(bench: Bench, ev: int, state: str) -> None:
    """See that one of the target's EVs is in this state, where it can tell."""
    found = bench.ask_if_it_can("EV states", lambda: bench.ev_state(ev))
    if found is not None:
        bench.check(found == state, f"EV {ev:#010x} in {state}", f"it is in {found}")


def _resent_after(bench: Bench, reason: int, state: str) -> None:
    """The target's write is NACKed: it is sent again, with the same payload, on another EV; its EV is in `state`."""
    _measured(bench)
    write = _written(bench, 1)
    bench.wait_until(write.at + RTT)
    bench.nack(write, reason)
    _expect_ev(bench, write.ev, state)
    again = bench.expect("WRITE", psn=1, rtx=1, payload=write.payload, va=write.va, ev=other_than(write.ev))
    _expect_ev(bench, write.ev, state)
    bench.sack(1, to=again)
    bench.expect_completion("WRITE", wr_id=1)


@case("MRC-NACK-04/received", look_at="whether cc_type of a NACK is looked at")
def any_cc_type_is_accepted(bench: Bench) -> None:
    """NACKs with cc_type 0, 2 and 15: each write is sent again."""
    for psn, cc_type in enumerate((0, 2, 15)):
        bench.nack(_written(bench, psn), wire.TRIMMED_LASTHOP, cc_type=cc_type, cc_flags=cc_type)
        again = bench.expect("WRITE", psn=psn, rtx=1)
        bench.sack(psn, to=again)


@case(
    "MRC-NACK-05",
    target_evs=4,
    look_at="what TRIMMED does: the packet is sent again at once, its EV is passed over once",
)
def trimmed_is_resent_and_skips_the_ev(bench: Bench) -> None:
    """NACK TRIMMED: the write is sent again, its EV goes to SKIP."""
    _resent_after(bench, wire.TRIMMED, "SKIP")


@case("MRC-NACK-06", target_evs=2, look_at="what TRIMMED_LASTHOP does: it says nothing about the path")
def trimmed_on_the_last_hop_is_resent(bench: Bench) -> None:
    """NACK TRIMMED_LASTHOP: the write is sent again, its EV stays GOOD."""
    _resent_after(bench, wire.TRIMMED_LASTHOP, "GOOD")


@case("MRC-NACK-07", target_evs=2, look_at="what NO_BITMAP does: it says nothing about the path")
def no_bitmap_is_resent(bench: Bench) -> None:
    """NACK NO_BITMAP: the write is sent again, its EV stays GOOD."""
    _resent_after(bench, wire.NO_BITMAP, "GOOD")


@case("MRC-NACK-08", target_evs=2, look_at="what NO_PKT_BUFFER does: it says nothing about the path")
def no_packet_buffer_is_resent(bench: Bench) -> None:
    """NACK NO_PKT_BUFFER: the write is sent again, its EV stays GOOD."""
    _resent_after(bench, wire.NO_PKT_BUFFER, "GOOD")


@case("MRC-NACK-09", target_evs=2, look_at="what NO_RESOURCE does: it says nothing about the path")
def no_resource_is_resent(bench: Bench) -> None:
    """NACK NO_RESOURCE: the write is sent again, its EV stays GOOD."""
    _resent_after(bench, wire.NO_RESOURCE, "GOOD")


@case("MRC-NACK-23", target_evs=2, look_at="what a reason does that is none of the seven: the packet is sent again")
def an_unknown_reason_is_resent(bench: Bench) -> None:
    """A NACK with reason 0x0c, which nobody has: the write is sent again, its EV stays GOOD."""
    _resent_after(bench, 0x0C, "GOOD")


@case("MRC-NACK-10", target_evs=2, look_at="what PSN_OOR_WINDOW does: it says nothing about the path")
def out_of_window_is_resent(bench: Bench) -> None:
    """NACK PSN_OOR_WINDOW for the second of two writes, then the SACK of the first: the second is sent again, its EV
    stays GOOD."""
    _measured(bench)
    first, second = _written(bench, 1), _written(bench, 2)
    bench.wait(RTT)
    bench.nack(second, wire.PSN_OOR_WINDOW)
    bench.sack(1, to=first)
    _expect_ev(bench, second.ev, "GOOD")
    again = bench.expect("WRITE", psn=2, rtx=1, payload=second.payload, ev=other_than(second.ev))
    _expect_ev(bench, second.ev, "GOOD")
    bench.sack(2, to=again)
    bench.expect_completion("WRITE", wr_id=1)
    bench.expect_completion("WRITE", wr_id=2)


@case("MRC-NACK-11", look_at="what UNEXP_EVENT does: no retry, and the status of the work that ends")
def unexp_event_ends_the_qp(bench: Bench) -> None:
    """NACK UNEXP_EVENT for the second of three writes: it ends with remote operation error, the others are flushed,
    the QP is in ERROR, and nothing is sent again."""
    writes = [_written(bench, psn) for psn in range(3)]
    bench.nack(writes[1], wire.UNEXP_EVENT)
    bench.expect_state("ERROR")
    for wr_id, status in enumerate(("FLUSHED", "REMOTE_OPERATION_ERROR", "FLUSHED")):
        bench.expect_completion("WRITE", wr_id=wr_id, status=status)
    bench.expect_no("WRITE", within=ms(50))


@case("MRC-NACK-18", look_at="whether an acknowledged PSN can be lost")
def a_nack_for_an_acknowledged_psn_counts_for_its_ev(bench: Bench) -> None:
    """NACK TRIMMED for a write that has been acknowledged: nothing is sent again, its EV goes to SKIP."""
    _measured(bench)
    write = _written(bench, 1)
    bench.sack(1, to=write)
    bench.nack(write, wire.TRIMMED)
    _expect_ev(bench, write.ev, "SKIP")
    bench.expect_no("WRITE", within=ms(1))


@case("MRC-NACK-18/sacked", look_at="whether a PSN acknowledged above a hole can be lost")
def a_nack_for_a_psn_above_a_hole_counts_for_its_ev(bench: Bench) -> None:
    """NACK TRIMMED for a write that a SACK has reported above a hole: it is not sent again, its EV goes to SKIP."""
    _measured(bench)
    _written(bench, 1)
    write = _written(bench, 2)
    bench.sack(0, [2], to=write)
    bench.nack(write, wire.TRIMMED)
    _expect_ev(bench, write.ev, "SKIP")
    bench.expect_no("WRITE", within=ms(5), psn=2)


@case("MRC-NACK-18/earlier", look_at="how a NACK is told from one for an earlier transmission: rtx and EV")
def a_nack_for_an_earlier_transmission_counts_for_its_ev(bench: Bench) -> None:
    """A write is sent again after NACK TRIMMED_LASTHOP. A NACK TRIMMED for its first transmission comes late: its
    EV goes to SKIP, and there is no third transmission. One for the second transmission brings it."""
    _measured(bench)
    first = _written(bench, 1)
    bench.nack(first, wire.TRIMMED_LASTHOP)
    second = bench.expect("WRITE", psn=1, rtx=1)
    bench.nack(first, wire.TRIMMED)
    _expect_ev(bench, first.ev, "SKIP")
    bench.expect_no("WRITE", within=us(50))
    bench.nack(second, wire.TRIMMED)
    bench.expect("WRITE", psn=1, rtx=1, within=us(10))


@case("MRC-NACK-19", look_at="when a PSN that the peer's window has not reached is sent again")
def out_of_window_waits_for_the_window(bench: Bench) -> None:
    """NACK PSN_OOR_WINDOW for the last of six writes: it waits, five round trips long, until cack_psn moves."""
    _measured(bench)
    writes = [_written(bench, psn) for psn in range(1, 7)]
    bench.nack(writes[-1], wire.PSN_OOR_WINDOW)
    bench.expect_no("WRITE", within=5 * RTT, psn=6)
    bench.sack(4, to=writes[3])
    bench.expect("WRITE", psn=6, rtx=1, within=us(10))


def _waits_one_rtt_then_twice_as_long(bench: Bench, reason: int) -> None:
    _measured(bench)
    packet = _written(bench, 1)
    for repeats in range(4):
        bench.wait(RTT)
        bench.nack(packet, reason)
        wait = RTT << repeats
        packet = bench.expect("WRITE", psn=1, rtx=1, after=wait * 8 // 10, within=wait * 15 // 10)


@case("MRC-NACK-20", look_at="how long a PSN waits after NO_BITMAP, and how that grows")
def after_no_bitmap_a_psn_waits(bench: Bench) -> None:
    """A write is NACKed with NO_BITMAP again and again: it is sent again after one RTT, two, four, eight."""
    _waits_one_rtt_then_twice_as_long(bench, wire.NO_BITMAP)


@case("MRC-NACK-20/buffer", look_at="how long a PSN waits after NO_PKT_BUFFER, and how that grows")
def after_no_packet_buffer_a_psn_waits(bench: Bench) -> None:
    """A write is NACKed with NO_PKT_BUFFER again and again: it is sent again after one RTT, two, four, eight."""
    _waits_one_rtt_then_twice_as_long(bench, wire.NO_PKT_BUFFER)


@case("MRC-NACK-20/resource", look_at="how long a PSN waits after NO_RESOURCE, and how that grows")
def after_no_resource_a_psn_waits(bench: Bench) -> None:
    """A write is NACKed with NO_RESOURCE again and again: it is sent again after one RTT, two, four, eight."""
    _waits_one_rtt_then_twice_as_long(bench, wire.NO_RESOURCE)


def _measured_for_waits(bench: Bench) -> int:
    """The target knows its RTT, which is also how long it waits for room: long enough to tell, live too. Returns it."""
    rtt = LIVE_RTT if bench.slack else RTT
    _measured(bench, rtt)
    return rtt


@case("MRC-NACK-21", look_at="what a PSN that waits for room does when it becomes the oldest unacknowledged one")
def the_oldest_psn_does_not_wait_for_room(bench: Bench) -> None:
    """Of three writes the second and third are NACKed with NO_PKT_BUFFER. Half a round trip later the first is
    acknowledged: the second is the oldest now and goes at once, the third waits on."""
    rtt = _measured_for_waits(bench)
    writes = [_written(bench, psn) for psn in (1, 2, 3)]
    bench.wait(rtt)
    for write in writes[1:]:
        bench.nack(write, wire.NO_PKT_BUFFER)
    bench.wait(rtt // 2)
    bench.sack(1, to=writes[0])
    bench.expect("WRITE", psn=2, rtx=1, within=us(10))
    bench.expect_no("WRITE", within=us(10), psn=3)
    bench.expect("WRITE", psn=3, rtx=1, within=rtt)


@case("MRC-NACK-21/crossed", look_at="a resource NACK for a PSN that has become the oldest since it was sent")
def a_late_nack_does_not_keep_the_oldest_psn_waiting(bench: Bench) -> None:
    """Of three writes the first is acknowledged, then come the NACKs NO_BITMAP of the others: the second was refused
    before the hole below it closed, and goes at once, the third waits."""
    rtt = _measured_for_waits(bench)
    writes = [_written(bench, psn) for psn in (1, 2, 3)]
    bench.wait(rtt)
    bench.sack(1, to=writes[0])
    for write in writes[1:]:
        bench.nack(write, wire.NO_BITMAP)
    bench.expect("WRITE", psn=2, rtx=1, within=us(10))
    bench.expect_no("WRITE", within=us(10), psn=3)
    bench.expect("WRITE", psn=3, rtx=1, within=rtt * 15 // 10)


@case("MRC-NACK-22", look_at="whether new PSNs take the room that a PSN waits for")
def new_psns_wait_with_those_that_wait_for_room(bench: Bench) -> None:
    """The second of two writes is NACKed with NO_PKT_BUFFER, then another is posted: it leaves no sooner than the one
    that waits, which goes after a round trip."""
    rtt = _measured_for_waits(bench)
    writes = [_written(bench, psn) for psn in (1, 2)]
    bench.wait(rtt)
    bench.nack(writes[1], wire.NO_PKT_BUFFER)
    bench.post_write(pattern(64, 3))
    bench.expect_no("WRITE", within=rtt * 8 // 10, psn=3)
    bench.expect("WRITE", psn=2, rtx=1, within=rtt)
    bench.expect("WRITE", psn=3, rtx=0, within=us(10))
