# SPDX-License-Identifier: BSD-2-Clause
"""Answers that come late, together, or to old probes, and what they are taken for (behaviour.md, Loss)."""

from __future__ import annotations

import pytest
from hand_peer import MICROSECOND, MILLISECOND, PROBE, HandPeer, Sent, data, numbers, of
from nacking import RTT, send, state_of, trained
from recording_window import RecordingWindows

from mrc.endpoint.config import QpConfig
from mrc.endpoint.paths.states import EvState

LOCAL = 1024 << 10  # a local ACK timeout of 1.05 ms
SHORT = QpConfig(path_mtu=256, timeout=10, exponential_retries=25)


def _probe(hand: HandPeer, within: int = 10 * MILLISECOND) -> Sent:
    (probe,) = of(hand.run(hand.now + within, stop_at_first=True), PROBE)
    return probe


def _sent_again_by_timeout(hand: HandPeer) -> tuple[Sent, Sent]:
    """A packet that nothing was heard of, and its retransmission, which left just now."""
    (first,) = send(hand, 1).values()
    (again,) = data(hand.run(first.at + LOCAL))
    assert (again.at, again["bth"]["rtx"]) == (first.at + LOCAL, 1)
    return first, again


@pytest.mark.parametrize(("after", "spurious"), [(10, 1), (74, 1), (75, 0), (100, 0)])
def test_an_ack_of_nothing_but_retransmissions_tells_by_its_time(after: int, spurious: int) -> None:
    """behaviour.md: "when a retransmission proves spurious". Less than three quarters of the shortest round trip, of
    100 us, after it left it has not arrived, so the original has. The EV blamed is good again."""
    hand = trained(SHORT)
    first, _ = _sent_again_by_timeout(hand)
    assert state_of(hand, first.ev) == EvState.ASSUMED_BAD
    hand.now += after * MICROSECOND
    hand.receive(hand.ack(1))
    assert hand.counters.get("spurious_retransmissions", 0) == spurious
    assert state_of(hand, first.ev) == (EvState.GOOD if spurious else EvState.ASSUMED_BAD)


def test_the_answer_to_the_first_probe_of_all_is_not_about_an_original() -> None:
    """wire.md section 6: with pr=1 the field is a probe_id; no packet triggered the SACK, rtx or not."""
    hand = trained(SHORT)
    (first,) = send(hand, 1).values()
    probe = _probe(hand)
    assert probe["peth"]["probe_id"] == 0
    hand.run(first.at + LOCAL)
    assert hand.counters["retransmitted_packets"] == 1
    hand.now += 2 * RTT
    hand.receive(hand.sack(1, probe_id=0, ev=first.ev))
    assert "spurious_retransmissions" not in hand.counters
    assert hand.counters["rtt_samples"] == 1


def test_what_stands_beside_a_probes_answer_is_still_a_sample() -> None:
    """Each SACK for itself: a probe's answer, one for a packet long gone, one that measures 70 us, and an old one."""
    windows = RecordingWindows(1 << 30)
    hand = trained(controller=windows)
    send(hand, 1)
    probe = _probe(hand)
    hand.receive(hand.ack(1))
    send(hand, 300)
    hand.receive(hand.ack(300))
    windows.only.calls.clear()
    send(hand, 1)
    hand.now += 70 * MICROSECOND
    hand.receive(
        hand.sack(300, probe_id=probe["peth"]["probe_id"]), hand.sack(300, trigger=5), hand.sack(301), hand.sack(300)
    )
    assert [call.rtt_ns for call in windows.only.of("ack")] == [None, None, 70 * MICROSECOND, None]
    assert hand.counters["rtt_samples"] == 2


@pytest.mark.parametrize("order", [(1, 2, 3), (2, 1, 3), (3, 2, 1)])
def test_the_shortest_round_trip_counts_whichever_is_told_first(order: tuple[int, ...]) -> None:
    """SACKs of packets 30 us apart come together: 120, 90 and 60 us. What arrives 44 us after it was sent again is the
    original then, for 45 are three quarters of 60; and after 45 us it is not."""
    for after, spurious in ((44, 1), (45, 0)):
        hand = trained(SHORT)
        for _ in range(3):
            send(hand, 1)
            hand.now += 30 * MICROSECOND
        hand.now += 30 * MICROSECOND
        hand.receive(*(hand.sack(0, above=[number], trigger=number) for number in order))
        hand.receive(hand.ack(3))
        _sent_again_by_timeout(hand)
        hand.now += after * MICROSECOND
        hand.receive(hand.ack(4))
        assert hand.counters.get("spurious_retransmissions", 0) == spurious


# ------------------------------------------------------------------ what a probe's answer covers


def test_a_later_probe_covers_what_was_sent_since_the_one_before() -> None:
    """behaviour.md: "Tail losses are found by a reliability probe", each tail by the probe after it."""
    hand = trained()
    send(hand, 2)
    first = _probe(hand)
    hand.now += MICROSECOND
    send(hand, 2)
    second = _probe(hand)
    hand.now += RTT
    assert numbers(hand, hand.exchange(hand.sack(0, probe_id=second["peth"]["probe_id"]))) == [1, 2, 3, 4]
    hand.receive(hand.sack(0, probe_id=first["peth"]["probe_id"]))
    assert hand.counters["losses_by_hole"] == 4


def test_probes_one_after_another_cover_the_same() -> None:
    """Nothing is sent between them; whichever is answered shows the tail, however many there were."""
    for answered in range(4):
        hand = trained()
        send(hand, 2)
        probes = [_probe(hand) for _ in range(4)]
        hand.now += RTT
        sack = hand.sack(0, probe_id=probes[answered]["peth"]["probe_id"])
        assert numbers(hand, hand.exchange(sack)) == [1, 2]


def test_what_left_after_a_probe_is_not_lost_by_its_answer_however_late() -> None:
    """Two probes without data between, then data, then the answer to the second."""
    hand = trained()
    send(hand, 1)
    _probe(hand)
    second = _probe(hand)
    hand.now += 10 * MICROSECOND
    send(hand, 3)
    hand.now += RTT
    assert numbers(hand, hand.exchange(hand.sack(0, probe_id=second["peth"]["probe_id"]))) == [1]
