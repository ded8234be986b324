# SPDX-License-Identifier: BSD-2-Clause
"""EVs are picked among ports that have room (behaviour.md, Paths: "whose port is up and has room")."""

from __future__ import annotations

import pytest
from hand_peer import HandPeer, data, numbers

from mrc.endpoint.config import PathConfig, QpConfig

# No EV is given up for losses, so that the port alone decides.
CONFIG = QpConfig(path_mtu=256, paths=PathConfig(ev_min_active=8))


def test_with_every_port_full_nothing_leaves_and_no_psn_is_used_up() -> None:
    """MRC-PATH-28."""
    hand = HandPeer(CONFIG)
    for port in (0, 1):
        hand.endpoint.set_port_room(port, False)
    hand.post(256 * 4)
    assert data(hand.transmitted()) == []
    hand.endpoint.set_port_room(1, True)
    sent = data(hand.transmitted())
    assert numbers(hand, sent) == [0, 1, 2, 3]
    assert {packet.port for packet in sent} == {1}


@pytest.mark.parametrize("full", [0, 1])
def test_a_retransmission_avoids_a_full_port_too(full: int) -> None:
    """All of a window is lost but its last packets, which say so."""
    hand = HandPeer(CONFIG)
    hand.post(256 * 20)
    hand.transmitted()
    hand.now += 100_000
    hand.receive(hand.sack(-1, above=range(1), trigger=0))
    for _ in range(4):
        hand.post(256)
    hand.now += 200_000
    late = numbers(hand, data(hand.transmitted()))
    hand.now += 100_000
    hand.endpoint.set_port_room(full, False)
    again = data(hand.exchange(hand.sack(0, above=late, trigger=late[-1])))
    assert set(range(1, 20)) <= set(numbers(hand, again))
    assert {packet.port for packet in again} == {1 - full}


def test_a_full_port_still_carries_answers() -> None:
    """Control packets do not wait for room: a peer that hears nothing takes its packets for lost."""
    hand = HandPeer(CONFIG)
    for port in (0, 1):
        hand.endpoint.set_port_room(port, False)
    assert hand.exchange(hand.request(0, b"x"))
