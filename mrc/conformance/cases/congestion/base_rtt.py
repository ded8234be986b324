# SPDX-License-Identifier: BSD-2-Clause
"""Base RTT: what follows it, how long it is remembered, and where it comes from (nscc.md)."""

from __future__ import annotations

from mrc.conformance.cases.congestion.flow import Flow
from mrc.conformance.cases.congestion.network import Network, grown
from mrc.conformance.script import Bench, case, ms, pattern, seconds, us, wire

# Base RTT 12 us: 90,000 bytes, 81 packets.
FULL = Network(gbps=40)
# Base RTT 24 us, target 24 us: 180,000 bytes, 162 packets. A round trip of 12 us makes max_cwnd 90,000.
LONG = Network(gbps=40, base_rtt=us(24))
# The same, ten times as fast, to see increases.
LONG_AND_FAST = Network(gbps=400, base_rtt=us(24))
# 150 bytes of BDP.
SLOW = Network(gbps=0.1)


@LONG.case("MRC-CC-22", look_at="when max_cwnd and the window follow a lower base_rtt: with the SACK that brings it")
def a_lower_base_rtt_clamps_the_window_at_once(bench: Bench) -> None:
    """A window of 162 packets for a base RTT of 24 us. One SACK with a round trip of 12 us: no packet leaves until 80
    are in flight."""
    flow = Flow(bench)
    flow.expect_window(LONG.max_cwnd, slack=0)
    flow.sack(1, us(12))
    flow.settle()
    flow.expect_window(LONG.max_cwnd / 2, slack=0)


@LONG.case("MRC-CC-22/target", look_at="whether target follows a lower base_rtt: it keeps its start value")
def target_keeps_its_start_value(bench: Bench) -> None:
    """Base RTT becomes 12 us where it was 24 at the start. A window that is marked with a delay of 18 us, long so,
    stays as it is: target is 24 us still."""
    flow = Flow(bench)
    flow.sack(1, us(12))
    flow.settle()
    flow.rounds(5, us(12 + 18), each=1)
    flow.round(us(12 + 18), each=1, m=1)
    flow.expect_window(LONG.max_cwnd / 2)


@LONG_AND_FAST.case(
    "MRC-CC-22/fi", initial_cwnd=44_000, look_at="whether fi follows a lower base_rtt: it keeps its start value"
)
def fi_keeps_its_start_value(bench: Bench) -> None:
    """Base RTT becomes 12 us where it was 24 at the start. From 40 packets on a window is acknowledged with 30 us of
    delay: inc grows by 40 mss a byte still, the window becomes 69 packets; with half of that it were 56."""
    flow = Flow(bench)
    # A mark below target changes nothing, and brings the round trip.
    flow.sack(1, us(12), m=1)
    begin = 44_000 + LONG_AND_FAST.eta(flow.mss)
    acked = flow.acked_bytes
    flow.round(us(12 + 30))
    flow.expect_window(
        grown(begin, flow.acked_bytes - acked, LONG_AND_FAST.fi(flow.mss)) + LONG_AND_FAST.eta(flow.mss), slack=2
    )


def _window_after(bench: Bench, until: int) -> Flow:
    """Base RTT is 12 us, but from the second round trip on none was less than 24 us. Then six windows of data."""
    psn = 0
    while bench.now < until:
        write = bench.written(psn, pattern(8))
        bench.wait(us(24) if psn else us(12))
        bench.sack(psn, to=write)
        bench.wait(ms(500))
        psn += 1
    flow = Flow(bench, first=psn)
    flow.rounds(6, us(24))
    return flow


@FULL.case("MRC-CC-23", look_at="how long a round trip counts for base_rtt: 10 s")
def base_rtt_is_forgotten(bench: Bench) -> None:
    """A round trip of 12 us, then only such of 24 us. After 12 s these are the base RTT, and a path that was slow is an
    idle one: max_cwnd is 162 packets instead of 81, and the window grows beyond 90."""
    found = len(_window_after(bench, seconds(12)).in_flight)
    bench.check(90 < found <= 163, "91 to 163 packets in flight", f"there are {found}")


@FULL.case("MRC-CC-23/remembered", look_at="whether a round trip counts for base_rtt for 10 s")
def base_rtt_is_remembered(bench: Bench) -> None:
    """Base RTT is remembered: 9 s after a round trip of 12 us it is 12 us still, and the window 81 packets."""
    _window_after(bench, seconds(9)).expect_window(FULL.max_cwnd, slack=0)


