# SPDX-License-Identifier: BSD-2-Clause
"""New data that cannot leave while nothing is outstanding that would bring news (behaviour.md, Paths, Retry budget)."""

from __future__ import annotations

from hand_peer import MILLISECOND, PROBE, HandPeer, data, numbers, of
from recording_window import RecordingWindows

from mrc.endpoint.completions import WorkStatus
from mrc.endpoint.config import Capability, QpConfig
from mrc.endpoint.qp_states import QpState

INTERVAL = 1024 << 10  # the local ACK timeout, 1.05 ms
CONFIG = QpConfig(path_mtu=256, mpr=1, timeout=10, linear_retries=2, exponential_retries=1)


def _hand(config: QpConfig = CONFIG, **others: object) -> HandPeer:
    return HandPeer(config, controller=RecordingWindows(1 << 40), **others)  # type: ignore[arg-type]


def _without_paths(hand: HandPeer) -> None:
    """No EV is usable, but probes may still try: the ports are down. (A DENIED EV carries no probe either.)"""
    assert hand.qp.paths is not None
    for port in set(hand.qp.paths.port.tolist()):
        hand.qp.paths.set_port(port, False)


def _ended_after(hand: HandPeer, started: int) -> int:
    (event,) = hand.endpoint.events
    return event.at_ns - started


def test_with_no_usable_ev_the_budget_of_what_waits_runs_from_the_first_attempt() -> None:
    """behaviour.md, Paths: "With no usable EV at all sending stops, timers and probes run, and the local ACK budget
    decides."

    Two linear retries at the interval, one at twice the distance, and the timeout after that is one too many.
    """
    hand = _hand()
    _without_paths(hand)
    started = hand.now
    hand.post(256)
    hand.post(256)
    sent = hand.run(started + 100 * INTERVAL)
    assert data(sent) == []
    assert of(sent, PROBE)
    assert _ended_after(hand, started) == (1 + 1 + 1 + 2) * INTERVAL
    assert hand.counters["local_ack_timeouts"] == 4
    assert (
        hand.qp.error
        == f"retry counter exceeded: no acknowledgement of PSN {hand.psn(0)} after 3 retries, then a local ACK timeout"
    )
    assert hand.completed() == [(0, WorkStatus.RETRY_EXCEEDED), (1, WorkStatus.FLUSHED)]


def test_what_is_out_is_not_sent_again_while_no_ev_is_usable() -> None:
    """behaviour.md, Paths: "With no usable EV at all sending stops"."""
    hand = _hand(QpConfig(path_mtu=256, timeout=10, linear_retries=2, exponential_retries=2))
    hand.post(256)
    assert numbers(hand, hand.transmitted()) == [0]
    _without_paths(hand)
    hand.post(256)
    sent = hand.run(hand.now + 100 * INTERVAL)
    assert data(sent) == []
    assert of(sent, PROBE)
    assert hand.completed() == [(0, WorkStatus.RETRY_EXCEEDED), (1, WorkStatus.FLUSHED)]


def test_what_another_psn_drew_in_the_same_place_is_not_drawn_from_its_budget() -> None:
    """behaviour.md, Retry budget: "it belongs to a PSN".

    Packet 0 draws two of its two retries. Packet 128 lies one window of 128 PSNs later and never leaves.
    """
    hand = _hand(QpConfig(path_mtu=256, mpr=1, timeout=10, linear_retries=2, exponential_retries=0))
    hand.post(256)
    hand.run(hand.now + 2 * INTERVAL)
    hand.receive(hand.ack(0))
    hand.post(256 * 127)
    hand.transmitted()
    hand.receive(hand.ack(127))
    _without_paths(hand)
    started = hand.now
    hand.post(256)
    hand.run(started + 100 * INTERVAL)
    assert _ended_after(hand, started) == 3 * INTERVAL


