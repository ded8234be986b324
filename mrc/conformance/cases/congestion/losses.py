# SPDX-License-Identifier: BSD-2-Clause
"""What losses, NACKs and the receiver take off the window, and what counts as in flight (nscc.md)."""

from __future__ import annotations

from mrc.conformance.cases.congestion.flow import Flow
from mrc.conformance.cases.congestion.network import Network
from mrc.conformance.script import TRIM_NACK, Bench, us, wire

# 90,000 bytes, 81 packets: at max_cwnd nothing increases it.
FULL = Network(gbps=40)
FAST = Network(gbps=400)


def _later_packets(flow: Flow) -> None:
    """The window is full with PSN 20 to 100, of which 81 and above were sent 24 us after the others."""
    flow.sack(20, FULL.base_rtt + us(12))
    flow.expect_window(FULL.max_cwnd, slack=0)


@FULL.case("MRC-CC-16", look_at="what a packet lost untrimmed does to the window: its size comes off")
def a_lost_packet_takes_its_size_off(bench: Bench) -> None:
    """Of a full window of 81 packets PSN 20 to 24 are missing, which PSN 83, sent 24 us later, tells: the window
    becomes 76 packets."""
    flow = Flow(bench)
    _later_packets(flow)
    flow.lose(range(20, 25))
    flow.sack_psns(range(25, 84), FULL.base_rtt + us(12))
    flow.expect_window(FULL.max_cwnd - 5 * flow.mtu, slack=0)


@FULL.case("MRC-CC-16/floor", look_at="what losses leave of a small window: one packet")
def losses_leave_one_packet(bench: Bench) -> None:
    """A penalty of the receiver's has made the window ten packets or fewer, 25 of 45 in flight are lost then. Of what
    is left one packet at a time may leave."""
    flow = Flow(bench)
    _later_packets(flow)
    flow.sack(36, FULL.base_rtt + us(36), rcv_cwnd_pen=127)
    flow.lose(range(56, 81))
    flow.sack_psns(range(81, 87), FULL.base_rtt + us(30))
    flow.settle()
    flow.expect_window(flow.mtu, slack=0)


def _begin(bench: Bench) -> Flow:
    """A first SACK fulfils, so that within the period no eta is added."""
    flow = Flow(bench)
    flow.sack(1, FULL.base_rtt)
    return flow


def _nack_five(bench: Bench, reason: int) -> None:
    flow = Flow(bench)
    bench.wait(FULL.base_rtt)
    flow.nack(range(5), reason)
    flow.settle()
    flow.expect_window(FULL.max_cwnd - 5 * flow.mtu, slack=0)


@FULL.case("MRC-CC-18", look_at="what a NACK does to the window where quick adapt does not act")
def a_nack_takes_its_size_off(bench: Bench) -> None:
    """Of a full window of 81 packets five are NACKed NO_RESOURCE before any interval has begun: it becomes 76."""
    _nack_five(bench, wire.NO_RESOURCE)


@FULL.case(
    "MRC-CC-18/trimmed", agreed=[TRIM_NACK], look_at="whether the size of a trimmed packet comes off the window too"
)
def a_trimmed_packet_takes_its_size_off(bench: Bench) -> None:
    """Of a full window of 81 packets five are NACKed TRIMMED before any interval has begun: it becomes 76."""
    _nack_five(bench, wire.TRIMMED)


@FULL.case(
    "MRC-CC-18/floor", agreed=[TRIM_NACK], initial_cwnd=4_400, look_at="what NACKs leave of a small window: one packet"
)
def nacks_leave_one_packet(bench: Bench) -> None:
    """The window is four packets and all four are NACKed TRIMMED: one packet leaves again."""
    flow = Flow(bench)
    bench.wait(FULL.base_rtt)
    flow.nack(range(4), wire.TRIMMED)
    flow.expect_window(flow.mtu, slack=0)


# ------------------------------------------------------------------ the receiver's penalty


