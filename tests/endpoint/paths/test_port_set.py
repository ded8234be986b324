# SPDX-License-Identifier: BSD-2-Clause
"""Which ports have no room, however many there are."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mrc.endpoint.paths.port_set import PortSet


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 40)), max_size=200))
def test_it_is_a_set_of_port_numbers(steps: list[tuple[bool, int]]) -> None:
    full, plain = PortSet(), set[int]()
    for fills_up, port in steps:
        (full.add if fills_up else full.discard)(port)
        (plain.add if fills_up else plain.discard)(port)
        assert full.count == len(plain)
        assert {each for each in range(41) if each in full} == plain


def test_it_holds_as_many_ports_as_there_are() -> None:
    full = PortSet(range(50))
    full.add(49)
    assert full.count == 50
    assert all(port in full for port in range(50))
    assert 50 not in full