def test_what_leaves_in_time_goes_on_as_if_nothing_had_been() -> None:
    """behaviour.md, Paths: DENIED "back only by the controller"; then it is sent at once."""
    hand = _hand()
    assert hand.qp.paths is not None
    for path in hand.profile:
        hand.qp.paths.deny(path.ev)
    hand.post(256 * 3)
    assert hand.run(hand.now + 2 * INTERVAL + INTERVAL // 2) == []
    assert hand.qp.state == QpState.RTS
    hand.qp.paths.allow(hand.profile[3].ev)
    hand.endpoint.wake(hand.qp)
    sent = hand.transmitted()
    assert numbers(hand, sent) == [0, 1, 2]
    assert {packet.ev for packet in data(sent)} == {hand.profile[3].ev}
    hand.receive(hand.ack(2))
    assert hand.completed() == [(0, WorkStatus.SUCCESS)]
    assert hand.run(hand.now + 100 * INTERVAL) == []


def test_probes_ask_while_what_waits_cannot_leave_and_stop_with_it() -> None:
    """behaviour.md, Paths: "timers and probes run". The first comes one path timer after the attempt, 10 ms before any
    sample of a round trip; then at twice the distance, up to the local ACK timeout: 1.07 s, which none reaches here."""
    hand = _hand(QpConfig(path_mtu=256, timeout=20))
    _without_paths(hand)
    started = hand.now
    hand.post(256)
    probes = of(hand.run(started + 160 * MILLISECOND), PROBE)
    assert [probe.at - started for probe in probes] == [
        10 * MILLISECOND,
        30 * MILLISECOND,
        70 * MILLISECOND,
        150 * MILLISECOND,
    ]


def test_the_budget_runs_also_when_a_probe_of_earlier_data_is_still_due() -> None:
    """behaviour.md, Paths: "With no usable EV at all ... the local ACK budget decides."

    Data that was acknowledged a moment ago left its tail timer behind; what is posted now waits under a budget of its
    own, from now on.
    """
    hand = _hand()
    hand.post(256)
    hand.transmitted()
    hand.receive(hand.ack(0))
    assert hand.completed() == [(0, WorkStatus.SUCCESS)]
    _without_paths(hand)
    started = hand.now
    hand.post(256)
    hand.run(started + 100 * INTERVAL)
    assert _ended_after(hand, started) == 5 * INTERVAL
    assert hand.completed() == [(1, WorkStatus.RETRY_EXCEEDED)]


def test_the_budget_is_not_begun_again_by_further_attempts() -> None:
    """behaviour.md, Retry budget: "Local ACK timeout"s draw on it; more work posted behind what waits does not."""
    hand = _hand()
    _without_paths(hand)
    started = hand.now
    hand.post(256)
    for _ in range(20):
        hand.run(hand.now + INTERVAL // 3)
        hand.post(256)
        hand.transmitted()
    assert _ended_after(hand, started) == 5 * INTERVAL


def test_a_shut_window_of_the_peer_is_probed_with_nothing_outstanding() -> None:
    """behaviour.md, Loss: probes find what a lost SACK would have told: here the new edge of a dynamic window."""
    dynamic = Capability.DYNAMIC_MPR
    config = QpConfig(path_mtu=256, mpr=1, capabilities=dynamic, timeout=20)
    hand = _hand(config, capabilities=dynamic)
    hand.post(256 * 200)
    assert len(data(hand.transmitted())) == 128
    hand.now += MILLISECOND
    hand.receive(hand.ack(127))  # it tells no edge
    assert hand.transmitted() == []
    (probe,) = hand.run(hand.now + 40 * MILLISECOND, stop_at_first=True)
    assert probe.opcode == PROBE
    hand.receive(hand.sack(127, probe_id=probe["peth"]["probe_id"], mpr=1))
    assert numbers(hand, hand.transmitted()) == list(range(128, 200))


def test_with_every_ev_denied_probes_are_no_reason_to_be_asked() -> None:
    """behaviour.md, Paths: DENIED, "back only by the controller". A probe waits meanwhile, and nothing can leave: the
    endpoint does not report that something could."""
    hand = _hand(QpConfig(path_mtu=256, timeout=20))
    assert hand.qp.paths is not None
    for path in hand.profile:
        hand.qp.paths.deny(path.ev)
    hand.post(256)
    assert hand.run(hand.now + 160 * MILLISECOND) == []
    assert not hand.qp.pending()
    hand.qp.paths.allow(hand.profile[0].ev)
    assert hand.qp.pending()
    hand.endpoint.wake(hand.qp)
    assert numbers(hand, hand.transmitted())[:1] == [0]
