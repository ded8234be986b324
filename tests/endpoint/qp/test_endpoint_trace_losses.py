# SPDX-License-Identifier: BSD-2-Clause
"""What an endpoint tells its tracer of losses, and why (behaviour.md, Loss; wire.md section 7): one trigger each."""

from __future__ import annotations

import pytest
from hand_peer import MICROSECOND, MILLISECOND, HandPeer, Sent, data, numbers
from nacking import NO_PKT_BUFFER, RETRIED, TRIMMED, TRIMMED_LASTHOP, UNEXP_EVENT
from recording_window import RecordingWindows
from trace_recorder import Recorded, Recorder, traced

from mrc.endpoint.config import LossConfig, PathConfig, QpConfig

RTT = 100 * MICROSECOND
CONFIG = QpConfig(path_mtu=256, timeout=20)  # a local ACK timeout of 1.07 s, out of the way of other timers
NO_HOLES = QpConfig(path_mtu=256, timeout=20, loss=LossConfig(reorder_guard_packets=1000))
LOST, AGAIN, SPURIOUS = "recovery:packet_lost", "recovery:retransmission", "recovery:spurious_loss"
EV_STATE, NACKED = "path:ev_state", "transport:nack_received"
# wire.md section 7.
REASONS = {
    0x01: "TRIMMED",
    0x02: "TRIMMED_LASTHOP",
    0x06: "NO_BITMAP",
    0x07: "NO_PKT_BUFFER",
    0x0A: "NO_RESOURCE",
    0x0B: "PSN_OOR_WINDOW",
}


def _under_way(hand: HandPeer, count: int) -> list[Sent]:
    """`count` packets 10 microseconds apart; the clock stands one RTT after the last."""
    sent = []
    for _ in range(count):
        hand.post(256)
        sent += data(hand.transmitted())
        hand.now += 10 * MICROSECOND
    hand.now += RTT
    return sent


def _trained(config: QpConfig, **others: object) -> tuple[HandPeer, Recorder]:
    """One packet sent and acknowledged after one RTT."""
    hand, recorder = traced(config, **others)
    hand.post(256)
    hand.transmitted()
    hand.now += RTT
    hand.receive(hand.sack(0))
    recorder.take()
    return hand, recorder


def _lost(told: list[Recorded]) -> list[tuple[int, int, int, str]]:
    return [(each["psn"], each["ev"], each["sent_at_ns"], each["trigger"]) for each in told if each.name == LOST]


def _as_sent(packets: list[Sent], trigger: str) -> list[tuple[int, int, int, str]]:
    """What packet_lost is to say of these packets, by what they said on the wire and when they left."""
    return [(packet.psn, packet.ev, packet.at, trigger) for packet in packets]


def test_a_hole() -> None:
    """(b): "something transmitted at least one reorder guard later has been acknowledged"."""
    hand, recorder = traced(CONFIG)
    first = _under_way(hand, 20)
    assert first[5].ev != first[8].ev
    recorder.take()
    again = data(hand.exchange(hand.sack(4, above=[6, 7, *range(9, 20)], trigger=19)))
    told = recorder.take(LOST, EV_STATE, AGAIN)
    lost = [first[5], first[8]]
    assert _lost(told) == _as_sent(lost, "hole")
    states = [(each["ev"], each["old"], each["new"], each["cause"]) for each in told if each.name == EV_STATE]
    assert states == [(packet.ev, "GOOD", "ASSUMED_BAD", "LOST") for packet in lost]
    sent_again = [(each["psn"], each["ev"], each["times_sent"]) for each in told if each.name == AGAIN]
    assert sent_again == [(packet.psn, packet.ev, 2) for packet in again]
    # What was lost comes before what follows from it, all at the time of the SACK, about this QP.
    assert [each.name for each in told] == [LOST] * 2 + [EV_STATE] * 2 + [AGAIN] * 2
    assert {(each.at, each.qpn) for each in told} == {(hand.now, hand.qp.qpn)}


