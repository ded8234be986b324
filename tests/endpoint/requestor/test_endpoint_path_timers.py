# SPDX-License-Identifier: BSD-2-Clause
"""Path timers of several packets, after silences, and the timers beside them (behaviour.md, Loss).

"Path timer (C): srtt + 4 rttvar, at least 1 ms, 10 ms before the first sample, doubling for each repeat of the same
PSN, at most the local ACK timeout." With a first round trip of 100 us that is 1 ms; of 1 ms, 3 ms (rttvar begins at
half).
"""

from __future__ import annotations

import pytest
from hand_peer import MICROSECOND, MILLISECOND, PROBE, HandPeer, Sent, data, numbers, of
from nacking import send

from mrc.endpoint.config import LossConfig, PathConfig, QpConfig
from mrc.endpoint.qp_states import QpState

# Losses are not found by holes, and a local ACK timeout of 1.07 s is out of the way.
NO_HOLES = QpConfig(path_mtu=256, timeout=20, loss=LossConfig(reorder_guard_packets=1000))


def _trained(rtt: int, config: QpConfig = NO_HOLES) -> HandPeer:
    hand = HandPeer(config)
    send(hand, 1)
    hand.now += rtt
    hand.receive(hand.sack(0))
    hand.completed()
    return hand


def _heard(hand: HandPeer, until: int, every: int = 50 * MICROSECOND, cack: int = 0) -> list[tuple[int, int]]:
    """The peer says again and again what it has, up to `until`. (Packet, when it left) of all data sent meanwhile."""
    sent: list[Sent] = []
    while hand.now < until:
        step = min(hand.now + every, until)
        sent += data(hand.run(step))
        hand.receive(hand.ack(cack))
        sent += data(hand.transmitted())
    return [(numbers(hand, [packet])[0], packet.at) for packet in sent]


@pytest.mark.parametrize("silence", [5 * MILLISECOND, 20 * MILLISECOND])
def test_after_a_silence_all_path_timers_start_afresh(silence: int) -> None:
    """LossDetector: "After a silence all path timers start afresh: what was delayed by a stalled process or machine is
    not lost." While nothing at all is heard, "it waits, probes ask, and the local ACK timeout decides"."""
    hand = _trained(100 * MICROSECOND)
    started = hand.now
    send(hand, 2)
    sent = hand.run(started + silence)
    assert data(sent) == []
    assert of(sent, PROBE)
    hand.receive(hand.ack(0))
    resumed = hand.now
    assert _heard(hand, resumed + MILLISECOND - 1) == []
    assert _heard(hand, resumed + MILLISECOND) == [(1, resumed + MILLISECOND), (2, resumed + MILLISECOND)]


@pytest.mark.parametrize(("quiet", "again_at"), [(100, 1000), (101, 1101)])
def test_a_silence_is_longer_than_a_round_trip(quiet: int, again_at: int) -> None:
    """The peer is last heard one round trip before the timer runs out (or a microsecond more), and heard at that very
    time: only what is longer than a round trip begins all timers afresh. In microseconds after the packet left."""
    hand = _trained(100 * MICROSECOND)
    started = hand.now
    send(hand, 1)
    _heard(hand, started + (1000 - quiet) * MICROSECOND)
    hand.now = started + MILLISECOND
    hand.receive(hand.ack(0))
    sent = data(hand.run(hand.now))
    if quiet > 100:
        # Only heard again now: its second timer begins here.
        assert sent == []
        assert _heard(hand, started + 3 * MILLISECOND)[0] == (1, started + 2 * MILLISECOND)
    else:
        assert [(numbers(hand, [packet])[0], packet.at) for packet in sent] == [(1, started + again_at * MICROSECOND)]


