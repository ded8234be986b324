# SPDX-License-Identifier: BSD-2-Clause
"""The path timer: losses that neither a NACK nor a hole tells of (behaviour.md, Requestor, Loss).

While nothing at all is heard an endpoint may leave it to probes and the local ACK timeout to find out. So in these
cases the peer goes on saying what it has, every 50 us, and probes are lost as the data is: what is sent again is sent
again because a timer ran out.
"""

from __future__ import annotations

from mrc.conformance.cases.requestor.losses import learn_the_rtt
from mrc.conformance.script import TRIM_NACK, Bench, Heard, case, ms, pattern, us, wire

EVERY = us(50)
LEAST, FIRST = ms(1), ms(10)
LATE = us(60)  # how far behind its time a timer may be


def _heard_until(bench: Bench, until: int, cack: int) -> list[Heard]:
    """The peer says again and again that it has everything up to `cack`. The data that leaves meanwhile."""
    while bench.now < until:
        bench.wait(min(EVERY, until - bench.now))
        bench.ack(cack)
    return bench.read("WRITE")


def _expect_again(bench: Bench, psn: int, cack: int, *, after: int, within: int = LATE, since: int) -> Heard:
    """PSN `psn` is not sent before `since` + `after`, and then is, `within` so long. Nothing but it is sent."""
    bench.needs_virtual_time("a timer of 1 ms from one of 2 ms")
    slack = bench.network.session.slack_ns
    found = _heard_until(bench, since + after + within + slack, cack)
    told = [(write.psn, write.at - since) for write in found]
    bench.check(
        len(found) == 1 and found[0].psn == psn and found[0].at >= since + after,
        f"PSN {psn} again {after} ns after it left, and nothing else",
        f"(PSN, ns) {told}",
    )
    bench.check(found[0].rtx == 1, "rtx in what is sent again", "it is 0")
    return found[0]


@case("MRC-LOSS-04", look_at="whether a packet is lost by its own timer, whatever arrives beside it")
def a_path_timer_loses_its_packet(bench: Bench) -> None:
    """Round trips take 200 us. Of PSN 20 and 21, 500 us apart, the peer hears nothing, and says so all the time: each
    is sent again 1 ms after it left, not both at once."""
    learn_the_rtt(bench)
    first = bench.written(20, pattern(8))
    _heard_until(bench, bench.now + us(500), 19)
    second = bench.written(21, pattern(8))
    _expect_again(bench, 20, 19, after=LEAST, since=first.at)
    _expect_again(bench, 21, 19, after=LEAST, since=second.at)


@case("MRC-LOSS-04/acknowledged", look_at="whether the timer of a packet that was acknowledged still runs")
def an_acknowledged_packet_has_no_timer(bench: Bench) -> None:
    """PSN 20 and 21 leave together; PSN 20 is acknowledged after 900 us: 1 ms after they left only PSN 21 is sent
    again."""
    learn_the_rtt(bench)
    for _ in range(2):
        bench.post_write(pattern(8))
    writes = [bench.expect("WRITE", psn=psn) for psn in (20, 21)]
    _heard_until(bench, writes[0].at + us(900), 19)
    _expect_again(bench, 21, 20, after=LEAST, since=writes[1].at)


@case("MRC-LOSS-07", look_at="the path timer where round trips are short: 1 ms")
def the_path_timer_is_at_least_a_millisecond(bench: Bench) -> None:
    """Round trips take 200 us, srtt + 4 rttvar is hardly more: a packet nobody hears of is sent again after 1 ms."""
    learn_the_rtt(bench)
    write = bench.written(20, pattern(8))
    _expect_again(bench, 20, 19, after=LEAST, since=write.at)


@case("MRC-LOSS-07/long", look_at="the path timer where round trips are long: srtt + 4 rttvar")
def the_path_timer_is_a_round_trip_and_its_variation(bench: Bench) -> None:
    """Round trips take 3 ms, always: after 40 of them a packet nobody hears of is sent again after 3 ms to 4 ms."""
    rtt = ms(3)
    bench.answer_after = rtt
    for psn in range(40):
        write = bench.written(psn, pattern(8))
        bench.wait(rtt)
        bench.sack(psn, to=write)
    bench.wait(us(10))
    write = bench.written(40, pattern(8))
    _expect_again(bench, 40, 39, after=rtt, within=ms(1), since=write.at)


@case("MRC-LOSS-07/first", look_at="the path timer before the first sample of a round trip: 10 ms")
def before_the_first_sample_the_path_timer_is_10_ms(bench: Bench) -> None:
    """The first packet of all is not heard of: it is sent again after 10 ms."""
    write = bench.written(0, pattern(8))
    _expect_again(bench, 0, -1, after=FIRST, since=write.at)


@case(
    "MRC-LOSS-08",
    options={"timeout": 18},
    look_at="how long the timer of a packet runs that was sent two, three and four times",
)
def the_path_timer_doubles(bench: Bench) -> None:
    """The local ACK timeout is 268 ms. PSN 20 is never heard of: it is sent again 1, 2, 4 and 8 ms after it was sent
    last. PSN 21, new then, is sent again after 1 ms."""
    learn_the_rtt(bench)
    write = bench.written(20, pattern(8))
    for doubled in range(4):
        write = _expect_again(bench, 20, 19, after=LEAST << doubled, since=write.at)
    write = bench.written(21, pattern(8))
    _expect_again(bench, 21, 19, after=LEAST, since=write.at)


@case(
    "MRC-LOSS-08/most",
    agreed=[TRIM_NACK],
    options={"timeout": 12},
    look_at="where the doubling of the path timer ends: at the local ACK timeout",
)
def the_path_timer_is_at_most_the_local_ack_timeout(bench: Bench) -> None:
    """The local ACK timeout is 4.2 ms. PSN 21 is NACKed five times and sent a sixth, so that its timer would be 32 ms.
    The oldest PSN, 20, is acknowledged 2 ms later, and its local ACK timeout begins anew: PSN 21 is sent again 4.2 ms
    after it was sent last, by its path timer."""
    local = 1024 << 12
    learn_the_rtt(bench)
    for _ in range(2):
        bench.post_write(pattern(8))
    write = [bench.expect("WRITE", psn=psn) for psn in (20, 21)][1]
    for _ in range(5):
        bench.wait(us(10))
        bench.nack(write, wire.TRIMMED_LASTHOP)
        write = bench.expect("WRITE", psn=21, rtx=1)
    _heard_until(bench, write.at + ms(2), 19)
    _expect_again(bench, 21, 20, after=local, since=write.at)
