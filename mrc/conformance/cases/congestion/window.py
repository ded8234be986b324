# SPDX-License-Identifier: BSD-2-Clause
"""What marks and delay make of the window: the table of nscc.md, and how increases take effect."""

from __future__ import annotations

from mrc.conformance.cases.congestion.flow import Flow
from mrc.conformance.cases.congestion.network import Network, grown
from mrc.conformance.script import Bench, us

# A full window of 90,000 bytes, 81 packets; a base RTT and target of 12 us.
FULL = Network(gbps=40)
# The increases of 400 and of 4000 Gbit/s from a window of 40 packets on.
START = 44_000
FAST = Network(gbps=400)
HUGE = Network(gbps=4000)


def _with_average(flow: Flow, delay: int) -> None:
    """Let the averaged delay become `delay`, by 400 samples. At max_cwnd unmarked ones change nothing."""
    flow.rounds(5, FULL.base_rtt + delay, each=1)


@FAST.case("MRC-CC-04", initial_cwnd=START, look_at="what inc grows by below target: alpha x n x (target - delay)")
def growth_is_proportional_to_what_is_missing(bench: Bench) -> None:
    """From 40 packets on two windows are acknowledged with a delay of 3 us, a quarter of the target, without marks:
    alpha is 16 mss / 12 us, so that inc grows by 12 mss a byte. The window becomes 61 packets."""
    flow = Flow(bench)
    flow.rounds(2, FAST.base_rtt + us(3))
    cwnd = grown(START, flow.acked_bytes, FAST.proportional(flow.mss, us(3))) + 2 * FAST.eta(flow.mss)
    flow.expect_window(cwnd, slack=2)


@FAST.case(
    "MRC-CC-04/less", initial_cwnd=START, look_at="whether less is missing to the target, the less the window grows"
)
def growth_is_less_near_the_target(bench: Bench) -> None:
    """From 40 packets on two windows are acknowledged with a delay of 9 us, near the target: inc grows by 4 mss a byte,
    a third of what 3 us give. The window becomes 48 packets."""
    flow = Flow(bench)
    flow.rounds(2, FAST.base_rtt + us(9))
    cwnd = grown(START, flow.acked_bytes, FAST.proportional(flow.mss, us(9))) + 2 * FAST.eta(flow.mss)
    flow.expect_window(cwnd, slack=2)


def _fair(bench: Bench, delay: int) -> None:
    flow = Flow(bench)
    flow.round(FAST.base_rtt + delay)
    flow.expect_window(grown(START, flow.acked_bytes, FAST.fi(flow.mss)) + FAST.eta(flow.mss), slack=2)


@FAST.case("MRC-CC-05", initial_cwnd=START, look_at="what inc grows by above target: fi x n")
def growth_is_fair_above_target(bench: Bench) -> None:
    """From 40 packets on a window is acknowledged with a delay of 18 us, target is 12, without marks: inc grows by 20
    mss a byte. The window becomes 56 packets."""
    _fair(bench, us(18))


@FAST.case(
    "MRC-CC-05/far-above", initial_cwnd=START, look_at="whether the delay matters once it is above target: it does not"
)
def growth_is_the_same_far_above_target(bench: Bench) -> None:
    """A window of 40 packets, acknowledged with a delay of 42 us, becomes 56 packets, as with 18 us."""
    _fair(bench, us(42))


@FAST.case(
    "MRC-CC-05/at-target",
    initial_cwnd=START,
    look_at="what a delay of just the target is: at or above it, so that growth is fair",
)
def growth_is_fair_at_target(bench: Bench) -> None:
    """A window of 40 packets, acknowledged with a delay of 12 us, the target itself, becomes 56 packets, as above
    it."""
    _fair(bench, us(12))


