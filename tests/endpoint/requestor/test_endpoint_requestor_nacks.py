# SPDX-License-Identifier: BSD-2-Clause
"""What a requestor does about a NACK, by reason (wire.md 7; behaviour.md, Loss)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hand_peer import ECT0, MILLISECOND, SECOND, HandPeer, data, numbers
from nacking import (
    CONFIG,
    NO_BITMAP,
    NO_PKT_BUFFER,
    NO_RESOURCE,
    NOMINAL,
    PSN_OOR_WINDOW,
    RESOURCES,
    RETRIED,
    RTT,
    TRIMMED,
    TRIMMED_LASTHOP,
    TRIMS,
    UNEXP_EVENT,
    nacked_again,
    send,
    state_of,
    trained,
)
from recording_window import Call, RecordingWindows

from mrc.endpoint.completions import WorkStatus
from mrc.endpoint.config import Capability, QpConfig
from mrc.endpoint.paths.states import EvState
from mrc.endpoint.qp_states import QpState
from mrc.trace.vocabulary import QP_STATE

# ------------------------------------------------------------------ the retransmission


@pytest.mark.parametrize("reason", RETRIED)
def test_every_reason_but_one_brings_the_same_packet_again(reason: int) -> None:
    """wire.md 7: "retransmit". behaviour.md, Requestor: "Only what is missing is sent again, with rtx=1".

    MRC-NACK-05, MRC-NACK-06, MRC-NACK-07, MRC-NACK-08, MRC-NACK-09, MRC-NACK-10, MRC-LOSS-01.
    """
    hand = trained()
    before = send(hand, 6)[4]
    again = nacked_again(hand, 4, reason, before)
    assert (before["bth"]["rtx"], again["bth"]["rtx"]) == (0, 1)
    assert (again.opcode, again["meth"], again["reth"]) == (before.opcode, before["meth"], before["reth"])
    assert again.payload == before.payload
    assert hand.counters["nacks_received"] == 1
    assert hand.counters["losses_by_nack"] == 1
    assert hand.counters["retransmitted_packets"] == 1
    assert hand.qp.state == QpState.RTS


def test_no_packet_of_a_batch_of_nacks_goes_out_on_the_ev_its_nack_names() -> None:
    """behaviour.md, Requestor: "a fresh EV drawn at send time (never the one the NACK names)". MRC-LOSS-11."""
    for seed in range(10):
        hand = trained(seed=seed)
        before = send(hand, 40)
        again = data(hand.exchange(*(hand.nack(at, TRIMMED_LASTHOP, ev=was.ev) for at, was in before.items())))
        assert numbers(hand, again) == list(before)
        after = dict(zip(before, again, strict=True))
        assert [at for at, was in before.items() if after[at].ev == was.ev] == []


def test_a_retransmission_to_a_peer_that_cannot_answer_trims_is_not_to_be_trimmed() -> None:
    """wire.md 12: DSCP_NO_TRIM (0) on "data when the peer cannot answer trims". MRC-ECN-05."""
    hand = trained(capabilities=Capability(0))
    before = send(hand, 6)
    (again,) = data(hand.exchange(hand.nack(4, TRIMMED_LASTHOP, ev=before[4].ev)))
    assert (before[4].traffic_class, again.traffic_class) == (ECT0, ECT0)


# ------------------------------------------------------------------ within the window


def test_a_nacked_packet_leaves_the_window_and_comes_back_into_it() -> None:
    """nscc.md: "each transmission is added once when sent (a retransmission adds again) and taken off once, on the
    first of acknowledged, lost, NACKed." MRC-CC-21."""
    windows = RecordingWindows(4 * NOMINAL)
    hand = HandPeer(CONFIG, controller=windows)
    before = send(hand, 10)
    assert list(before) == [0, 1, 2, 3]
    assert windows.only.inflight == 4 * NOMINAL
    hand.receive(hand.nack(1, TRIMMED, ev=before[1].ev))
    assert windows.only.inflight == 3 * NOMINAL
    again = data(hand.transmitted())
    assert numbers(hand, again) == [1]
    assert windows.only.inflight == 4 * NOMINAL
    hand.receive(hand.nack(1, TRIMMED, ev=before[1].ev))  # of the transmission that is no longer out
    assert windows.only.inflight == 4 * NOMINAL
    hand.receive(hand.sack(3))
    assert windows.only.inflight == 0


