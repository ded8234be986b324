# SPDX-License-Identifier: BSD-2-Clause
"""The defaults of nscc.md: what follows from line rate and base RTT."""

from __future__ import annotations

from mrc.conformance.cases.congestion.flow import Flow
from mrc.conformance.cases.congestion.network import Network, grown
from mrc.conformance.script import Bench, case, us

# 90,000 bytes, 81 packets; target 12 us.
FULL = Network(gbps=40)
# The same with switches that trim: target 9 us.
TRIMMING = Network(gbps=40, trimming=True)
# Neither a nor b is 1: 200 Gbit/s x 24 us are 600,000 bytes, so that a is 4, and b is 2. The window is 40 packets.
START = 44_000
OTHER = Network(gbps=200, base_rtt=us(24))
# The same with trimming: target 18 us, b is 1.5.
OTHER_TRIMMING = Network(gbps=200, base_rtt=us(24), trimming=True)
HUGE = Network(gbps=4000)


# ------------------------------------------------------------------ a delay of about 0


def _twenty_after_a_window_of(bench: Bench, network: Network, delay: int) -> int:
    """How many more packets than are acknowledged leave for 20, after more than a window with this delay."""
    flow = Flow(bench)
    rtt = network.base_rtt + delay
    flow.round(rtt)
    flow.sack(10, rtt)
    flow.sack(10, rtt)
    before = len(flow.in_flight)
    flow.sack(20, rtt)
    return len(flow.in_flight) - before


def _is_none(bench: Bench, network: Network, delay: int) -> None:
    more = _twenty_after_a_window_of(bench, network, delay)
    bench.check(19 <= more <= 21, "19 to 21 packets more in flight for 20 acknowledged", f"{more} more")


def _is_some(bench: Bench, network: Network, delay: int) -> None:
    more = _twenty_after_a_window_of(bench, network, delay)
    bench.check(0 <= more <= 9, "at most 9 packets more in flight for 20 acknowledged", f"{more} more")


EIGHTH = Network(gbps=400, base_rtt=us(12))
SHORT = Network(gbps=1200, base_rtt=us(4))


@EIGHTH.case("MRC-CC-27", initial_cwnd=START, look_at="which delay is none: one below base_rtt / 8")
def less_than_an_eighth_of_base_rtt_is_no_delay(bench: Bench) -> None:
    """Base RTT is 12 us, an eighth 1.5. With a delay of 1.4 us there is a fast increase: fi_scale is 1, so that each
    packet acknowledged adds one."""
    _is_none(bench, EIGHTH, us(1.4))


@EIGHTH.case("MRC-CC-27/more", initial_cwnd=START, look_at="whether more than base_rtt / 8 is a delay")
def more_than_an_eighth_of_base_rtt_is_a_delay(bench: Bench) -> None:
    """With 1.6 us there is none."""
    _is_some(bench, EIGHTH, us(1.6))


@SHORT.case("MRC-CC-27/short", initial_cwnd=START, look_at="which delay is none on a short path: 1 us")
def less_than_a_microsecond_is_no_delay(bench: Bench) -> None:
    """Base RTT is 4 us. With a delay of 0.9 us, more than an eighth, there is a fast increase."""
    _is_none(bench, SHORT, us(0.9))


@SHORT.case("MRC-CC-27/short-and-more", initial_cwnd=START, look_at="whether more than 1 us is a delay on a short path")
def more_than_a_microsecond_is_a_delay(bench: Bench) -> None:
    """With 1.1 us there is none."""
    _is_some(bench, SHORT, us(1.1))


# ------------------------------------------------------------------ target, windows, decreases


def _marked(bench: Bench, network: Network, delay: int, cwnd: float) -> None:
    """The delay has been this for five windows of 81 packets. Then one is marked."""
    flow = Flow(bench)
    flow.rounds(5, network.base_rtt + delay, each=1)
    flow.round(network.base_rtt + delay, each=1, m=1)
    flow.expect_window(cwnd)


