# SPDX-License-Identifier: BSD-2-Clause
"""The time that an endpoint is given never goes back, and no timer is due when it has just run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hand_peer import MILLISECOND, HandPeer

from mrc.endpoint.config import QpConfig
from mrc.endpoint.endpoint import Endpoint
from mrc.endpoint.node.local_ports import PortLimit
from mrc.errors import CallerError, MrcError
from mrc.wire.received_batch import ReceivedBatch
from mrc.wire.transmit_batch import TransmitBatch

NOW = 5 * MILLISECOND
ENTRIES: dict[str, Callable[[Endpoint, int], Any]] = {
    "receive": lambda endpoint, now: endpoint.receive(ReceivedBatch.from_packets([bytes(100)]), now),
    "transmit": lambda endpoint, now: endpoint.transmit(TransmitBatch(4), now),
    "on_timer": lambda endpoint, now: endpoint.on_timer(now),
    "look_after": lambda endpoint, now: endpoint.look_after(now),
    "set_port": lambda endpoint, now: endpoint.set_port(0, False, now),
    "enable_port": lambda endpoint, now: endpoint.enable_port(0, False, now),
    "limit_port": lambda endpoint, now: endpoint.limit_port(0, PortLimit(100, "small"), now),
}


@pytest.mark.parametrize("entry", ENTRIES.values(), ids=ENTRIES.keys())
@pytest.mark.parametrize("by", [1, NOW, 10 * NOW])
def test_an_earlier_time_is_an_error_and_does_nothing(entry: Callable[[Endpoint, int], Any], by: int) -> None:
    endpoint = HandPeer().endpoint
    endpoint.on_timer(NOW)
    before = endpoint.total_counters()
    with pytest.raises(CallerError, match=f"now went back from {NOW} to {NOW - by} ns"):
        entry(endpoint, NOW - by)
    assert endpoint.datapath.now == NOW
    assert endpoint.total_counters() == before
    assert endpoint.port_is_up(0)
    # The same time again is none, and the endpoint goes on.
    entry(endpoint, NOW)
    entry(endpoint, NOW + 1)
    assert endpoint.datapath.now == NOW + 1


@pytest.mark.parametrize("entry", ["receive", "transmit", "on_timer"])
def test_the_datapath_keeps_the_error_for_who_calls_it_without_the_interpreter(entry: str) -> None:
    endpoint = HandPeer().endpoint
    endpoint.on_timer(NOW)
    ENTRIES[entry](endpoint.datapath, NOW - 1)  # type: ignore[arg-type]
    assert endpoint.datapath.now == NOW
    with pytest.raises(CallerError, match="now went back"):
        endpoint.hand_over()


# ------------------------------------------------------------------ pauses


@pytest.mark.parametrize("pause", [0, 1, MILLISECOND, 11 * MILLISECOND, 3_000 * MILLISECOND])
def test_the_timers_of_what_was_acknowledged_are_none(pause: int) -> None:
    """A QP that is used again: what is due lies ahead, however long it was idle."""
    hand = HandPeer(QpConfig(path_mtu=256))
    for turn in range(1, 4):
        hand.post(1000)
        assert len(hand.transmitted()) == 4
        due = hand.endpoint.next_deadline()
        assert due is not None
        assert due > hand.now
        hand.now += 5_000
        hand.receive(hand.sack(4 * turn - 1, trigger=4 * turn - 1))
        assert not hand.qp.requestor.sent.outstanding
        goes_on_at = hand.now + pause
        while (due := hand.endpoint.next_deadline()) is not None and due <= goes_on_at:
            hand.now = due
            hand.endpoint.on_timer(due)
        hand.now = goes_on_at


# ------------------------------------------------------------------ timers


@pytest.mark.parametrize("since", [0, 1, 2, 7, 1000])
def test_a_hastened_tail_is_asked_for_again_later(since: int) -> None:
    """A NACK that comes in at the time of its transmission: no time has passed to double."""
    hand = HandPeer(QpConfig(path_mtu=256))
    hand.post(1000)
    hand.transmitted()
    probes = hand.qp.requestor._probes
    probes.hasten_tail(hand.now, since)
    assert hand.endpoint.next_deadline() is not None
    hand.endpoint.datapath.schedule(hand.qp.datapath.slot)
    for _ in range(100):
        due = hand.endpoint.next_deadline()
        assert due is not None
        hand.now = max(due, hand.now)
        hand.endpoint.on_timer(hand.now)
        again = hand.endpoint.next_deadline()
        assert again is not None
        assert again > hand.now
    assert hand.now > 20 * MILLISECOND


def test_a_timer_that_is_due_again_at_once_is_an_error_and_ends() -> None:
    """As the tail probe was with no interval at all: the timer loop itself does not go on for ever."""
    hand = HandPeer(QpConfig(path_mtu=256))
    hand.post(1000)
    hand.transmitted()
    hand.qp.requestor._probes.arm_tail(hand.now, 0)
    hand.endpoint.datapath.schedule(hand.qp.datapath.slot)
    with pytest.raises(MrcError, match=f"a timer of QP .* is due at {hand.now} ns, when it has just run"):
        hand.endpoint.on_timer(hand.now)