@FULL.case("MRC-CC-06", look_at="the factor of a decrease: 1 - gamma (avg_delay - target) / avg_delay")
def a_marked_window_shrinks_by_the_average_delay(bench: Bench) -> None:
    """The delay has been 18 us for five windows, target is 12: marks make the window 1 - 0.8 x 6 / 18 of 81 packets."""
    flow = Flow(bench)
    _with_average(flow, us(18))
    flow.expect_window(FULL.max_cwnd)
    flow.round(FULL.base_rtt + us(18), each=1, m=1)
    flow.expect_window(FULL.max_cwnd * (1 - 0.8 * 6 / 18))


@FULL.case("MRC-CC-07", look_at="how long after a decrease the next may come: more than a base_rtt")
def decreases_are_a_base_rtt_apart(bench: Bench) -> None:
    """A window of 81 packets with 24 us of delay: the first mark makes it 0.6 of that. 20 marks 11 us later change
    nothing, though the delay is 35 us; the next, 13 us after the first, makes it 0.5 to 0.6 of what it is."""
    flow = Flow(bench)
    _with_average(flow, us(24))
    flow.sack(40, FULL.base_rtt + us(24), m=1)
    flow.expect_window(0.6 * FULL.max_cwnd)
    for _ in range(20):
        flow.sack(1, FULL.base_rtt + us(35), m=1)
    flow.expect_window(0.6 * FULL.max_cwnd)
    flow.sack(1, FULL.base_rtt + us(37), m=1)
    low, high = (round(factor * 0.6 * FULL.max_cwnd / flow.mtu) for factor in (0.5, 0.6))
    found = flow.settle()
    bench.check(low <= found <= high + 1, f"{low} to {high + 1} packets in flight", f"there are {found}")


@FULL.case("MRC-CC-07/average", look_at="whether it is the average that has to be above target")
def one_long_delay_is_no_decrease(bench: Bench) -> None:
    """Five windows without delay, then one marked packet with 14 us, target is 12: the average is below, the window
    stays at 81 packets."""
    flow = Flow(bench)
    _with_average(flow, 0)
    flow.sack(1, FULL.base_rtt + us(14), m=1)
    flow.expect_window(FULL.max_cwnd, slack=0)
    flow.sack(1, FULL.base_rtt + us(14), m=1)
    flow.expect_window(FULL.max_cwnd, slack=0)


@FULL.case("MRC-CC-07/floor", initial_cwnd=9_000, look_at="what a decrease stops at: one full packet")
def decreases_stop_at_one_packet(bench: Bench) -> None:
    """Small packets tell the window to a few bytes. From 8 full packets on eight windows are marked, with a delay
    of 36 us: each is half the last, until there is one full packet, which is twelve of these."""
    flow = Flow(bench, packets=600, length=8)
    flow.rounds(8, FULL.base_rtt + us(36), each=1, m=1)
    flow.expect_window(flow.mtu)


@FAST.case(
    "MRC-CC-08", initial_cwnd=START, look_at="what a mark does below target: nothing, the path was changed instead"
)
def a_mark_below_target_changes_nothing(bench: Bench) -> None:
    """From 40 packets on two windows are acknowledged with marks and a delay of 6 us, target is 12: but for eta, half a
    packet a round trip, the window stays as it is."""
    flow = Flow(bench)
    flow.rounds(2, FAST.base_rtt + us(6), m=1)
    flow.expect_window(START + 2 * FAST.eta(flow.mss))


@FAST.case(
    "MRC-CC-09", initial_cwnd=START, look_at="what an acknowledgement without a round trip does to the window: nothing"
)
def without_a_sample_nothing_grows(bench: Bench) -> None:
    """From 40 packets on five windows are acknowledged by transport ACKs alone, 12 us apart: the window stays."""
    flow = Flow(bench)
    for _ in range(5):
        bench.wait(FAST.base_rtt)
        for _ in range(4):
            flow.ack(10)
    flow.expect_window(START, slack=0)


