# SPDX-License-Identifier: BSD-2-Clause
"""Port status updates the peer never sent. They name no QP and no PSN: its address is all it takes to forge one."""

from __future__ import annotations

from attacks import STRANGER
from hand_operations import EV_PROBE, PORT_STATUS_UPDATE, RESPONSE, request, requests, response
from hand_peer import MILLISECOND, SECOND, HandPeer, data, of

from mrc.endpoint.config import QpConfig
from mrc.endpoint.qp_states import QpState

CONFIG = QpConfig(path_mtu=256)
BURST, PER_SECOND = 64, 100


def status(mask: int, req_id: int = 1, **carried: int) -> bytes:
    return request(req_id, PORT_STATUS_UPDATE, port_status_mask=mask, **carried)


def ports_of_data(hand: HandPeer) -> set[int]:
    for _ in range(32):
        hand.post(256)
    sent = data(hand.transmitted())
    newest = max((hand.qp.requestor.sent.next_psn - 1 - hand.qp.requestor.sent.una, -1))
    hand.receive(hand.ack(hand.qp.requestor.sent.una + newest - hand.qp.first_psn))
    return {packet.port for packet in sent}


def test_a_strangers_status_is_neither_believed_nor_answered() -> None:
    hand = HandPeer(CONFIG)
    assert hand.exchange(*(status(0, number, source=STRANGER) for number in range(50))) == []
    assert ports_of_data(hand) == {0, 1}
    assert hand.counters["unknown_peer"] == 50


def test_one_plane_said_to_be_down_costs_that_plane_and_no_more() -> None:
    hand = HandPeer(CONFIG)
    hand.exchange(status(0b10))
    assert ports_of_data(hand) == {1}
    assert hand.qp.state == QpState.RTS


def test_no_status_stops_a_peer_that_is_heard_of_for_longer_than_a_second() -> None:
    """By this status no port of the peer is left, which none can say that is heard of: a second later, the longest it
    waits before it says again what holds, it is believed no more for the planes its packets come by."""
    hand = HandPeer(CONFIG)
    hand.exchange(status(0))
    hand.post(256)
    assert data(hand.exchange(hand.request(0, b"x"))) == [], "believed for now: MRC-PATH-16"
    hand.now += SECOND + MILLISECOND
    said = hand.exchange(hand.request(1, b"x"))
    assert {packet.port for packet in data(said)} == {0}
    hand.exchange(hand.request(2, b"x", plane=1), port=1)
    assert ports_of_data(hand) == {0, 1}
    assert hand.counters["port_status_overruled"] == 2
    assert hand.qp.state == QpState.RTS


def test_a_stranger_cannot_overrule_a_status() -> None:
    hand = HandPeer(CONFIG)
    hand.exchange(status(0))
    hand.now += 2 * SECOND
    hand.exchange(hand.request(0, b"x", source=STRANGER), hand.request(0, b"x", plane=1), port=0)
    assert ports_of_data(hand) == set()


def test_a_status_for_one_plane_is_overruled_like_one_for_all() -> None:
    """One forged packet must not take seven planes of eight out for good: what is heard on them later is evidence."""
    hand = HandPeer(CONFIG)
    hand.exchange(status(0b01))
    hand.exchange(hand.request(0, b"x", plane=1), port=1)
    assert ports_of_data(hand) == {0}, "it may have been on its way when the peer sent the status"
    hand.now += SECOND + MILLISECOND
    hand.exchange(hand.request(1, b"x"), port=0)
    assert ports_of_data(hand) == {0}, "nothing was heard on plane 1"
    hand.exchange(hand.request(2, b"x", plane=1), port=1)
    assert ports_of_data(hand) == {0, 1}
    assert hand.counters["port_status_overruled"] == 1


def test_a_status_that_is_repeated_holds_no_longer_than_a_second_after_it() -> None:
    hand = HandPeer(CONFIG)
    for number in range(5):
        hand.exchange(status(0b01, number))
        assert ports_of_data(hand) == {0}
        hand.now += SECOND + MILLISECOND
        hand.exchange(hand.request(number, b"x", plane=1), port=1)
        assert ports_of_data(hand) == {0, 1}


def test_an_answer_to_a_probe_is_evidence_too() -> None:
    """A peer that has nothing to say to any QP is heard all the same."""
    hand = HandPeer(CONFIG)
    (node,) = hand.endpoint.peer_nodes.values()
    hand.exchange(status(0b01))
    hand.now += SECOND + MILLISECOND
    asked = hand.endpoint.probe_ev(node, 0)
    hand.transmitted()
    hand.exchange(response(asked, EV_PROBE, plane=1), port=1)
    assert ports_of_data(hand) == {0, 1}


def test_a_true_status_of_one_plane_holds_for_as_long_as_nothing_comes_by_it() -> None:
    """A controller drains a plane: its node sends nothing from that port, so that nothing contradicts the status."""
    hand = HandPeer(CONFIG)
    hand.exchange(status(0b10, plane=1), port=1)
    for number in range(20):
        hand.now += SECOND
        hand.exchange(hand.request(number, b"x", plane=1), port=1)
    assert ports_of_data(hand) == {1}


def test_statuses_that_contradict_each_other_change_planes_so_often_and_no_more() -> None:
    """Each change costs every QP towards that peer something. Those over the rate are not answered, so that a peer that
    means it says it again."""
    hand = HandPeer(CONFIG)
    answers = 0
    batch = [status(0b01 if number % 2 else 0b10, number) for number in range(100)]
    for turn in range(100):
        answers += len(of(hand.exchange(*batch), RESPONSE))
        hand.now += MILLISECOND
        assert turn or answers
    most = BURST + PER_SECOND // 10 + 1
    assert BURST <= answers <= most
    assert len(hand.endpoint.events) <= 2 * most
    hand.now += SECOND
    (answer,) = of(hand.exchange(status(0b11, 77)), RESPONSE)
    assert answer.psn == 77
    assert ports_of_data(hand) == {0, 1}


def test_answers_to_what_was_never_asked_cause_nothing() -> None:
    hand = HandPeer(CONFIG)
    forged = [response(at, PORT_STATUS_UPDATE) for at in range(100, 200)]
    assert [packet for _ in range(50) for packet in hand.exchange(*forged)] == []
    assert hand.counters["unexpected_endpoint_response"] == 5000


def test_answers_once_more_to_what_was_asked_cause_one_update_and_not_a_flood() -> None:
    """An answer under an id of ours makes the endpoint say once more what holds, until the peer answers that: one
    request is out."""
    hand = HandPeer(CONFIG)
    (node,) = hand.endpoint.peer_nodes.values()
    asked = [hand.endpoint.probe_ev(node, 0) for _ in range(100)]
    hand.transmitted()
    hand.receive(*(response(at, EV_PROBE) for at in asked))
    forged = [response(at, PORT_STATUS_UPDATE) for at in asked]
    sent = [packet for _ in range(50) for packet in requests(hand.exchange(*forged), PORT_STATUS_UPDATE)]
    assert len(sent) == 1
