# SPDX-License-Identifier: BSD-2-Clause
"""How losses are found and repaired, and when a requestor gives up (behaviour.md, Loss and Retry budget)."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hand_peer import MICROSECOND, MILLISECOND, PROBE, SECOND, HandPeer, Sent, data, numbers, of
from nacking import NOMINAL, TRIMMED
from recording_window import RecordingWindows

from mrc.endpoint.completions import WorkStatus
from mrc.endpoint.config import LossConfig, QpConfig
from mrc.endpoint.qp_states import QpState

RTT = 100 * MICROSECOND
CONFIG = QpConfig(path_mtu=256, timeout=20)  # a local ACK timeout of 1.07 s, out of the way of other timers


def _under_way(hand: HandPeer, count: int) -> list[Sent]:
    """`count` packets 10 microseconds apart; the clock stands one RTT after the last."""
    sent = []
    for _ in range(count):
        hand.post(256)
        sent += data(hand.transmitted())
        hand.now += 10 * MICROSECOND
    hand.now += RTT
    return sent


def test_a_retransmission_lost_too_is_sent_a_third_time() -> None:
    hand = HandPeer(CONFIG)
    _under_way(hand, 20)
    assert numbers(hand, hand.exchange(hand.sack(4, above=range(6, 20), trigger=19))) == [5]
    hand.now += RTT
    _under_way(hand, 10)
    again = hand.exchange(hand.sack(4, above=range(6, 30), trigger=29))
    assert numbers(hand, again) == [5]
    assert data(again)[0]["bth"]["rtx"] == 1


def test_a_lost_packet_acknowledged_in_time_is_not_sent_again() -> None:
    """Only what is missing: it was late, not lost."""
    hand = HandPeer(CONFIG)
    _under_way(hand, 20)
    hand.receive(hand.sack(4, above=range(6, 20), trigger=19), hand.ack(19))
    assert data(hand.transmitted()) == []


@pytest.mark.parametrize("least", [MILLISECOND // 2, 3 * MILLISECOND])
def test_a_tail_probe_comes_no_sooner_than_told(least: int) -> None:
    """LossConfig: srtt + 4 rttvar after the last transmission, but no sooner than `tail_probe_min_ns`."""
    hand = HandPeer(QpConfig(path_mtu=256, timeout=20, loss=LossConfig(tail_probe_min_ns=least)))
    _under_way(hand, 10)
    hand.exchange(hand.sack(9, trigger=9))
    rtt = hand.qp.requestor.rtt
    hand.post(256)
    hand.transmitted()
    sent_at = hand.now
    assert of(hand.run(sent_at + 500 * MILLISECOND, stop_at_first=True), PROBE)
    assert hand.now - sent_at == max(least, rtt.srtt + 4 * rtt.rttvar)


def test_a_window_that_trims_shrink_before_any_rtt_sample_is_asked_about_at_once() -> None:
    """Two of ten packets arrived, below the SACK threshold; the others were trimmed, and the window is those two now.
    Without an RTT sample the tail timer is only a guess, 10 ms."""
    windows = RecordingWindows(11 * NOMINAL)
    hand = HandPeer(CONFIG, controller=windows)
    hand.post(256 * 20)
    sent = data(hand.transmitted())
    assert sent[-1]["bth"]["ackreq"] == 1
    windows.only.become(2 * NOMINAL)
    hand.now += RTT
    *trimmed, last = (hand.nack(number, TRIMMED, ev=sent[number].ev) for number in (*range(5), *range(7, len(sent))))
    hand.receive(*trimmed)
    (probe,) = hand.run(hand.now)
    hand.receive(last)
    assert hand.run(hand.now) == []  # once is enough before the answer
    hand.now += RTT
    again = data(hand.exchange(hand.sack(-1, above=[5, 6], probe_id=probe["peth"]["probe_id"])))
    assert numbers(hand, again) == [0, 1]
    assert hand.counters["tail_probes_sent"] == 1


def test_a_probe_that_was_trimmed_is_repeated_by_the_round_trip_that_the_nacks_tell_of() -> None:
    """What is left of a trimmed probe is not answered. The next one leaves after twice the time that the first packet
    had waited, then at doubling distance."""
    windows = RecordingWindows(11 * NOMINAL)
    hand = HandPeer(CONFIG, controller=windows)
    hand.post(256 * 20)
    sent = data(hand.transmitted())
    windows.only.become(NOMINAL)
    hand.now += RTT
    hand.receive(*(hand.nack(number, TRIMMED, ev=sent[number].ev) for number in range(len(sent) - 1)))
    asked = [hand.now] if of(hand.run(hand.now), PROBE) else []
    for _ in range(3):
        assert of(hand.run(hand.now + 100 * RTT, stop_at_first=True), PROBE)
        asked.append(hand.now)
    assert [after - before for before, after in pairwise(asked)] == [2 * RTT, 4 * RTT, 8 * RTT]


def test_a_window_that_trims_shrink_is_left_to_the_tail_timer_where_there_is_an_rtt_sample() -> None:
    windows = RecordingWindows(11 * NOMINAL)
    hand = HandPeer(CONFIG, controller=windows)
    _under_way(hand, 1)
    hand.exchange(hand.sack(0))
    hand.post(256 * 20)
    sent = data(hand.transmitted())
    windows.only.become(2 * NOMINAL)
    trims = (hand.nack(number, TRIMMED, ev=sent[number - 1].ev) for number in (*range(1, 6), *range(8, 12)))
    hand.receive(*trims)
    assert hand.run(hand.now) == []


def test_a_tail_probe_is_no_packet_that_the_reorder_guard_counts() -> None:
    """Three packets later is what loses a packet, not a packet and two probes."""
    hand = HandPeer(CONFIG)
    _under_way(hand, 10)
    hand.exchange(hand.sack(9, trigger=9))
    for number in (10, 11, 12):
        hand.post(256)
        assert numbers(hand, data(hand.transmitted())) == [number]
        assert of(hand.run(hand.now + 500 * MILLISECOND, stop_at_first=True), PROBE)
    assert data(hand.exchange(hand.sack(9, above=[11, 12], trigger=12, rtx=1))) == []
    hand.post(256)
    hand.transmitted()
    assert numbers(hand, data(hand.exchange(hand.sack(9, above=[11, 12, 13], trigger=13, rtx=1)))) == [10]


def test_an_answered_tail_probe_that_finds_nothing_missing_sends_nothing() -> None:
    hand = HandPeer(CONFIG)
    hand.post(256)
    hand.transmitted()
    (probe,) = hand.run(500 * MILLISECOND, stop_at_first=True)
    assert data(hand.exchange(hand.sack(0, probe_id=probe["peth"]["probe_id"]))) == []
    assert hand.completed() == [(0, WorkStatus.SUCCESS)]
    assert hand.run(hand.now + 10 * SECOND) == []


def test_an_answer_to_a_probe_never_sent_is_counted_and_moves_nothing() -> None:
    hand = HandPeer(CONFIG)
    hand.post(256 * 5)
    hand.transmitted()
    assert hand.exchange(hand.sack(-1, probe_id=0x1234)) == []
    assert hand.counters["unknown_probe_answer"] == 1


def test_a_long_silence_does_not_lose_what_was_in_flight() -> None:
    """Many probes and timeouts go by unanswered; what was never acknowledged is still sent again afterwards."""
    hand = HandPeer(QpConfig(path_mtu=256, mpr=1, exponential_retries=25))
    for _ in range(20):
        hand.post(256)
    hand.transmitted()
    hand.run(hand.now + 20 * SECOND)
    assert hand.qp.state == QpState.RTS
    # The peer is back. It has the first packet, then whatever comes.
    cack, arrived = -1, {0}
    for _ in range(400):
        while cack + 1 in arrived:
            cack += 1
        above = [number for number in arrived if number > cack]
        sent = hand.exchange(hand.sack(cack, above, trigger=max(arrived), rtx=1))
        probes = of(sent, PROBE)
        if not data(sent) and not probes:
            sent = hand.run(hand.now + SECOND, stop_at_first=True)
            probes = of(sent, PROBE)
        hand.now += RTT
        for probe in probes:
            hand.receive(hand.sack(cack, above, probe_id=probe["peth"]["probe_id"]))
        arrived |= set(numbers(hand, sent))
        if cack == 19:
            break
    assert [status for _, status in hand.completed()] == [WorkStatus.SUCCESS] * 20
