# SPDX-License-Identifier: BSD-2-Clause
"""With the peer's address: SACKs, ACKs, NAKs and NACKs it never sent. What they can do takes a PSN in flight."""

from __future__ import annotations

import pytest
from attacks import NO_RESOURCE, TRIMMED, UNEXP_EVENT, standing
from hand_peer import MILLISECOND, HandPeer, data

from mrc.endpoint.config import Capability, QpConfig
from mrc.endpoint.paths.states import EvState
from mrc.endpoint.qp_states import QpState

CONFIG = QpConfig(path_mtu=256)
HALF = 1 << 23
SENT = 6


def sending() -> HandPeer:
    """SENT packets out, the first two acknowledged."""
    hand = HandPeer(CONFIG)
    for _ in range(SENT):
        hand.post(256)
    hand.transmitted()
    hand.exchange(hand.sack(1))
    hand.completed()
    return hand


@pytest.mark.parametrize("number", [SENT, SENT + 1, SENT + 1000, HALF - 1])
def test_a_sack_for_what_was_never_sent_completes_nothing(number: int) -> None:
    """behaviour.md, Acknowledgement: "for a PSN never sent is dropped and counted"."""
    hand = sending()
    before = standing(hand)
    for forged in (hand.sack(number), hand.sack(1, above=[number] if number < 60 else [40]), hand.ack(number)):
        assert hand.exchange(forged) == []
        assert standing(hand) == before
    assert hand.counters["ack_for_unsent_psn"] == 3
    hand.run(hand.now + 5 * MILLISECOND)
    assert hand.completed() == [], "nothing was taken for delivered"


@pytest.mark.parametrize("number", [-(1 << 16), -(1 << 20), -HALF + 10])
@pytest.mark.parametrize("mark", [1, 2])
def test_a_guessed_old_sack_says_nothing_about_paths(number: int, mark: int) -> None:
    """Half of all PSNs are old. One that no path can have delayed so long is dropped and counted: without knowing what
    is in flight a SACK with m=2 would condemn paths in every second try."""
    hand = sending()
    assert hand.qp.paths is not None
    for path in hand.profile:
        hand.receive(hand.sack(number, ev=path.ev, m=mark))
    assert hand.counters["ack_too_old"] == len(hand.profile)
    assert set(hand.qp.paths.state.tolist()) == {EvState.GOOD}


def test_a_late_sack_of_the_peers_still_counts_for_its_path() -> None:
    """The limit is far behind what any path delays."""
    hand = sending()
    for number in range(SENT, SENT + 1000):
        hand.post(256)
        hand.transmitted()
        hand.receive(hand.sack(number))
    ev = hand.profile[3].ev
    hand.receive(hand.sack(SENT - 1, ev=ev, m=1))
    assert hand.qp.paths is not None
    assert hand.qp.paths.state[hand.qp.paths.index(ev)] == EvState.SKIP


@pytest.mark.parametrize("number", [-1, 0, 1, -(1 << 16) - 5, -HALF + 10, SENT, HALF - 1])
@pytest.mark.parametrize("reason", [UNEXP_EVENT, TRIMMED, NO_RESOURCE])
def test_a_nack_for_what_is_not_in_flight_loses_nothing_and_ends_nothing(number: int, reason: int) -> None:
    """behaviour.md, Loss: "A NACK for an acknowledged PSN ... counts for its EV only"."""
    hand = sending()
    assert data(hand.exchange(hand.nack(number, reason))) == []
    assert hand.qp.state == QpState.RTS
    assert hand.qp.requestor.sent.outstanding == SENT - 2
    assert "losses_by_nack" not in hand.counters


def test_an_unexp_event_for_what_was_acknowledged_above_a_hole_ends_nothing() -> None:
    hand = sending()
    hand.exchange(hand.sack(1, above=[4]))
    hand.exchange(hand.nack(4, UNEXP_EVENT))
    assert hand.qp.state == QpState.RTS
    hand.exchange(hand.nack(3, UNEXP_EVENT))
    assert hand.qp.state == QpState.ERROR, "the one that is waited for does"


@pytest.mark.parametrize("number", [-1, 0, 1, SENT, SENT + 7, HALF - 1, -HALF + 3])
@pytest.mark.parametrize("syndrome", [0x61, 0x62, 0x63])
def test_a_nak_for_what_is_not_in_flight_ends_nothing(number: int, syndrome: int) -> None:
    hand = sending()
    hand.exchange(hand.ack(number, syndrome=syndrome))
    assert hand.qp.state == QpState.RTS
    assert hand.counters["ack_for_unsent_psn"] == 1


def test_how_many_psns_end_a_qp() -> None:
    """What is left to a blind attacker who knows the QPN: of 2^24 PSNs, those in flight."""
    deadly = []
    for number in (-HALF + 1, -(1 << 16), -1000, *range(-8, 16), 1000, 1 << 16, HALF - 1):
        hand = sending()
        hand.exchange(hand.nack(number, UNEXP_EVENT))
        if hand.qp.state == QpState.ERROR:
            deadly.append(number)
    assert deadly == [2, 3, 4, 5]


def test_replayed_sacks_complete_work_once_and_change_nothing() -> None:
    hand = sending()
    replay = hand.sack(1, ev=hand.profile[0].ev)
    hand.exchange(replay)
    before = standing(hand)[1:8]
    for _ in range(300):
        assert data(hand.exchange(*[replay] * 20)) == []
    assert standing(hand)[1:8] == before
    assert hand.completed() == []


def test_a_forged_probe_answer_nobody_waits_for_is_counted() -> None:
    hand = sending()
    for probe_id in range(50):
        hand.receive(hand.sack(1, probe_id=0x4000 + probe_id))
    assert hand.counters["unknown_probe_answer"] == 50


@pytest.mark.parametrize("mpr", [0, 255])
def test_a_forged_window_is_not_followed_where_it_is_not_agreed(mpr: int) -> None:
    hand = HandPeer(QpConfig(path_mtu=256, mpr=1), capabilities=Capability.DYNAMIC_MPR)
    hand.exchange(hand.sack(-1, mpr=mpr))
    for _ in range(300):
        hand.post(256)
    assert len(data(hand.transmitted())) == 128


def test_without_a_right_icrc_none_of_it_is_looked_at() -> None:
    hand = sending()
    before = standing(hand)
    for packet in (hand.sack(5), hand.ack(5), hand.ack(3, syndrome=0x62), hand.nack(3, UNEXP_EVENT)):
        hand.receive(packet[:-1] + bytes([packet[-1] ^ 1]))
    assert standing(hand) == before
    assert hand.counters["bad_icrc"] == 4
