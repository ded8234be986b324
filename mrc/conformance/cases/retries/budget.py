# SPDX-License-Identifier: BSD-2-Clause
"""The local ACK timeout and the retry budget (behaviour.md, Requestor). t is 17 unless a case is about it."""

from __future__ import annotations

from itertools import pairwise

from mrc.conformance.script import Bench, Heard, case, ms, pattern, us, wire

TIMEOUT = 1024 << 17  # ns, 134 ms
GONE = "RETRY_EXCEEDED"


def _written(bench: Bench, psn: int) -> Heard:
    """One write of the target's, one packet."""
    return bench.written(psn, pattern(64, psn), rtx=0)


def _gives_up(bench: Bench, after: int, *, wr_id: int = 0) -> None:
    """See that the target's QP goes to ERROR so long from now, and neither sooner nor later than 2 % of that, on a live
    network a quarter."""
    began, near = bench.now, after // 4 if bench.slack else after // 50
    bench.wait_until(began + after - near)
    bench.expect_state("RTS")
    bench.expect_no_completion()
    bench.wait_until(began + after + near)
    bench.expect_completion("WRITE", wr_id=wr_id, status=GONE)
    bench.expect_state("ERROR")


def _nacked(bench: Bench, packet: Heard, times: int) -> Heard:
    """NACK a write and its retransmissions so often. Returns the last of them."""
    for _ in range(times):
        bench.nack(packet, wire.TRIMMED_LASTHOP)
        packet = bench.expect("WRITE", psn=packet.psn, rtx=1)
    return packet


@case(
    "MRC-RETRY-01",
    options={"timeout": 20, "linear_retries": 2, "exponential_retries": 0},
    look_at="whether retries are counted for a PSN or for the connection",
)
def each_psn_has_a_budget_of_its_own(bench: Bench) -> None:
    """Two retries: five PSNs are out, each is NACKed twice and sent again twice. The third NACK for one of them ends
    the QP, and it is that write that has failed."""
    writes = [_written(bench, psn) for psn in range(5)]
    latest = [_nacked(bench, write, 2) for write in writes]
    bench.expect_state("RTS")
    bench.nack(latest[3], wire.TRIMMED_LASTHOP)
    for wr_id in range(5):
        bench.expect_completion("WRITE", wr_id=wr_id, status=GONE if wr_id == 3 else "FLUSHED")
    bench.expect_state("ERROR")


@case(
    "MRC-RETRY-02",
    options={"timeout": 17, "linear_retries": 2, "exponential_retries": 0},
    look_at="whether timeouts and NACKs draw on one budget or on two",
)
def timeouts_draw_on_the_budget_of_their_psn(bench: Bench) -> None:
    """Two retries, both drawn by NACKs: the first local ACK timeout, and not the third, ends the QP."""
    _nacked(bench, _written(bench, 0), 2)
    _gives_up(bench, TIMEOUT)


@case(
    "MRC-RETRY-02/other-psn",
    options={"timeout": 17, "linear_retries": 1, "exponential_retries": 0},
    look_at="whether a new PSN that a timeout names has a whole budget",
)
def an_acknowledged_psn_takes_its_retries_with_it(bench: Bench) -> None:
    """One retry: the timeout of PSN 0 draws it, then it is acknowledged. Of PSN 1, sent afterwards, the second timeout
    ends the QP, not the first."""
    _written(bench, 0)
    again = bench.expect("WRITE", psn=0, rtx=1, within=2 * TIMEOUT)
    bench.sack(0, to=again)
    bench.expect_completion("WRITE", wr_id=0)
    _written(bench, 1)
    _gives_up(bench, 2 * TIMEOUT, wr_id=1)


@case(
    "MRC-RETRY-03",
    options={"timeout": 20, "linear_retries": 2, "exponential_retries": 1},
    look_at="whether each NACK draws a retry, and how many there are",
)
def nacks_draw_on_the_budget_of_their_psn(bench: Bench) -> None:
    """Three retries, linear and exponential together: a PSN is sent again after three NACKs, the fourth ends the QP."""
    latest = _nacked(bench, _written(bench, 0), 3)
    bench.expect_state("RTS")
    bench.nack(latest, wire.TRIMMED_LASTHOP)
    bench.expect_completion("WRITE", wr_id=0, status=GONE)
    bench.expect_state("ERROR")


@case(
    "MRC-RETRY-04",
    options={"linear_retries": 0, "exponential_retries": 0},
    look_at="whether a hole is taken for a retry",
)
def holes_draw_nothing(bench: Bench) -> None:
    """No retries at all: PSN 0 is found missing three times, each time by later packets that have arrived, and is sent
    again each time. Then it is acknowledged, and the write completes."""
    bench.answer_after = us(100)
    _written(bench, 0)
    arrived: list[int] = []
    again = None
    for _ in range(3):
        for psn in range(len(arrived) + 1, len(arrived) + 7):
            bench.wait(us(100))
            latest = _written(bench, psn)
            bench.wait(us(100))
            arrived.append(psn)
            bench.sack(-1, arrived, to=latest)
        again = bench.expect("WRITE", psn=0, rtx=1)
    bench.expect_state("RTS")
    bench.sack(len(arrived), to=again)
    for wr_id in range(len(arrived) + 1):
        bench.expect_completion("WRITE", wr_id=wr_id)


