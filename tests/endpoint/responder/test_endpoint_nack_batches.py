# SPDX-License-Identifier: BSD-2-Clause
"""NACKs in batches, waits that grow, and windows as refusals show them (wire.md section 7; behaviour.md, Loss)."""

from __future__ import annotations

import pytest
from hand_peer import MICROSECOND, MILLISECOND, SECOND, HandPeer, data, numbers
from nacking import (
    CONFIG,
    NO_BITMAP,
    NO_PKT_BUFFER,
    NO_RESOURCE,
    PSN_OOR_WINDOW,
    RTT,
    TRIMMED,
    UNEXP_EVENT,
    nacked_again,
    send,
    state_of,
    trained,
)

from mrc.endpoint.completions import WorkStatus
from mrc.endpoint.config import QpConfig
from mrc.endpoint.events import Event
from mrc.endpoint.paths.states import EvState
from mrc.endpoint.qp_states import QpState
from mrc.trace.vocabulary import QP_STATE

LASTING = QpConfig(path_mtu=256, timeout=20, exponential_retries=25)


def test_every_ev_of_the_profile_may_be_trimmed() -> None:
    """behaviour.md, Paths: "NACK TRIMMED" is SKIP, for the profile's first EV as well as its last."""
    hand = trained(CONFIG)
    send(hand, 1)
    for path in hand.profile:
        hand.receive(hand.nack(0, TRIMMED, ev=path.ev))
    assert {state_of(hand, path.ev) for path in hand.profile} == {EvState.SKIP}
    assert "unknown_ev" not in hand.counters


def test_a_nack_that_says_nothing_new_keeps_none_of_its_batch_back() -> None:
    """behaviour.md: a NACK for an acknowledged PSN "counts for its EV only"; what follows in the batch counts."""
    hand = trained()
    sent = send(hand, 6)
    hand.receive(hand.ack(2))
    hand.post(256)
    batch = [hand.nack(number, TRIMMED, ev=sent[number].ev) for number in (1, 2, 4, 1, 5)]
    assert numbers(hand, hand.exchange(hand.nack(99, TRIMMED), hand.nack(3, 0x77), *batch)) == [3, 4, 5, 7]
    assert hand.counters["losses_by_nack"] == 3


def test_a_nack_without_rtx_is_never_about_a_retransmission() -> None:
    """wire.md section 3: a NACK "copies the bit of the packet that triggered it". With two EVs the third transmission
    is on the EV of the first, of which a late NACK tells: it "counts for its EV only"."""
    hand = trained(planes=1, spines=2)
    first = send(hand, 1)[1]
    second = nacked_again(hand, 1, TRIMMED, first)
    third = nacked_again(hand, 1, TRIMMED, second)
    assert (third.ev, third["bth"]["rtx"]) == (first.ev, 1)
    assert data(hand.exchange(hand.nack(1, TRIMMED, ev=first.ev))) == []
    assert hand.counters["losses_by_nack"] == 2
    assert numbers(hand, hand.exchange(hand.nack(1, TRIMMED, ev=third.ev, rtx=1))) == [1]


def test_what_follows_an_unexp_event_in_its_batch_is_dropped() -> None:
    """behaviour.md, Retry budget: "UNEXP_EVENT: QP to error at once." The event says which PSN."""
    hand = trained()
    sent = send(hand, 3)
    hand.receive(hand.nack(1, TRIMMED, ev=sent[1].ev), hand.nack(2, UNEXP_EVENT, ev=sent[2].ev), hand.nack(3, TRIMMED))
    detail = f"the peer cannot go on with PSN {hand.psn(2)}"
    assert list(hand.endpoint.events) == [Event(QP_STATE, hand.now, hand.qp.qpn, ("RTS", "ERROR", detail), detail)]
    assert hand.counters["losses_by_nack"] == 1
    assert hand.completed() == [(1, WorkStatus.REMOTE_OPERATION_ERROR)]


