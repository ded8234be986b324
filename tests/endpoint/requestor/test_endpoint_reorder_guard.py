# SPDX-License-Identifier: BSD-2-Clause
"""How far the reorder guard grows, and when, to the nanosecond (behaviour.md, Loss; LossConfig).

"The guard in time starts at srtt / reorder_guard_divisor. When a retransmission proves spurious it doubles, or grows to
how late the packet was if that is more; at most reorder_guard_max_rtts round trips." With round trips of 100 us and a
divisor of 4 it grows in steps of 25 us.
"""

from __future__ import annotations

import pytest
from hand_peer import MICROSECOND, PROBE, HandPeer, Sent, data, numbers, of
from nacking import CONFIG, RTT, send, trained

from mrc.endpoint.config import LossConfig, QpConfig

STEP = RTT // 4


def _guard(hand: HandPeer) -> int:
    return hand.qp.requestor.loss.guard()


def _lost(hand: HandPeer) -> tuple[Sent, int]:
    """Thirty packets 10 us apart, sent from now on: the first, which is taken for lost, and the number of the last.

    The SACK that shows the hole comes 10 us after the last packet and is no sample: it has rtx, which no packet had.
    """
    sent = []
    for _ in range(30):
        sent += list(send(hand, 1).values())
        hand.now += 10 * MICROSECOND
    first, last = numbers(hand, [sent[0]])[0], numbers(hand, [sent[-1]])[0]
    again = hand.exchange(hand.sack(first - 1, above=range(first + 1, last + 1), trigger=last, rtx=1))
    assert first in numbers(hand, again)
    return sent[0], last


def _arrives(hand: HandPeer, packet: Sent, last: int, after: int) -> None:
    """The original is acknowledged `after` ns after it was sent."""
    hand.now = packet.at + after
    hand.receive(hand.sack(last, trigger=numbers(hand, [packet])[0], ev=packet.ev))
    assert "rtt_samples" in hand.counters
    assert hand.qp.requestor.rtt.srtt == RTT


@pytest.mark.parametrize(
    ("late", "steps"),
    [
        pytest.param(200, 8, id="200 us: 8 steps"),
        pytest.param(201, 8, id="more than two round trips: no more than that"),
        pytest.param(900, 8, id="much more"),
    ],
)
def test_it_grows_to_two_round_trips_at_most(late: int, steps: int) -> None:
    """LossConfig: "at most reorder_guard_max_rtts round trips", two of them."""
    hand = trained()
    assert _guard(hand) == STEP
    packet, last = _lost(hand)
    _arrives(hand, packet, last, RTT + late * MICROSECOND)
    assert _guard(hand) == steps * STEP


@pytest.mark.parametrize(
    ("late_ns", "steps"), [(200_000, 8), (200_001, 9), (225_000, 9), (225_001, 10), (250_000, 10), (475_000, 19)]
)
def test_it_grows_to_how_late_the_packet_was_in_whole_steps(late_ns: int, steps: int) -> None:
    """ "or grows to how late the packet was if that is more": rounded up, a packet as late again is let through."""
    hand = trained(QpConfig(path_mtu=256, timeout=20, loss=LossConfig(reorder_guard_max_rtts=10)))
    packet, last = _lost(hand)
    _arrives(hand, packet, last, RTT + late_ns)
    assert _guard(hand) == steps * STEP


@pytest.mark.parametrize(("divisor", "most"), [(1, 1), (2, 1), (4, 3), (10, 2)])
def test_divisor_and_most_are_as_configured(divisor: int, most: int) -> None:
    """LossConfig, in round trips: it starts at 1 / divisor and ends at max_rtts."""
    config = LossConfig(reorder_guard_divisor=divisor, reorder_guard_max_rtts=most)
    hand = trained(QpConfig(path_mtu=256, timeout=20, loss=config))
    assert _guard(hand) == RTT // divisor
    packet, last = _lost(hand)
    _arrives(hand, packet, last, 20 * RTT)
    assert _guard(hand) == most * RTT


def _two_lost(hand: HandPeer) -> tuple[list[Sent], int]:
    """Send sixty packets and lose the first and the fourth."""
    sent = []
    for _ in range(60):
        sent += list(send(hand, 1).values())
        hand.now += 10 * MICROSECOND
    first = numbers(hand, [sent[0]])[0]
    last = first + 59
    above = [number for number in range(first + 1, last + 1) if number != first + 3]
    again = numbers(hand, hand.exchange(hand.sack(first - 1, above=above, trigger=last, rtx=1)))
    assert again == [first, first + 3]
    return [sent[0], sent[3]], last