@HUGE.case(
    "MRC-CC-09/counted",
    initial_cwnd=START,
    look_at="whether the bytes of an acknowledgement without a round trip count towards adjust_bytes",
)
def bytes_without_a_sample_count(bench: Bench) -> None:
    """Fi is 200 mss and eta 6 packets. A SACK fulfils and begins a period. Within it a transport ACK covers eight
    packets, then a SACK one: more than eight mtu together, and the increase of that one takes effect, 5 packets."""
    flow = Flow(bench)
    flow.sack(1, HUGE.base_rtt + us(18))
    first = grown(START, flow.mtu, HUGE.fi(flow.mss)) + HUGE.eta(flow.mss)
    flow.expect_window(first)
    flow.ack(8)
    flow.expect_window(first)
    flow.sack(1, HUGE.base_rtt + us(18))
    flow.expect_window(grown(first, flow.mtu, HUGE.fi(flow.mss)))


@HUGE.case(
    "MRC-CC-10",
    initial_cwnd=START,
    look_at="when increases take effect within a period: with more than adjust_bytes acknowledged",
)
def increases_take_effect_by_bytes(bench: Bench) -> None:
    """Fi is 200 mss. A first SACK fulfils. Eight packets acknowledged at the same time change nothing; with the ninth
    the increase of all nine takes effect at once, 33 packets."""
    flow = Flow(bench)
    flow.sack(1, HUGE.base_rtt + us(18))
    first = START + HUGE.fi(flow.mss) * flow.mtu / START + HUGE.eta(flow.mss)
    flow.expect_window(first)
    for _ in range(8):
        flow.sack(1, HUGE.base_rtt + us(18))
    flow.expect_window(first)
    flow.sack(1, HUGE.base_rtt + us(18))
    flow.expect_window(first + HUGE.fi(flow.mss) * 9 * flow.mtu / first)


@HUGE.case(
    "MRC-CC-10/period", initial_cwnd=START, look_at="when increases take effect with few bytes: after an adjust period"
)
def increases_take_effect_by_time(bench: Bench) -> None:
    """Fi is 200 mss. A first SACK fulfils. One packet acknowledged 11 us later changes nothing; with another, 13 us
    after the first, the increase of both takes effect, and eta with it."""
    flow = Flow(bench)
    flow.sack(1, HUGE.base_rtt + us(18))
    first = START + HUGE.fi(flow.mss) * flow.mtu / START + HUGE.eta(flow.mss)
    flow.sack(1, HUGE.base_rtt + us(29))
    flow.expect_window(first)
    flow.sack(1, HUGE.base_rtt + us(31))
    flow.expect_window(first + HUGE.fi(flow.mss) * 2 * flow.mtu / first + HUGE.eta(flow.mss))


@HUGE.case(
    "MRC-CC-10/anew", initial_cwnd=START, look_at="whether inc and received start again at 0 once they took effect"
)
def each_increase_takes_effect_once(bench: Bench) -> None:
    """Fi is 200 mss. A SACK for nine packets fulfils. Eight more at the same time change nothing; one, 13 us later,
    fulfils with the increase of these nine alone."""
    flow = Flow(bench)
    flow.sack(9, HUGE.base_rtt + us(18))
    first = START + HUGE.fi(flow.mss) * 9 * flow.mtu / START + HUGE.eta(flow.mss)
    flow.expect_window(first)
    flow.sack(8, HUGE.base_rtt + us(18))
    flow.expect_window(first)
    flow.sack(1, HUGE.base_rtt + us(31))
    flow.expect_window(first + HUGE.fi(flow.mss) * 9 * flow.mtu / first + HUGE.eta(flow.mss))


