# SPDX-License-Identifier: BSD-2-Clause
"""What the responder remembers of PSNs, against plain sets of numbers, while its window grows."""

from __future__ import annotations

from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrc.core import PACKAGE
from mrc.endpoint.parts.deadlines import FOREVER
from mrc.endpoint.responder.received import ReceivedPsns


class Plain:
    """ReceivedPsns by definition: every PSN that arrived, and which of them end a message."""

    def __init__(self, first_psn: int) -> None:
        self.first, self.arrived, self.ends = first_psn, set[int](), set[int]()

    @property
    def epsn(self) -> int:
        psn = self.first
        while psn in self.arrived:
            psn += 1
        return psn

    @property
    def highest(self) -> int:
        return max(self.arrived, default=self.first - 1)

    @property
    def held(self) -> int:
        return sum(psn > self.epsn for psn in self.arrived)

    @property
    def completed(self) -> int:
        return sum(psn < self.epsn for psn in self.ends)

    def bitmap(self, base: int) -> int:
        return sum(1 << bit for bit in range(64) if base + bit in self.arrived)


batches = st.lists(
    st.tuples(st.lists(st.tuples(st.integers(0, 70), st.booleans()), max_size=20), st.sampled_from([0, 0, 0, 1, 2, 5])),
    max_size=12,
)


@given(batches, st.sampled_from([0, 1, 255, 256, (1 << 24) - 20, (1 << 40) + 3]))
def test_it_remembers_what_sets_remember(story: list[tuple[list[tuple[int, bool]], int]], first_psn: int) -> None:
    """Offsets count from epsn; `growth` doubles the span so many times before the batch."""
    span = 128
    received, plain = ReceivedPsns(span, first_psn), Plain(first_psn)
    for packets, growth in story:
        span <<= growth if span < 4096 else 0
        received.make_room(span)
        fresh = {plain.epsn + offset: end for offset, end in packets if plain.epsn + offset not in plain.arrived}
        before = plain.epsn
        plain.arrived |= set(fresh)
        plain.ends |= {psn for psn, end in fresh.items() if end}
        if fresh:
            moved = False
            for psn, end in fresh.items():
                edge = received.edge_after(psn)
                moved |= received.add(psn, end, FOREVER)
                assert received.epsn == edge
            assert moved == (plain.epsn > before)
        found = (received.epsn, received.cack_psn, received.highest, received.held, received.completed)
        assert found == (plain.epsn, plain.epsn - 1, plain.highest, plain.held, plain.completed)
        for base in (plain.epsn, plain.epsn + 7, max(plain.highest - 63, plain.epsn)):
            assert received.bitmap(base) == plain.bitmap(base)
        for psn in range(plain.epsn, plain.epsn + 100):
            assert received.has(psn) == (psn in plain.arrived)


def test_a_run_from_epsn_on_holds_nothing() -> None:
    received = ReceivedPsns(128, 1000)
    for psn, ends in zip(range(1000, 1008), (0, 1, 0, 0, 1, 0, 0, 1), strict=True):
        assert received.add(psn, bool(ends), FOREVER)
    found = (received.epsn, received.cack_psn, received.highest, received.held, received.completed)
    assert found == (1008, 1007, 1007, 0, 3)
    assert (received.bitmap(1008), received.bitmap(1009)) == (0, 0)


def test_a_hole_that_closes_before_very_many_packets() -> None:
    """1,000 PSNs above a hole, every third ends its message."""
    received = ReceivedPsns(1024, 1)
    for psn in range(2, 1001):
        assert not received.add(psn, psn % 3 == 0, FOREVER)
    assert (received.epsn, received.held, received.highest, received.completed) == (1, 999, 1000, 0)
    assert received.edge_after(1) == 1001
    assert received.add(1, True, FOREVER)
    assert (received.epsn, received.held, received.highest, received.completed) == (1001, 0, 1000, 1 + 333)
    assert not any(received.has(psn) for psn in range(1001, 2025))


@pytest.mark.parametrize("span", [100, 128, 256, 257, 2000])
def test_the_window_may_be_as_wide_as_its_span(span: int) -> None:
    received = ReceivedPsns(1, 0)
    received.make_room(span)
    for psn in range(1, span):
        received.add(psn, False, FOREVER)
    assert received.held == span - 1
    assert [received.has(psn) for psn in range(span)] == [False] + [True] * (span - 1)
    received.make_room(1)
    received.make_room(4 * span)
    assert [received.has(psn) for psn in range(4 * span)] == [False] + [True] * (span - 1) + [False] * (3 * span)


def test_what_an_opcode_says_of_its_place_in_a_message() -> None:
    """wire.md sections 2 and 4; in a copy imported afresh, since the tables are worked out on import."""
    source = PACKAGE / "endpoint" / "responder" / "request_checks.py"
    fresh = SourceFileLoader("afresh_request_checks", str(source))
    module = module_from_spec(spec_from_loader(fresh.name, fresh))  # type: ignore[arg-type]
    fresh.exec_module(module)
    first, _, last, last_immediate, only, only_immediate = range(0xC6, 0xCC)
    tables = {
        "_STARTS": {first, only, only_immediate},
        "_ENDS": {last, last_immediate, only, only_immediate},
        "IMMEDIATE": {last_immediate, only_immediate},
    }
    for name, opcodes in tables.items():
        table = getattr(module, name)
        assert len(table) == 256
        assert {value for value in range(0xC0, 256) if table[value]} == opcodes, name
    unknown = [0x15, 0x18, 0x60, 0x80, 0xFF]
    assert not any(getattr(module, name)[value] for name in tables for value in unknown)