@pytest.mark.parametrize(("apart", "steps"), [(0, 26), (RTT - 1, 26), (RTT, 52), (RTT + 1, 52)])
def test_it_doubles_once_a_round_trip(apart: int, steps: int) -> None:
    """LossConfig: "it doubles", and "once a round trip: what the last one let through says nothing about the new one".

    The first original is 650 us late: 26 steps. The second, `apart` later, is no later than that by its own clock.
    """
    hand = trained(QpConfig(path_mtu=256, timeout=20, loss=LossConfig(reorder_guard_max_rtts=1000)))
    (first, fourth), last = _two_lost(hand)
    hand.now = first.at + RTT + 650 * MICROSECOND
    hand.receive(hand.sack(last, trigger=numbers(hand, [first])[0], ev=first.ev))
    assert _guard(hand) == 26 * STEP
    hand.now += apart
    late = hand.now - fourth.at - RTT
    hand.receive(hand.sack(last, trigger=numbers(hand, [fourth])[0], ev=fourth.ev))
    assert late <= 26 * STEP + apart
    assert _guard(hand) == max(steps, -(-late // STEP)) * STEP
    assert hand.counters["spurious_retransmissions"] == 2


def test_before_any_round_trip_is_known_there_is_no_guard_in_time_to_grow() -> None:
    """Three packets alone tell a hole then; what proves spurious changes nothing."""
    hand = HandPeer(CONFIG)
    sent = list(send(hand, 5).values())
    again = numbers(hand, hand.exchange(hand.sack(-1, above=[1, 2, 3, 4], trigger=4, rtx=1)))
    assert again == [0]
    assert _guard(hand) == 0
    hand.now += MICROSECOND
    hand.receive(hand.sack(4, trigger=0, ev=sent[0].ev))
    assert hand.counters["spurious_retransmissions"] == 1
    assert _guard(hand) == 0


@pytest.mark.parametrize(("behind", "lost"), [(-1, []), (0, [1]), (1, [1])])
def test_what_was_sent_exactly_a_guard_before_is_lost(behind: int, lost: list[int]) -> None:
    """behaviour.md: "something *transmitted at least one reorder guard later*": 3 packets and 25 us."""
    hand = trained()
    send(hand, 1)
    hand.now += STEP + behind
    send(hand, 3)
    assert numbers(hand, hand.exchange(hand.sack(0, above=[2, 3, 4], trigger=4, rtx=1))) == lost


@pytest.mark.parametrize(("packets", "lost"), [(2, []), (3, [1]), (4, [1])])
def test_what_was_sent_exactly_as_many_packets_before_is_lost(packets: int, lost: list[int]) -> None:
    """The guard's limit in packets: every packet here is late enough in time."""
    hand = trained()
    send(hand, 1)
    hand.now += RTT
    send(hand, packets)
    above = range(2, 2 + packets)
    assert numbers(hand, hand.exchange(hand.sack(0, above=above, trigger=1 + packets, rtx=1))) == lost


def test_a_second_hole_is_found_though_the_first_is_still_open() -> None:
    """Each transmission is judged once, and those after it when their time has come."""
    hand = trained()
    for _ in range(10):
        send(hand, 1)
        hand.now += 10 * MICROSECOND
    assert numbers(hand, hand.exchange(hand.sack(0, above=[2, 3, 4, 6], trigger=6, rtx=1))) == [1]
    assert numbers(hand, hand.exchange(hand.sack(0, above=[2, 3, 4, 6, 7], trigger=7, rtx=1))) == []
    assert numbers(hand, hand.exchange(hand.sack(0, above=[2, 3, 4, 6, 7, 8], trigger=8, rtx=1))) == [5]
    assert numbers(hand, hand.exchange(hand.sack(0, above=[2, 3, 4, 6, 7, 8, 10], trigger=10, rtx=1))) == []
    assert hand.counters["losses_by_hole"] == 2


@pytest.mark.parametrize(("ahead", "lost"), [(-1, False), (0, True), (1, True)])
def test_a_probe_loses_only_what_was_sent_a_guard_before_it(ahead: int, lost: bool) -> None:
    """A guard of four round trips is longer than a tail probe waits, three: its answer alone says nothing of a packet
    that is younger."""
    config = LossConfig(reorder_guard_max_rtts=4, tail_probe_min_ns=4 * RTT + ahead)
    hand = trained(QpConfig(path_mtu=256, timeout=20, loss=config))
    packet, last = _lost(hand)
    _arrives(hand, packet, last, 20 * RTT)
    assert _guard(hand) == 4 * RTT
    ((number, sent),) = send(hand, 1).items()
    (probe,) = of(hand.run(hand.now + 10 * RTT, stop_at_first=True), PROBE)
    assert probe.at == sent.at + 4 * RTT + ahead
    again = hand.exchange(hand.sack(number - 1, probe_id=probe["peth"]["probe_id"], rtx=1))
    assert numbers(hand, data(again)) == ([number] if lost else [])