@HUGE.case(
    "MRC-CC-11",
    initial_cwnd=START,
    look_at="when eta is added: with a fulfil by period, the first of which is the first of all, and never by bytes",
)
def eta_comes_once_a_period(bench: Bench) -> None:
    """Eta is 6 packets; marks below target add nothing else. The first SACK adds it, for last_adjust starts at 0. Nine
    packets at the same time and nine 5 us later fulfil by bytes, and add none; a SACK 13 us after the first does, for
    only fulfils by period move last_adjust; nine packets at the same time again do not."""
    flow = Flow(bench)
    eta = HUGE.eta(flow.mss)
    flow.sack(1, HUGE.base_rtt + us(6), m=1)
    flow.expect_window(START + eta)
    flow.sack(9, HUGE.base_rtt + us(6), m=1)
    flow.expect_window(START + eta)
    flow.sack(9, HUGE.base_rtt + us(11), m=1)
    flow.expect_window(START + eta)
    # The others of the first burst are 31 us old by now: the trigger is one that left with the first SACK.
    flow.sack(24, us(13), m=1)
    flow.expect_window(START + 2 * eta)
    flow.sack(9, us(13), m=1)
    flow.expect_window(START + 2 * eta)


MOST = 88_000


@HUGE.case("MRC-CC-12", initial_cwnd=START, max_cwnd=MOST, look_at="whether a fulfilled increase ends at max_cwnd")
def increases_end_at_max_cwnd(bench: Bench) -> None:
    """A window of 40 packets may become 80: acknowledged with a delay above target it would become 130."""
    flow = Flow(bench)
    for _ in range(2):
        flow.round(HUGE.base_rtt + us(18))
        flow.expect_window(MOST)


@HUGE.case("MRC-CC-12/fast", initial_cwnd=START, max_cwnd=MOST, look_at="whether a fast increase ends at max_cwnd")
def fast_increases_end_at_max_cwnd(bench: Bench) -> None:
    """A fast increase ends at max_cwnd, 80 packets. Without delay each packet acknowledged would add ten. All SACKs
    of the third window are seen one by one, for a fulfil would hide it."""
    flow = Flow(bench)
    flow.rounds(2, HUGE.base_rtt)
    for _ in range(20):
        flow.sack(1, HUGE.base_rtt)
        flow.expect_window(MOST)


def _begin_fast_increase(flow: Flow, rtt: int) -> None:
    """More than one cwnd of bytes without delay."""
    flow.round(rtt)
    flow.sack(10, rtt)
    flow.sack(10, rtt)


@FAST.case(
    "MRC-CC-13",
    initial_cwnd=START,
    look_at="fast increase: fi_scale x n an acknowledgement, after more than one cwnd of bytes without delay",
)
def an_idle_path_is_taken_fast(bench: Bench) -> None:
    """Fi_scale is 1. From 40 packets on, with a delay of 0.5 us, a window grows by the rules of below target up to the
    60th packet acknowledged; from then on each packet acknowledged adds one."""
    flow = Flow(bench)
    rtt = FAST.base_rtt + us(0.5)
    flow.round(rtt)
    slow = grown(START, flow.acked_bytes, FAST.proportional(flow.mss, us(0.5))) + FAST.eta(flow.mss)
    flow.expect_window(slow, slack=2)
    flow.sack(10, rtt)
    flow.sack(10, rtt)
    before = len(flow.in_flight)
    flow.sack(20, rtt)
    flow.expect_window((before + 20) * flow.mtu)


@FAST.case(
    "MRC-CC-13/ends",
    initial_cwnd=START,
    look_at="what ends a fast increase: the first delay, and the count starts anew",
)
def a_fast_increase_ends_with_the_first_delay(bench: Bench) -> None:
    """A fast increase has begun. Ten packets with 6 us of delay grow the window by one packet or two, and ten more
    without delay do not begin a fast increase again, which would add ten."""
    flow = Flow(bench)
    _begin_fast_increase(flow, FAST.base_rtt)
    before = len(flow.in_flight)
    flow.sack(10, FAST.base_rtt + us(6))
    flow.expect_window((before + 1) * flow.mtu)
    before = len(flow.in_flight)
    flow.sack(10, FAST.base_rtt + us(0.5))
    flow.expect_window((before + 2) * flow.mtu, slack=2)
