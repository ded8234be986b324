# SPDX-License-Identifier: BSD-2-Clause
"""Room on one port of many (behaviour.md, Paths: "among GOOD EVs whose port is up and has room")."""

from __future__ import annotations

from random import Random

import pytest
from hand_peer import chosen_evs, paths

from mrc.endpoint.config import PathConfig
from mrc.endpoint.paths.path_set import PathSet
from mrc.endpoint.paths.port_set import PortSet

MANY = 16


@pytest.mark.parametrize("seed", range(4))
def test_of_the_evs_with_room_any_may_be_chosen_but_none_of_a_port_that_is_down(seed: int) -> None:
    """Two ports have room, one of them is down; the other has four EVs."""
    full = PortSet(set(range(MANY)) - {3, 9})
    chosen = PathSet(paths(MANY, 4), PathConfig(ev_min_active=1), Random(seed), full_ports=full)
    chosen.set_port(3, False)
    assert chosen.usable()
    assert set(chosen_evs(chosen, 400)) == {9 * 4 + spine for spine in range(4)}


def test_where_no_port_has_room_nothing_is_chosen() -> None:
    """MRC-PATH-28."""
    full = PortSet(range(MANY))
    chosen = PathSet(paths(MANY, 1), PathConfig(), Random(1), full_ports=full)
    assert not chosen.usable()
    assert chosen_evs(chosen, 10) == []
    assert not chosen.packets.any()
    full.discard(7)
    assert set(chosen_evs(chosen, 10)) == {7}