def test_a_budget_that_a_nack_ends_names_the_psn_and_drops_the_rest() -> None:
    """behaviour.md, Retry budget: NACKs "draw on it"; none is left after the first. Budgets belong to each PSN."""
    hand = trained(QpConfig(path_mtu=256, timeout=20, linear_retries=1, exponential_retries=0))
    sent = {number: packet for _ in range(3) for number, packet in send(hand, 1).items()}
    second = nacked_again(hand, 2, TRIMMED, sent[2])
    hand.receive(
        hand.nack(1, TRIMMED, ev=sent[1].ev), hand.nack(2, TRIMMED, ev=second.ev, rtx=1), hand.nack(3, TRIMMED)
    )
    detail = f"retry counter exceeded: no acknowledgement of PSN {hand.psn(2)} after 1 retries, then NACK TRIMMED"
    assert [event.detail for event in hand.endpoint.events] == [detail]
    assert hand.completed() == [(1, WorkStatus.FLUSHED), (2, WorkStatus.RETRY_EXCEEDED), (3, WorkStatus.FLUSHED)]
    assert hand.counters["losses_by_nack"] == 3


@pytest.mark.parametrize("first_psn", [0, 1, (1 << 24) - 1])
def test_psns_in_sentences_are_those_on_the_wire(first_psn: int) -> None:
    """24 bits, though the requestor counts on: the fourth packet after the last PSN of all is number 2 again."""
    hand = HandPeer(QpConfig(path_mtu=256, timeout=10, linear_retries=0, exponential_retries=0), first_psn=first_psn)
    for _ in range(4):
        send(hand, 1)
    hand.receive(hand.ack(2))
    started = hand.now
    hand.run(started + SECOND)
    psn = (first_psn + 3) & 0xFFFFFF
    because = f"no acknowledgement of PSN {psn} after 0 retries, then a local ACK timeout"
    assert hand.qp.error == f"retry counter exceeded: {because}"
    assert hand.endpoint.events[0].at_ns == started + (1024 << 10)


@pytest.mark.parametrize("first_psn", [0, 1, 2])
def test_the_local_ack_timeout_runs_whatever_the_first_psn(first_psn: int) -> None:
    """behaviour.md, Retry budget: 1.024 us x 2^10 after the oldest PSN left."""
    hand = HandPeer(QpConfig(path_mtu=256, timeout=10), first_psn=first_psn)
    (packet,) = send(hand, 1).values()
    for number in (0, 1, 2):
        again = data(hand.run(hand.now + 2 * (1024 << 10) - 1))
        assert [one.at - packet.at for one in again] == [1024 << 10]
        hand.receive(hand.ack(number))
        (packet,) = send(hand, 1).values()


# ------------------------------------------------------------------ waits


@pytest.mark.parametrize("reason", [NO_BITMAP, NO_PKT_BUFFER, NO_RESOURCE])
def test_waits_grow_to_the_local_ack_timeout_and_no_further(reason: int) -> None:
    """behaviour.md, Loss: "after a resource NACK one RTT, doubling"; of 4.2 ms, the local ACK timeout, at most."""
    hand = trained(QpConfig(path_mtu=256, timeout=12, exponential_retries=25))
    (packet,) = send(hand, 1).values()
    waits = []
    for _ in range(9):
        nacked_at = hand.now
        hand.receive(hand.nack(1, reason, ev=packet.ev, rtx=packet["bth"]["rtx"]))
        (packet,) = data(hand.run(nacked_at + 10 * MILLISECOND, stop_at_first=True)) or data(
            hand.run(nacked_at + 10 * MILLISECOND)
        )
        hand.now = packet.at
        waits.append(packet.at - nacked_at)
    assert waits == [RTT, 2 * RTT, 4 * RTT, 8 * RTT, 16 * RTT, 32 * RTT, 1024 << 12, 1024 << 12, 1024 << 12]