@SLOW.case("MRC-CC-24", look_at="max_cwnd where 1.5 BDP are less than two packets: two packets")
def max_cwnd_is_at_least_two_packets(bench: Bench) -> None:
    """1.5 BDP are 225 bytes: two packets leave, and two are in flight after some windows too."""
    flow = Flow(bench)
    flow.expect_window(2 * flow.mtu, slack=0)
    flow.rounds(3, us(12), each=1)
    flow.expect_window(2 * flow.mtu, slack=0)


@FULL.case("MRC-CC-24/freak", look_at="what one round trip that is far too short does to the window")
def a_freak_sample_leaves_two_packets(bench: Bench) -> None:
    """One SACK comes 100 ns after its packet was sent: 1.5 BDP are 750 bytes then, and the window becomes two
    packets."""
    flow = Flow(bench)
    flow.sack(1, 100)
    flow.settle()
    flow.expect_window(2 * flow.mtu, slack=0)


# ------------------------------------------------------------------ where it comes from

RATE = 40_000_000_000


def _measured(bench: Bench, rtt: int) -> Flow:
    """EV probes at QP start find this round trip, before there is data."""
    bench.answer_after = None
    probes = [bench.expect("ENDPOINT_REQUEST", op=wire.EV_PROBE)]
    bench.wait_until(probes[0].at + rtt)
    probes += [probe for probe in bench.read("ENDPOINT_REQUEST") if probe.op == wire.EV_PROBE]
    for probe in probes:
        bench.endpoint_response(probe)
    bench.wait(us(1))
    return Flow(bench)


@case(
    "MRC-CC-34",
    path_mtu=1024,
    options={"controller": "nscc", "line_rate_bps": RATE},
    look_at="where base_rtt comes from that is not configured: EV probes when the QP comes up",
)
def ev_probes_measure_base_rtt(bench: Bench) -> None:
    """Without a base RTT the QP sends EV probes when it comes up. They are answered after 12 us: with 40 Gbit/s
    the first packets of data are 1.5 BDP, 81."""
    _measured(bench, us(12)).expect_window(FULL.max_cwnd)


@case(
    "MRC-CC-34/longer",
    path_mtu=1024,
    options={"controller": "nscc", "line_rate_bps": RATE},
    look_at="whether the window follows the round trip that EV probes found",
)
def a_longer_base_rtt_makes_a_larger_window(bench: Bench) -> None:
    """The probes are answered after 15 us: 102 packets."""
    _measured(bench, us(15)).expect_window(Network(gbps=40, base_rtt=us(15)).max_cwnd)


@case(
    "MRC-CC-34/line-rate",
    path_mtu=1024,
    options={"controller": "nscc", "line_rate_bps": RATE // 2},
    look_at="whether the line rate is a parameter",
)
def the_line_rate_is_a_parameter(bench: Bench) -> None:
    """With 20 Gbit/s and 12 us it is 41 packets."""
    _measured(bench, us(12)).expect_window(FULL.max_cwnd / 2)


@case(
    "MRC-CC-34/default",
    path_mtu=1024,
    options={"controller": "nscc"},
    look_at="whether there is a line rate without one configured",
)
def the_line_rate_has_a_default(bench: Bench) -> None:
    """Without any number and with a base RTT of 100 us a part of the 4000 packets posted leaves. A round trip of 10 us
    makes the window smaller, as a BDP does that is a tenth."""
    flow = _measured(bench, us(100))
    count = len(flow.in_flight)
    bench.check(2 <= count < 4000, "2 packets in flight or more, and less than 4000", f"there are {count}")
    flow.sack(1, us(10))
    left = flow.settle()
    bench.check(2 <= left < max(count, 3), f"less than {count} packets in flight then", f"there are {left}")


@FULL.case("MRC-CC-34/configured", look_at="whether a base RTT that is configured is used from the first packet on")
def a_configured_base_rtt_is_used(bench: Bench) -> None:
    """With 12 us configured 81 packets leave before anything was measured, though EV probes would find 100 us."""
    bench.answer_after = us(100)
    flow = Flow(bench)
    flow.expect_window(FULL.max_cwnd, slack=0)