def test_retransmissions_stay_within_the_window() -> None:
    """behaviour.md, Requestor: sent again "within cwnd". nscc.md: "May send while inflight < cwnd." MRC-LOSS-12."""
    windows = RecordingWindows(8 * NOMINAL)
    hand = trained(controller=windows)
    before = send(hand, 20)
    assert list(before) == list(range(1, 9))
    windows.only.become(6 * NOMINAL)
    assert data(hand.exchange(*(hand.nack(at, TRIMMED, ev=before[at].ev) for at in (2, 5)))) == []
    windows.only.become(6 * NOMINAL + 1)
    hand.endpoint.wake(hand.qp)
    assert numbers(hand, hand.transmitted()) == [2]
    assert numbers(hand, hand.exchange(hand.sack(0, above=[7]))) == [5]
    assert numbers(hand, hand.exchange(hand.sack(1, above=[7, 8]))) == [9, 10]
    assert windows.only.inflight == 7 * NOMINAL


@pytest.mark.parametrize("reason", RETRIED)
def test_the_controller_is_told_of_a_nack_and_whether_it_was_a_trim(reason: int) -> None:
    """nscc.md: "on_nack(p): if trimmed or trimmed_lasthop"; p is a nominal size, UDP length + 40. MRC-CC-03."""
    windows = RecordingWindows(100 * NOMINAL)
    hand = HandPeer(CONFIG, controller=windows)
    before = send(hand, 6)
    hand.receive(hand.nack(4, reason, ev=before[4].ev))
    assert windows.only.calls == [Call("nack", NOMINAL, trimmed=reason in TRIMS)]


# ------------------------------------------------------------------ NACKs that count for their EV only


@pytest.mark.parametrize("reason", RETRIED)
@pytest.mark.parametrize("how", ["cack_psn covers it", "the bitmap reports it"])
def test_a_nack_for_an_acknowledged_psn_counts_for_its_ev_only(reason: int, how: str) -> None:
    """behaviour.md, Requestor: "A NACK for an acknowledged PSN, or for an earlier transmission of it, counts for its EV
    only." MRC-NACK-18."""
    windows = RecordingWindows(100 * NOMINAL)
    hand = HandPeer(CONFIG, controller=windows)
    before = send(hand, 6)
    hand.receive(hand.sack(2) if how == "cack_psn covers it" else hand.sack(0, above=[2]))
    windows.only.calls.clear()
    inflight = windows.only.inflight
    assert data(hand.exchange(hand.nack(2, reason, ev=before[2].ev))) == []
    assert windows.only.calls == []
    assert windows.only.inflight == inflight
    assert state_of(hand, before[2].ev) == (EvState.SKIP if reason == TRIMMED else EvState.GOOD)
    assert 2 not in numbers(hand, hand.run(hand.now + 200 * MILLISECOND))


@pytest.mark.parametrize("reason", TRIMS)
def test_a_nack_for_an_earlier_transmission_counts_for_its_ev_only(reason: int) -> None:
    """behaviour.md, Requestor: "A NACK ... for an earlier transmission of it, counts for its EV only." MRC-NACK-18."""
    windows = RecordingWindows(100 * NOMINAL)
    hand = HandPeer(CONFIG, controller=windows)
    assert hand.qp.paths is not None
    first = send(hand, 6)[2]
    second = nacked_again(hand, 2, reason, first)
    told = len(windows.only.calls)
    late_first = hand.nack(2, reason, ev=first.ev)
    marked = int(hand.qp.paths.marked[hand.qp.paths.index(first.ev)])
    assert data(hand.exchange(late_first)) == []
    assert int(hand.qp.paths.marked[hand.qp.paths.index(first.ev)]) == marked + (reason == TRIMMED)
    third = nacked_again(hand, 2, reason, second)
    late_second = hand.nack(2, reason, ev=second.ev, rtx=1)
    assert data(hand.exchange(late_first, late_second)) == []
    assert len(windows.only.calls) == told + 1
    fourth = nacked_again(hand, 2, reason, third)
    assert len({second.ev, third.ev, fourth.ev} & {first.ev}) <= 1
    assert [packet["bth"]["rtx"] for packet in (first, second, third, fourth)] == [0, 1, 1, 1]


