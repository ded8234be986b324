# SPDX-License-Identifier: BSD-2-Clause
"""When a requestor sends, in which order, and when its work completes (behaviour.md, Requestor)."""

from __future__ import annotations

from mrc.conformance.script import TRIM_NACK, Bench, Heard, case, ms, pattern, us, wire

RTT = us(100)


def _in_flight(bench: Bench, packets: int) -> list[Heard]:
    """What leaves of one write of so many packets before anything is acknowledged."""
    bench.post_write(pattern(packets * bench.mtu))
    bench.wait(RTT)
    return bench.read("WRITE")


@case(
    "MRC-SEND-01", planes=1, mpr=64, look_at="whether the window of the controller is looked at before a packet leaves"
)
def cwnd_bounds_what_is_in_flight(bench: Bench) -> None:
    """The peer grants 8192 PSNs: of a write of 4000 packets a part leaves, and no more before an acknowledgement. One
    for ten packets lets about ten out."""
    writes = _in_flight(bench, 4000)
    count = len(writes)
    bench.check(0 < count < 4000, "a part of the 4000 packets", f"{count} came")
    bench.expect_no("WRITE", within=us(200))
    bench.sack(9, to=writes[9])
    bench.wait(us(10))
    more = len(bench.read("WRITE"))
    bench.check(8 <= more <= 20, "8 to 20 packets after the SACK for ten", f"{more} came")


@case("MRC-SEND-02", planes=1, mpr=1, look_at="the last PSN that the window lets out: cack_psn + window")
def no_psn_beyond_the_window(bench: Bench) -> None:
    """The peer grants 128 PSNs: of 300 packets PSN 0 to 127 leave. With cack_psn 3 they go on to 131."""
    writes = _in_flight(bench, 300)
    psns = [write.psn for write in writes]
    bench.check(psns == list(range(128)), "PSN 0 to 127", f"{len(psns)} came, the last of them {psns[-1:]}")
    bench.sack(3, to=writes[3])
    bench.wait(us(10))
    psns = [write.psn for write in bench.read("WRITE")]
    bench.check(psns == [128, 129, 130, 131], "PSN 128 to 131", f"{psns} came")


@case(
    "MRC-SEND-02/hole",
    planes=1,
    mpr=1,
    look_at="what the window counts from: cack_psn, not the highest PSN acknowledged",
)
def the_window_stays_while_there_is_a_hole(bench: Bench) -> None:
    """PSN 0 is missing, 64 PSNs above it have arrived: nothing beyond PSN 127 leaves."""
    writes = _in_flight(bench, 300)
    bench.sack(-1, range(1, 64), to=writes[63])
    bench.wait(us(10))
    beyond = [write.psn for write in bench.read("WRITE") if write.psn > 127]
    bench.check(not beyond, "no PSN beyond 127", f"{beyond} came")


@case("MRC-SEND-03", look_at="whether anything leaves while no EV of the profile may be used")
def nothing_leaves_without_a_path(bench: Bench) -> None:
    """Every EV is denied: a write does not leave. One EV is allowed again: it leaves by that one."""
    evs = [ev for plane in bench.planes for ev in plane.target_evs]
    bench.deny(*evs)
    bench.post_write(pattern(8))
    bench.expect_no("WRITE", within=ms(2))
    bench.ask(lambda: bench.qp.allow_ev(evs[-1]))
    bench.expect("WRITE", psn=0, ev=evs[-1])


@case("MRC-SEND-04", look_at="which PSN each packet gets: the next, when it leaves")
def psns_number_packets_in_send_order(bench: Bench) -> None:
    """Writes of three packets, one, and two, the last posted later: PSN 0 to 5 leave in this order, over all planes."""
    for packets in (3, 1):
        bench.post_write(pattern(packets * bench.mtu))
    bench.wait(us(10))
    bench.post_write(pattern(2 * bench.mtu))
    bench.wait(us(10))
    found = [(write.psn, write.msn) for write in bench.read("WRITE")]
    wanted = [(0, 0), (1, 0), (2, 0), (3, 1), (4, 2), (5, 2)]
    bench.check(found == wanted, f"(PSN, MSN) {wanted}", f"they are {found}")


@case("MRC-SEND-04/waiting", planes=1, mpr=1, look_at="in which order writes leave that had to wait for the window")
def writes_that_waited_leave_in_post_order(bench: Bench) -> None:
    """A write of 128 packets fills the window, then two of a packet each are posted: MSN 1 leaves as PSN 128, MSN 2 as
    PSN 129."""
    writes = _in_flight(bench, 128)
    for _ in range(2):
        bench.post_write(pattern(8))
    bench.sack(9, to=writes[9])
    bench.wait(us(10))
    found = [(write.psn, write.msn) for write in bench.read("WRITE")]
    bench.check(found == [(128, 1), (129, 2)], "(PSN, MSN) (128, 1) and (129, 2)", f"they are {found}")


@case("MRC-SEND-05", look_at="what a completion waits for: its own last PSN, and every one below it")
def work_completes_when_cack_psn_covers_it(bench: Bench) -> None:
    """Writes of two packets, one and two. With cack_psn 0 none is complete, with 1 the first, with 4 the others."""
    ids = [bench.post_write(pattern(packets * bench.mtu)) for packets in (2, 1, 2)]
    writes = [bench.expect("WRITE", psn=psn) for psn in range(5)]
    bench.sack(0, to=writes[0])
    bench.wait(us(10))
    bench.expect_no_completion()
    bench.sack(1, to=writes[1])
    bench.wait(us(10))
    bench.expect_completion("WRITE", wr_id=ids[0])
    bench.expect_no_completion()
    bench.sack(4, to=writes[4])
    bench.wait(us(10))
    bench.expect_completion("WRITE", wr_id=ids[1])
    bench.expect_completion("WRITE", wr_id=ids[2])
    bench.expect_no_completion()


