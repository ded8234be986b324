# SPDX-License-Identifier: BSD-2-Clause
"""Which EVs control packets take, and how an endpoint learns them (behaviour.md, Reverse EVs)."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import numpy as np
from hand_operations import EV_PROBE, answered, requests
from hand_peer import MICROSECOND, MILLISECOND, REGION_VA, SACK, HandPeer, Sent, control_evs, data, of, paths

from mrc.endpoint.config import EndpointConfig, PathConfig, PeerNodeConfig, QpConfig
from mrc.endpoint.parts.numbers import column
from mrc.endpoint.paths.path_set import PathSet
from mrc.endpoint.paths.reverse import ReverseEvs

SMALL = QpConfig(path_mtu=256, paths=PathConfig(ev_min_active=1))
ALL_EVS = {path.ev for path in paths()}
RTT = 100 * MICROSECOND


def _answers(hand: HandPeer, count: int = 24) -> list[Sent]:
    """SACKs, one batch each: probes of the peer's trigger them."""
    return [packet for at in range(count) for packet in of(hand.exchange(hand.probe(at)), SACK)]


def _write(hand: HandPeer) -> Sent:
    hand.post(256)
    (packet,) = data(hand.transmitted())
    return packet


def _acknowledged(hand: HandPeer, packet: Sent) -> None:
    hand.now += RTT
    hand.receive(hand.sack((packet.psn - hand.qp.first_psn) & 0xFFFFFF, ev=packet.ev))


def _learn_by_data(hand: HandPeer, planes: int = 2) -> dict[int, list[int]]:
    """Write and be acknowledged until two EVs of each plane are known. Returns them by plane, the latest first."""
    known: dict[int, list[int]] = {plane: [] for plane in range(planes)}
    while any(len(evs) < 2 for evs in known.values()):
        packet = _write(hand)
        _acknowledged(hand, packet)
        evs = known[packet.port]
        known[packet.port] = [packet.ev, *(ev for ev in evs if ev != packet.ev)]
    hand.now += 10 * MILLISECOND  # what was chosen before is old by now
    return {plane: evs[:2] for plane, evs in known.items()}


def _learning(sent: list[Sent]) -> list[Sent]:
    return requests(sent, EV_PROBE)


# ------------------------------------------------------------------ learned from data SACKs


def test_while_none_is_known_any_ev_carries_control_and_planes_alternate() -> None:
    hand = HandPeer(SMALL)
    sacks = _answers(hand, 64)
    assert {packet.ev for packet in sacks} == ALL_EVS
    assert all(a.port != b.port for a, b in pairwise(sacks))


def test_the_transport_ack_takes_a_known_good_ev_too() -> None:
    hand = HandPeer(SMALL)
    known = _learn_by_data(hand)
    good = {ev for evs in known.values() for ev in evs}
    evs = {packet.ev for at in range(12) for packet in hand.exchange(hand.request(at, b"x", va=REGION_VA + at))}
    assert evs <= good


def test_a_plane_of_which_nothing_is_known_keeps_its_turn() -> None:
    """One acknowledgement on one plane does not leave the other without control packets."""
    hand = HandPeer(SMALL)
    packet = _write(hand)
    _acknowledged(hand, packet)
    hand.now += 10 * MILLISECOND
    sacks = _answers(hand)
    assert {sack.ev for sack in sacks if sack.port == packet.port} == {packet.ev}
    assert len({sack.ev for sack in sacks if sack.port != packet.port}) == 4


def test_an_ev_that_lost_data_since_is_left_at_once() -> None:
    """An EV on which data was lost is not known good any more, whoever else uses it."""
    hand = HandPeer(SMALL)
    known = _learn_by_data(hand)
    good = {ev for evs in known.values() for ev in evs}
    before = hand.posted
    sent: list[Sent] = []
    while not sent or sent[-1].ev not in good:
        sent.append(_write(hand))
        hand.now += 10 * MICROSECOND
    victim = sent[-1]
    rest = []
    for _ in range(5):
        rest.append(_write(hand))
        hand.now += 10 * MICROSECOND
    hand.now += RTT
    assert victim.ev in {packet.ev for packet in _answers(hand)}
    lost = before + len(sent) - 1
    hand.exchange(hand.sack(lost - 1, above=range(lost + 1, hand.posted), trigger=hand.posted - 1, ev=rest[-1].ev))
    assert victim.ev not in {packet.ev for packet in _answers(hand)}
    other = hand.qp
    hand.qp = hand.connect(SMALL, qpn=99)
    assert victim.ev not in {packet.ev for packet in _answers(hand)}
    assert hand.qp is not other