def test_late_nacks_draw_on_no_budget() -> None:
    """behaviour.md, Requestor: "counts for its EV only", so not for its budget. MRC-NACK-18, MRC-RETRY-03."""
    hand = HandPeer(QpConfig(path_mtu=256, timeout=20, linear_retries=1, exponential_retries=1))
    first = send(hand, 6)[2]
    nacked_again(hand, 2, TRIMMED, first)
    for _ in range(20):
        assert data(hand.exchange(hand.nack(2, TRIMMED, ev=first.ev))) == []
    assert hand.qp.state == QpState.RTS
    hand.receive(hand.ack(5))
    assert hand.completed() == [(0, WorkStatus.SUCCESS)]


# ------------------------------------------------------------------ waiting


def test_a_trim_before_it_does_not_lengthen_the_wait_after_a_resource_nack() -> None:
    """behaviour.md, Requestor: "after a resource NACK one RTT, doubling": with each repeat of it. MRC-NACK-20."""
    hand = trained()
    (packet,) = send(hand, 1).values()
    for _ in range(3):
        packet = nacked_again(hand, 1, TRIMMED, packet)
    hand.receive(hand.nack(1, NO_BITMAP, ev=packet.ev, rtx=1))
    (packet,) = data(hand.run(hand.now + RTT))
    assert numbers(hand, [packet]) == [1]


@pytest.mark.parametrize("reason", RESOURCES)
def test_while_a_psn_waits_for_room_no_new_psn_is_sent(reason: int) -> None:
    """behaviour.md, Requestor: "while any PSN waits after a resource NACK no new PSN is sent". MRC-NACK-22.

    What is lost otherwise goes again all the same, and what is not new after the wait.
    """
    hand = trained()
    before = send(hand, 4)
    hand.receive(hand.nack(2, reason, ev=before[2].ev))
    hand.post(256 * 3)
    assert data(hand.transmitted()) == []
    assert numbers(hand, hand.exchange(hand.nack(3, TRIMMED_LASTHOP, ev=before[3].ev))) == [3]
    nacked_at = hand.now
    assert data(hand.run(nacked_at + RTT - 1)) == []
    again = data(hand.run(nacked_at + RTT))
    assert numbers(hand, again) == [2, 5, 6, 7]
    # What leaves while something waits asks for an answer: nothing can follow it (MRC-SEND-07).
    hand.receive(hand.nack(7, reason, ev=again[3].ev))
    hand.post(256)
    (last,) = data(hand.exchange(hand.nack(6, TRIMMED_LASTHOP, ev=again[2].ev)))
    assert last["bth"]["ackreq"] == 1


@pytest.mark.parametrize("reason", [TRIMMED, PSN_OOR_WINDOW])
def test_what_waits_for_no_room_holds_up_no_new_psn(reason: int) -> None:
    """Only a resource NACK says that new packets would take room that old ones need. MRC-NACK-22."""
    hand = trained()
    before = send(hand, 4)
    hand.receive(hand.nack(3, reason, ev=before[3].ev))
    hand.post(256 * 2)
    assert [number for number in numbers(hand, hand.transmitted()) if number > 4] == [5, 6]


