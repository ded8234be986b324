# SPDX-License-Identifier: BSD-2-Clause
"""The peer's window, fixed or dynamic, as the requestor keeps to it (behaviour.md, Requestor; wire.md 6)."""

from __future__ import annotations

import pytest
from draws import draws
from hand_peer import MICROSECOND, PROBE, SECOND, HandPeer, data, numbers, of
from hypothesis import given, settings
from hypothesis import strategies as st
from recording_window import RecordingWindows

from mrc.endpoint.completions import WorkStatus
from mrc.endpoint.config import Capability, QpConfig
from mrc.endpoint.qp_states import QpState

UNIT = 128  # PSNs
RTT = 100 * MICROSECOND
TRIMMED_LASTHOP = 0x02  # its PSN is sent again at once
DYNAMIC = Capability.DYNAMIC_MPR
NEVER_FULL = 1 << 40


def _hand(
    *,
    mpr: int = 1,
    max_mpr: int = 64,
    ours: Capability = DYNAMIC,
    peers: Capability = DYNAMIC,
    first_psn: int = 77,
    follow: bool = True,
) -> HandPeer:
    config = QpConfig(
        path_mtu=256, mpr=mpr, max_mpr=max_mpr, capabilities=ours, timeout=20, follow_shrinking_mpr=follow
    )
    return HandPeer(config, controller=RecordingWindows(NEVER_FULL), capabilities=peers, first_psn=first_psn)


def _highest(hand: HandPeer, *packets: bytes) -> int:
    """The number of the last packet sent after these came in; it asks for an acknowledgement."""
    sent = data(hand.exchange(*packets))
    assert [packet["bth"]["ackreq"] for packet in sent] == [0] * (len(sent) - 1) + [1]
    return max(numbers(hand, sent))


def test_what_is_in_flight_beyond_an_edge_that_came_nearer_stays_valid() -> None:
    """behaviour.md, Dynamic MPR: "what is in flight beyond the edge stays valid ... is sent again at once".

    1024 PSNs are out when the window becomes 128; nothing new leaves until cack_psn has come near the last.
    """
    hand = _hand(mpr=8)
    hand.post(256 * 10_000, fill=7)
    assert _highest(hand) == 1023
    assert data(hand.exchange(hand.sack(9, mpr=1))) == []
    (again,) = data(hand.exchange(hand.nack(900, TRIMMED_LASTHOP)))
    assert (numbers(hand, [again]), again["bth"]["rtx"]) == ([900], 1)
    assert data(hand.exchange(hand.sack(1023 - UNIT, mpr=1))) == []
    assert numbers(hand, data(hand.exchange(hand.sack(1023 - UNIT + 1, mpr=1)))) == [1024]


def test_the_right_edge_never_retreats_where_shrinking_is_not_followed() -> None:
    """behaviour.md, Dynamic MPR: "with follow_shrinking_mpr off the right edge never retreats". MRC-MPR-07. "the
    responder honours every edge it ever advertised" (behaviour.md, Dynamic MPR)."""
    hand = _hand(mpr=1, follow=False)
    hand.post(256 * 100, fill=7)
    hand.transmitted()
    hand.receive(hand.sack(-1, mpr=8))  # the edge is 1023 from here on
    hand.receive(hand.sack(49, mpr=1))
    hand.post(256 * 10_000, fill=7)
    assert _highest(hand) == -1 + 8 * UNIT
    assert data(hand.exchange(hand.sack(100, mpr=1))) == []
    assert data(hand.exchange(hand.sack(1023 - UNIT, mpr=1))) == []
    assert _highest(hand, hand.sack(1023 - UNIT + 1, mpr=1)) == 1024


def test_a_late_sack_moves_the_edge_on_where_no_edge_retreats() -> None:
    """behaviour.md, Dynamic MPR: with follow_shrinking_mpr off "every SACK may move it on". MRC-MPR-07.

    The late one says more above a lower cack_psn.
    """
    hand = _hand(mpr=1, follow=False)
    hand.post(256 * 10_000, fill=7)
    hand.transmitted()
    late = hand.sack(9, mpr=12)
    assert _highest(hand, hand.sack(100, mpr=2)) == 100 + 2 * UNIT
    assert _highest(hand, late) == 9 + 12 * UNIT


@pytest.mark.parametrize(("follow", "edge"), [(True, 3 + 2 * UNIT), (False, 1 + 7 * UNIT)])
def test_sacks_of_one_batch_move_the_edge_one_after_the_other(follow: bool, edge: int) -> None:
    """behaviour.md, Dynamic MPR. MRC-MPR-07. The second was overtaken, the third takes nothing back."""
    hand = _hand(mpr=1, follow=follow)
    hand.post(256 * 10_000, fill=7)
    hand.transmitted()
    assert _highest(hand, hand.sack(3, mpr=2), hand.sack(1, mpr=7), hand.sack(5, mpr=0)) == edge


def test_an_mpr_of_0_takes_no_edge_back() -> None:
    """behaviour.md, Dynamic MPR: "an mpr field of 0 means "not in use", never "closed""."""
    hand = _hand(mpr=1)
    hand.post(256 * 300, fill=7)
    hand.transmitted()
    hand.receive(hand.sack(-1, mpr=10), hand.sack(0, mpr=0))
    hand.post(256 * 10_000, fill=7)
    assert _highest(hand) == -1 + 10 * UNIT