@FULL.case("MRC-CC-28", look_at="target_delay without trimming: 1.0 base_rtt")
def target_is_the_base_rtt(bench: Bench) -> None:
    """Marks with a delay of 11 us, base RTT is 12, change nothing."""
    _marked(bench, FULL, us(11), FULL.max_cwnd)


@FULL.case("MRC-CC-28/above", look_at="target_delay without trimming: not more than base_rtt")
def more_than_the_base_rtt_is_above_target(bench: Bench) -> None:
    """With 15 us they make the window 1 - 0.8 x 3 / 15 of itself, 68 packets."""
    _marked(bench, FULL, us(15), FULL.max_cwnd * (1 - 0.8 * 3 / 15))


@TRIMMING.case("MRC-CC-28/trimming", look_at="target_delay with trimming: 0.75 base_rtt")
def target_is_less_with_trimming(bench: Bench) -> None:
    """With trimming target is 9 us: 8 us change nothing."""
    _marked(bench, TRIMMING, us(8), TRIMMING.max_cwnd)


@TRIMMING.case("MRC-CC-28/trimming-above", look_at="target_delay with trimming: not more than 0.75")
def less_than_the_base_rtt_is_above_target_with_trimming(bench: Bench) -> None:
    """With trimming 11 us make the window 1 - 0.8 x 2 / 11 of itself, 70 packets."""
    _marked(bench, TRIMMING, us(11), TRIMMING.max_cwnd * (1 - 0.8 * 2 / 11))


@FULL.case("MRC-CC-29", look_at="the initial cwnd: 1.5 BDP")
def the_first_window_is_one_and_a_half_bdp(bench: Bench) -> None:
    """40 Gbit/s x 12 us are 60,000 bytes: 81 packets leave, which are 90,000."""
    Flow(bench).expect_window(FULL.max_cwnd, slack=0)


@case(
    "MRC-CC-29/other",
    path_mtu=1024,
    options=Network(gbps=25, base_rtt=us(30)).options(),
    look_at="what BDP is made from",
)
def the_first_window_follows_rate_and_round_trip(bench: Bench) -> None:
    """25 Gbit/s x 30 us are 93,750 bytes: 127 packets leave."""
    Flow(bench).expect_window(Network(gbps=25, base_rtt=us(30)).max_cwnd, slack=0)


@FULL.case("MRC-CC-29/most", initial_cwnd=70_000, look_at="max_cwnd: 1.5 BDP, whatever it began with")
def the_largest_window_is_one_and_a_half_bdp(bench: Bench) -> None:
    """From 63 packets on eight windows without any delay: 81 are in flight and not more."""
    flow = Flow(bench)
    for _ in range(8):
        flow.round(FULL.base_rtt)
        most = len(flow.in_flight)
        bench.check(most <= 81, "at most 81 packets in flight", f"there are {most}")
    flow.expect_window(FULL.max_cwnd, slack=0)


@FULL.case("MRC-CC-30", look_at="the weight of a decrease, gamma: 0.8")
def gamma_is_four_fifths(bench: Bench) -> None:
    """Marks with a delay of 22 us, target is 12: the window becomes 1 - 0.8 x 10 / 22 of 81 packets, 52."""
    _marked(bench, FULL, us(22), FULL.max_cwnd * (1 - 0.8 * 10 / 22))


@FULL.case("MRC-CC-30/most", look_at="max_md_jump: 0.5, the least factor of a decrease")
def one_decrease_at_most_halves(bench: Bench) -> None:
    """With 45 us it were 0.41: the window becomes half of 81 packets, 41."""
    _marked(bench, FULL, us(45), FULL.max_cwnd / 2)


# ------------------------------------------------------------------ increases


def _windows(bench: Bench, network: Network, delay: int, count: int, m: int = 0) -> Flow:
    flow = Flow(bench)
    flow.rounds(count, network.base_rtt + delay, m=m)
    return flow


@OTHER.case("MRC-CC-31", initial_cwnd=START, look_at="what fi is made of: 5 mss a")
def fi_is_five_mss_a(bench: Bench) -> None:
    """A is 4, b 2. From 40 packets on two windows are acknowledged with a delay of 30 us, target is 24: inc grows by 20
    mss a byte."""
    flow = _windows(bench, OTHER, us(30), 2)
    flow.expect_window(grown(START, flow.acked_bytes, OTHER.fi(flow.mss)) + 2 * OTHER.eta(flow.mss), slack=2)


