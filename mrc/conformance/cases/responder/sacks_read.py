# SPDX-License-Identifier: BSD-2-Clause
"""What the target, as requestor, makes of a SACK (wire.md section 6; behaviour.md, Responder and Requestor)."""

from __future__ import annotations

from mrc.conformance.script import Bench, Heard, case, pattern, us

RTT = us(100)


def _writes(bench: Bench, count: int, apart: int) -> list[Heard]:
    """The target's writes, one packet each, sent so long after one another."""
    writes = []
    for psn in range(count):
        writes.append(bench.written(psn, pattern(16, psn)))
        bench.wait(apart)
    return writes


@case(
    "MRC-SACK-24",
    look_at="what a 0 bit above the highest 1 bit is taken for: it says nothing, the packet may be under way",
)
def zeros_above_the_highest_one_are_no_news(bench: Bench) -> None:
    """Of twelve writes, sent 100 us apart, a SACK reports 0 to 2 and 5: 3 and 4 are no loss yet, 6 to 11 no news.
    One that reports 8 as well makes 3 and 4 lost; 9 to 11 are no news still."""
    writes = _writes(bench, 12, RTT)
    bench.sack(2, [5], to=writes[5])
    for psn in range(6, 12):
        bench.expect_no("WRITE", within=us(10), psn=psn, rtx=1)
    bench.sack(2, [5, 8], to=writes[8])
    for psn in (3, 4):
        bench.expect("WRITE", psn=psn, rtx=1, within=us(10))
    for psn in range(9, 12):
        bench.expect_no("WRITE", within=us(10), psn=psn, rtx=1)


@case(
    "MRC-SACK-09/received",
    look_at="sack_offset where SACKs are read: it says where the bitmap begins, above cack_psn + 1 or below it",
)
def the_bitmap_begins_where_sack_offset_says(bench: Bench) -> None:
    """Of ten writes, sent 100 us apart, a SACK with cack_psn 2 and sack_offset -2 reports 0, 1, 2 and 6: 3 is lost, 4
    and 5 are not yet. One with sack_offset 4 reports 6 and 9: now 4 and 5 are lost, 7 and 8 are not."""
    writes = _writes(bench, 10, RTT)
    bench.sack(2, [0, 1, 2, 6], to=writes[6], sack_offset=-2)
    bench.expect("WRITE", psn=3, rtx=1, within=us(10))
    for psn in (4, 5):
        bench.expect_no("WRITE", within=us(10), psn=psn, rtx=1)
    bench.sack(2, [6, 9], to=writes[9], sack_offset=4)
    for psn in (4, 5):
        bench.expect("WRITE", psn=psn, rtx=1, within=us(10))
    for psn in (7, 8):
        bench.expect_no("WRITE", within=us(10), psn=psn, rtx=1)


def _in_flight(bench: Bench) -> list[Heard]:
    """What leaves of one long write before anything is acknowledged. Round trips of EV probes take as long as those
    of the write, so that the controller sees no queue."""
    bench.answer_after = RTT
    bench.post_write(pattern(400 * bench.mtu))
    bench.wait(RTT)
    writes = bench.read("WRITE")
    bench.check(len(writes) >= 40, "at least 40 packets in flight", f"there are {len(writes)}")
    return writes


def _left_by_a_sack(bench: Bench, penalty: int) -> int:
    """How many new packets leave when a SACK acknowledges eight of those in flight and has this rcv_cwnd_pen."""
    writes = _in_flight(bench)
    bench.sack(7, to=writes[7], rcv_cwnd_pen=penalty)
    bench.wait(us(10))
    return len(bench.read("WRITE"))


@case(
    "MRC-SACK-27",
    options={"controller": "nscc"},
    look_at="whether rcv_cwnd_pen gets from the CC_STATE to the controller",
)
def a_penalty_reaches_the_controller(bench: Bench) -> None:
    """A SACK for eight packets in flight lets new ones out; with rcv_cwnd_pen 127 it lets none out."""
    bench.needs_virtual_time("what follows from a round trip of some microseconds")
    held_back = _left_by_a_sack(bench, 127)
    bench.check(held_back == 0, "no new packet after a SACK with rcv_cwnd_pen 127", f"{held_back} came")


@case(
    "MRC-SACK-27/none",
    path_mtu=1024,
    options={"controller": "nscc"},
    look_at="what the controller takes a penalty of 0 for",
)
def no_penalty_holds_nothing_back(bench: Bench) -> None:
    """A SACK for eight packets in flight with rcv_cwnd_pen 0: about as many packets leave as it acknowledges."""
    bench.needs_virtual_time("what follows from a round trip of some microseconds")
    free = _left_by_a_sack(bench, 0)
    bench.check(free >= 6, "at least 6 new packets after a SACK without penalty", f"{free} came")


