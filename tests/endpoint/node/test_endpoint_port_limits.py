# SPDX-License-Identifier: BSD-2-Clause
"""Ports whose interface has no room for full packets any more: out of use until it has (decisions.md)."""

from __future__ import annotations

import pytest
from hand_operations import PORT_STATUS_UPDATE
from hand_peer import MILLISECOND, PROBE, HandPeer, data, numbers, of

from mrc.endpoint.completions import WorkStatus
from mrc.endpoint.config import QpConfig
from mrc.endpoint.events import Event
from mrc.endpoint.node.local_ports import PortLimit
from mrc.endpoint.qp_states import QpState
from mrc.trace.vocabulary import PORT

CONFIG = QpConfig(path_mtu=1024)
# A local ACK timeout of 1.05 ms, once more, over.
BRIEF = QpConfig(path_mtu=1024, timeout=10, linear_retries=1, exponential_retries=0)
SHORT = PortLimit(700, "interface p0 has MTU 800")


def ports(hand: HandPeer, length: int = 1024 * 40) -> set[int]:
    """The ports that a write of so much goes out of; it is acknowledged at once."""
    hand.post(length)
    sent = data(hand.transmitted())
    hand.receive(hand.ack(numbers(hand, sent)[-1]))
    return {packet.port for packet in sent}


def masks(hand: HandPeer) -> list[int]:
    """What the peer is told of our ports now."""
    requests = [packet["erth"] for packet in hand.transmitted() if "erth" in packet.layers]
    return [fields["port_status_mask"] for fields in requests if fields["op"] == PORT_STATUS_UPDATE]


def test_a_port_without_room_for_full_packets_carries_no_data_until_it_has_room() -> None:
    hand = HandPeer(CONFIG)
    assert ports(hand) == {0, 1}
    hand.endpoint.limit_port(0, SHORT, hand.now)
    assert ports(hand) == {1}
    assert not hand.endpoint.port_is_up(0)
    assert hand.endpoint.link_is_up(0)
    hand.endpoint.limit_port(0, PortLimit(1023, "interface p0 has MTU 1123"), hand.now)
    assert ports(hand) == {1}
    hand.endpoint.limit_port(0, PortLimit(1024, "interface p0 has MTU 1124"), hand.now)
    assert ports(hand) == {0, 1}
    hand.endpoint.limit_port(0, SHORT, hand.now)
    hand.endpoint.limit_port(0, None, hand.now)
    assert ports(hand) == {0, 1}


def test_the_peer_and_the_owner_hear_of_it_once() -> None:
    """The peer's full packets would not arrive there either. Plane 1 is the second port: bit 1."""
    hand = HandPeer(CONFIG)
    started = hand.now
    for _ in range(2):
        hand.endpoint.limit_port(0, SHORT, hand.now)
    assert masks(hand) == [0b10]
    hand.now += MILLISECOND
    hand.endpoint.limit_port(0, None, hand.now)
    assert masks(hand) == [0b11]
    assert list(hand.endpoint.events) == [
        Event(PORT, started, None, ("local", 0, False), "port 0 is down: interface p0 has MTU 800"),
        Event(PORT, started + MILLISECOND, None, ("local", 0, True), "port 0 is up"),
    ]


def test_a_qp_whose_packets_fit_keeps_the_port() -> None:
    """700 bytes of payload have room for a path MTU of 512."""
    hand = HandPeer(QpConfig(path_mtu=512))
    hand.endpoint.limit_port(0, SHORT, hand.now)
    assert ports(hand) == {0, 1}
    assert list(hand.endpoint.events) == []
    # One with longer packets takes it out of use as it is connected, and gives it back as it goes.
    longer = hand.connect(CONFIG, qpn=0x77)
    assert ports(hand) == {1}
    hand.endpoint.destroy_qp(longer)
    assert ports(hand) == {0, 1}


def test_a_qp_that_has_failed_keeps_no_port_out_of_use() -> None:
    hand = HandPeer(CONFIG)
    hand.endpoint.limit_port(0, SHORT, hand.now)
    hand.qp.to_error("enough")
    hand.connect(QpConfig(path_mtu=512), qpn=0x77)
    assert hand.endpoint.port_is_up(0)


def test_a_qp_made_afterwards_avoids_the_port_and_its_peer_is_told() -> None:
    hand = HandPeer(CONFIG)
    hand.endpoint.destroy_qp(hand.qp)
    hand.endpoint.limit_port(0, SHORT, hand.now)
    assert hand.endpoint.port_is_up(0)
    hand.qp = hand.connect(CONFIG)
    assert masks(hand) == [0b10]
    assert ports(hand) == {1}


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2)])
def test_a_port_is_in_use_only_when_nothing_keeps_it_out(order: tuple[int, ...]) -> None:
    """Link, controller, MTU: whatever comes and goes first."""
    hand = HandPeer(CONFIG)
    out = (
        lambda: hand.endpoint.set_port(0, False, hand.now),
        lambda: hand.endpoint.enable_port(0, False, hand.now),
        lambda: hand.endpoint.limit_port(0, SHORT, hand.now),
    )
    back = (
        lambda: hand.endpoint.set_port(0, True, hand.now),
        lambda: hand.endpoint.enable_port(0, True, hand.now),
        lambda: hand.endpoint.limit_port(0, None, hand.now),
    )
    for step in order:
        out[step]()
        assert not hand.endpoint.port_is_up(0)
    for step in order[:-1]:
        back[step]()
        assert not hand.endpoint.port_is_up(0)
    back[order[-1]]()
    assert hand.endpoint.port_is_up(0)
    assert [event.values for event in hand.endpoint.events] == [("local", 0, False), ("local", 0, True)]
    # The MTU is named where it is what took the port out of use.
    assert (": interface p0" in hand.endpoint.events[0].detail) == (order[0] == 2)