def test_an_ev_lost_by_one_qp_is_left_by_the_others_at_once() -> None:
    """Per peer node: what was chosen a moment ago is chosen anew."""
    reverse = ReverseEvs(PeerNodeConfig(), 8)
    numbers = np.arange(8)
    one, other = (PathSet(paths(), PathConfig(), Random(seed), reverse=reverse, numbers=numbers) for seed in (1, 2))
    for index in [0, 1, 4, 5]:
        one.on_ev_answered(index, 0)
    assert set(control_evs(other, 16, 1)) == {0, 1, 4, 5}
    one.on_loss(1, 7)
    assert set(control_evs(other, 16, 1)) == {0, 4, 5}


def test_planes_alternate_though_the_choice_is_made_anew_in_between() -> None:
    """Successive SACKs alternate planes, however far apart."""
    hand = HandPeer(SMALL)
    _learn_by_data(hand)
    sacks = []
    for at in range(20):
        sacks += of(hand.exchange(hand.probe(at)), SACK)
        hand.now += 6 * MILLISECOND
    assert len(sacks) == 20
    assert all(a.port != b.port for a, b in pairwise(sacks))


def test_qps_to_one_peer_node_share_what_they_learned() -> None:
    """Per peer node: a QP that never sent answers on what another learned."""
    hand = HandPeer(SMALL)
    known = _learn_by_data(hand)
    hand.qp = hand.connect(SMALL, qpn=99)
    assert {packet.ev for packet in _answers(hand)} == {ev for evs in known.values() for ev in evs}


