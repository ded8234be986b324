# SPDX-License-Identifier: BSD-2-Clause
"""Which acknowledgements measure a round trip (behaviour.md, Requestor), by what it does to the window.

Base RTT is configured as 24 us, so that the window is 162 packets. A round trip of 12 us that counts makes it 81 at
once; one that does not changes nothing.
"""

from __future__ import annotations

from mrc.conformance.cases.congestion.flow import Flow
from mrc.conformance.cases.congestion.network import Network
from mrc.conformance.script import SVC_TIME, TRIM_NACK, Bench, us, wire

LONG = Network(gbps=40, base_rtt=us(24))


def _expect_measured(flow: Flow) -> None:
    flow.settle()
    flow.expect_window(LONG.max_cwnd / 2, slack=2)


def _expect_not_measured(flow: Flow) -> None:
    flow.settle()
    flow.expect_window(LONG.max_cwnd, slack=2)


@LONG.case("MRC-RTT-01", look_at="whether the SACK of a packet that was sent once measures")
def a_packet_sent_once_measures(bench: Bench) -> None:
    """A SACK 12 us after its packet was sent."""
    flow = Flow(bench)
    flow.sack(1, us(12))
    _expect_measured(flow)


@LONG.case("MRC-RTT-01/trigger", look_at="of which packet the round trip is: the one of ack_psn")
def the_trigger_measures(bench: Bench) -> None:
    """The window is full with packets sent at once and PSN 162, sent 24 us later. 12 us after that a SACK covers all of
    them, and the packet that triggered it is PSN 1: the round trip is 36 us."""
    flow = Flow(bench)
    flow.sack(1, us(24))
    flow.sack_psns([*range(2, 163), 1], us(36))
    _expect_not_measured(flow)


def _sent_again(bench: Bench, times: int) -> Flow:
    """PSN 0 was NACKed and sent again so often, the last time just now. Everything else was acknowledged each time, and
    left anew with it, so that nothing older is missing."""
    flow = Flow(bench)
    for _ in range(times):
        bench.wait(us(30))
        flow.nack([0], wire.TRIMMED)
        others = sorted(flow.in_flight)
        for at in range(0, len(others), 40):
            flow.sack_psns(others[at : at + 40], us(30))
        bench.check(0 in flow.in_flight, "PSN 0 again", "it was not sent again")
    return flow


@LONG.case(
    "MRC-RTT-02",
    agreed=[TRIM_NACK],
    look_at="whether the SACK of a packet that was sent again once measures when it has rtx",
)
def a_retransmission_measures_with_rtx(bench: Bench) -> None:
    """PSN 0 was sent again. A SACK with rtx comes 12 us after that."""
    flow = _sent_again(bench, 1)
    flow.sack_psns([0], us(12), rtx=1)
    _expect_measured(flow)


@LONG.case(
    "MRC-RTT-02/original",
    agreed=[TRIM_NACK],
    look_at="whether the SACK of a packet that was sent again measures without rtx, when the first may have arrived",
)
def an_original_that_was_sent_again_does_not_measure(bench: Bench) -> None:
    """PSN 0 was sent again. A SACK without rtx 12 us after that is about the first transmission."""
    flow = _sent_again(bench, 1)
    flow.sack_psns([0], us(12), rtx=0)
    _expect_not_measured(flow)


@LONG.case(
    "MRC-RTT-03",
    agreed=[TRIM_NACK],
    look_at="whether the SACK of a packet that was sent again twice measures: it may be about either",
)
def a_packet_sent_again_twice_does_not_measure(bench: Bench) -> None:
    """PSN 0 was sent again twice. A SACK with rtx 12 us after the second time may be about the first."""
    flow = _sent_again(bench, 2)
    flow.sack_psns([0], us(12), rtx=1)
    _expect_not_measured(flow)


@LONG.case(
    "MRC-RTT-04",
    without=[SVC_TIME],
    timestamps=1,
    look_at="where a round trip is taken from: the requestor's own record, not the reflected timestamp",
)
def the_reflected_timestamp_is_not_believed(bench: Bench) -> None:
    """SACKs of ten packets come 26 us after these were sent. Their timestamps say that it was 6 us."""
    flow = Flow(bench)
    for psn in range(10):
        stamp = flow.packet(psn).tx_timestamp + us(20) // 128 & 0xFFFF
        flow.sack(1, us(26), tx_timestamp=stamp)
    _expect_not_measured(flow)


@LONG.case(
    "MRC-RTT-04/none",
    without=[SVC_TIME],
    timestamps=1,
    look_at="whether a round trip is measured where the timestamp reflected is 0",
)
def a_round_trip_needs_no_timestamp(bench: Bench) -> None:
    """A SACK 12 us after its packet was sent, with timestamp 0."""
    flow = Flow(bench)
    flow.sack(1, us(12), tx_timestamp=0)
    _expect_measured(flow)