@case(
    "MRC-SACK-27/restore",
    path_mtu=1024,
    options={"controller": "nscc"},
    look_at="whether restore_cwnd gets to the controller, and what it saves",
)
def a_restored_window_lets_packets_out(bench: Bench) -> None:
    """A SACK for 32 packets with rcv_cwnd_pen 127 and restore_cwnd lets nothing out. The next one, for one packet and
    without a penalty, restores the window: more packets leave than it acknowledges."""
    bench.needs_virtual_time("what follows from a round trip of some microseconds")
    writes = _in_flight(bench)
    bench.sack(31, to=writes[31], rcv_cwnd_pen=127, restore_cwnd=1)
    bench.wait(us(10))
    shut = bench.read("WRITE")
    bench.check(not shut, "no new packet after the penalty", f"{len(shut)} came")
    bench.sack(32, to=writes[32])
    bench.wait(us(10))
    opened = bench.read("WRITE")
    bench.check(len(opened) > 8, "more than 8 new packets when the penalty ends", f"{len(opened)} came")


@case(
    "MRC-SACK-27/no-restore",
    options={"controller": "nscc"},
    look_at="what a penalty without restore_cwnd leaves behind",
)
def a_window_that_is_not_restored_stays_small(bench: Bench) -> None:
    """A SACK for 32 packets with rcv_cwnd_pen 127, without restore_cwnd: when the penalty ends the window stays what
    it has become."""
    bench.needs_virtual_time("what follows from a round trip of some microseconds")
    writes = _in_flight(bench)
    bench.sack(31, to=writes[31], rcv_cwnd_pen=127)
    bench.wait(us(10))
    bench.read("WRITE")
    bench.sack(32, to=writes[32])
    bench.wait(us(10))
    opened = bench.read("WRITE")
    bench.check(len(opened) <= 8, "at most 8 new packets when the penalty ends", f"{len(opened)} came")


@case(
    "MRC-SACK-28",
    options={"controller": "nscc"},
    path_mtu=1024,
    look_at="whether cc_type is looked at before rcv_cwnd_pen is: another value than 0 says nothing of a penalty",
)
def a_penalty_of_another_kind_of_state_is_none(bench: Bench) -> None:
    """A SACK with cc_type 1 for eight packets in flight, whose bytes of CC_STATE are all ones: about as many packets
    leave as it acknowledges."""
    bench.needs_virtual_time("what follows from a round trip of some microseconds")
    writes = _in_flight(bench)
    bench.sack(
        7,
        to=writes[7],
        cc_type=1,
        tx_timestamp=0xFFFF,
        ooo_count=0x7FFF,
        restore_cwnd=1,
        rcv_cwnd_pen=127,
        rcvd_bytes=0xFFFFFF,
    )
    bench.wait(us(10))
    free = len(bench.read("WRITE"))
    bench.check(free >= 6, "at least 6 new packets after a SACK with cc_type 1", f"{free} came")


@case(
    "MRC-SACK-28/restore",
    options={"controller": "nscc"},
    path_mtu=1024,
    look_at="whether a SACK of another cc_type ends a penalty: it does not",
)
def another_kind_of_state_restores_no_window(bench: Bench) -> None:
    """A SACK for 32 packets with rcv_cwnd_pen 127 and restore_cwnd shuts the window. One for one packet more, all zeros
    behind cc_type 15, does not restore it; one with cc_type 0 does."""
    bench.needs_virtual_time("what follows from a round trip of some microseconds")
    writes = _in_flight(bench)
    bench.sack(31, to=writes[31], rcv_cwnd_pen=127, restore_cwnd=1)
    bench.wait(us(10))
    bench.read("WRITE")
    bench.sack(32, to=writes[32], cc_type=15)
    bench.wait(us(10))
    came = bench.read("WRITE")
    bench.check(len(came) <= 8, "at most 8 new packets after a SACK with cc_type 15", f"{len(came)} came")
    bench.sack(33, to=writes[33])
    bench.wait(us(10))
    opened = bench.read("WRITE")
    bench.check(len(opened) > 8, "more than 8 new packets when the penalty ends", f"{len(opened)} came")


@case("MRC-SACK-28/acknowledges", look_at="whether a SACK of another cc_type is dropped: all but CC_STATE counts")
def a_sack_of_another_kind_acknowledges(bench: Bench) -> None:
    """Of six writes, sent 100 us apart, a SACK with cc_type 7 reports 0 and 5: 1 and 2 are lost."""
    writes = _writes(bench, 6, RTT)
    bench.sack(0, [5], to=writes[5], cc_type=7, rcv_cwnd_pen=127)
    for psn in (1, 2):
        bench.expect("WRITE", psn=psn, rtx=1, within=us(10))
    bench.expect_completion("WRITE", wr_id=0)