def test_a_path_timer() -> None:
    """(c): "its path timer ran out", 1 ms at least. The peer is heard all the time and acknowledges nothing new."""
    hand, recorder = _trained(NO_HOLES)
    hand.post(256)
    (packet,) = data(hand.transmitted())
    again: list[Sent] = []
    while not again:
        hand.now += RTT // 2
        hand.receive(hand.ack(0))
        again += data(hand.run(hand.now))
    told = recorder.take(LOST, AGAIN)
    assert _lost(told) == _as_sent([packet], "path_timer")
    assert [(each.name, each.at - packet.at) for each in told] == [(LOST, MILLISECOND), (AGAIN, MILLISECOND)]


def test_a_local_ack_timeout() -> None:
    """behaviour.md, Retry budget: 1.024 us x 2^t, here 2^20. Nobody answers anything: path timers wait."""
    hand, recorder = traced(CONFIG)
    hand.post(256)
    (packet,) = data(hand.transmitted())
    timeout = 1024 << 20
    hand.run(hand.now + timeout)
    told = recorder.take(LOST, "recovery:local_ack_timeout", AGAIN)
    assert _lost(told) == _as_sent([packet], "local_ack_timeout")
    assert [(each.name, each.at - packet.at, each["psn"]) for each in told] == [
        ("recovery:local_ack_timeout", timeout, packet.psn),
        (LOST, timeout, packet.psn),
        (AGAIN, timeout, packet.psn),
    ]
    assert told[0]["retries"] == 0
    hand.run(hand.now + timeout)
    assert [(each["psn"], each["retries"]) for each in recorder.take("recovery:local_ack_timeout")] == [(packet.psn, 1)]


@pytest.mark.parametrize("reason", RETRIED)
def test_each_nack_by_its_reason(reason: int) -> None:
    """(a): "a NACK names it". Only TRIMMED says something about the path."""
    hand, recorder = _trained(CONFIG)
    hand.post(256)
    (packet,) = data(hand.transmitted())
    hand.now += RTT
    hand.receive(hand.nack(1, reason, ev=packet.ev))
    told = recorder.take(NACKED, LOST, EV_STATE)
    assert _lost(told) == _as_sent([packet], f"nack:{REASONS[reason]}")
    (nack,) = (each for each in told if each.name == NACKED)
    assert nack.data == {"psn": packet.psn, "reason": REASONS[reason], "ev": packet.ev, "rtx": False}
    states = [each.data for each in told if each.name == EV_STATE]
    marked = {"ev": packet.ev, "old": "GOOD", "new": "SKIP", "cause": "MARKED"}
    assert states == ([marked] if reason == TRIMMED else [])


def test_a_nack_for_what_was_acknowledged_is_no_loss() -> None:
    """behaviour.md, Loss: "A NACK for an acknowledged PSN ... counts for its EV only"."""
    hand, recorder = _trained(CONFIG)
    hand.receive(hand.nack(0, TRIMMED_LASTHOP, ev=hand.profile[0].ev, rtx=1))
    (nack,) = recorder.take(NACKED, LOST)
    assert nack.data == {
        "psn": hand.psn(0), "reason": "TRIMMED_LASTHOP", "ev": hand.profile[0].ev, "rtx": True,
    }  # fmt: skip


def test_a_nack_for_what_was_never_sent_tells_nothing() -> None:
    hand, recorder = _trained(CONFIG)
    hand.receive(hand.nack(1, NO_PKT_BUFFER), hand.nack(1, 0x7F))
    assert recorder.take() == []


def test_a_nack_with_an_unknown_reason_says_the_number_of_it() -> None:
    """wire.md section 7: "an unknown one, and a case of its own"; its PSN is lost."""
    hand, recorder = _trained(CONFIG)
    hand.post(256)
    (packet,) = hand.transmitted()
    recorder.take()
    hand.receive(hand.nack(1, 0x7F, ev=packet.ev))
    nack, lost = recorder.take(NACKED, LOST)
    assert (nack.data["reason"], lost.data["trigger"]) == ("UNKNOWN_0x7F", "nack:UNKNOWN_0x7F")


def test_unexp_event_ends_the_qp() -> None:
    """wire.md section 7: "never retried: QP to error, remote operation error"."""
    hand, recorder = _trained(CONFIG)
    hand.post(256)
    hand.transmitted()
    hand.receive(hand.nack(1, UNEXP_EVENT))
    told = recorder.take(NACKED, LOST, "connectivity:qp_state", "transport:work_completed")
    assert [each.name for each in told] == [NACKED, "connectivity:qp_state", "transport:work_completed"]
    assert told[1].data == {"old": "RTS", "new": "ERROR", "why": hand.qp.error}
    assert told[2]["status"] == "REMOTE_OPERATION_ERROR"