@FULL.case("MRC-CC-19", look_at="the window under a penalty: min(cwnd, inflight) - (p n >> 7)")
def a_penalty_takes_its_share_off(bench: Bench) -> None:
    """Of a full window of 81 packets 20 are acknowledged with rcv_cwnd_pen 64: 61 are in flight by then, and half of
    20 come off these."""
    flow = _begin(bench)
    flow.sack(20, FULL.base_rtt, rcv_cwnd_pen=64)
    flow.settle()
    flow.expect_window(51 * flow.mtu, slack=0)


@FAST.case("MRC-CC-19/no-increase", initial_cwnd=44_000, look_at="whether inc grows while there is a penalty")
def nothing_increases_a_penalised_window(bench: Bench) -> None:
    """Each ten packets without a mark would add four or more. From 40 packets on 20 are acknowledged with rcv_cwnd_pen
    1, ten of them below target and ten above: but for eta, one packet in all, none leaves."""
    flow = Flow(bench)
    flow.sack(10, FAST.base_rtt + us(6), rcv_cwnd_pen=1)
    flow.sack(10, FAST.base_rtt + us(18), rcv_cwnd_pen=1)
    found = len(flow.in_flight)
    bench.check(20 <= found <= 22, "20 to 22 packets in flight", f"there are {found}")


@FULL.case("MRC-CC-19/floor", look_at="what a penalty leaves of the window: one packet")
def a_penalised_window_keeps_one_packet(bench: Bench) -> None:
    """Of 81 packets 80 are acknowledged with rcv_cwnd_pen 127. Once the last is acknowledged too, one packet leaves."""
    flow = _begin(bench)
    flow.sack(80, FULL.base_rtt, rcv_cwnd_pen=127)
    flow.settle()
    flow.expect_window(flow.mtu, slack=0)


@FULL.case("MRC-CC-20", look_at="which window is restored: the one before the first penalty")
def the_window_before_the_first_penalty_is_restored(bench: Bench) -> None:
    """A penalty with restore_cwnd makes a window of 81 packets 51, and another, when it is full again, 36. The next
    SACK, without one, restores the 81."""
    flow = _begin(bench)
    flow.sack(20, FULL.base_rtt, rcv_cwnd_pen=64, restore_cwnd=1)
    flow.settle()
    flow.sack(10, FULL.base_rtt, rcv_cwnd_pen=64, restore_cwnd=1)
    flow.settle()
    flow.expect_window(36 * flow.mtu)
    flow.sack(1, FULL.base_rtt)
    flow.expect_window(FULL.max_cwnd, slack=0)


@FULL.case("MRC-CC-20/asked", look_at="whether a window is restored that nobody asked to be saved")
def without_restore_cwnd_nothing_is_restored(bench: Bench) -> None:
    """A penalty without restore_cwnd makes the window 51 packets: the next SACK, without one, leaves it there, but for
    an increase of a packet or two."""
    flow = _begin(bench)
    flow.sack(20, FULL.base_rtt, rcv_cwnd_pen=64)
    flow.settle()
    flow.sack(1, FULL.base_rtt)
    flow.expect_window(52 * flow.mtu)


@FULL.case("MRC-CC-26", look_at="whether a penalty cuts a window that the application does not fill")
def a_penalty_spares_a_window_that_is_not_full(bench: Bench) -> None:
    """The application posts ten packets where the window is 81, and the SACKs of all have rcv_cwnd_pen 127: of what is
    posted then 81 packets leave."""
    flow = Flow(bench, packets=10)
    flow.round(FULL.base_rtt, each=2, rcv_cwnd_pen=127)
    bench.post_write(bytes(200 * bench.mtu))
    bench.wait(0)
    flow.expect_window(FULL.max_cwnd, slack=0)


# Base RTT 24 us: 180,000 bytes, 162 packets. A round trip of 12 us makes max_cwnd 90,000.
LONG = Network(gbps=40, base_rtt=us(24))


@LONG.case("MRC-CC-26/restored", look_at="whether a restored window may be more than max_cwnd has become meanwhile")
def a_restored_window_is_at_most_max_cwnd(bench: Bench) -> None:
    """A penalty with restore_cwnd saves a window of 162 packets and makes it 37. Then a round trip of 12 us halves
    max_cwnd. When the penalty ends, within the same period, the window becomes 81 packets."""
    flow = Flow(bench)
    flow.sack(100, LONG.base_rtt, rcv_cwnd_pen=32, restore_cwnd=1)
    flow.settle()
    # Those that are left of the first burst, so that what is in flight was sent now.
    flow.ack(len(flow.in_flight) - 1)
    flow.sack(1, us(12), rcv_cwnd_pen=1, restore_cwnd=1)
    flow.settle()
    flow.sack(1, us(12))
    flow.expect_window(LONG.max_cwnd / 2)


