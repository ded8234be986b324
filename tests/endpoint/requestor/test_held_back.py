# SPDX-License-Identifier: BSD-2-Clause
"""Packets that arrived and are not acknowledged: the peer holds that back while it has no receive for an immediate."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hand_peer import MICROSECOND, ONLY_IMMEDIATE, PROBE, SECOND, HandPeer, Sent, data

from mrc.endpoint.completions import WorkStatus
from mrc.endpoint.config import QpConfig
from mrc.endpoint.qp_states import QpState

RTT = 100 * MICROSECOND
CONFIG = QpConfig(path_mtu=256, max_wimm=2)
INVALID, NO_ACCESS = 0x61, 0x62


def _probe_ids(sent: list[Sent]) -> list[int]:
    return [packet["peth"]["probe_id"] for packet in sent if packet.opcode == PROBE]


def _held(hand: HandPeer, count: int = 1) -> None:
    """So many writes with immediate have left, and a SACK says that they arrived; nothing is acknowledged."""
    for _ in range(count):
        hand.post(4, immediate=1)
    assert [packet.opcode for packet in data(hand.transmitted())] == [ONLY_IMMEDIATE] * count
    hand.now += RTT
    hand.exchange(hand.sack(-1, range(count), trigger=count - 1))


def _answering(hand: HandPeer, until: int, count: int = 1) -> int:
    """The peer answers each probe and acknowledges nothing. Returns how many there were."""
    probes = 0
    while hand.now < until:
        for probe_id in _probe_ids(hand.run(until, stop_at_first=True)):
            probes += 1
            hand.now += RTT
            hand.exchange(hand.sack(-1, range(count), probe_id=probe_id))
    return probes


def test_a_peer_that_answers_may_hold_an_acknowledgement_back_for_as_long_as_it_likes() -> None:
    """Nothing is sent again, no retry is drawn, and no more immediates leave than were granted."""
    hand = HandPeer(CONFIG)
    _held(hand, 2)
    hand.post(4, immediate=3)
    probes = _answering(hand, hand.now + 20 * SECOND, 2)
    assert hand.qp.state == QpState.RTS
    assert hand.counters.get("local_ack_timeouts", 0) == hand.counters.get("retransmitted_packets", 0) == 0
    # They come at twice the distance each, up to that of probes of bad EVs.
    assert 20 * SECOND // CONFIG.paths.probe_interval_max_ns <= probes
    assert probes <= 20 * SECOND // CONFIG.paths.probe_interval_max_ns + 20
    hand.receive(hand.ack(0))
    assert len(data(hand.transmitted())) == 1
    assert [done.status for done in hand.endpoint.completions] == [WorkStatus.SUCCESS]


def test_an_acknowledgement_that_was_lost_is_asked_for() -> None:
    hand = HandPeer(CONFIG)
    _held(hand)
    (probe_id,) = _probe_ids(hand.run(hand.now + 10 * CONFIG.local_ack_timeout_ns, stop_at_first=True))
    assert hand.now < CONFIG.local_ack_timeout_ns
    hand.receive(hand.sack(0, probe_id=probe_id))
    assert [done.status for done in hand.endpoint.completions] == [WorkStatus.SUCCESS]
    assert hand.run(hand.now + SECOND) == []


def test_a_peer_that_falls_silent_meanwhile_is_given_up_in_the_usual_time() -> None:
    hand = HandPeer(CONFIG)
    _held(hand)
    _answering(hand, hand.now + 10 * SECOND)
    heard_at = hand.now
    while hand.qp.state == QpState.RTS:
        hand.run(hand.now + SECOND // 10)
    gives_up = CONFIG.gives_up_after_ns
    assert gives_up is not None
    assert gives_up - SECOND // 10 <= hand.now - heard_at <= gives_up + 2 * CONFIG.local_ack_timeout_ns + SECOND // 10
    assert [done.status for done in hand.endpoint.completions] == [WorkStatus.RETRY_EXCEEDED]


@pytest.mark.parametrize("retries", [0, 7])
@pytest.mark.parametrize("exponential", [0, 25])
def test_how_few_retries_there_are_does_not_matter_while_the_peer_answers(retries: int, exponential: int) -> None:
    hand = HandPeer(replace(CONFIG, linear_retries=retries, exponential_retries=exponential))
    _held(hand)
    _answering(hand, hand.now + 2 * SECOND)
    assert hand.qp.state == QpState.RTS


def test_a_stop_of_its_own_is_no_silence_of_the_peer() -> None:
    hand = HandPeer(CONFIG)
    _held(hand)
    _answering(hand, hand.now + SECOND)
    hand.now += 60 * SECOND
    hand.endpoint.on_timer(hand.now)
    assert hand.qp.state == QpState.RTS
    _answering(hand, hand.now + SECOND)
    assert hand.qp.state == QpState.RTS


def test_a_refusal_says_which_kind_of_write_it_was_about() -> None:
    for arrived, words in ((True, "no receive was posted for it in time"), (False, "there may be no receive for it")):
        hand = HandPeer(CONFIG)
        hand.post(4, immediate=1)
        hand.transmitted()
        if arrived:
            hand.exchange(hand.sack(-1, [0], trigger=0))
        hand.exchange(hand.ack(0, INVALID))
        assert hand.qp.state == QpState.ERROR
        assert words in hand.endpoint.events[-1].detail
    for immediate, syndrome, words in (
        (None, INVALID, "remote_invalid_request"),
        (1, NO_ACCESS, "remote_access_error"),  # no receive would have helped
    ):
        hand = HandPeer(CONFIG)
        hand.post(4, immediate=immediate)
        hand.transmitted()
        hand.exchange(hand.ack(0, syndrome))
        assert hand.endpoint.events[-1].detail.endswith(words)
