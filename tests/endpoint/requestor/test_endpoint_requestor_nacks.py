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
    RTT,
    TRIMMED,
    TRIMMED_LASTHOP,
    UNEXP_EVENT,
    nacked_again,
    send,
    state_of,
    trained,
)
from recording_window import RecordingWindows

from mrc.endpoint.completions import WorkStatus
from mrc.endpoint.config import Capability, QpConfig
from mrc.endpoint.paths.states import EvState
from mrc.endpoint.qp_states import QpState
from mrc.trace.vocabulary import QP_STATE

# ------------------------------------------------------------------ the retransmission


def test_no_packet_of_a_batch_of_nacks_goes_out_on_the_ev_its_nack_names() -> None:
    """behaviour.md, Requestor: "a fresh EV drawn at send time (never the one the NACK names)"."""
    for seed in range(10):
        hand = trained(seed=seed)
        before = send(hand, 40)
        again = data(hand.exchange(*(hand.nack(at, TRIMMED_LASTHOP, ev=was.ev) for at, was in before.items())))
        assert numbers(hand, again) == list(before)
        after = dict(zip(before, again, strict=True))
        assert [at for at, was in before.items() if after[at].ev == was.ev] == []


def test_a_retransmission_to_a_peer_that_cannot_answer_trims_is_not_to_be_trimmed() -> None:
    """wire.md 12: DSCP_NO_TRIM (0) on "data when the peer cannot answer trims"."""
    hand = trained(capabilities=Capability(0))
    before = send(hand, 6)
    (again,) = data(hand.exchange(hand.nack(4, TRIMMED_LASTHOP, ev=before[4].ev)))
    assert (before[4].traffic_class, again.traffic_class) == (ECT0, ECT0)


# ------------------------------------------------------------------ NACKs that count for their EV only


def test_late_nacks_draw_on_no_budget() -> None:
    """behaviour.md, Requestor: "counts for its EV only", so not for its budget."""
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
    """behaviour.md, Requestor: "after a resource NACK one RTT, doubling": with each repeat of it."""
    hand = trained()
    (packet,) = send(hand, 1).values()
    for _ in range(3):
        packet = nacked_again(hand, 1, TRIMMED, packet)
    hand.receive(hand.nack(1, NO_BITMAP, ev=packet.ev, rtx=1))
    (packet,) = data(hand.run(hand.now + RTT))
    assert numbers(hand, [packet]) == [1]


@pytest.mark.parametrize("reason", [TRIMMED, PSN_OOR_WINDOW])
def test_what_waits_for_no_room_holds_up_no_new_psn(reason: int) -> None:
    """Only a resource NACK says that new packets would take room that old ones need."""
    hand = trained()
    before = send(hand, 4)
    hand.receive(hand.nack(3, reason, ev=before[3].ev))
    hand.post(256 * 2)
    assert [number for number in numbers(hand, hand.transmitted()) if number > 4] == [5, 6]


def test_new_psns_go_on_when_what_waited_for_room_has_arrived_after_all() -> None:
    """The NACK was of a packet that the network doubled: a SACK reports it, and nothing waits any more."""
    hand = trained()
    before = send(hand, 4)
    hand.receive(hand.nack(3, NO_PKT_BUFFER, ev=before[3].ev), hand.nack(4, NO_PKT_BUFFER, ev=before[4].ev))
    hand.post(256)
    assert data(hand.exchange(hand.sack(0, above=[3]))) == []
    assert numbers(hand, hand.exchange(hand.sack(0, above=[3, 4]))) == [5]


def test_a_psn_acknowledged_while_it_waits_is_not_sent_again() -> None:
    """behaviour.md, Requestor: "Only what is missing is sent again"."""
    hand = trained()
    before = send(hand, 4)
    hand.receive(hand.nack(2, NO_RESOURCE, ev=before[2].ev))
    hand.receive(hand.ack(4))
    assert hand.completed() == [(1, WorkStatus.SUCCESS)]
    send(hand, 200)
    hand.receive(hand.ack(204))
    assert 2 not in numbers(hand, hand.run(hand.now + 10 * RTT))


def test_a_resource_nack_before_any_rtt_sample_still_waits_and_still_resends() -> None:
    """behaviour.md, Requestor: "after a resource NACK one RTT", also when none is known yet."""
    hand = HandPeer(CONFIG)
    (packet,) = send(hand, 1).values()
    assert data(hand.exchange(hand.nack(0, NO_BITMAP, ev=packet.ev))) == []
    assert numbers(hand, hand.run(hand.now + 100 * MILLISECOND))[0] == 0


# ------------------------------------------------------------------ UNEXP_EVENT and what nobody knows


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


@pytest.mark.parametrize("reason", [0x00, 0x0C, 0xFF])
def test_an_unknown_reason_may_be_fatal(reason: int) -> None:
    """wire.md section 7: "the QP goes to error as after UNEXP_EVENT (QpConfig.fail_on_unknown_nack)". MRC-NACK-24."""
    hand = HandPeer(replace(CONFIG, fail_on_unknown_nack=True))
    before = send(hand, 6)
    assert data(hand.exchange(hand.nack(2, reason, ev=before[2].ev))) == []
    assert hand.counters["unknown_nack_reason"] == 1
    assert hand.qp.state == QpState.ERROR
    assert hand.completed() == [(0, WorkStatus.REMOTE_OPERATION_ERROR)]


def test_a_trim_on_an_ev_that_is_not_ours_is_counted_and_the_packet_is_sent_again() -> None:
    """wire.md 7: "retransmit"; the EV it names is nobody's."""
    hand = trained()
    send(hand, 6)
    assert numbers(hand, hand.exchange(hand.nack(4, TRIMMED, ev=0x7F00_00FF))) == [4]
    assert hand.counters["unknown_ev"] == 1
    assert {state_of(hand, path.ev) for path in hand.profile} == {EvState.GOOD}