def test_a_packet_refused_twice_left_at_its_latest_transmission() -> None:
    """The second loss is of the retransmission: its EV and its time."""
    hand, recorder = _trained(CONFIG)
    hand.post(256)
    (packet,) = data(hand.transmitted())
    hand.now += RTT
    (again,) = data(hand.exchange(hand.nack(1, TRIMMED, ev=packet.ev)))
    hand.now += RTT
    hand.receive(hand.nack(1, TRIMMED, ev=again.ev, rtx=1))
    assert _lost(recorder.take()) == _as_sent([packet, again], "nack:TRIMMED")


def test_a_spurious_retransmission() -> None:
    """behaviour.md, Paths: "ASSUMED_BAD | the loss that condemned it proves spurious | GOOD"."""
    hand, recorder = _trained(CONFIG)
    sent = _under_way(hand, 8)
    assert numbers(hand, hand.exchange(hand.sack(0, above=range(2, 9), trigger=8, ev=sent[7].ev))) == [1]
    recorder.take()
    hand.receive(hand.sack(8, trigger=1, ev=sent[0].ev))
    spurious, restored = recorder.take(SPURIOUS, EV_STATE)
    assert spurious.data == {"psn": sent[0].psn, "ev": sent[0].ev, "sent_again": True}
    assert restored.data == {"ev": sent[0].ev, "old": "ASSUMED_BAD", "new": "GOOD", "cause": "SPURIOUS"}


def test_a_loss_that_proves_spurious_before_anything_was_sent_again() -> None:
    """The window is shut between the hole and the late arrival."""
    windows = RecordingWindows(1 << 30)
    hand, recorder = _trained(CONFIG, controller=windows)
    sent = _under_way(hand, 8)
    windows.only.become(0)
    assert data(hand.exchange(hand.sack(0, above=range(2, 9), trigger=8, ev=sent[7].ev))) == []
    hand.receive(hand.sack(8, trigger=1, ev=sent[0].ev))
    told = recorder.take(LOST, AGAIN, SPURIOUS)
    assert [each.name for each in told] == [LOST, SPURIOUS]
    assert told[1].data == {"psn": sent[0].psn, "ev": sent[0].ev, "sent_again": False}


def test_a_retransmission_that_is_taken_for_lost_too_was_needless_when_the_original_arrives() -> None:
    """Sent again, lost again by another hole, and not sent a third time: the SACK of the first transmission shows that
    the second was spurious, to the counter and to the trace."""
    windows = RecordingWindows(1 << 30)
    hand, recorder = _trained(CONFIG, controller=windows)
    sent = _under_way(hand, 8)
    (again,) = data(hand.exchange(hand.sack(0, above=range(2, 9), trigger=8, ev=sent[7].ev)))
    later = _under_way(hand, 8)
    windows.only.become(0)
    assert data(hand.exchange(hand.sack(0, above=range(2, 17), trigger=16, ev=later[7].ev))) == []
    hand.receive(hand.sack(16, trigger=1, ev=sent[0].ev))
    told = recorder.take(LOST, AGAIN, SPURIOUS)
    assert [each.name for each in told] == [LOST, AGAIN, LOST, SPURIOUS]
    assert [each["ev"] for each in told if each.name == LOST] == [sent[0].ev, again.ev]
    assert told[3]["sent_again"] is True
    assert hand.qp.counters.spurious_retransmissions == 1


def test_a_loss_below_ev_min_active_puts_the_ev_to_skip() -> None:
    """behaviour.md, ev_min_active: "an EV that would go bad below it goes to SKIP instead"."""
    hand, recorder = traced(QpConfig(path_mtu=256, timeout=20, paths=PathConfig(ev_min_active=8)))
    first = _under_way(hand, 20)
    recorder.take()
    hand.receive(hand.sack(4, above=range(6, 20), trigger=19))
    (state,) = recorder.take(EV_STATE)
    assert state.data == {"ev": first[5].ev, "old": "GOOD", "new": "SKIP", "cause": "LOST"}