def test_what_was_refused_is_sent_on_the_other_plane_and_condemns_no_ev() -> None:
    """The packets of port 0 never left; short packets still pass there, and no probe makes a path of it."""
    hand = HandPeer(CONFIG)
    hand.post(1024 * 40)
    first = data(hand.transmitted())
    hand.endpoint.limit_port(0, SHORT, hand.now)
    arrived = [number for number, packet in zip(numbers(hand, first), first, strict=True) if packet.port == 1]
    refused = set(numbers(hand, first)) - set(arrived)
    hand.now += MILLISECOND // 10
    hand.receive(hand.sack(-1, above=arrived, trigger=arrived[-1]))
    hand.post(1024 * 4)
    later = numbers(hand, data(hand.transmitted()))
    hand.now += MILLISECOND // 10
    again = hand.exchange(hand.sack(-1, above=[*arrived, *later], trigger=later[-1]))
    assert set(numbers(hand, data(again))) == refused
    assert {packet.port for packet in data(again)} == {1}
    after = hand.run(hand.now + 50 * MILLISECOND)
    assert {packet.port for packet in (*data(after), *of(after, PROBE))} <= {1}
    hand.receive(hand.ack(43))
    hand.endpoint.limit_port(0, None, hand.now)
    # At once, with nothing to restore.
    assert ports(hand) == {0, 1}


def test_with_no_port_that_takes_full_packets_the_budget_ends_the_qp_and_says_why() -> None:
    """behaviour.md, Paths: "With no usable EV at all ... the local ACK budget decides." """
    hand = HandPeer(BRIEF)
    hand.endpoint.limit_port(0, PortLimit(300, "interface p0 has MTU 400"), hand.now)
    hand.endpoint.limit_port(1, SHORT, hand.now)
    started = hand.now
    hand.post(1024)
    assert data(hand.run(started + 100 * MILLISECOND)) == []
    assert hand.completed() == [(0, WorkStatus.RETRY_EXCEEDED)]
    budget = (
        f"retry counter exceeded: no acknowledgement of PSN {hand.psn(0)} after 1 retries, then a local ACK timeout"
    )
    assert hand.qp.error == (
        "no port takes packets with a path MTU of 1024: interface p0 has MTU 400, interface p0 has MTU 800: "
        f"raise the interface's MTU, or use --mtu 512 ({budget})"
    )


def test_room_that_is_back_in_time_saves_the_qp() -> None:
    hand = HandPeer(BRIEF)
    for port in (0, 1):
        hand.endpoint.limit_port(port, SHORT, hand.now)
    hand.post(1024)
    assert data(hand.run(hand.now + MILLISECOND // 2)) == []
    hand.endpoint.limit_port(1, None, hand.now)
    (sent,) = data(hand.transmitted())
    assert sent.port == 1
    hand.receive(hand.ack(0))
    assert hand.completed() == [(0, WorkStatus.SUCCESS)]


@pytest.mark.parametrize(
    ("second", "says"),
    [
        (lambda endpoint, now: None, "retry counter exceeded"),
        (lambda endpoint, now: endpoint.set_port(1, False, now), "no port takes packets with a path MTU of 1024"),
        (lambda endpoint, now: endpoint.limit_port(1, PortLimit(0, "p1"), now), "no port takes .*: p1, interface p0"),
    ],
    ids=["the other port works", "the other port has no link", "the other port refuses all"],
)
def test_what_is_said_when_the_budget_is_gone(second: object, says: str) -> None:
    """Of an MTU only where it is to blame."""
    hand = HandPeer(BRIEF)
    hand.endpoint.limit_port(0, SHORT, hand.now)
    second(hand.endpoint, hand.now)  # type: ignore[operator]
    hand.post(1024)
    hand.run(hand.now + 100 * MILLISECOND)
    assert hand.qp.state == QpState.ERROR
    assert hand.qp.error is not None
    assert hand.qp.error.startswith(says.partition(" .*")[0])


def test_without_room_for_any_path_mtu_none_is_advised() -> None:
    hand = HandPeer(BRIEF)
    for port in (0, 1):
        hand.endpoint.limit_port(port, PortLimit(255, f"interface p{port} has MTU 300"), hand.now)
    hand.post(1024)
    hand.run(hand.now + 100 * MILLISECOND)
    assert hand.qp.error is not None
    assert "has MTU 300: raise the interface's MTU (retry counter exceeded" in hand.qp.error
