# SPDX-License-Identifier: BSD-2-Clause
"""Probing of bad EVs, several at once too, and answers that do not count (behaviour.md, Probing)."""

from __future__ import annotations

from random import Random

import pytest
from hand_peer import MICROSECOND, MILLISECOND, PROBE, HandPeer, Sent, data, of, paths

from mrc.endpoint.config import PathConfig, QpConfig
from mrc.endpoint.paths.ev_events import EvEvent
from mrc.endpoint.paths.path_set import PathSet
from mrc.endpoint.paths.probing import PathProbing
from mrc.endpoint.paths.states import EvState

G, B, D = EvState.GOOD, EvState.ASSUMED_BAD, EvState.DENIED
FREE = PathConfig(ev_min_active=1)
RTT = 100 * MICROSECOND


def _condemned(hand: HandPeer, count: int) -> list[Sent]:
    """Packets whose EVs the peer says to skip for good (m=2), all in one round trip; everything is acknowledged."""
    sent: list[Sent] = []
    while len({packet.ev for packet in sent}) < count:
        hand.post(256)
        sent += data(hand.transmitted())
    chosen = list({packet.ev: packet for packet in sent}.values())
    hand.now += RTT
    hand.receive(*(hand.sack(hand.posted - 1, ev=packet.ev, m=2) for packet in chosen))
    return chosen


def _hand(**settings: float) -> HandPeer:
    config = PathConfig(ev_min_active=1, **settings)  # type: ignore[arg-type]
    return HandPeer(QpConfig(path_mtu=256, timeout=20, paths=config))


def _state(hand: HandPeer, ev: int) -> int:
    assert hand.qp.paths is not None
    return int(hand.qp.paths.state[hand.qp.paths.index(ev)])


def _due(probing: PathProbing, now: int, path_timer: int) -> list[int]:
    probing.due(now, path_timer)
    return [probing.found[place] for place in range(probing.found_count)]


def _probed(sent: list[Sent]) -> list[int]:
    return [packet.ev for packet in of(sent, PROBE)]


@pytest.mark.parametrize("timers", [0.5, 1.0, 4.0])
def test_the_first_probe_comes_so_many_path_timers_after_the_ev_went_bad(timers: float) -> None:
    """One by default; here the path timer is that of a steady round trip, at least 1 ms."""
    hand = _hand(first_probe_path_timers=timers)
    for _ in range(200):
        hand.post(256)
        (packet,) = data(hand.transmitted())
        hand.now += RTT
        hand.receive(hand.sack(hand.posted - 1, ev=packet.ev, trigger=hand.posted - 1, timestamp=0))
    (packet,) = _condemned(hand, 1)
    at = hand.now
    (probe,) = of(hand.run(at + 50 * MILLISECOND, stop_at_first=True), PROBE)
    assert probe.ev == packet.ev
    assert probe.at - at == int(timers * MILLISECOND)


def test_evs_that_came_back_some_other_way_do_not_keep_others_from_being_probed() -> None:
    """Two are denied by the controller and one's port goes down: the rest is probed as ever."""
    hand = _hand()
    condemned = _condemned(hand, 7)
    for packet in condemned[:2]:
        assert hand.qp.paths is not None
        hand.qp.paths.deny(packet.ev)
    hand.endpoint.set_port(condemned[2].port, False, hand.now)
    left = {packet.ev for packet in condemned[2:] if packet.port != condemned[2].port}
    assert left
    assert set(_probed(hand.run(hand.now + 30 * MILLISECOND))) == left


def test_an_ev_whose_port_is_down_is_probed_when_the_port_is_back() -> None:
    """Not before: nothing can leave by it. One path timer after it is back, three answers restore it as ever."""
    hand = _hand()
    (packet,) = _condemned(hand, 1)
    hand.endpoint.set_port(packet.port, False, hand.now)
    assert _probed(hand.run(hand.now + 300 * MILLISECOND)) == []
    hand.endpoint.set_port(packet.port, True, hand.now)
    back_at = hand.now
    for at in range(3):
        sent = (hand.run(hand.now + 20 * MILLISECOND, stop_at_first=True) for _ in range(20))
        probe = next(each for some in sent for each in of(some, PROBE))
        if not at:
            assert 0 < probe.at - back_at <= 10 * MILLISECOND
        hand.receive(hand.sack(hand.posted - 1, probe_id=probe["peth"]["probe_id"], ev=packet.ev))
    assert _state(hand, packet.ev) == G


def test_a_mark_for_an_ev_that_is_none_of_ours_is_counted() -> None:
    hand = _hand()
    hand.post(256)
    hand.transmitted()
    hand.receive(hand.sack(0, ev=0xDEADBEEF, m=1))
    assert hand.counters["unknown_ev"] == 1
    assert hand.completed()


def test_each_probe_without_an_answer_counts_as_failed() -> None:
    """Three bad EVs; the first probe by 10 ms, the next 10 ms, 20 ms and 40 ms later: three have failed by then."""
    hand = _hand()
    _condemned(hand, 3)
    sent = _probed(hand.run(hand.now + 90 * MILLISECOND))
    assert len(sent) == 3 * 4
    assert hand.counters["path_probes_sent"] == 12
    assert hand.counters["path_probes_failed"] == 9