@case(
    "MRC-RETRY-04/path-timer",
    options={"linear_retries": 0, "exponential_retries": 0},
    look_at="whether a path timer that runs out is taken for a retry",
)
def path_timers_draw_nothing(bench: Bench) -> None:
    """No retries at all: PSN 1 is not acknowledged, while ACKs go on telling that PSN 0 has arrived. Its path timer
    sends it again long before the local ACK timeout, and the QP goes on."""
    bench.needs_virtual_time("a peer that says something every 50 us from one that falls silent")
    bench.answer_after = us(100)
    first = _written(bench, 0)
    bench.sack(0, to=first, at=first.at + us(100))
    bench.expect_completion("WRITE", wr_id=0)
    _written(bench, 1)
    again: list[Heard] = []
    while not again and bench.now < ms(15):
        bench.wait(us(50))
        bench.ack(0)
        again = bench.read("WRITE")
    bench.check(bool(again), "PSN 1 sent again before 15 ms", "nothing came")
    bench.expect_state("RTS")
    bench.sack(1, to=again[0])
    bench.expect_completion("WRITE", wr_id=1)


def _one_timeout_ends_it(bench: Bench, t: int) -> None:
    _written(bench, 0)
    _gives_up(bench, 1024 << t)


NONE = {"linear_retries": 0, "exponential_retries": 0}


@case("MRC-RETRY-05", options={**NONE, "timeout": 10}, look_at="the unit of the local ACK timeout, 1.024 us")
def the_timeout_is_a_power_of_two(bench: Bench) -> None:
    """Without retries the first local ACK timeout ends the QP: with t 10 after 1.05 ms."""
    bench.needs_virtual_time("a timeout of 1 ms from one of 2 ms")
    _one_timeout_ends_it(bench, 10)


@case("MRC-RETRY-05/long", options={**NONE, "timeout": 20}, look_at="a limit on the local ACK timeout below t 24")
def the_timeout_may_be_long(bench: Bench) -> None:
    """Without retries the first local ACK timeout ends the QP: with t 20 after 1.07 s."""
    _one_timeout_ends_it(bench, 20)


@case("MRC-RETRY-05/longest", options={**NONE, "timeout": 24}, look_at="a limit on the local ACK timeout below t 24")
def the_timeout_may_be_very_long(bench: Bench) -> None:
    """Without retries the first local ACK timeout ends the QP: with t 24, the highest, after 17.2 s."""
    _one_timeout_ends_it(bench, 24)


@case("MRC-RETRY-06", options=NONE, look_at="the t that holds where none is set")
def the_timeout_is_17_ms_by_itself(bench: Bench) -> None:
    """Without a word about t and without retries the QP ends after 16.8 ms, which is t 14."""
    bench.needs_virtual_time("a timeout of 17 ms from one of 20 ms")
    _one_timeout_ends_it(bench, 14)


@case(
    "MRC-RETRY-07",
    options={"timeout": 17, "linear_retries": 3, "exponential_retries": 0},
    look_at="how far the linear retries lie apart",
)
def linear_retries_come_at_the_interval(bench: Bench) -> None:
    """Three linear retries: the target tries again after one, two and three timeouts, and gives up after four."""
    write = _written(bench, 0)
    for retry in range(1, 4):
        due = retry * TIMEOUT
        again = bench.expect("WRITE", psn=0, rtx=1, since=write.at, within=due * 102 // 100)
        bench.check(
            again.at - write.at >= due * (90 if bench.slack else 98) // 100,
            f"retry {retry} after {due} ns",
            f"after {again.at} ns",
        )
    _gives_up(bench, TIMEOUT)


@case(
    "MRC-RETRY-07/exponential",
    options={"timeout": 17, "linear_retries": 1, "exponential_retries": 4},
    look_at="what is doubled, and from which retry on",
)
def exponential_retries_double_the_interval(bench: Bench) -> None:
    """One linear retry and four exponential ones: the first comes after one timeout, and the last three lie apart by
    twice as much each."""
    write = _written(bench, 0)
    times = [bench.expect("WRITE", psn=0, rtx=1, within=40 * TIMEOUT).at - write.at for _ in range(5)]
    first, gaps = times[0], [later - sooner for sooner, later in pairwise(times)]
    near = 4 if bench.slack else 50
    bench.check(abs(first - TIMEOUT) < TIMEOUT // near, f"the first retry after {TIMEOUT} ns", f"after {first} ns")
    told = ", ".join(map(str, gaps))
    for sooner, later in pairwise(gaps[1:]):
        bench.check(
            abs(later - 2 * sooner) < sooner // (4 if bench.slack else 10),
            "intervals that double",
            f"they are {told} ns",
        )


@case(
    "MRC-RETRY-08",
    options={"linear_retries": 7, "exponential_retries": 25},
    look_at="whether 25 exponential retries are counted",
)
def twenty_five_are_for_ever(bench: Bench) -> None:
    """Seven linear and 25 exponential retries: after 40 NACKs the target goes on, and the write completes at last."""
    latest = _nacked(bench, _written(bench, 0), 40)
    bench.expect_state("RTS")
    bench.sack(0, to=latest)
    bench.expect_completion("WRITE", wr_id=0)


@case(
    "MRC-RETRY-09",
    options={"timeout": 17, "linear_retries": 1, "exponential_retries": 0},
    look_at="the status of the write that failed and of those behind it, and whether anything is sent afterwards",
)
def a_budget_that_is_gone_ends_the_qp(bench: Bench) -> None:
    """One retry and three writes that nobody answers: after two timeouts the first ends with retry counter exceeded,
    the others are flushed, the QP is in ERROR and sends nothing more."""
    for psn in range(3):
        _written(bench, psn)
    _gives_up(bench, 2 * TIMEOUT)
    for wr_id in (1, 2):
        bench.expect_completion("WRITE", wr_id=wr_id, status="FLUSHED")
    bench.read()
    bench.expect_silence(ms(100))
