# SPDX-License-Identifier: BSD-2-Clause
"""Which controller a QP has, whose it is, and what it is told of what arrived (behaviour.md, Congestion control)."""

from __future__ import annotations

from mrc.conformance.cases.congestion.flow import Flow
from mrc.conformance.cases.congestion.network import Network, grown
from mrc.conformance.script import Bench, case, us

# 90,000 bytes, 81 packets; target 12 us.
FULL = Network(gbps=40)
START = 44_000
FAST = Network(gbps=400)


@FULL.case("MRC-CC-01", controller="uet-1.0-nscc", look_at="whether NSCC is known by its name in the control API")
def nscc_is_known_by_its_name(bench: Bench) -> None:
    """With a controller named uet-1.0-nscc the window is 1.5 BDP, and a window marked with 45 us of delay halves it."""
    flow = Flow(bench)
    flow.expect_window(FULL.max_cwnd, slack=0)
    flow.rounds(5, FULL.base_rtt + us(45), each=1)
    flow.round(FULL.base_rtt + us(45), each=1, m=1)
    flow.expect_window(FULL.max_cwnd / 2)


@case(
    "MRC-CC-01/default",
    path_mtu=1024,
    options={"controller": ""},
    look_at="which controller a QP has that names none: nscc",
)
def nscc_is_the_default(bench: Bench) -> None:
    """No controller is named, and nothing configured: EV probes find a base RTT of 20 us. Marks with four times that
    halve the window whatever it is, as NSCC does."""
    bench.answer_after = us(20)
    bench.wait(us(50))
    flow = Flow(bench)
    flow.sack(1, us(20))
    flow.rounds(2, us(60), each=1)
    before = len(flow.in_flight)
    bench.check(before >= 4, "four packets in flight or more", f"there are {before}")
    flow.round(us(60), each=1, m=1)
    # 1 - 0.8 x 20 / 40, and no less than half.
    low, high = before // 2, round(0.6 * before) + 3
    found = len(flow.in_flight)
    bench.check(low <= found <= high, f"{low} to {high} of {before} packets in flight", f"there are {found}")


@FULL.case("MRC-CC-02", connections=2, look_at="whether QPs to one destination share a window")
def qps_to_one_destination_share_a_window(bench: Bench) -> None:
    """The first QP fills a window of 81 packets: nothing of a second one leaves. Once 20 packets of the first, which
    has no more, are acknowledged, 20 of the second leave."""
    first = Flow(bench, packets=81)
    first.expect_window(FULL.max_cwnd, slack=0)
    other = bench.another()
    other.post_write(bytes(200 * bench.mtu))
    other.expect_no("WRITE", within=us(5))
    first.sack(20, FULL.base_rtt)
    other.wait(us(1))
    found = len(other.read("WRITE"))
    bench.check(19 <= found <= 21, "19 to 21 packets of the second QP", f"there are {found}")


@FULL.case("MRC-CC-02/marks", connections=2, look_at="whether marks of one QP slow all QPs to its destination")
def marks_of_one_qp_count_for_the_other(bench: Bench) -> None:
    """A window of 81 packets of the first QP is marked, with a delay of 45 us, and 41 packets of a second QP leave
    when all is acknowledged."""
    first = Flow(bench, packets=6 * 81)
    for _ in range(5):
        first.round(FULL.base_rtt + us(45), each=1)
    first.round(FULL.base_rtt + us(45), each=1, m=1)
    bench.check(not first.in_flight, "nothing of the first QP left in flight", f"there are {len(first.in_flight)}")
    other = Flow(bench.another())
    other.expect_window(FULL.max_cwnd / 2)


@FULL.case("MRC-CC-03", look_at="the size of a packet: UDP length + 40, its headers and padding too")
def a_packet_counts_with_its_headers(bench: Bench) -> None:
    """Writes of 5 bytes are packets of some 90 with headers and padding: 90,000 bytes of window are about a thousand of
    these."""
    flow = Flow(bench, packets=1500, length=5)
    flow.expect_window(FULL.max_cwnd, slack=0)


@FAST.case(
    "MRC-CC-03/rcvd-bytes",
    initial_cwnd=START,
    look_at="where the bytes acknowledged come from: the sender's own records, not rcvd_bytes",
)
def rcvd_bytes_is_not_believed(bench: Bench) -> None:
    """From 40 packets on a window is acknowledged with a delay of 18 us by SACKs whose rcvd_bytes grows a hundredfold:
    it becomes 56 packets, as it does by what was sent."""
    flow = Flow(bench)
    for sacks in range(1, 5):
        flow.sack(10, FAST.base_rtt + us(18), rcvd_bytes=sacks * 100 * 10 * flow.mtu // 256)
    flow.expect_window(grown(START, flow.acked_bytes, FAST.fi(flow.mss)) + FAST.eta(flow.mss), slack=2)


@FAST.case(
    "MRC-CC-03/newly",
    initial_cwnd=START,
    look_at="whether what was acknowledged before counts again with each SACK that reports it",
)
def only_what_is_newly_acknowledged_counts(bench: Bench) -> None:
    """PSN 0 is missing, and 30 SACKs tell one by one that those above it have arrived, each with all of them in its
    bitmap. The delay is 12 us, so that by hand the window grows by that of 30 packets, to 52."""
    flow = Flow(bench)
    for psn in range(1, 31):
        flow.sack_psns([psn], FAST.base_rtt + us(12))
    flow.expect_window(grown(START, flow.acked_bytes, FAST.fi(flow.mss)) + FAST.eta(flow.mss), slack=2)