def test_psns_wait_each_for_its_own_time() -> None:
    """Packet 3 was refused before: 200 us. Packets 1 and 2 at different times: 100 us each."""
    hand = trained(LASTING)
    sent = send(hand, 3)
    third = nacked_again(hand, 3, NO_BITMAP, sent[3])
    started = hand.now
    hand.receive(hand.nack(3, NO_BITMAP, ev=third.ev, rtx=1))
    hand.now += 10 * MICROSECOND
    hand.receive(hand.nack(2, NO_BITMAP, ev=sent[2].ev))
    hand.now += 10 * MICROSECOND
    hand.receive(hand.nack(1, NO_BITMAP, ev=sent[1].ev))
    again = data(hand.run(started + 500 * MICROSECOND))
    assert [(number, packet.at - started) for number, packet in zip(numbers(hand, again), again, strict=True)] == [
        (2, 110 * MICROSECOND),
        (1, 120 * MICROSECOND),
        (3, 200 * MICROSECOND),
    ]


def test_the_wait_of_a_psn_is_not_that_of_another_in_its_place() -> None:
    """behaviour.md: "doubling" with each repeat for the same PSN; packet 129 lies a window of 128 later."""
    hand = trained(QpConfig(path_mtu=256, mpr=1, timeout=20, exponential_retries=25))
    packet = send(hand, 1)[1]
    for _ in range(3):
        packet = nacked_again(hand, 1, NO_BITMAP, packet)
    hand.receive(hand.ack(1))
    send(hand, 127)
    hand.receive(hand.ack(128))
    (packet,) = send(hand, 1).values()
    assert numbers(hand, [packet]) == [129]
    nacked_at = hand.now
    again = nacked_again(hand, 129, NO_BITMAP, packet)
    assert again.at - nacked_at == RTT


def test_without_a_round_trip_known_a_refused_psn_waits_a_path_timer() -> None:
    """behaviour.md: "one RTT"; before the first sample 10 ms stand for it, as for path timers."""
    hand = HandPeer(LASTING)
    (packet,) = send(hand, 1).values()
    again = data(hand.run(hand.now)) or nacked_again(hand, 0, NO_BITMAP, packet)
    assert not isinstance(again, list)
    assert again.at - packet.at == 10 * MILLISECOND


# ------------------------------------------------------------------ the window


def test_a_window_once_seen_is_forgotten_with_the_last_that_waited_for_it() -> None:
    """The peer's window may have grown: later refusals show it anew."""
    hand = trained()
    sent = send(hand, 40)
    hand.receive(hand.nack(3, PSN_OOR_WINDOW, ev=sent[3].ev))  # 2 above the oldest
    assert numbers(hand, hand.exchange(hand.ack(1))) == [3]
    hand.receive(hand.nack(30, PSN_OOR_WINDOW, ev=sent[30].ev))  # 28 above it
    assert numbers(hand, hand.exchange(hand.ack(2))) == [30]


def test_the_oldest_psn_refused_for_the_window_waits_a_round_trip() -> None:
    """Nothing can move cack_psn but itself: it is tried again as after a resource NACK."""
    hand = trained()
    sent = send(hand, 3)
    hand.receive(hand.nack(1, PSN_OOR_WINDOW, ev=sent[1].ev))
    nacked_at = hand.now
    (again,) = data(hand.run(nacked_at + RTT))
    assert (numbers(hand, [again]), again.at - nacked_at) == ([1], RTT)


def test_what_waits_is_forgotten_when_the_qp_ends() -> None:
    """behaviour.md, Errors: its work is flushed; no timer of it runs on."""
    hand = trained()
    sent = send(hand, 5)
    hand.receive(hand.nack(2, NO_BITMAP, ev=sent[2].ev), hand.nack(4, PSN_OOR_WINDOW, ev=sent[4].ev))
    hand.qp.to_error("enough")
    assert hand.run(hand.now + SECOND) == []
    assert hand.qp.state == QpState.ERROR
    assert hand.completed() == [(1, WorkStatus.FLUSHED)]
