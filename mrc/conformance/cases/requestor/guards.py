# SPDX-License-Identifier: BSD-2-Clause
"""What holds a requestor back from sending again too soon, or too much (behaviour.md, Requestor, Loss)."""

from __future__ import annotations

from mrc.conformance.cases.requestor.losses import RTT, apart, learn_the_rtt
from mrc.conformance.script import Bench, Heard, case, pattern, us, wire


def _late(bench: Bench, first: int, later: int) -> tuple[int, list[Heard]]:
    """Twelve packets leave 10 us apart; each arrives 200 us after it left, but PSN `first` only when the `later`
    packets behind it have been acknowledged, each by a SACK of its own. (How often it was sent again, what left.)"""
    writes = apart(bench, first, 12, us(10))
    for at in range(1, later + 1):
        bench.wait_until(writes[at].at + RTT)
        bench.sack(first - 1, range(first + 1, first + at + 1), to=writes[at])
    bench.wait(us(1))
    again = len([write for write in bench.read("WRITE") if write.psn == first])
    bench.sack(first + later, to=writes[0])
    for at in range(later + 1, len(writes)):
        bench.wait_until(writes[at].at + RTT)
        bench.sack(first + at, to=writes[at])
    bench.wait(2 * RTT)
    return again, writes


def _expect_times(bench: Bench, first: int, later: int, times: int) -> None:
    again, _ = _late(bench, first, later)
    bench.check(
        again == times,
        f"PSN {first} sent again {times} times when {later} later packets had come before it",
        f"it was {again} times",
    )


@case("MRC-LOSS-06", look_at="whether a retransmission that proved needless makes the guard longer")
def the_guard_grows_with_a_spurious_retransmission(bench: Bench) -> None:
    """Packets leave 10 us apart, RTT/4 is 50 us. One that comes behind six later ones is sent again, and its SACK,
    which has no rtx, says that this was needless. After that one that comes just as late is not sent again."""
    bench.needs_virtual_time("a packet that is 60 us late from one that is 50 us late")
    learn_the_rtt(bench)
    _expect_times(bench, 20, 6, 1)
    _expect_times(bench, 32, 6, 0)


@case("MRC-LOSS-06/needed", look_at="whether the guard grows too where a retransmission was needed")
def the_guard_stays_where_the_retransmission_was_needed(bench: Bench) -> None:
    """A packet is lost, and its retransmission arrives, which its SACK says by its rtx. Another that comes behind six
    later ones is sent again as before."""
    bench.needs_virtual_time("a packet that is 60 us late from one that is 50 us late")
    learn_the_rtt(bench)
    writes = apart(bench, 20, 12, us(10))
    bench.wait_until(writes[-1].at + RTT)
    bench.sack(19, range(21, 32), to=writes[-1])
    again = bench.expect("WRITE", psn=20, rtx=1, within=us(10))
    bench.wait(RTT)
    bench.sack(31, to=again)
    bench.wait(2 * RTT)
    _expect_times(bench, 32, 6, 1)


@case("MRC-LOSS-06/upward", look_at="whether the guard grows further, and only as far as is needed to wait longer")
def the_guard_grows_further(bench: Bench) -> None:
    """After one needless retransmission, 60 us late, one that comes ten packets late is sent again needlessly too;
    after that it is not any more."""
    bench.needs_virtual_time("which of two delays some 10 us apart is longer")
    learn_the_rtt(bench)
    _expect_times(bench, 20, 6, 1)
    first = 32
    for _ in range(4):
        again, _ = _late(bench, first, 11)
        first += 12
        if not again:
            break
    bench.check(not again, "packets 110 us late not sent again in the end", "they are sent again every time")


@case(
    "MRC-LOSS-12",
    planes=1,
    mpr=64,
    look_at="whether the window of the controller is looked at before a packet is sent again",
)
def retransmissions_stay_within_cwnd(bench: Bench) -> None:
    """The window of the controller is full. Fifty packets are NACKed with PSN_OOR_WINDOW, and those in front of them
    arrive, all but the first: new packets may leave in their place. Then the first arrives, so that forty of the fifty
    fit the peer's window again; but that of the controller has room for hardly more than one. A SACK for thirty of the
    new packets makes room for as many."""
    bench.needs_virtual_time("what leaves within 10 us of a SACK")
    learn_the_rtt(bench)
    bench.post_write(4000 * pattern(bench.mtu))
    bench.wait(us(10))
    writes = bench.read("WRITE")
    bench.check(100 < len(writes) < 4000, "more than 100 of the 4000 packets, and not all", f"{len(writes)} came")
    first, refused = writes[0].psn, writes[40:90]
    bench.send(*(bench.make.nack(write, wire.PSN_OOR_WINDOW) for write in refused))
    bench.sack(first - 1, [*range(first + 1, first + 40)], to=writes[39], ack_psn=first + 39)
    bench.wait(us(50))
    new = bench.read("WRITE")
    bench.check(30 <= len(new) <= 100 and not any(write.rtx for write in new), "30 to 100 new", f"{len(new)} came")
    bench.expect_no("WRITE", within=us(300))
    bench.sack(first + 39, to=writes[0])
    bench.wait(us(10))
    found = [write.psn for write in bench.read("WRITE")]
    bench.check(len(found) <= 8, "at most 8 packets where one was acknowledged", f"{len(found)} came")
    news = [write.psn for write in new[:30]]
    bench.sack(first + 39, news, to=new[29], ack_psn=news[-1], sack_offset=news[0] - first - 39)
    bench.wait(us(10))
    found += [write.psn for write in bench.read("WRITE")]
    wanted = [write.psn for write in refused]
    bench.check(found == wanted[: len(found)], "the packets NACKed, oldest first", f"they are {found}")
    bench.check(0 < len(found) <= 48, "1 to 48 packets", f"{len(found)} came")