@OTHER.case("MRC-CC-31/alpha", initial_cwnd=START, look_at="what alpha is made of: 4 a b mss / target")
def alpha_follows_a_and_b(bench: Bench) -> None:
    """A is 4, b 2, target 24 us. Two windows with a delay of 12 us: inc grows by 16 mss a byte."""
    flow = _windows(bench, OTHER, us(12), 2)
    cwnd = grown(START, flow.acked_bytes, OTHER.proportional(flow.mss, us(12))) + 2 * OTHER.eta(flow.mss)
    flow.expect_window(cwnd, slack=2)


@OTHER_TRIMMING.case("MRC-CC-31/trimming", initial_cwnd=START, look_at="what b is made of: target / 12 us")
def alpha_follows_target_with_trimming(bench: Bench) -> None:
    """With trimming target is 18 us and b 1.5. Two windows with a delay of 9 us: inc grows by 12 mss a byte."""
    flow = _windows(bench, OTHER_TRIMMING, us(9), 2)
    cwnd = grown(START, flow.acked_bytes, OTHER_TRIMMING.proportional(flow.mss, us(9)))
    flow.expect_window(cwnd + 2 * OTHER_TRIMMING.eta(flow.mss), slack=2)


@OTHER.case("MRC-CC-31/eta", initial_cwnd=START, look_at="what eta is made of: 0.15 mss a")
def eta_is_a_part_of_mss_a(bench: Bench) -> None:
    """A is 4. Marks below target add nothing but eta: 0.6 mss in each of 20 windows make twelve packets of payload."""
    flow = _windows(bench, OTHER, us(6), 20, m=1)
    flow.expect_window(START + 20 * OTHER.eta(flow.mss))


@OTHER.case("MRC-CC-31/fi-scale", initial_cwnd=START, look_at="what fi_scale is made of: 0.25 a")
def fi_scale_is_a_quarter_of_a(bench: Bench) -> None:
    """A is 4. Without delay, after some windows, each packet acknowledged adds one."""
    flow = _windows(bench, OTHER, us(0), 2)
    flow.round(OTHER.base_rtt)
    before = len(flow.in_flight)
    flow.sack(40, OTHER.base_rtt)
    flow.expect_window((before + 40) * flow.mtu)


@HUGE.case("MRC-CC-33", initial_cwnd=START, look_at="adjust_bytes_threshold: 8 mtu, full packets")
def increases_wait_for_more_than_eight_packets(bench: Bench) -> None:
    """Fi is 200 mss. Once a SACK has fulfilled, one for eight packets at the same time changes nothing, and one packet
    more lets the increase of nine take effect."""
    flow = Flow(bench)
    flow.sack(1, HUGE.base_rtt + us(18))
    first = START + HUGE.fi(flow.mss) * flow.mtu / START + HUGE.eta(flow.mss)
    flow.sack(8, HUGE.base_rtt + us(18))
    flow.expect_window(first)
    flow.sack(1, HUGE.base_rtt + us(18))
    flow.expect_window(first + HUGE.fi(flow.mss) * 9 * flow.mtu / first)


@HUGE.case("MRC-CC-33/period", initial_cwnd=START, look_at="adjust_period_threshold: 1 base_rtt")
def increases_wait_for_a_base_rtt(bench: Bench) -> None:
    """Eta is 6 packets, and marks below target add nothing else. After a first SACK one 11 us later adds none; with one
    13 us after the first it comes."""
    flow = Flow(bench)
    eta = HUGE.eta(flow.mss)
    flow.sack(1, HUGE.base_rtt, m=1)
    flow.expect_window(START + eta)
    flow.sack(1, HUGE.base_rtt + us(11), m=1)
    flow.expect_window(START + eta)
    # The first burst is 25 us old by then, above target: the trigger is a packet that left with the first SACK.
    flow.sack(39, us(13), m=1)
    flow.expect_window(START + 2 * eta)
