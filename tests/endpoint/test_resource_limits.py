"""Which packets there is room for, one after the other, against plain sets (behaviour.md, Responder)."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from mrc.endpoint.config import ResponderConfig
from mrc.endpoint.nacked import NackReason
from mrc.endpoint.received import ReceivedPsns
from mrc.endpoint.resource_limits import ResourceLimits

FIRST = 1000
limits = st.none() | st.integers(0, 6)
packets = st.lists(st.tuples(st.integers(0, 9), st.booleans()), min_size=1, max_size=10)


def _by_definition(
    config: ResponderConfig, before: list[tuple[int, bool]], packets: list[tuple[int, bool]]
) -> dict[int, NackReason]:
    """Offsets count from FIRST, which is epsn at the start; `before` has arrived, lying above a hole."""
    arrived = {offset for offset, _ in before}
    immediates = {offset for offset, immediate in before if immediate}
    refused = {}
    for position, (offset, immediate) in enumerate(packets):
        epsn = min(set(range(100)) - arrived)
        if offset in arrived:
            continue
        held = sum(other > epsn for other in arrived)
        stashed = sum(other > epsn for other in immediates)
        if offset > epsn:
            if config.max_span is not None and offset - (epsn - 1) > config.max_span:
                refused[position] = NackReason.NO_BITMAP
            elif config.max_held_packets is not None and held >= config.max_held_packets:
                refused[position] = NackReason.NO_PKT_BUFFER
            elif immediate and config.max_stashed_immediates is not None and stashed >= config.max_stashed_immediates:
                refused[position] = NackReason.NO_RESOURCE
        if position not in refused:
            arrived.add(offset)
            if immediate:
                immediates.add(offset)
    return refused


@given(limits, limits, limits, st.lists(st.tuples(st.integers(1, 9), st.booleans()), max_size=5), packets)
@example(None, 2, None, [(1, False), (2, False)], [(0, False), (5, False), (6, False), (7, False)])
@example(None, None, 1, [(1, True)], [(0, False), (5, True), (6, True)])
@example(None, None, 1, [(1, True), (2, True)], [(0, True), (5, True), (6, True)])
@example(4, None, None, [], [(3, False), (4, False), (0, False), (4, False)])
@example(None, 0, 0, [], [(0, True), (1, True)])
@example(None, 1, None, [(1, False), (3, False)], [(0, False), (4, False), (2, False), (6, False)])
def test_each_packet_finds_the_room_that_those_before_it_left(
    span: int | None,
    held: int | None,
    stashed: int | None,
    before: list[tuple[int, bool]],
    packets: list[tuple[int, bool]],
) -> None:
    config = ResponderConfig(max_span=span, max_held_packets=held, max_stashed_immediates=stashed)
    known = dict(before)
    received = ReceivedPsns(64, FIRST)
    if known:
        received.add(FIRST + np.array(list(known), np.int64), np.zeros(len(known), np.bool_))
    stash = sorted(FIRST + offset for offset, immediate in known.items() if immediate)
    offsets = np.array([offset for offset, _ in packets], np.int64)
    fresh = np.flatnonzero([offset not in known for offset in offsets.tolist()])
    found = {}
    if len(fresh):
        immediate = np.array([with_immediate for _, with_immediate in packets], np.bool_)
        found = ResourceLimits(config).refusals(FIRST + offsets, fresh, immediate, received, stash)
    assert found == _by_definition(config, list(known.items()), packets)


def test_without_any_limit_nobody_needs_to_ask() -> None:
    assert ResourceLimits(ResponderConfig()).none
    for limit in ("max_span", "max_held_packets", "max_stashed_immediates"):
        assert not ResourceLimits(ResponderConfig(**{limit: 0})).none
