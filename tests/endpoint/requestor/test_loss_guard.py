# SPDX-License-Identifier: BSD-2-Clause
"""When a hole is a loss: packets beyond it, or a probe that was answered, and the guard of each."""

from __future__ import annotations

import pytest
from hand_peer import MICROSECOND, PROBE, HandPeer, data, numbers, of

from mrc.endpoint.config import PathConfig, QpConfig

SMALL = QpConfig(path_mtu=256, paths=PathConfig(ev_min_active=1))
RTT = 100 * MICROSECOND


def _known_round_trip(hand: HandPeer) -> None:
    for _ in range(4):
        hand.post(256)
        (packet,) = data(hand.transmitted())
        hand.now += RTT
        hand.receive(hand.sack(hand.posted - 1, ev=packet.ev, probe_id=None))


@pytest.mark.parametrize("late", [False, True])
def test_a_probe_tells_only_of_what_was_sent_before_it(late: bool) -> None:
    """behaviour.md, Requestor: "Tail losses are found by a reliability probe one srtt + 4 rttvar after the last
    transmission". Its answer says nothing of a packet that left after the probe."""
    hand = HandPeer(SMALL)
    _known_round_trip(hand)
    first = hand.posted
    hand.post(256)
    assert numbers(hand, hand.transmitted()) == [first]
    (probe,) = of(hand.run(hand.now + 20 * RTT, stop_at_first=True), PROBE)
    if late:
        hand.post(256)
        assert numbers(hand, hand.transmitted()) == [first + 1]
    hand.now += RTT
    answer = hand.sack(first - 1, probe_id=probe["peth"]["probe_id"], ev=probe.ev)
    assert numbers(hand, hand.exchange(answer)) == [first]


@pytest.mark.parametrize("beyond", [False, True])
def test_the_answer_of_a_probe_that_came_late_loses_nothing_that_was_sent_again(beyond: bool) -> None:
    """The answer counts for what had left when the probe was asked: a repetition after it has not had its chance."""
    hand = HandPeer(SMALL)
    _known_round_trip(hand)
    first = hand.posted
    hand.post(256)
    hand.transmitted()
    (probe,) = of(hand.run(hand.now + 20 * RTT, stop_at_first=True), PROBE)
    hand.now += RTT
    answer = hand.sack(first - 1, probe_id=probe["peth"]["probe_id"], ev=probe.ev)
    assert numbers(hand, hand.exchange(answer)) == [first]
    if beyond:
        hand.now += MICROSECOND
    assert numbers(hand, hand.exchange(answer, answer)) == []
