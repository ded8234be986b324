# SPDX-License-Identifier: BSD-2-Clause
"""When an endpoint that only receives begins to probe, and how soon a lost EV is left (behaviour.md, Reverse EVs)."""

from __future__ import annotations

from random import Random

import numpy as np
from hand_operations import EV_PROBE, answered, requests
from hand_peer import MILLISECOND, HandPeer, Sent, control_evs, data, paths

from mrc.endpoint.config import PathConfig, PeerNodeConfig, QpConfig
from mrc.endpoint.paths.path_set import PathSet
from mrc.endpoint.paths.reverse import ReverseEvs

SMALL = QpConfig(path_mtu=256, paths=PathConfig(ev_min_active=1))


def _request(hand: HandPeer, number: int) -> list[Sent]:
    return requests(hand.exchange(hand.request(number, b"x")), EV_PROBE)


def _taught(hand: HandPeer) -> None:
    """A write of ours is acknowledged now."""
    hand.post(256)
    (packet,) = data(hand.transmitted())
    hand.receive(hand.sack(hand.posted - 1, ev=packet.ev))


def test_a_probe_follows_ten_milliseconds_after_the_one_before_to_the_nanosecond() -> None:
    """At most every 10 ms."""
    hand = HandPeer(SMALL)
    assert _request(hand, 0) == []
    for number in range(1, 9, 2):
        hand.now += 10 * MILLISECOND - 1
        assert _request(hand, number) == []
        hand.now += 1
        (probe,) = _request(hand, number + 1)
        answered(hand, probe)


def test_probing_begins_ten_milliseconds_after_the_last_acknowledgement_of_our_own_data() -> None:
    """Learned from data SACKs, or, when only receiving, from EV probes."""
    hand = HandPeer(SMALL)
    _request(hand, 0)
    for number in range(1, 8):
        hand.now += 5 * MILLISECOND
        _taught(hand)
        assert _request(hand, number) == []
    last = hand.now
    hand.now = last + 10 * MILLISECOND - 1
    assert _request(hand, 8) == []
    hand.now = last + 10 * MILLISECOND
    assert len(_request(hand, 9)) == 1


def test_each_loss_is_heeded_at_once_by_every_qp_of_a_node() -> None:
    """An EV on which something was lost is not known good, be it the first that was lost or the third."""
    reverse = ReverseEvs(PeerNodeConfig(reverse_evs_per_plane=4), 8)
    numbers = np.arange(8)
    one, other = (
        PathSet(paths(), PathConfig(ev_min_active=1), Random(seed), reverse=reverse, numbers=numbers) for seed in (1, 2)
    )
    for number in numbers:
        reverse.confirm(number, 0)
    good = set(range(8))
    for lost in (1, 6, 3, 4):
        assert set(control_evs(other, 32, 1)) == good
        one.on_loss(lost, lost)
        good.discard(lost)
    assert set(control_evs(other, 32, 1)) == good
