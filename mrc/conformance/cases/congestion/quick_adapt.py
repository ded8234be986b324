# SPDX-License-Identifier: BSD-2-Clause
"""Quick adapt: when far too little got through, the window jumps down to what did (nscc.md)."""

from __future__ import annotations

from mrc.conformance.cases.congestion.flow import Flow
from mrc.conformance.cases.congestion.network import Network
from mrc.conformance.script import TRIM_NACK, Bench, us, wire

# 90,000 bytes, 81 packets; an eighth are 11,250, a little more than ten packets. Target 12 us, so that quick adapt
# judges every 24 us; a delay above 48 us is a reason.
FULL = Network(gbps=40)
# The same with switches that trim: target 9 us, every 21 us, and no delay is a reason.
TRIMMING = Network(gbps=40, trimming=True)


def _open(flow: Flow, rtt: int) -> None:
    """The first acknowledgement of all begins the first interval, and is not judged."""
    flow.sack(1, rtt)


@FULL.case("MRC-CC-14", look_at="what the window becomes when the interval is over: what got through")
def too_little_cuts_the_window_to_what_got_through(bench: Bench) -> None:
    """The delay is above 48 us. Of 81 packets in flight four are acknowledged 23 us into the interval, which changes
    nothing, and one when it is over: the window becomes these five packets."""
    flow = Flow(bench)
    _open(flow, FULL.base_rtt + us(54))
    flow.sack(4, FULL.base_rtt + us(77))
    flow.expect_window(FULL.max_cwnd, slack=0)
    flow.sack(1, FULL.base_rtt + us(79))
    flow.settle()
    flow.expect_window(5 * flow.mtu, slack=0)


@FULL.case("MRC-CC-14/no-reason", look_at="whether little got through is enough without a reason")
def too_little_alone_is_no_reason(bench: Bench) -> None:
    """The delay is at most 46 us, nothing is lost or trimmed, and few packets are acknowledged: the window stays."""
    flow = Flow(bench)
    _open(flow, FULL.base_rtt + us(20))
    flow.sack(4, FULL.base_rtt + us(43))
    flow.sack(1, FULL.base_rtt + us(46))
    flow.expect_window(FULL.max_cwnd, slack=0)


@FULL.case("MRC-CC-14/each", look_at="what counts as achieved: what was acknowledged in this interval alone")
def each_interval_counts_anew(bench: Bench) -> None:
    """Forty packets are acknowledged in the first interval, which is more than an eighth. In the next it is four, with
    a delay above 48 us: the window becomes these four."""
    flow = Flow(bench)
    _open(flow, FULL.base_rtt + us(10))
    flow.sack(39, FULL.base_rtt + us(33))
    flow.sack(1, FULL.base_rtt + us(35))
    flow.expect_window(FULL.max_cwnd, slack=0)
    flow.sack(3, FULL.base_rtt + us(58))
    flow.expect_window(FULL.max_cwnd, slack=0)
    flow.sack(1, FULL.base_rtt + us(60))
    flow.settle()
    flow.expect_window(4 * flow.mtu, slack=0)


@FULL.case(
    "MRC-CC-14/floor",
    initial_cwnd=11_000,
    look_at="what the window becomes where next to nothing got through: one full packet",
)
def what_got_through_is_at_least_one_packet(bench: Bench) -> None:
    """Small packets tell the window to a few bytes. Two of them got through: the window becomes one full packet, which
    is twelve of these."""
    flow = Flow(bench, packets=300, length=8)
    _open(flow, FULL.base_rtt + us(54))
    flow.sack(1, FULL.base_rtt + us(77))
    flow.sack(1, FULL.base_rtt + us(79))
    flow.settle()
    flow.expect_window(flow.mtu)


def _cut_to_nine(bench: Bench, network: Network, reason: int | None = None) -> Flow:
    """Quick adapt made the window nine packets, with some 80 in flight. With a `reason` one packet is NACKed for it;
    without, a delay above 48 us is the reason."""
    flow = Flow(bench)
    _open(flow, us(66))
    if reason is not None:
        flow.nack(sorted(flow.in_flight)[:1], reason)
    flow.sack(8, us(66) + network.interval - us(1))
    flow.sack(1, us(66) + network.interval + us(1))
    return flow