@pytest.mark.parametrize("max_mpr", [1, 3, 5, 8])
def test_no_more_is_followed_than_max_mpr(max_mpr: int) -> None:
    """QpConfig: "`max_mpr` is the most our requestor follows where the peer's MPR is dynamic"."""
    hand = _hand(mpr=1, max_mpr=max_mpr)
    hand.post(256 * 10_000, fill=7)
    hand.transmitted()
    assert _highest(hand, hand.sack(0, mpr=255)) == 0 + max_mpr * UNIT
    assert _highest(hand, hand.sack(20, mpr=255)) == 20 + max_mpr * UNIT


def test_the_answer_to_a_probe_moves_the_edge_too() -> None:
    """wire.md 8: "The answer is a SACK with pr=1". behaviour.md: a probe "refreshes acknowledgement state"."""
    hand = _hand(mpr=1)
    hand.post(256 * 10_000, fill=7)
    hand.transmitted()
    (probe,) = of(hand.run(hand.now + SECOND, stop_at_first=True), PROBE)
    answer = hand.sack(127, mpr=3, probe_id=probe["peth"]["probe_id"])
    assert _highest(hand, answer) == 127 + 3 * UNIT


def test_a_lost_sack_with_the_new_edge_does_not_stop_the_sender_for_ever() -> None:
    """behaviour.md, Reliability probe: "refreshes acknowledgement state when SACKs may have been lost".

    The transport ACK covers all that was sent but tells no edge, and the SACK that does is lost. Nothing is
    outstanding then, and there is more to send.
    """
    hand = _hand(mpr=1)
    hand.post(256 * 200, fill=7)
    assert _highest(hand) == 127
    hand.now += RTT
    hand.receive(hand.ack(127))
    sent = hand.run(hand.now + 3 * SECOND, stop_at_first=True)
    while not data(sent):
        assert sent, "nothing asks the peer how far it may go"
        hand.now += RTT
        sent = hand.exchange(*(hand.sack(127, mpr=1, probe_id=one["peth"]["probe_id"]) for one in of(sent, PROBE)))
        sent = sent or hand.run(hand.now + 3 * SECOND, stop_at_first=True)
    assert numbers(hand, sent) == list(range(128, 200))


def test_losses_in_a_window_that_grew_are_repaired() -> None:
    """behaviour.md, Requestor: "Only what is missing is sent again". 8192 PSNs out, every 50th lost."""
    hand = _hand(mpr=1, max_mpr=64, first_psn=(1 << 24) - 4000)
    hand.post(256 * 9000, fill=7)
    hand.transmitted()
    assert _highest(hand, hand.sack(-1, mpr=64)) == 8191
    lost = set(range(7, 8192, 50))
    hand.now += RTT
    for base in range(0, 8192, 64):
        above = [number for number in range(base, base + 64) if number not in lost]
        hand.receive(hand.sack(6, above, offset=base - 6, trigger=above[-1]))
    assert data(hand.transmitted()) == []
    hand.now += RTT
    (probe,) = of(hand.run(hand.now + SECOND, stop_at_first=True), PROBE)
    hand.now += RTT
    sent = hand.exchange(hand.sack(6, range(8, 57), probe_id=probe["peth"]["probe_id"]))
    assert numbers(hand, sent) == sorted(lost)
    hand.receive(hand.sack(8191, mpr=64))
    assert numbers(hand, hand.transmitted()) == list(range(8192, 9000))
    hand.receive(hand.ack(8999))
    assert hand.completed() == [(0, WorkStatus.SUCCESS)]


@settings(deadline=None, max_examples=draws(13))
@given(
    mpr=st.integers(1, 3),
    max_mpr=st.integers(1, 5),
    steps=st.lists(st.tuples(st.integers(0, 200), st.integers(0, 7), st.integers(0, 50)), max_size=12),
    first_psn=st.sampled_from([0, 1000, (1 << 24) - 1, (1 << 24) - 300]),
    follow=st.booleans(),
)
def test_all_that_is_granted_is_used_and_nothing_beyond_it(
    mpr: int, max_mpr: int, steps: list[tuple[int, int, int]], first_psn: int, follow: bool
) -> None:
    """behaviour.md, Dynamic MPR, both ways; Requestor: "PSN <= cack_psn + window". MRC-MPR-07.

    Each step is a SACK: how far cack_psn moves, its mpr, and how old its cack_psn is where that does not move.
    """
    hand = _hand(mpr=mpr, max_mpr=max_mpr, first_psn=first_psn, follow=follow)
    hand.post(256 * 5000, fill=7)
    most = max(mpr, max_mpr) * UNIT
    edge, told_at = -1 + mpr * UNIT, -1
    cack, highest = -1, _highest(hand)
    assert highest == edge
    for forward, told, back in steps:
        cack = min(cack + forward, highest)
        said = cack if forward or not told else max(-1, cack - back)
        if not follow or said >= told_at:
            edge = max(edge if not follow or not told else -1, said + (told or mpr) * UNIT)
            told_at = max(told_at, said)
        sent = numbers(hand, hand.exchange(hand.sack(said, mpr=told)))
        assert sent == list(range(highest + 1, min(edge, cack + most) + 1))
        highest += len(sent)
    assert hand.qp.state == QpState.RTS
