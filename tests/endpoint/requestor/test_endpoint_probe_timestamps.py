# SPDX-License-Identifier: BSD-2-Clause
"""The time a peer held an EV probe, where the 16 bits of a timestamp wrap and where it is nonsense."""

from __future__ import annotations

import pytest
from hand_operations import answered
from hand_peer import MICROSECOND, HandPeer

from mrc.endpoint.config import Capability
from mrc.endpoint.node.operations import EvProbeResult

UNIT = 128


def _result(start: int, held: int, rtt: int) -> EvProbeResult:
    """A probe sent at `start` (ns) and answered after `rtt` ns, held for `held` units of them."""
    hand = HandPeer(capabilities=Capability.SVC_TIME)
    hand.now = start
    (node,) = hand.endpoint.peer_nodes.values()
    results: list[EvProbeResult] = []
    hand.endpoint.probe_ev(node, 0, on_result=results.append)
    (sent,) = hand.transmitted()
    assert sent["erth"]["tx_timestamp"] == start // UNIT % (1 << 16)
    hand.now += rtt
    answered(hand, sent, held=held)
    (result,) = results
    return result


@pytest.mark.parametrize("turns", [0, 1, 2, 3, 1_000_003])
@pytest.mark.parametrize("at", [1, 40_000, 65_500])
def test_held_time_is_told_wherever_the_clock_stands(turns: int, at: int) -> None:
    """wire.md section 4: 16 bits of 128 ns wrap after 8.4 ms; 100 units of a round trip of 50 us."""
    start = (turns * (1 << 16) + at) * UNIT
    result = _result(start, 100, 50 * MICROSECOND)
    assert (result.rtt_ns, result.service_time_taken_off) == (50_000 - 12_800, True)


@pytest.mark.parametrize(("held", "rtt_ns", "taken_off"), [(99, 128, True), (100, 12_800, False), (101, 12_800, False)])
def test_a_peer_cannot_have_held_a_probe_for_its_whole_round_trip(held: int, rtt_ns: int, taken_off: bool) -> None:
    """Of 12.8 us, which are 100 units."""
    result = _result(1_000_000 // UNIT * UNIT, held, 12_800)
    assert (result.rtt_ns, result.service_time_taken_off) == (rtt_ns, taken_off)