@case("MRC-SEND-05/hole", look_at="whether work above a hole completes before what was posted earlier")
def work_above_a_hole_waits(bench: Bench) -> None:
    """Of three writes of a packet each the first is missing and the others have arrived: none completes before it has
    arrived too, then all do in post order."""
    ids = [bench.post_write(pattern(8)) for _ in range(3)]
    writes = [bench.expect("WRITE", psn=psn) for psn in range(3)]
    bench.sack(-1, [1, 2], to=writes[2])
    bench.wait(us(10))
    bench.expect_no_completion()
    bench.sack(2, to=writes[0])
    bench.wait(us(10))
    for wr_id in ids:
        bench.expect_completion("WRITE", wr_id=wr_id)


@case(
    "MRC-SEND-06",
    planes=1,
    mpr=1,
    agreed=[TRIM_NACK],
    look_at="what leaves first when the window opens, and in which order",
)
def retransmissions_go_first(bench: Bench) -> None:
    """The window is full; the NACKs of PSN 9, 5 and 7 come in one burst with a SACK that opens it: 5, 7 and 9 leave
    again, in this order, before any new PSN."""
    bench.needs_virtual_time("what the target takes as one batch")
    writes = _in_flight(bench, 300)
    nacks = [bench.make.nack(writes[psn], wire.TRIMMED) for psn in (9, 5, 7)]
    bench.send(*nacks, bench.make.sack(4, to=writes[4]))
    bench.wait(us(10))
    found = [write.psn for write in bench.read("WRITE")]
    bench.check(found[:4] == [5, 7, 9, 128], "PSN 5, 7 and 9, then 128", f"they are {found}")


@case("MRC-SEND-07", planes=1, look_at="AckReq on the last packet when there is no more data")
def ackreq_when_there_is_no_more_data(bench: Bench) -> None:
    """Of a write of five packets the last one has AckReq, and so has a write of one."""
    bench.written(4, pattern(5 * bench.mtu), ackreq=1)
    bench.written(5, pattern(8), ackreq=1)


@case("MRC-SEND-07/window", planes=1, mpr=1, look_at="AckReq on the packet that exhausts the peer's window")
def ackreq_when_the_window_is_exhausted(bench: Bench) -> None:
    """Of 300 packets 128 leave: the last of them has AckReq. With three acknowledged, the third that follows."""
    writes = _in_flight(bench, 300)
    bench.check(writes[-1].ackreq == 1 and writes[-1].psn == 127, "AckReq on PSN 127", f"{writes[-1]}")
    bench.sack(2, to=writes[2])
    bench.expect("WRITE", psn=130, ackreq=1)


@case("MRC-SEND-07/cwnd", planes=1, mpr=64, look_at="AckReq on the packet that exhausts cwnd")
def ackreq_when_cwnd_is_exhausted(bench: Bench) -> None:
    """Of 4000 packets cwnd lets a part out: the last of them has AckReq."""
    writes = _in_flight(bench, 4000)
    bench.check(len(writes) < 4000 and writes[-1].ackreq == 1, "AckReq on the last packet", f"{writes[-1]}")


@case("MRC-SEND-08", planes=1, mpr=1, look_at="what an old SACK or ACK does to the left edge of the window")
def cack_psn_never_goes_back(bench: Bench) -> None:
    """After a SACK with cack_psn 63 come, in one burst with it, a SACK with 9 and an ACK with 5: nothing is sent again,
    and the window reaches on to PSN 191 and no further."""
    writes = _in_flight(bench, 300)
    bench.send(bench.make.sack(63, to=writes[63]), bench.make.sack(9, to=writes[9]), bench.make.ack(5))
    bench.wait(us(50))
    found = [write.psn for write in bench.read("WRITE")]
    bench.check(found == list(range(128, 192)), "PSN 128 to 191", f"they are {found}")
    bench.sack(64, to=writes[64])
    bench.wait(us(10))
    found = [write.psn for write in bench.read("WRITE")]
    bench.check(found == [192], "PSN 192", f"they are {found}")


def _unsent_is_dropped(bench: Bench, kind: str) -> None:
    wr_id = bench.post_write(pattern(8))
    write = bench.expect("WRITE", psn=0)
    bench.mark_counters()
    bench.send(bench.make.sack(1, to=write) if kind == "SACK" else bench.make.ack(1))
    bench.wait(us(10))
    bench.expect_counted()
    bench.expect_no_completion()
    bench.sack(0, to=write)
    bench.wait(us(10))
    bench.expect_completion("WRITE", wr_id=wr_id)


@case("MRC-SEND-09", look_at="whether cack_psn of a SACK is compared with what was sent")
def a_sack_for_what_was_never_sent_is_dropped(bench: Bench) -> None:
    """Only PSN 0 was sent: a SACK with cack_psn 1 completes nothing and is counted; the right one completes the
    write."""
    _unsent_is_dropped(bench, "SACK")


@case("MRC-SEND-09/ack", look_at="whether the PSN of an ACK is compared with what was sent")
def an_ack_for_what_was_never_sent_is_dropped(bench: Bench) -> None:
    """Only PSN 0 was sent: an ACK of PSN 1 completes nothing and is counted; the right one completes the write."""
    _unsent_is_dropped(bench, "ACK")