@FULL.case("MRC-CC-15", look_at="whether marks count whose packets were in flight when it was cut")
def marks_of_what_was_in_flight_are_ignored(bench: Bench) -> None:
    """The window was cut to nine packets with 80 in flight. Marks with 90 us of delay on these change nothing: packets
    leave again when eight are in flight."""
    flow = _cut_to_nine(bench, FULL)
    while len(flow.in_flight) > 9:
        flow.sack(1, us(102), m=1)
    flow.sack(1, us(102), m=1)
    flow.expect_window(9 * flow.mtu, slack=0)
    youngest = max(flow.in_flight)
    bench.check(youngest == 90, "PSN 90 alone to leave", f"PSN {youngest} left")


@FULL.case("MRC-CC-15/over", look_at="whether marks count again when what was in flight is accounted for")
def marks_count_again_when_all_is_accounted_for(bench: Bench) -> None:
    """The window was cut to nine packets with 80 in flight, which are acknowledged, with marks. Of the packets that
    follow one is marked, with a delay of 30 us: the window becomes half of it."""
    flow = _cut_to_nine(bench, FULL)
    for _ in range(79):
        flow.sack(1, us(102), m=1)
    # The last of them without a round trip: the SACK that accounts for the last byte would count.
    flow.ack(1)
    flow.expect_window(9 * flow.mtu, slack=0)
    flow.sack(1, FULL.base_rtt + us(30), m=1)
    flow.settle()
    flow.expect_window(4.5 * flow.mtu, slack=0)


def _trimmed_cuts(bench: Bench, reason: int) -> Flow:
    flow = Flow(bench)
    _open(flow, TRIMMING.base_rtt)
    bench.wait(us(5))
    flow.nack([1], reason)
    flow.sack_psns([2, 3, 4], TRIMMING.base_rtt + us(20))
    flow.expect_window(TRIMMING.max_cwnd - flow.mtu)
    flow.sack_psns([5], TRIMMING.base_rtt + us(22))
    flow.settle()
    return flow


@TRIMMING.case(
    "MRC-CC-17", agreed=[TRIM_NACK], look_at="whether a NACK TRIMMED is a reason for quick adapt when the interval ends"
)
def a_trimmed_packet_is_a_reason_for_quick_adapt(bench: Bench) -> None:
    """One packet is NACKed TRIMMED in the interval, three are acknowledged, and one when it is over: the window becomes
    these four packets."""
    flow = _trimmed_cuts(bench, wire.TRIMMED)
    flow.expect_window(4 * flow.mtu, slack=0)


@TRIMMING.case(
    "MRC-CC-17/last-hop",
    agreed=[TRIM_NACK],
    look_at="whether TRIMMED_LASTHOP is a reason as TRIMMED is: both say that packets are too many",
)
def a_packet_trimmed_at_the_last_hop_is_a_reason_too(bench: Bench) -> None:
    """One packet is NACKed TRIMMED_LASTHOP in the interval, four are acknowledged: the window becomes these four."""
    flow = _trimmed_cuts(bench, wire.TRIMMED_LASTHOP)
    flow.expect_window(4 * flow.mtu, slack=0)


@TRIMMING.case(
    "MRC-CC-17/others",
    agreed=[TRIM_NACK],
    look_at="whether other NACKs leave a reason for the end of the interval: they do not",
)
def other_nacks_are_no_reason_later(bench: Bench) -> None:
    """One packet is NACKed NO_RESOURCE in the interval: the window loses that packet's size and no more."""
    flow = _trimmed_cuts(bench, wire.NO_RESOURCE)
    flow.expect_window(TRIMMING.max_cwnd - flow.mtu)


@TRIMMING.case(
    "MRC-CC-17/ignored",
    agreed=[TRIM_NACK],
    look_at="whether the bytes of trimmed packets are accounted for when marks are ignored",
)
def trimmed_bytes_are_accounted_for(bench: Bench) -> None:
    """The window was cut to nine packets with 79 in flight. 40 of these are NACKed TRIMMED and the others acknowledged,
    with marks: all are accounted for. Of the packets that follow one is marked, with a delay of 30 us: the window
    becomes half of it."""
    flow = _cut_to_nine(bench, TRIMMING, wire.TRIMMED)
    flow.nack(range(41, 81), wire.TRIMMED)
    for psn in [*range(11, 41), *range(81, 90)]:
        flow.sack_psns([psn], us(102), m=1)
    # The last of them without a round trip, for that SACK would count: PSN 1 was sent twice, and this is the first.
    flow.sack_psns([1], us(102), m=1, rtx=0)
    flow.expect_window(9 * flow.mtu, slack=0)
    flow.sack(1, TRIMMING.base_rtt + us(30), m=1)
    flow.settle()
    flow.expect_window(4.5 * flow.mtu, slack=0)


