# SPDX-License-Identifier: BSD-2-Clause
"""When a requestor may send, and what its timers and its controller do (behaviour.md, Requestor and Paths)."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hand_peer import (
    MICROSECOND,
    MILLISECOND,
    PROBE,
    SECOND,
    HandPeer,
    Sent,
    chosen_evs,
    data,
    numbers,
    of,
    paths,
    peer_address,
)
from recording_window import RecordingWindows

from mrc.endpoint.completions import WorkStatus
from mrc.endpoint.config import PathConfig, QpConfig
from mrc.endpoint.paths.path_set import PathSet
from mrc.endpoint.paths.states import EvState
from mrc.endpoint.qp_states import QpState

CONFIG = QpConfig(path_mtu=256, timeout=20)  # a local ACK timeout of 1.07 s, out of the way of other timers
RTT = 100 * MICROSECOND
# BTH 12, METH 4, TSETH 4, RETH 16, payload 256, ICRC 4, UDP 8, and 40.
PACKET = 344


def _under_way(hand: HandPeer, count: int) -> list[Sent]:
    """`count` packets 10 microseconds apart; the clock stands one RTT after the last was sent."""
    sent: list[Sent] = []
    for _ in range(count):
        hand.post(256)
        sent += data(hand.transmitted())
        hand.now += 10 * MICROSECOND
    hand.now += RTT - 10 * MICROSECOND
    return sent


# ------------------------------------------------------------------ when it may send


def test_it_sends_only_while_a_path_is_available() -> None:
    """MRC-SEND-03."""
    hand = HandPeer(CONFIG)
    for port in (0, 1):
        hand.endpoint.set_port(port, False, hand.now)
    hand.post(256 * 3)
    assert data(hand.transmitted()) == []
    hand.endpoint.set_port(1, True, hand.now)
    assert numbers(hand, hand.transmitted()) == [0, 1, 2]


def test_with_no_usable_ev_probes_run_and_the_budget_decides() -> None:
    """Sending stops, for retransmissions too; then "retry counter exceeded". MRC-PATH-16, MRC-SEND-03."""
    hand = HandPeer(QpConfig(path_mtu=256, timeout=10, linear_retries=2, exponential_retries=2))
    hand.post(256)
    assert numbers(hand, hand.transmitted()) == [0]
    assert hand.qp.paths is not None
    for port in (0, 1):
        hand.qp.paths.set_port(port, False)
    hand.post(256)
    sent = hand.run(hand.now + SECOND)
    assert data(sent) == []
    assert of(sent, PROBE)
    assert hand.qp.state == QpState.ERROR
    assert hand.completed() == [(0, WorkStatus.RETRY_EXCEEDED), (1, WorkStatus.FLUSHED)]


# ------------------------------------------------------------------ acknowledgements


def test_a_sequence_error_is_a_nak_and_completes_nothing() -> None:
    """wire.md section 5: 0x60 is a NAK like the others. MRC-ACK-03."""
    hand = HandPeer(CONFIG)
    hand.post(256)
    hand.transmitted()
    hand.receive(hand.ack(0, syndrome=0x60))
    assert (0, WorkStatus.SUCCESS) not in hand.completed()


# ------------------------------------------------------------------ what its controller is told


def test_qps_to_one_destination_share_a_controller_and_those_to_another_do_not() -> None:
    """Four packets in flight for both QPs together; the third QP has four of its own. MRC-CC-02."""
    windows = RecordingWindows(4 * PACKET)
    hand = HandPeer(CONFIG, controller=windows)
    sharing, first = hand.connect(CONFIG, qpn=0x77), hand.qp
    elsewhere = hand.connect(CONFIG, qpn=0x78, sources={plane: peer_address(plane) + 1 for plane in range(2)})
    assert len(windows.made) == 2
    counts = {first.qpn: 0, sharing.qpn: 0, elsewhere.qpn: 0}
    for qp, packets in ((first, 3), (sharing, 3), (elsewhere, 9)):
        hand.qp = qp
        hand.post(256 * packets)
        counts[qp.qpn] = len(data(hand.transmitted()))
    assert list(counts.values()) == [3, 1, 4]
    hand.qp = first
    hand.receive(hand.sack(1))
    assert len(data(hand.transmitted())) == 2


# ------------------------------------------------------------------ path timers


def test_the_path_timer_is_10_ms_before_the_first_sample() -> None:
    """A bad EV's first probe comes one path timer after it went bad; a SACK with rtx of one sent once is no sample.

    MRC-LOSS-07, MRC-PATH-18.
    """
    hand = HandPeer(QpConfig(path_mtu=256, timeout=20, paths=PathConfig(ev_min_active=1)))
    hand.post(256)
    (packet,) = data(hand.transmitted())
    hand.now += RTT
    hand.receive(hand.sack(0, rtx=1, ev=packet.ev, m=2))
    assert hand.qp.requestor.rtt.srtt == 0
    condemned_at = hand.now
    (probe,) = of(hand.run(hand.now + SECOND, stop_at_first=True), PROBE)
    assert probe.ev == packet.ev
    assert probe.at - condemned_at == 10 * MILLISECOND


# ------------------------------------------------------------------ one event


def test_what_was_in_flight_when_an_ev_went_down_does_not_condemn_it_again() -> None:
    """Two packets of one EV are lost; probes bring it back before the second loss is found. MRC-PATH-17."""
    hand = HandPeer(QpConfig(path_mtu=256, timeout=20, paths=PathConfig(ev_min_active=1)))
    paths_of = hand.qp.paths
    assert paths_of is not None
    evs = [packet.ev for packet in _under_way(hand, 30)]
    # Each so long before what is acknowledged above it that the reorder guard in time is over.
    one, two = next((a, b) for a in range(1, 12) for b in range(a + 9, 21) if evs[a] == evs[b])
    index = paths_of.index(evs[one])
    above = range(one + 1, two)
    assert numbers(hand, hand.exchange(hand.sack(one - 1, above=above, trigger=two - 1))) == [one]
    assert paths_of.state[index] == EvState.ASSUMED_BAD
    for _ in range(3):
        probe = next(
            packet
            for _ in range(10)
            for packet in of(hand.run(hand.now + 20 * MILLISECOND, stop_at_first=True), PROBE)
            if packet.ev == evs[one]
        )
        hand.now += RTT
        hand.receive(hand.sack(one - 1, above=above, probe_id=probe["peth"]["probe_id"]))
    assert paths_of.state[index] == EvState.GOOD
    hand.transmitted()
    again = hand.exchange(hand.sack(two - 1, above=range(two + 1, 30), trigger=29))
    assert two in numbers(hand, again)
    assert (paths_of.state[index], paths_of.lost[index]) == (EvState.GOOD, 2)


# ------------------------------------------------------------------ profiles


@pytest.mark.parametrize(("planes", "spines", "active"), [(2, 8, 8), (4, 64, 100)])
def test_the_active_set_is_a_random_subset_equal_for_each_plane(planes: int, spines: int, active: int) -> None:
    """The second is a profile of hardware's size: 256 EVs, about 100 active. MRC-PATH-01, MRC-PATH-02."""
    chosen: list[set[int]] = []
    for seed in (1, 2):
        config = PathConfig(active_count=active, ev_min_active=1)
        rotation = PathSet(paths(planes, spines), config, Random(seed))
        used = set(chosen_evs(rotation, 20 * active))
        assert Counter(index // spines for index in used) == dict.fromkeys(range(planes), active // planes)
        chosen.append(used)
    assert chosen[0] != chosen[1]