def test_an_answer_to_a_probe_given_up_before_does_not_count() -> None:
    """Three consecutive probes answered: one that failed is not among them, though its answer came after all."""
    hand = _hand()
    (packet,) = _condemned(hand, 1)
    probes = of(hand.run(hand.now + 200 * MILLISECOND), PROBE)
    assert len(probes) == 5  # after 10 ms at most, then 10, 20, 40 and 80 ms later
    for probe in probes[:-1]:
        hand.receive(hand.sack(hand.posted - 1, probe_id=probe["peth"]["probe_id"], ev=packet.ev))
    assert _state(hand, packet.ev) == B
    assert hand.run(hand.now + MILLISECOND) == []
    assert "unknown_probe_answer" not in hand.counters


def test_an_answer_for_an_ev_that_needs_none_any_more_changes_nothing() -> None:
    """Denied while a probe was out, and taken off the list at the next turn; then the answer comes."""
    hand = _hand()
    (packet,) = _condemned(hand, 1)
    probe = of(hand.run(hand.now + 12 * MILLISECOND), PROBE)[-1]
    assert hand.qp.paths is not None
    hand.qp.paths.deny(packet.ev)
    assert of(hand.run(hand.now + 300 * MILLISECOND), PROBE) == []
    hand.receive(hand.sack(hand.posted - 1, probe_id=probe["peth"]["probe_id"], ev=packet.ev))
    assert _state(hand, packet.ev) == D
    assert hand.run(hand.now + 300 * MILLISECOND) == []


def test_an_answer_that_says_skip_for_good_does_not_bring_the_ev_back() -> None:
    """SACK m=2: to ASSUMED_BAD, from wherever it is; only m=0 and m=1 lead out of it."""
    hand = _hand()
    hand.endpoint.ev_events.wanted = frozenset({G, B})
    (packet,) = _condemned(hand, 1)
    for _ in range(4):
        probe = of(hand.run(hand.now + 300 * MILLISECOND, stop_at_first=True), PROBE)[-1]
        hand.receive(hand.sack(hand.posted - 1, probe_id=probe["peth"]["probe_id"], ev=packet.ev, m=2))
    assert _state(hand, packet.ev) == B
    assert list(hand.endpoint.ev_events.queue) == [EvEvent(hand.qp.qpn, packet.ev, packet.port, B)]


def test_evs_of_a_port_that_is_back_are_probed_beside_those_that_just_went_bad() -> None:
    chosen = PathSet(paths(), FREE, Random(1))
    probing = PathProbing(chosen, FREE)
    chosen.on_loss(5, 1)
    probing.take_up(0, MILLISECOND)
    chosen.set_port(1, False)
    assert _due(probing, 2 * MILLISECOND, MILLISECOND) == []
    chosen.on_loss(2, 2)
    chosen.set_port(1, True)
    probing.take_up(3 * MILLISECOND, MILLISECOND)
    assert sorted(_due(probing, 4 * MILLISECOND, MILLISECOND)) == [2, 5]


def test_a_probe_has_a_path_timer_to_be_answered() -> None:
    """behaviour.md, Probing: 10 ms apart "while they fail". One whose answer takes 40 ms has not failed by then."""
    chosen = PathSet(paths(), FREE, Random(1))
    probing = PathProbing(chosen, FREE)
    chosen.on_loss(5, 1)
    probing.take_up(0, 0)
    now, timer = 0, 60 * MILLISECOND
    for probe_id in (1, 2, 3):
        assert _due(probing, now, timer) == [5]
        probing.sent(5, probe_id)
        assert probing.next_deadline == now + timer
        now += 40 * MILLISECOND
        assert _due(probing, now, timer) == []
        probing.on_answer(5, probe_id, 0, now)
    assert probing.failed == 0
    assert EvState(int(chosen.state[5])) is EvState.GOOD


def test_an_answer_where_no_ev_was_ever_bad_changes_nothing() -> None:
    chosen = PathSet(paths(), FREE, Random(1))
    probing = PathProbing(chosen, FREE)
    for index in (0, 5):
        probing.on_answer(index, 1, 0, 0)
    assert set(chosen.state.tolist()) == {G}
    assert probing.next_deadline > 1000 * MILLISECOND


def test_evs_that_came_back_leave_the_others_to_be_probed_and_may_go_bad_again() -> None:
    """behaviour.md, Probing: "A bad EV is probed with a reliability probe on the EV itself". Each of four, in turn."""
    for first in range(4):
        chosen = PathSet(paths(), FREE, Random(1))
        probing = PathProbing(chosen, FREE)
        for index in range(4):
            chosen.on_loss(index, index)
        probing.take_up(0, MILLISECOND)
        now, left = 2 * MILLISECOND, [0, 1, 2, 3]
        for back in ((first + step) % 4 for step in range(4)):
            for probe_id in (1, 2, 3):
                due = _due(probing, now, MILLISECOND)
                assert back in due
                probing.sent(back, probe_id)
                probing.on_answer(back, probe_id, 0, now)
            assert chosen.state[back] == G
            left.remove(back)
            now += 300 * MILLISECOND
            assert sorted(_due(probing, now, MILLISECOND)) == left
            now += 300 * MILLISECOND
        assert _due(probing, now, MILLISECOND) == []
        chosen.on_loss(first, 9)
        probing.take_up(now, MILLISECOND)
        assert _due(probing, now + MILLISECOND, MILLISECOND) == [first]