# ------------------------------------------------------------------ in flight


@FULL.case(
    "MRC-CC-21",
    agreed=[TRIM_NACK],
    look_at="whether what a NACK took off inflight comes off again when it is acknowledged after all",
)
def what_was_nacked_is_taken_off_once(bench: Bench) -> None:
    """Ten of 81 packets are NACKed TRIMMED, which makes the window 71: none of them can leave again. Then a transport
    ACK tells that these ten and one more have arrived: one packet leaves, and 71 are in flight."""
    flow = Flow(bench)
    bench.wait(FULL.base_rtt)
    flow.nack(range(10), wire.TRIMMED)
    flow.expect_window(FULL.max_cwnd - 10 * flow.mtu, slack=0)
    flow.ack(1)
    flow.expect_window(FULL.max_cwnd - 10 * flow.mtu, slack=0)


@FULL.case(
    "MRC-CC-21/lost",
    look_at="whether what was lost comes off inflight, and comes off again when it is acknowledged after all",
)
def what_was_lost_is_taken_off_once(bench: Bench) -> None:
    """Of 81 packets PSN 20 to 24 are lost, 76 in flight then, those five among them again. A transport ACK up to PSN
    30 and one up to 89 tell that all have arrived: 76 are in flight both times."""
    flow = Flow(bench)
    _later_packets(flow)
    flow.lose(range(20, 25))
    flow.sack_psns(range(25, 84), FULL.base_rtt + us(12))
    flow.expect_window(FULL.max_cwnd - 5 * flow.mtu, slack=0)
    flow.ack(5)
    flow.expect_window(FULL.max_cwnd - 5 * flow.mtu, slack=0)
    flow.ack(6)
    flow.expect_window(FULL.max_cwnd - 5 * flow.mtu, slack=0)


@FULL.case(
    "MRC-CC-21/again",
    agreed=[TRIM_NACK],
    look_at="whether a retransmission counts as in flight, as the first transmission did",
)
def a_retransmission_is_in_flight_again(bench: Bench) -> None:
    """Ten of 81 packets are NACKed TRIMMED, and eleven acknowledged: ten leave again and a new one. Of the 71 in flight
    then each of the next 71 that is acknowledged lets one out."""
    flow = Flow(bench)
    bench.wait(FULL.base_rtt)
    flow.nack(range(70, 80), wire.TRIMMED)
    cwnd = FULL.max_cwnd - 10 * flow.mtu
    flow.expect_window(cwnd, slack=0)
    flow.ack(11)
    again = [psn for psn, packet in flow.in_flight.items() if packet.rtx]
    bench.check(again == [*range(70, 80)], "PSN 70 to 79 again", f"PSNs {again} came again")
    flow.expect_window(cwnd, slack=0)
    for _ in range(71):
        flow.ack(1)
    flow.expect_window(cwnd, slack=0)


@FULL.case("MRC-CC-21/twice", look_at="whether a packet that is acknowledged twice comes off inflight twice")
def what_is_acknowledged_twice_is_taken_off_once(bench: Bench) -> None:
    """Ten packets are acknowledged one by one from the top, by SACKs whose bitmaps go on reporting them, then by a
    transport ACK that covers them all: 81 are in flight each time."""
    flow = Flow(bench)
    bench.wait(FULL.base_rtt)
    for psn in range(10, 0, -1):
        flow.sack_psns([psn], FULL.base_rtt)
        flow.expect_window(FULL.max_cwnd, slack=0)
    flow.ack(1)
    flow.expect_window(FULL.max_cwnd, slack=0)
    bench.ack(flow.cack)
    bench.ack(flow.cack)
    bench.wait(0)
    flow.expect_window(FULL.max_cwnd, slack=0)