@FULL.case("MRC-CC-18/judged", look_at="whether a NACK has quick adapt judge at once, as after a loss")
def a_nack_has_quick_adapt_judge(bench: Bench) -> None:
    """Four packets got through in the interval, without delay. A NACK NO_RESOURCE when it is over: the window becomes
    these four packets."""
    flow = Flow(bench)
    _open(flow, FULL.base_rtt)
    flow.sack(4, FULL.base_rtt + us(5))
    bench.wait(us(20))
    flow.nack(sorted(flow.in_flight)[:1], wire.NO_RESOURCE)
    flow.settle()
    flow.expect_window(4 * flow.mtu, slack=0)


@FULL.case("MRC-CC-32", look_at="how little is too little: less than max_cwnd >> 3")
def less_than_an_eighth_is_too_little(bench: Bench) -> None:
    """Max_cwnd is 90,000 bytes, an eighth are 11,250: ten packets, 11,120 bytes or less, are too little."""
    flow = Flow(bench)
    _open(flow, FULL.base_rtt + us(54))
    flow.sack(9, FULL.base_rtt + us(77))
    flow.sack(1, FULL.base_rtt + us(79))
    flow.settle()
    flow.expect_window(10 * flow.mtu, slack=0)


@FULL.case("MRC-CC-32/enough", look_at="whether more than an eighth is taken for too little")
def more_than_an_eighth_is_enough(bench: Bench) -> None:
    """With eleven packets the window stays."""
    flow = Flow(bench)
    _open(flow, FULL.base_rtt + us(54))
    flow.sack(10, FULL.base_rtt + us(77))
    flow.sack(1, FULL.base_rtt + us(79))
    flow.expect_window(FULL.max_cwnd, slack=0)


def _delayed(bench: Bench, network: Network, delay: int) -> Flow:
    """Two packets got through in an interval, the last with this delay."""
    flow = Flow(bench)
    _open(flow, network.base_rtt + delay - us(26))
    flow.sack(1, network.base_rtt + delay - us(3))
    flow.sack(1, network.base_rtt + delay)
    flow.settle()
    return flow


@FULL.case("MRC-CC-32/threshold", look_at="the delay that is a reason without trimming: 4 x target")
def four_targets_are_a_reason(bench: Bench) -> None:
    """Target is 12 us: with a delay of 49 us two packets are too little, and the window becomes these."""
    flow = _delayed(bench, FULL, us(49))
    flow.expect_window(2 * flow.mtu, slack=0)


@FULL.case("MRC-CC-32/below-threshold", look_at="whether less than 4 x target is a reason")
def less_than_four_targets_is_no_reason(bench: Bench) -> None:
    """With a delay of 47 us the window stays."""
    _delayed(bench, FULL, us(47)).expect_window(FULL.max_cwnd)


@TRIMMING.case(
    "MRC-CC-32/trimming",
    look_at="whether a delay is a reason for quick adapt where switches trim: the threshold is off",
)
def with_trimming_no_delay_is_a_reason(bench: Bench) -> None:
    """With trimming, a delay of 300 us changes nothing."""
    _delayed(bench, TRIMMING, us(300)).expect_window(TRIMMING.max_cwnd)


@TRIMMING.case(
    "MRC-CC-25",
    agreed=[TRIM_NACK],
    look_at="whether an interval is judged in which the application sent less than the window",
)
def a_pause_is_not_judged(bench: Bench) -> None:
    """The application posts five packets where the window is 81. One is NACKed TRIMMED, the others arrive before and
    when the interval is over. Little got through, and that is no wonder: of what is posted then 80 packets leave."""
    flow = Flow(bench, packets=5)
    _open(flow, TRIMMING.base_rtt)
    bench.wait(us(5))
    flow.nack([1], wire.TRIMMED)
    flow.sack_psns([2, 3], TRIMMING.base_rtt + us(20))
    flow.sack_psns([4], TRIMMING.base_rtt + us(22))
    flow.sack(1, TRIMMING.base_rtt + us(10))
    bench.post_write(bytes(200 * bench.mtu))
    bench.wait(0)
    flow.expect_window(TRIMMING.max_cwnd - flow.mtu)
