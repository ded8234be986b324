# SPDX-License-Identifier: BSD-2-Clause
"""Without a tracer the endpoint holds None wherever it would ask for one; with one it does nothing differently."""

from __future__ import annotations

import gc

from hand_peer import HandPeer
from trace_recorder import traced

from mrc.endpoint.config import QpConfig
from mrc.endpoint.tracing import EndpointTrace, QpTrace

CONFIG = QpConfig(path_mtu=256)


def _reached(from_here: object) -> list[object]:
    """Every object of the endpoint's that can be reached from this one."""
    seen: dict[int, object] = {}
    waiting = [from_here]
    while waiting:
        at = waiting.pop()
        if id(at) in seen or isinstance(at, type) or type(at).__module__.partition(".")[0] not in ("mrc", "builtins"):
            continue
        if type(at).__module__ == "builtins" and not isinstance(at, (dict, list, tuple, set)):
            continue
        seen[id(at)] = at
        waiting += gc.get_referents(at)
    return [each for each in seen.values() if type(each).__module__.startswith("mrc.endpoint")]


def _holders(hand: HandPeer) -> dict[str, object]:
    """By class, what each part of the endpoint that has a place for a trace holds there."""
    reached = [hand.endpoint, hand.qp, *_reached(hand.endpoint), *_reached(hand.qp)]
    return {type(each).__name__: getattr(each, "_trace") for each in reached if hasattr(each, "_trace")}  # noqa: B009


def test_without_a_tracer_every_part_holds_none() -> None:
    hand = HandPeer(CONFIG)
    holders = _holders(hand)
    assert holders.keys() >= {"Endpoint", "QueuePair", "Feedback", "Responder", "PathSet", "Acknowledgements"}
    assert set(holders.values()) == {None}
    assert hand.endpoint.listeners == []
    # A completion goes straight to whoever wants it.
    assert hand.qp._complete == hand.endpoint.completions.append  # type: ignore[comparison-overlap]


def test_with_a_tracer_every_part_has_it() -> None:
    """So that the test above would see a part that has one."""
    hand, _ = traced(CONFIG)
    holders = _holders(hand)
    endpoint = holders.pop("Endpoint")
    assert isinstance(endpoint, EndpointTrace)
    assert len(holders) >= 9
    assert {type(each) for each in holders.values()} == {QpTrace}