def test_new_psns_go_on_when_what_waited_for_room_has_arrived_after_all() -> None:
    """The NACK was of a packet that the network doubled: a SACK reports it, and nothing waits any more. MRC-NACK-22."""
    hand = trained()
    before = send(hand, 4)
    hand.receive(hand.nack(3, NO_PKT_BUFFER, ev=before[3].ev), hand.nack(4, NO_PKT_BUFFER, ev=before[4].ev))
    hand.post(256)
    assert data(hand.exchange(hand.sack(0, above=[3]))) == []
    assert numbers(hand, hand.exchange(hand.sack(0, above=[3, 4]))) == [5]


@pytest.mark.parametrize("reason", RESOURCES)
def test_a_psn_that_has_become_the_oldest_goes_at_once(reason: int) -> None:
    """behaviour.md, Requestor: "the PSN that has become the oldest unacknowledged one fits any buffer and goes at
    once". MRC-NACK-21.

    Refused again, it was the oldest when it was sent: now it waits, twice as long as the first time would have been.
    """
    hand = trained()
    before = send(hand, 4)
    hand.receive(*(hand.nack(at, reason, ev=before[at].ev) for at in (2, 3, 4)))
    hand.now += RTT // 2
    (again,) = data(hand.exchange(hand.sack(1)))
    assert numbers(hand, [again]) == [2]
    hand.receive(hand.nack(2, reason, ev=again.ev, rtx=1))
    nacked_at = hand.now
    assert numbers(hand, hand.run(nacked_at + 2 * RTT - 1)) == [3, 4]
    assert numbers(hand, hand.run(nacked_at + 2 * RTT)) == [2]


@pytest.mark.parametrize("reason", [*RESOURCES, PSN_OOR_WINDOW])
def test_a_nack_that_comes_when_its_psn_is_the_oldest_already_does_not_make_it_wait(reason: int) -> None:
    """SACK and NACK crossed: the packet was refused before the hole below it closed, and fits now. MRC-NACK-21."""
    hand = trained()
    before = send(hand, 4)
    sent = data(hand.exchange(hand.sack(2), hand.nack(3, reason, ev=before[3].ev)))
    assert numbers(hand, sent) == [3]


def test_a_psn_acknowledged_while_it_waits_is_not_sent_again() -> None:
    """behaviour.md, Requestor: "Only what is missing is sent again". MRC-LOSS-10."""
    hand = trained()
    before = send(hand, 4)
    hand.receive(hand.nack(2, NO_RESOURCE, ev=before[2].ev))
    hand.receive(hand.ack(4))
    assert hand.completed() == [(1, WorkStatus.SUCCESS)]
    send(hand, 200)
    hand.receive(hand.ack(204))
    assert 2 not in numbers(hand, hand.run(hand.now + 10 * RTT))


def test_a_resource_nack_before_any_rtt_sample_still_waits_and_still_resends() -> None:
    """behaviour.md, Requestor: "after a resource NACK one RTT", also when none is known yet. MRC-NACK-20."""
    hand = HandPeer(CONFIG)
    (packet,) = send(hand, 1).values()
    assert data(hand.exchange(hand.nack(0, NO_BITMAP, ev=packet.ev))) == []
    assert numbers(hand, hand.run(hand.now + 100 * MILLISECOND))[0] == 0


# ------------------------------------------------------------------ UNEXP_EVENT and what nobody knows


def test_work_acknowledged_in_the_batch_of_an_unexp_event_is_done() -> None:
    """behaviour.md, Requestor: "Work completes in post order once cack_psn covers its last PSN." MRC-SEND-05."""
    hand = HandPeer(CONFIG)
    before = send(hand, 2) | send(hand, 2)
    hand.receive(hand.sack(1), hand.nack(3, UNEXP_EVENT, ev=before[3].ev))
    assert hand.completed() == [(0, WorkStatus.SUCCESS), (1, WorkStatus.REMOTE_OPERATION_ERROR)]


