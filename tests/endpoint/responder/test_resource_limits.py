# SPDX-License-Identifier: BSD-2-Clause
"""Which packets there is room for, one after the other, against plain sets (behaviour.md, Responder)."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from mrc.endpoint.config import ResponderConfig
from mrc.endpoint.parts.deadlines import FOREVER
from mrc.endpoint.responder.received import ReceivedPsns
from mrc.endpoint.responder.request_checks import ResourceLimits
from mrc.wire.names import NackReason

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
    stash = {FIRST + offset for offset, immediate in known.items() if immediate}
    for offset in known:
        received.add(FIRST + offset, False, FOREVER)
    found = {}
    of = ResourceLimits(config)
    for position, (offset, immediate) in enumerate(packets):
        psn = FIRST + offset
        if psn < received.epsn or received.has(psn):
            continue
        waiting = sum(other > received.epsn for other in stash)
        lacking = of.lacking(psn - received.epsn, received.held, waiting if immediate else -1)
        if lacking:
            found[position] = NackReason(lacking)
            continue
        received.add(psn, False, FOREVER)
        if immediate:
            stash.add(psn)
    assert found == _by_definition(config, list(known.items()), packets)