def test_the_least_path_timer_doubles_too() -> None:
    """behaviour.md: "doubling for each repeat of the same PSN". Packet 2, sent for the first time later, is new."""
    rtt, timer = MILLISECOND, 5 * MILLISECOND
    loss = LossConfig(reorder_guard_packets=1000, path_timer_min_ns=timer)
    hand = _trained(rtt, QpConfig(path_mtu=256, timeout=20, loss=loss))
    started = hand.now
    send(hand, 1)
    again = _heard(hand, started + 7 * timer, every=rtt // 2)
    assert again == [(1, started + timer), (1, started + 3 * timer), (1, started + 7 * timer)]
    later = hand.now
    send(hand, 1)
    assert _heard(hand, later + timer, every=rtt // 2) == [(2, later + timer)]


@pytest.mark.parametrize(("timeout", "timer"), [(12, 1024 << 12), (13, 1024 << 13), (14, 10 * MILLISECOND)])
def test_before_the_first_sample_the_timer_is_10_ms_or_the_local_ack_timeout(timeout: int, timer: int) -> None:
    """behaviour.md: "10 ms before the first sample ... at most the local ACK timeout": 4.2, 8.4 and 16.8 ms.

    Packet 0 is watched by the local ACK timeout, which retries for ever; packet 1 by its path timer alone.
    """
    loss = LossConfig(reorder_guard_packets=1000)
    hand = HandPeer(QpConfig(path_mtu=256, timeout=timeout, exponential_retries=25, loss=loss))
    started = hand.now
    send(hand, 2)
    again = _heard(hand, started + timer, cack=-1)
    assert (1, started + timer) in again
    assert min(at for _, at in again) == started + timer


def test_the_tail_probe_waits_for_the_last_transmission() -> None:
    """behaviour.md: "one srtt + 4 rttvar after the last transmission", and then at twice the distance."""
    hand = _trained(100 * MICROSECOND)
    send(hand, 1)
    hand.run(hand.now + 250 * MICROSECOND)
    send(hand, 1)
    last = hand.now
    probes = of(hand.run(last + 2100 * MICROSECOND), PROBE)
    assert [(probe.at - last) // MICROSECOND for probe in probes] == [300, 900, 2100]


def test_probes_are_at_most_one_local_ack_timeout_apart() -> None:
    """Probes: "again at twice the distance while it is not answered, up to the local ACK timeout": 4.2 ms here.

    Without linear retries the packet is sent again after 1, 3, 7 and 15 of those: eight of them lie before the last.
    No EV goes bad, so that none is probed for its own sake.
    """
    local = 1024 << 12
    all_stay = PathConfig(ev_min_active=8)
    config = QpConfig(path_mtu=256, timeout=12, linear_retries=0, exponential_retries=25, paths=all_stay)
    hand = _trained(MILLISECOND, config)
    started = hand.now
    send(hand, 1)
    sent = [packet for packet in hand.run(started + 15 * local) if packet.at >= started + 7 * local]
    assert [packet.at - started for packet in data(sent)] == [7 * local, 15 * local]
    first = 7 * local + 3 * MILLISECOND
    assert [packet.at - started for packet in of(sent, PROBE)] == [first + at * local for at in range(8)]
    assert hand.qp.state == QpState.RTS


def test_an_answered_probe_is_not_followed_by_another_while_nothing_is_missing() -> None:
    hand = _trained(100 * MICROSECOND)
    send(hand, 1)
    (probe,) = of(hand.run(hand.now + MILLISECOND, stop_at_first=True), PROBE)
    hand.receive(hand.sack(1, probe_id=probe["peth"]["probe_id"]))
    assert hand.run(hand.now + 1000 * MILLISECOND) == []
    assert hand.endpoint.next_deadline() is None


@pytest.mark.parametrize("before", [0, 8, 9, 16])
def test_timers_find_each_loss_once_however_much_went_before(before: int) -> None:
    """Records of what was sent are kept in rings: with a window of 128 PSNs they come round after some 1,000 packets.

    Of the last three packets, 100 us apart, the middle one is acknowledged; the others are sent again 1 ms after they
    left, once each.
    """
    hand = _trained(100 * MICROSECOND, QpConfig(path_mtu=256, mpr=1, timeout=20))
    for _ in range(before):
        send(hand, 128)
        hand.now += 100 * MICROSECOND
        hand.receive(hand.ack(hand.qp.requestor.sent.next_psn - hand.qp.first_psn - 1))
    top = 128 * before
    left = []
    for _ in range(3):
        send(hand, 1)
        left.append(hand.now)
        _heard(hand, hand.now + 100 * MICROSECOND, cack=top)
    hand.receive(hand.sack(top, above=[top + 2], trigger=top + 2, rtx=1))
    again = _heard(hand, left[2] + 1200 * MICROSECOND, cack=top)
    assert again == [(top + 1, left[0] + MILLISECOND), (top + 3, left[2] + MILLISECOND)]
    assert hand.counters["losses_by_path_timer"] == 2


def test_round_trips_longer_than_the_local_ack_timeout_draw_no_retries() -> None:
    """A local ACK timeout of 4.2 ms and round trips of 20 ms: nothing is sent again, nor drawn from any budget.

    behaviour.md, Retry budget; the timer is 2 x (20 + 4 x 10) ms after the first sample.
    """
    hand = HandPeer(QpConfig(path_mtu=256, timeout=12, linear_retries=2, exponential_retries=1))
    send(hand, 1)
    hand.run(hand.now + 4 * MILLISECOND)
    hand.receive(hand.sack(0))
    hand.completed()
    for number in range(1, 20):
        send(hand, 1)
        hand.run(hand.now + 20 * MILLISECOND)
        hand.receive(hand.sack(number))
    # At most the first of them, whose round trip was five times what was known.
    assert hand.counters.get("retransmitted_packets", 0) <= 2
    assert hand.qp.state == QpState.RTS
    last = hand.now
    send(hand, 1)
    timer = hand.qp.requestor.rtt.coarse_timer(1024 << 12)
    assert timer > 2 * 20 * MILLISECOND
    assert numbers(hand, data(hand.run(last + timer + MILLISECOND)))[:1] == [20]