def test_nothing_that_follows_an_error_in_its_batch_has_an_effect() -> None:
    """behaviour.md, Errors: "put that QP ... into ERROR, flush its work with error completions, and leave an event."

    A NAK, an UNEXP_EVENT and ordinary NACKs in one batch: one error, each work request completed once.
    """
    windows = RecordingWindows(100 * NOMINAL)
    hand = HandPeer(CONFIG, controller=windows)
    before = send(hand, 2) | send(hand, 2)
    told = hand.nack(0, TRIMMED, ev=before[0].ev), hand.nack(1, UNEXP_EVENT), hand.nack(2, NO_BITMAP)
    hand.receive(hand.ack(3, syndrome=0x62), *told)
    assert hand.completed() == [(0, WorkStatus.FLUSHED), (1, WorkStatus.REMOTE_ACCESS_ERROR)]
    assert windows.only.calls == []
    assert windows.only.inflight == 0
    assert [event.kind for event in hand.endpoint.events] == [QP_STATE]
    assert hand.run(hand.now + 10 * SECOND) == []


@pytest.mark.parametrize("reason", [0x00, 0x03, 0x05, 0x08, 0x0C, 0x18, 0x1A, 0xFF])
def test_an_unknown_reason_is_counted_and_its_psn_is_sent_again(reason: int) -> None:
    """wire.md section 7: "the requestor counts it and retransmits, and the EV is untouched". MRC-NACK-23."""
    windows = RecordingWindows(100 * NOMINAL)
    hand = HandPeer(CONFIG, controller=windows)
    before = send(hand, 6)
    (again,) = hand.exchange(hand.nack(2, reason, ev=before[2].ev))
    assert (numbers(hand, [again]), again["bth"]["rtx"]) == ([2], 1)
    assert hand.counters["unknown_nack_reason"] == 1
    assert windows.only.inflight == 6 * NOMINAL
    assert {state_of(hand, path.ev) for path in hand.profile} == {EvState.GOOD}
    hand.receive(hand.ack(5))
    assert hand.completed() == [(0, WorkStatus.SUCCESS)]


@pytest.mark.parametrize("reason", [0x00, 0x0C, 0xFF])
def test_an_unknown_reason_may_be_fatal(reason: int) -> None:
    """wire.md section 7: "the QP goes to error as after UNEXP_EVENT (QpConfig.fail_on_unknown_nack)". MRC-NACK-24."""
    hand = HandPeer(replace(CONFIG, fail_on_unknown_nack=True))
    before = send(hand, 6)
    assert data(hand.exchange(hand.nack(2, reason, ev=before[2].ev))) == []
    assert hand.counters["unknown_nack_reason"] == 1
    assert hand.qp.state == QpState.ERROR
    assert hand.completed() == [(0, WorkStatus.REMOTE_OPERATION_ERROR)]


@pytest.mark.parametrize("reason", [*RETRIED, UNEXP_EVENT])
@pytest.mark.parametrize("number", [6, 7, 1000, (1 << 23) - 1])
def test_a_nack_for_a_psn_never_sent_is_dropped_and_counted(reason: int, number: int) -> None:
    """behaviour.md, Requestor: "a SACK or ACK for a PSN never sent is dropped and counted", and so is a NACK."""
    windows = RecordingWindows(100 * NOMINAL)
    hand = HandPeer(CONFIG, controller=windows)
    before = send(hand, 6)
    assert hand.exchange(hand.nack(number, reason, ev=before[2].ev)) == []
    assert hand.counters["ack_for_unsent_psn"] == 1
    assert hand.qp.state == QpState.RTS
    assert windows.only.calls == []
    assert {state_of(hand, path.ev) for path in hand.profile} == {EvState.GOOD}


def test_a_trim_on_an_ev_that_is_not_ours_is_counted_and_the_packet_is_sent_again() -> None:
    """wire.md 7: "retransmit"; the EV it names is nobody's."""
    hand = trained()
    send(hand, 6)
    assert numbers(hand, hand.exchange(hand.nack(4, TRIMMED, ev=0x7F00_00FF))) == [4]
    assert hand.counters["unknown_ev"] == 1
    assert {state_of(hand, path.ev) for path in hand.profile} == {EvState.GOOD}