def test_a_plane_on_which_everything_was_lost_has_no_turn() -> None:
    """Its EVs are known not to work; when all planes are so, any EV is tried."""
    chosen = PathSet(paths(), PathConfig(ev_min_active=1), Random(1))
    for index in range(4):
        chosen.on_loss(index, index)
    assert {index // 4 for index in control_evs(chosen, 40, 0)} == {1}
    for index in range(4, 8):
        chosen.on_loss(index, index)
    assert {index // 4 for index in control_evs(chosen, 40, 0)} == {0, 1}
    for index in [2, 2]:
        chosen.on_ev_answered(index, 1)
    assert set(control_evs(chosen, 40, 10 * MILLISECOND)) == {2}


def test_a_denied_ev_carries_no_control() -> None:
    """DENIED is for everything; only when nothing else is left it cannot be helped."""
    chosen = PathSet(paths(), PathConfig(ev_min_active=1), Random(1))
    for index in [1, 5]:
        chosen.on_ev_answered(index, 0)
    chosen.deny(chosen.paths[1].ev)
    picks = set(control_evs(chosen, 40, 0))
    assert 5 in picks
    assert 1 not in picks
    assert {0, 2, 3} & picks


def test_profiles_that_differ_meet_in_what_they_share() -> None:
    """QPs of one node with other subsets of its EVs: each uses the known good ones it has."""
    profile = paths()
    reverse = ReverseEvs(PeerNodeConfig(), 8)
    one = PathSet(profile[:6], PathConfig(), Random(1), reverse=reverse, numbers=np.arange(6))
    other = PathSet(profile[:1:-1], PathConfig(), Random(2), reverse=reverse, numbers=np.arange(7, 1, -1))
    for index in [one.index(profile[place].ev) for place in (3, 0, 5)]:
        one.on_ev_answered(index, 1)
    evs = {other.paths[index].ev for index in control_evs(other, 40, 1)}
    assert evs == {profile[3].ev, profile[5].ev}


def test_the_latest_confirmed_evs_of_a_plane_are_chosen() -> None:
    """Two per plane by default."""
    reverse = ReverseEvs(PeerNodeConfig(), 6)
    members = [5, 3, 1, 0]

    def chosen() -> list[int]:
        places = column(len(members))
        count = reverse.pick(memoryview(np.array(members, np.int64)), len(members), places, 0)
        return [members[place] for place in places[:count]]

    assert chosen() == [5, 3, 1, 0]  # none is known: all of them
    for number, now in ((3, 10), (0, 20), (1, 30)):
        reverse.confirm(number, now)
    assert sorted(chosen()) == [0, 1]
    reverse.lose(1)
    assert sorted(chosen()) == [0, 3]
    for number in (0, 3):
        reverse.lose(number)
    assert chosen() == [5]
    reverse.lose(5)
    assert chosen() == []


# ------------------------------------------------------------------ learned by EV probes


def _request(hand: HandPeer, number: int) -> list[Sent]:
    return hand.exchange(hand.request(number, b"x", va=REGION_VA + number % 1000))


def test_probes_come_at_most_once_a_round_trip() -> None:
    """A round trip of 40 ms, learned from the probes themselves."""
    hand = HandPeer(SMALL)
    probes: list[Sent] = []
    waiting: list[Sent] = []
    for number in range(400):
        fresh = _learning(_request(hand, number))
        probes += fresh
        waiting += fresh
        while waiting and hand.now - waiting[0].at >= 40 * MILLISECOND:
            answered(hand, waiting.pop(0))
        hand.now += 1 * MILLISECOND
    gaps = [b.at - a.at for a, b in pairwise(probes)]
    assert all(gap >= 40 * MILLISECOND for gap in gaps[5:])
    assert len(probes) >= 8


def test_what_the_probes_find_carries_the_answers() -> None:
    hand = HandPeer(SMALL)
    known: dict[int, list[int]] = {0: [], 1: []}
    for number in range(1000):
        for probe in _learning(_request(hand, number)):
            hand.now += RTT
            answered(hand, probe)
            known[probe.port] = [probe.ev, *(ev for ev in known[probe.port] if ev != probe.ev)]
        hand.now += 1 * MILLISECOND
    hand.now += 5 * MILLISECOND
    sacks = _answers(hand)
    for plane in (0, 1):
        assert {packet.ev for packet in sacks if packet.port == plane} == set(known[plane][:2])


def test_who_is_acknowledged_sends_no_probes() -> None:
    """Learned from data SACKs, or, when only receiving, from EV probes."""
    hand = HandPeer(SMALL)
    sent: list[Sent] = []
    for number in range(300):
        sent += _request(hand, number)
        packet = _write(hand)
        _acknowledged(hand, packet)
        hand.now += 1 * MILLISECOND
    assert _learning(sent) == []


def test_a_short_transfer_needs_no_probe() -> None:
    """Within the first 10 ms our own data may teach us yet."""
    hand = HandPeer(SMALL)
    sent: list[Sent] = []
    for number in range(9):
        sent += _request(hand, number)
        hand.now += 1 * MILLISECOND
    assert _learning(sent) == []


def test_an_ev_whose_probe_failed_is_left() -> None:
    """An EV on which a probe was lost since is not good."""
    hand = HandPeer(SMALL, planes=1, spines=2, endpoint=EndpointConfig(seed=3))
    good, dead = (path.ev for path in hand.profile)
    (node,) = hand.endpoint.peer_nodes.values()
    for number in range(2):
        node.reverse.confirm(number, hand.now)
    hand.now += 10 * MILLISECOND
    assert {packet.ev for packet in _answers(hand, 40)} == {good, dead}
    for number in range(400):
        for probe in _learning(_request(hand, number)):
            if probe.ev == good:
                answered(hand, probe)
        hand.now += 1 * MILLISECOND
        hand.endpoint.on_timer(hand.now)
    assert {packet.ev for packet in _answers(hand, 40)} == {good}


def test_planes_that_are_down_are_not_probed() -> None:
    hand = HandPeer(SMALL)
    hand.endpoint.set_port(0, False, hand.now)
    hand.transmitted()
    probes = []
    for number in range(300):
        probes += _learning(hand.exchange(hand.request(number, b"x", va=REGION_VA, plane=1), port=1))
        hand.now += 1 * MILLISECOND
    assert len(probes) > 20
    assert {packet.port for packet in probes} == {1}
