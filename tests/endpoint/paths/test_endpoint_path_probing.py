# SPDX-License-Identifier: BSD-2-Clause
"""What SACKs do to an EV and how probes bring a bad one back, through a QP (behaviour.md, Paths and Probing)."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hand_peer import MICROSECOND, MILLISECOND, PROBE, HandPeer, Sent, data, numbers, of

from mrc.endpoint.config import PathConfig, QpConfig
from mrc.endpoint.paths.states import EvState

G, S, B, D = EvState.GOOD, EvState.SKIP, EvState.ASSUMED_BAD, EvState.DENIED
FREE = PathConfig(ev_min_active=1)


QUICK = QpConfig(path_mtu=256, timeout=20, paths=FREE)
RTT = 100 * MICROSECOND


def _one_bad_ev(hand: HandPeer) -> Sent:
    """Lose one packet of twenty; everything else is acknowledged. Returns the packet lost."""
    sent: list[Sent] = []
    for _ in range(20):
        hand.post(256)
        sent += data(hand.transmitted())
        hand.now += 10 * MICROSECOND
    hand.now += RTT
    assert numbers(hand, hand.exchange(hand.sack(4, above=range(6, 20), trigger=19))) == [5]
    hand.now += RTT
    hand.exchange(hand.ack(19))
    return sent[5]


def _state(hand: HandPeer, ev: int) -> int:
    assert hand.qp.paths is not None
    return int(hand.qp.paths.state[hand.qp.paths.index(ev)])


def _probes(sent: list[Sent], ev: int) -> list[Sent]:
    return [packet for packet in of(sent, PROBE) if packet.ev == ev]


@pytest.mark.parametrize(("last_mark", "restored"), [(0, G), (1, S)])
def test_three_consecutive_probes_restore_by_the_last_mark(last_mark: int, restored: EvState) -> None:
    """GOOD when the last answer had m=0, SKIP when m=1; after an answer the next follows at once.

    MRC-PATH-11, MRC-PATH-12, MRC-PROBE-04, MRC-PATH-19.
    """
    hand = HandPeer(QUICK)
    lost = _one_bad_ev(hand)
    assert _state(hand, lost.ev) == B
    for at in range(3):
        before = hand.now
        (probe,) = _probes(hand.run(hand.now + 50 * MILLISECOND, stop_at_first=True), lost.ev)
        assert probe.destination == lost.destination
        if at:
            assert probe.at == before
        hand.now += RTT
        hand.receive(
            hand.sack(19, probe_id=probe["peth"]["probe_id"], ev=lost.ev, m=last_mark if at == 2 else 1 - last_mark)
        )
        assert _state(hand, lost.ev) == (restored if at == 2 else B)
    assert _probes(hand.run(hand.now + 1000 * MILLISECOND), lost.ev) == []


def test_a_failed_probe_starts_the_count_of_three_anew() -> None:
    """Three consecutive probes answered. MRC-PATH-11."""
    hand = HandPeer(QUICK)
    ev = _one_bad_ev(hand).ev
    for answered in (True, True, False, True, True):
        (probe,) = _probes(hand.run(hand.now + 300 * MILLISECOND, stop_at_first=True), ev)
        if answered:
            hand.receive(hand.sack(19, probe_id=probe["peth"]["probe_id"], ev=ev))
    assert _state(hand, ev) == B
    (probe,) = _probes(hand.run(hand.now + 300 * MILLISECOND, stop_at_first=True), ev)
    hand.receive(hand.sack(19, probe_id=probe["peth"]["probe_id"], ev=ev))
    assert _state(hand, ev) == G


def test_failing_probes_come_10_ms_apart_doubling_to_250_ms() -> None:
    """The first one path timer after the EV went bad. MRC-PATH-18, MRC-PATH-19."""
    hand = HandPeer(QUICK)
    ev = _one_bad_ev(hand).ev
    condemned_at = hand.now - RTT
    times = [probe.at for probe in _probes(hand.run(hand.now + 2500 * MILLISECOND), ev)]
    assert 0 < times[0] - condemned_at <= 10 * MILLISECOND
    gaps = [b - a for a, b in pairwise(times)]
    assert [gap // MILLISECOND for gap in gaps[:6]] == [10, 20, 40, 80, 160, 250]
    assert set(gaps[5:]) == {250 * MILLISECOND}


def test_an_ev_whose_port_is_down_is_probed_when_the_port_is_back() -> None:
    """Not before: nothing can leave by it. One path timer after it is back, three answers restore it as ever."""
    hand = HandPeer(QUICK)
    lost = _one_bad_ev(hand)
    hand.endpoint.set_port(lost.port, False, hand.now)
    assert _probes(hand.run(hand.now + 300 * MILLISECOND), lost.ev) == []
    hand.endpoint.set_port(lost.port, True, hand.now)
    back_at = hand.now
    for at in range(3):
        probe = next(
            packet
            for _ in range(20)
            for packet in _probes(hand.run(hand.now + 20 * MILLISECOND, stop_at_first=True), lost.ev)
        )
        if not at:
            assert 0 < probe.at - back_at <= 10 * MILLISECOND
        hand.receive(hand.sack(19, probe_id=probe["peth"]["probe_id"], ev=lost.ev))
    assert _state(hand, lost.ev) == G


def test_an_ev_condemned_by_always_skip_is_probed_too() -> None:
    """Probing: "on the EV itself, one path timer after it went bad", however it did. MRC-PATH-06."""
    hand = HandPeer(QUICK)
    hand.post(256)
    (packet,) = data(hand.transmitted())
    hand.now += RTT
    hand.receive(hand.sack(0, ev=packet.ev, m=2))
    assert _state(hand, packet.ev) == B
    assert _probes(hand.run(hand.now + 100 * MILLISECOND), packet.ev)


def test_a_mark_moves_the_ev_it_names_to_skip() -> None:
    """MRC-PATH-04, MRC-SACK-10."""
    hand = HandPeer(QUICK)
    hand.post(256)
    (packet,) = data(hand.transmitted())
    hand.receive(hand.sack(0, ev=packet.ev, m=1))
    assert _state(hand, packet.ev) == S


def test_a_mark_for_an_ev_that_is_none_of_ours_is_counted() -> None:
    hand = HandPeer(QUICK)
    hand.post(256)
    hand.transmitted()
    hand.receive(hand.sack(0, ev=0xDEADBEEF, m=1))
    assert hand.counters["unknown_ev"] == 1
    assert hand.completed()


def test_a_spurious_retransmission_gives_its_ev_back() -> None:
    """ASSUMED_BAD -> GOOD when the loss that condemned it proves spurious: the original's own SACK arrives.

    MRC-PATH-13.
    """
    hand = HandPeer(QUICK)
    sent: list[Sent] = []
    for _ in range(20):
        hand.post(256)
        sent += data(hand.transmitted())
        hand.now += 10 * MICROSECOND
    hand.now += RTT
    assert numbers(hand, hand.exchange(hand.sack(4, above=range(6, 20), trigger=19))) == [5]
    assert _state(hand, sent[5].ev) == B
    hand.receive(hand.sack(19, trigger=5, ev=sent[5].ev))
    assert _state(hand, sent[5].ev) == G
