# SPDX-License-Identifier: BSD-2-Clause
"""Ports that go down and come back, here and at the peer (behaviour.md, Ports; wire.md section 8)."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hand_operations import PORT_STATUS_UPDATE, RESPONSE, answered, request, requests
from hand_peer import MILLISECOND, HandPeer, Sent, chosen_evs, data, of

from mrc.endpoint.config import EndpointConfig, PeerNodeConfig, QpConfig
from mrc.errors import CallerError
from mrc.wire.profile import WireProfile

SMALL = QpConfig(path_mtu=256)


def _updates(sent: list[Sent]) -> list[Sent]:
    return requests(sent, PORT_STATUS_UPDATE)


def _status(mask: int, req_id: int = 1, plane: int = 0) -> bytes:
    return request(req_id, PORT_STATUS_UPDATE, port_status_mask=mask, plane=plane)


def _ports_of_data(hand: HandPeer, packets: int = 24) -> set[int]:
    hand.post(256 * packets)
    sent = data(hand.transmitted())
    assert len(sent) == packets
    hand.receive(hand.ack((sent[-1].psn - hand.qp.first_psn) & 0xFFFFFF))
    return {packet.port for packet in sent}


# ------------------------------------------------------------------ what we say


@pytest.mark.parametrize(("first_bit", "mask"), [(0, 0b10), (1, 0b100)])
def test_a_port_that_goes_down_is_told_on_another_plane(first_bit: int, mask: int) -> None:
    """One bit a port, 1 is up; port n, counted from 1, is bit n - 1, with the switch bit n."""
    hand = HandPeer(endpoint=EndpointConfig(wire=WireProfile(first_port_bit=first_bit)))
    hand.endpoint.set_port(0, False, hand.now)
    (update,) = hand.transmitted()
    assert (update["bth"]["dqp"], update["erth"]["op"]) == (2, PORT_STATUS_UPDATE)
    assert update["erth"]["port_status_mask"] == mask
    assert update.port == 1


def test_repetitions_alternate_the_planes_that_are_up() -> None:
    """Repeated on another plane."""
    hand = HandPeer(planes=3)
    hand.endpoint.set_port(1, False, hand.now)
    ports = [packet.port for packet in hand.run(hand.now + 500 * MILLISECOND)]
    assert set(ports) == {0, 2}
    assert all(a != b for a, b in pairwise(ports))


def test_every_peer_node_is_told_once() -> None:
    """Node to node: two QPs to one peer make one update."""
    hand = HandPeer()
    hand.connect(hand.config, qpn=99)
    hand.connect(hand.config, qpn=100, sources={0: 0xF0, 1: 0xF1})
    hand.endpoint.set_port(0, False, hand.now)
    sent = hand.transmitted()
    assert len(_updates(sent)) == len(sent) == 2
    assert len({packet.psn for packet in sent}) == 2


def test_a_newer_status_takes_the_place_of_one_not_answered() -> None:
    """Down and up again before any answer: only what holds is repeated."""
    hand = HandPeer()
    hand.endpoint.set_port(0, False, hand.now)
    (down,) = hand.transmitted()
    hand.endpoint.set_port(0, True, hand.now)
    sent = hand.run(hand.now + 300 * MILLISECOND)
    assert len(sent) > 3
    assert {packet["erth"]["port_status_mask"] for packet in sent} == {0b11}
    assert down.psn not in {packet.psn for packet in sent}


def test_an_old_status_that_came_through_late_is_put_right() -> None:
    """The peer answers the older of two updates last: it may hold the older one for true, so it is told again."""
    hand = HandPeer()
    hand.endpoint.set_port(0, False, hand.now)
    (down,) = hand.transmitted()
    hand.endpoint.set_port(0, True, hand.now)
    (up,) = hand.transmitted()
    answered(hand, up)
    answered(hand, down, plane=1)
    (again,) = hand.transmitted()
    assert again["erth"]["port_status_mask"] == 0b11
    assert again.psn not in (up.psn, down.psn)
    answered(hand, again)
    assert hand.run(hand.now + 10_000 * MILLISECOND) == []


def test_an_answer_to_a_status_superseded_long_ago_makes_it_say_again_what_holds() -> None:
    """Nobody waits for that answer, but the peer that gave it took the old status for news."""
    hand = HandPeer()
    hand.endpoint.set_port(0, False, hand.now)
    (down,) = hand.transmitted()
    hand.endpoint.set_port(0, True, hand.now)
    answered(hand, hand.transmitted()[0])
    assert hand.run(hand.now + 1000 * MILLISECOND) == []
    answered(hand, down, plane=1)
    (update,) = hand.transmitted()
    assert update["erth"]["port_status_mask"] == 0b11
    assert hand.counters["unexpected_endpoint_response"] == 1


def test_a_repetition_that_is_due_when_the_port_comes_back_is_not_sent() -> None:
    hand = HandPeer()
    hand.endpoint.set_port(0, False, hand.now)
    hand.transmitted()
    hand.now += 10 * MILLISECOND
    hand.endpoint.on_timer(hand.now)
    hand.endpoint.set_port(0, True, hand.now)
    assert [packet["erth"]["port_status_mask"] for packet in hand.transmitted()] == [0b11]


def test_a_status_never_sent_needs_no_answer() -> None:
    """A port that flaps between two turns of the loop."""
    hand = HandPeer()
    for up in (False, True, False):
        hand.endpoint.set_port(0, up, hand.now)
    (update,) = hand.transmitted()
    assert update["erth"]["port_status_mask"] == 0b10


def test_with_no_port_up_it_waits_for_one() -> None:
    hand = HandPeer()
    for port in (0, 1):
        hand.endpoint.set_port(port, False, hand.now)
    assert hand.run(hand.now + 100 * MILLISECOND) == []
    hand.endpoint.set_port(1, True, hand.now)
    (update,) = hand.transmitted()
    assert (update.port, update["erth"]["port_status_mask"]) == (1, 0b10)


def test_a_peer_met_while_a_port_is_down_is_told() -> None:
    """Every peer: also one connected to afterwards."""
    hand = HandPeer()
    hand.endpoint.set_port(1, False, hand.now)
    answered(hand, hand.transmitted()[0])
    hand.connect(hand.config, qpn=100, sources={0: 0xF0, 1: 0xF1})
    (update,) = hand.transmitted()
    assert (update.port, update["erth"]["port_status_mask"]) == (0, 0b01)


def test_qps_that_follow_to_a_peer_already_told_make_no_update_of_their_own() -> None:
    hand = HandPeer()
    hand.endpoint.set_port(1, False, hand.now)
    (update,) = hand.transmitted()
    for qpn in (101, 102):
        hand.connect(hand.config, qpn=qpn)
    assert hand.transmitted() == []
    assert {packet.psn for packet in hand.run(hand.now + 50 * MILLISECOND)} == {update.psn}


def test_a_peer_that_is_gone_is_told_nothing() -> None:
    hand = HandPeer()
    hand.endpoint.set_port(0, False, hand.now)
    hand.transmitted()
    hand.endpoint.destroy_qp(hand.qp)
    assert hand.run(hand.now + 1000 * MILLISECOND) == []
    assert hand.endpoint.next_deadline() is None


# ------------------------------------------------------------------ what the peer says


def test_a_repeated_status_is_answered_and_changes_nothing() -> None:
    hand = HandPeer(SMALL)
    for _ in range(3):
        assert len(of(hand.exchange(_status(0b10, plane=1), port=1), RESPONSE)) == 1
    assert len(hand.endpoint.events) == 1
    assert hand.counters["port_updates_received"] == 3


def test_the_first_port_bit_of_the_wire_profile_counts_here_too() -> None:
    """MRC-OP-03."""
    hand = HandPeer(SMALL, endpoint=EndpointConfig(wire=WireProfile(first_port_bit=1)))
    hand.exchange(_status(0b010))
    assert _ports_of_data(hand) == {0}


def test_a_qp_connected_later_avoids_the_plane_too() -> None:
    """The status is the node's, not the QP's."""
    hand = HandPeer(SMALL)
    hand.exchange(_status(0b10, plane=1), port=1)
    hand.qp = hand.connect(SMALL, qpn=77)
    assert _ports_of_data(hand) == {1}


def test_other_peers_are_not_concerned() -> None:
    hand = HandPeer(SMALL)
    other = hand.connect(SMALL, qpn=100, sources={0: 0xF0, 1: 0xF1})
    hand.exchange(_status(0b10, plane=1), port=1)
    assert other.paths is not None
    assert {int(other.paths.port[index]) for index in chosen_evs(other.paths, 64)} == {0, 1}


def test_down_at_either_end_is_down() -> None:
    """Both must be back before the plane is used."""
    hand = HandPeer(SMALL)
    hand.exchange(_status(0b10, 1, plane=1), port=1)
    hand.endpoint.set_port(0, False, hand.now)
    answered(hand, hand.transmitted()[0], plane=1)
    hand.exchange(_status(0b11, 2, plane=1), port=1)
    assert _ports_of_data(hand) == {1}
    hand.endpoint.set_port(0, True, hand.now)
    answered(hand, hand.transmitted()[0], plane=1)
    assert _ports_of_data(hand) == {0, 1}


@pytest.mark.parametrize(
    "values",
    [
        {"port_update_interval_ns": 0},
        {"port_update_interval_ns": 2, "port_update_interval_max_ns": 1},
        {"ev_probe_timeout_ns": 0},
        {"reverse_evs_per_plane": 0},
    ],
)
def test_a_configuration_that_cannot_work_is_refused(values: dict[str, int]) -> None:
    with pytest.raises(CallerError):
        PeerNodeConfig(**values)
