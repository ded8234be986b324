# SPDX-License-Identifier: BSD-2-Clause
"""EVs by index, by value and by plane (mrc.endpoint.paths.ev_table)."""

from __future__ import annotations

from dataclasses import replace

from hand_peer import paths
from hypothesis import given
from hypothesis import strategies as st

from mrc.endpoint.paths.ev_table import INDEX, EvTable
from mrc.endpoint.paths.states import EvState

PATH = paths(1, 1)[0]
evs = st.integers(0, (1 << 32) - 1)


def _index(table: EvTable, ev: int) -> int:
    row = table.by_ev.find(ev)
    return -1 if row < 0 else table.by_ev.cell(row + INDEX)


@given(st.lists(evs, unique=True, max_size=300), st.lists(evs, unique=True, max_size=50), st.lists(evs, max_size=50))
def test_each_ev_has_its_index_and_no_other_has_one(first: list[int], then: list[int], others: list[int]) -> None:
    table = EvTable()
    known: list[int] = []
    for some in (first, [ev for ev in then if ev not in first]):
        if some:
            table.add([replace(PATH, ev=ev) for ev in some], range(len(some)))
            known += some
    if not known:
        return
    assert [_index(table, ev) for ev in known] == list(range(len(known)))
    assert all(_index(table, ev) == -1 for ev in others if ev not in known)


def test_planes_are_the_evs_of_a_port_by_rising_port() -> None:
    table = EvTable()
    table.add([replace(PATH, ev=ev, port=port) for ev, port in ((10, 7), (11, 3), (12, 7), (13, 5))], (4, 5, 6, 7))
    assert table.current() == []
    table.state[0] = EvState.GOOD
    table.state[1] = EvState.SKIP
    table.arrange([0, 1, 2])
    assert table.current() == [0, 1, 2]
    assert table.ports() == [3, 7]
    assert [table.plane_with(port) for port in (3, 5, 7)] == [0, -1, 1]
    assert [table.members_of(plane) for plane in (0, 1)] == [[1], [0, 2]]
    assert [table.plane_of[index] for index in range(4)] == [1, 0, 1, -1]
    assert [table.usable[plane] for plane in (0, 1)] == [1, 1]
    assert [table.number[index] for index in range(4)] == [4, 5, 6, 7]
    assert not table.all_denied()
    table.arrange([2, 3])
    assert table.all_denied()
