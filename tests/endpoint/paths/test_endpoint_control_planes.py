# SPDX-License-Identifier: BSD-2-Clause
"""By which plane control packets leave when planes are down, and how long a choice of reverse EVs holds."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hand_operations import PORT_STATUS_UPDATE, request
from hand_peer import MILLISECOND, SACK, HandPeer, control_evs, of, paths

from mrc.endpoint.config import PathConfig, PeerNodeConfig
from mrc.endpoint.paths.path_set import PathSet
from mrc.endpoint.paths.reverse import ReverseEvs


def _ports_of_sacks(hand: HandPeer) -> set[int]:
    return {packet.port for at in range(12) for packet in of(hand.exchange(hand.probe(at)), SACK)}


def test_a_peer_that_says_every_port_is_down_still_gets_its_sacks() -> None:
    """By every port that is up here: one of them may be back there, unannounced."""
    hand = HandPeer(planes=3)
    hand.exchange(request(1, PORT_STATUS_UPDATE, port_status_mask=0))
    assert _ports_of_sacks(hand) == {0, 1, 2}
    hand.endpoint.set_port(1, False, hand.now)
    hand.transmitted()
    assert _ports_of_sacks(hand) == {0, 2}
    hand.exchange(request(2, PORT_STATUS_UPDATE, port_status_mask=0b100))
    assert _ports_of_sacks(hand) == {2}


def test_with_no_port_up_here_control_packets_still_have_an_ev() -> None:
    """Whoever sends drops them there; nothing else is known of these planes."""
    chosen = PathSet(paths(), PathConfig(), Random(1))
    for port in (0, 1):
        chosen.set_port(port, False)
    assert {index // 4 for index in control_evs(chosen, 16, 0)} == {0, 1}


@pytest.mark.parametrize("first", [0, 7 * MILLISECOND])
def test_a_choice_of_reverse_evs_holds_for_five_milliseconds(first: int) -> None:
    """Then those confirmed since take their place (PeerNodeConfig.reverse_refresh_ns)."""
    reverse = ReverseEvs(PeerNodeConfig(), 8)
    chosen = PathSet(paths(), PathConfig(), Random(1), reverse=reverse, numbers=np.arange(8))
    for number in (0, 4):
        reverse.confirm(number, first)
    assert set(control_evs(chosen, 2, first)) == {0, 4}
    for number in (1, 2, 5, 6):
        reverse.confirm(number, first + 1)
    assert set(control_evs(chosen, 2, first + 5 * MILLISECOND - 1)) == {0, 4}
    assert set(control_evs(chosen, 8, first + 5 * MILLISECOND)) == {1, 2, 5, 6}


def test_planes_take_turns_over_many_choices() -> None:
    """More control packets than one choice holds, one by one and many at once."""
    chosen = PathSet(paths(3, 2), PathConfig(), Random(1))
    ports = [int(chosen.port[index]) for count in (1, 100, 63, 1, 1, 200, 7) for index in control_evs(chosen, count, 0)]
    assert ports == [at % 3 for at in range(len(ports))]
