# SPDX-License-Identifier: BSD-2-Clause
"""When a requestor may send, what its timers do, and what draws on its budget (behaviour.md, Requestor and Paths)."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
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
from recording_window import RecordingWindow, RecordingWindows

from mrc.endpoint.completions import WorkStatus
from mrc.endpoint.config import LossConfig, PathConfig, QpConfig
from mrc.endpoint.paths.path_set import PathSet
from mrc.endpoint.paths.states import EvState
from mrc.endpoint.qp_states import QpState

CONFIG = QpConfig(path_mtu=256, timeout=20)  # a local ACK timeout of 1.07 s, out of the way of other timers
RTT = 100 * MICROSECOND
NO_HOLES = LossConfig(reorder_guard_packets=1000)
# BTH 12, METH 4, TSETH 4, RETH 16, payload 256, ICRC 4, UDP 8, and 40.
PACKET = 344


def _with_window(packets: int) -> tuple[HandPeer, RecordingWindow]:
    """A HandPeer whose QP may have this many packets in flight."""
    windows = RecordingWindows(packets * PACKET)
    return HandPeer(CONFIG, controller=windows), windows.only


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


def test_it_sends_while_inflight_is_below_cwnd() -> None:
    """MRC-SEND-01."""
    hand, _ = _with_window(4)
    hand.post(256 * 20)
    assert numbers(hand, hand.transmitted()) == [0, 1, 2, 3]
    assert hand.transmitted() == []
    assert numbers(hand, hand.exchange(hand.sack(1))) == [4, 5]
    assert numbers(hand, hand.exchange(hand.sack(1, above=[3]))) == [6]


def test_retransmissions_stay_within_cwnd() -> None:
    """Of 5 packets lost 2 may leave, and one more for each acknowledged. MRC-LOSS-12."""
    hand, window = _with_window(40)
    _under_way(hand, 20)
    window.become(2 * PACKET)
    sent = hand.exchange(hand.sack(4, above=range(10, 20), trigger=19))
    assert numbers(hand, sent) == [5, 6]
    assert numbers(hand, hand.exchange(hand.sack(5, above=range(10, 20), trigger=5, rtx=1))) == [7]
    assert numbers(hand, hand.exchange(hand.sack(7, above=range(10, 20), trigger=7, rtx=1))) == [8, 9]


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


def test_a_bitmap_may_begin_below_cack_psn() -> None:
    """wire.md section 6: sack_offset is signed; bits up to cack_psn are old news. MRC-SACK-09."""
    hand = HandPeer(CONFIG)
    _under_way(hand, 20)
    again = hand.exchange(hand.sack(9, above=[7, 9, *range(11, 20)], offset=-4, trigger=19))
    assert numbers(hand, again) == [10]


def test_a_packet_sent_three_times_gives_no_rtt_sample() -> None:
    """MRC-RTT-03."""
    hand = HandPeer(CONFIG)
    _under_way(hand, 20)
    assert numbers(hand, hand.exchange(hand.sack(4, above=range(6, 20), trigger=19))) == [5]
    hand.now += RTT
    _under_way(hand, 10)
    assert numbers(hand, hand.exchange(hand.sack(4, above=range(6, 30), trigger=29))) == [5]
    before = hand.counters["rtt_samples"]
    hand.now += RTT
    hand.receive(hand.sack(29, trigger=5, rtx=1))
    assert hand.counters["rtt_samples"] == before


@pytest.mark.parametrize("spurious", [False, True])
def test_the_reorder_guard_grows_when_a_retransmission_proves_spurious(spurious: bool) -> None:
    """RTT/4 is 25 microseconds, grown at least 50: 40 microseconds tell a loss before, not after. MRC-LOSS-06."""
    hand = HandPeer(CONFIG)
    _under_way(hand, 12)
    assert numbers(hand, hand.exchange(hand.sack(-1, above=range(1, 12), trigger=11))) == [0]
    hand.now += RTT
    # The answer to the retransmission has rtx; without it the original has arrived after all.
    hand.receive(hand.sack(11, trigger=0, rtx=int(not spurious)))
    assert hand.counters.get("spurious_retransmissions", 0) == int(spurious)
    hand.now += 10 * RTT
    _under_way(hand, 10)
    again = data(hand.exchange(hand.sack(11, above=range(13, 17), trigger=16)))
    assert numbers(hand, again) == ([] if spurious else [12])


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


def test_the_receivers_penalty_reaches_the_controller() -> None:
    """rcv_cwnd_pen and restore_cwnd of the SACK. MRC-SACK-27."""
    windows = RecordingWindows(40 * PACKET)
    hand = HandPeer(CONFIG, controller=windows)
    for number, (penalty, restore) in enumerate([(0, 0), (127, 1), (5, 0)]):
        hand.post(256)
        hand.transmitted()
        hand.receive(hand.sack(number, penalty=penalty, restore=restore))
        call = windows.only.of("ack")[-1]
        assert (call.penalty, call.restore) == (penalty, bool(restore))


# ------------------------------------------------------------------ path timers


def _sampled(config: QpConfig, rtt: int) -> HandPeer:
    """One packet acknowledged after `rtt`: srtt is that, rttvar half of it (RFC 6298)."""
    hand = HandPeer(config)
    hand.post(256)
    hand.transmitted()
    hand.now += rtt
    hand.receive(hand.sack(0))
    assert (hand.qp.requestor.rtt.srtt, hand.qp.requestor.rtt.rttvar) == (rtt, rtt // 2)
    hand.run(hand.now + 20 * MILLISECOND)
    return hand


def _sent_again(hand: HandPeer, until: int, number: int = 1) -> list[Sent]:
    """Transmissions of one packet that never arrives, while the peer goes on being heard."""
    sent: list[Sent] = data(hand.transmitted())
    while hand.now < until:
        hand.now += 20 * MICROSECOND
        hand.receive(hand.ack(number - 1))
        sent += data(hand.run(hand.now))
    return [packet for packet in sent if numbers(hand, [packet]) == [number]]


@pytest.mark.parametrize(
    ("rtt", "timer"), [(100 * MICROSECOND, MILLISECOND), (800 * MICROSECOND, 2400 * MICROSECOND)], ids=["least", "srtt"]
)
def test_the_path_timer_is_srtt_and_four_rttvar_but_at_least_1_ms(rtt: int, timer: int) -> None:
    """0.8 + 4 x 0.4 ms are 2.4 ms; 0.1 + 4 x 0.05 ms are too little. A timer condemns its EV as a hole does.

    MRC-LOSS-07, MRC-LOSS-04, MRC-PATH-07.
    """
    hand = _sampled(QpConfig(path_mtu=256, timeout=20, loss=NO_HOLES, paths=PathConfig(ev_min_active=1)), rtt)
    hand.post(256)
    first, again = _sent_again(hand, hand.now + timer + MILLISECOND)[:2]
    assert timer <= again.at - first.at <= timer + 40 * MICROSECOND
    assert hand.counters["losses_by_path_timer"] == 1
    assert hand.qp.paths is not None
    assert hand.qp.paths.state[hand.qp.paths.index(first.ev)] == EvState.ASSUMED_BAD


def test_a_hole_condemns_its_ev() -> None:
    """MRC-PATH-07."""
    hand = HandPeer(QpConfig(path_mtu=256, timeout=20, paths=PathConfig(ev_min_active=1)))
    sent = _under_way(hand, 20)
    hand.receive(hand.sack(4, above=range(6, 20), trigger=19))
    assert hand.qp.paths is not None
    assert hand.qp.paths.state[hand.qp.paths.index(sent[5].ev)] == EvState.ASSUMED_BAD


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


def test_the_path_timer_doubles_for_each_repeat_of_the_same_psn() -> None:
    """From 1 ms on. MRC-LOSS-08."""
    hand = _sampled(QpConfig(path_mtu=256, timeout=20, loss=NO_HOLES), RTT)
    hand.post(256)
    times = [packet.at for packet in _sent_again(hand, hand.now + 35 * MILLISECOND)]
    assert [round((b - a) / MILLISECOND) for a, b in pairwise(times)] == [1, 2, 4, 8, 16]


def test_the_path_timer_doubles_up_to_the_local_ack_timeout() -> None:
    """1.05 ms here, of which the local ACK timer itself soon waits many: doublings alone would leave long gaps.

    MRC-LOSS-08.
    """
    config = QpConfig(path_mtu=256, timeout=10, linear_retries=0, exponential_retries=25, loss=NO_HOLES)
    hand = _sampled(config, RTT)
    hand.post(256)
    times = [packet.at for packet in _sent_again(hand, hand.now + 40 * MILLISECOND)]
    assert max(b - a for a, b in pairwise(times)) <= (1024 << 10) + 40 * MICROSECOND


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


# ------------------------------------------------------------------ retry budget


def test_the_default_local_ack_timeout_is_16_8_ms() -> None:
    """1.024 us x 2^14. MRC-RETRY-06."""
    hand = HandPeer(QpConfig(path_mtu=256))
    hand.post(256)
    first, again = data(hand.run(hand.now + 30 * MILLISECOND))
    assert again.at - first.at == 16_777_216


def test_holes_do_not_draw_on_the_budget() -> None:
    """Lost ten times, with a budget of one. MRC-RETRY-04."""
    hand = HandPeer(QpConfig(path_mtu=256, timeout=20, linear_retries=1, exponential_retries=0))
    _under_way(hand, 20)
    sent = 20
    for _ in range(10):
        assert numbers(hand, hand.exchange(hand.sack(4, above=range(6, sent), trigger=sent - 1))) == [5]
        hand.now += RTT
        _under_way(hand, 4)
        sent += 4
    assert hand.qp.state == QpState.RTS
    hand.receive(hand.ack(sent - 1))
    assert {status for _, status in hand.completed()} == {WorkStatus.SUCCESS}


def test_path_timers_do_not_draw_on_the_budget() -> None:
    """MRC-RETRY-04."""
    hand = _sampled(QpConfig(path_mtu=256, timeout=20, linear_retries=1, exponential_retries=0, loss=NO_HOLES), RTT)
    hand.post(256)
    assert len(_sent_again(hand, hand.now + 40 * MILLISECOND)) >= 5
    assert hand.counters["losses_by_path_timer"] >= 4
    assert hand.qp.state == QpState.RTS


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
