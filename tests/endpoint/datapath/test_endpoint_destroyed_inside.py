# SPDX-License-Identifier: BSD-2-Clause
"""QPs are created and destroyed inside completion callbacks and event listeners, in the middle of a batch."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from dataclasses import replace

import pytest
from hand_operations import PORT_STATUS_UPDATE, request
from hand_peer import ACK, MILLISECOND, PEER_QPN, REGION_VA, SECOND, HandPeer, in_ipv6, of

from mrc.endpoint.completions import Completion, WorkStatus
from mrc.endpoint.config import QpConfig
from mrc.endpoint.events import Event
from mrc.endpoint.qp import QueuePair
from mrc.errors import CallerError
from mrc.trace.vocabulary import PORT, QP_STATE
from mrc.wire.packet import encode_transport

CONFIG = QpConfig(path_mtu=256, timeout=20)
NEW_QPN = 0x123456
# More than there are slots at first.
MANY = 40


class Application:
    """Gets the completions of one QP, and does `act` once: at the first of them, or (`at_event`) when the QP fails."""

    def __init__(
        self, hand: HandPeer, act: Callable[[], object], *, at_event: bool = False, config: QpConfig = CONFIG
    ) -> None:
        self.completions: list[Completion] = []
        self.acted = 0
        self._act = act
        self._at_event = at_event
        endpoint = hand.endpoint
        self.qp = endpoint.create_qp(config, "fixed", complete=self)
        bring_up(hand, self.qp, PEER_QPN + 1)
        if at_event:
            endpoint.listeners.append(self._on_event)

    def __call__(self, completion: Completion) -> None:
        self.completions.append(completion)
        if not self._at_event:
            self._once()

    def _on_event(self, event: Event) -> None:
        if event.kind is QP_STATE and event.qpn == self.qp.qpn:
            self._once()

    def _once(self) -> None:
        if not self.acted:
            self.acted = 1
            self._act()
            gc.collect()
            self.acted = 2


def bring_up(hand: HandPeer, qp: QueuePair, peer_qpn: int) -> QueuePair:
    """Connect a QP to the hand's peer."""
    model = hand.connect(CONFIG, qpn=peer_qpn)
    assert model._parts is not None
    peer = model._parts.peer
    hand.endpoint.destroy_qp(model)
    qp.to_init()
    qp.to_rtr(peer)
    qp.to_rts()
    return qp


def to(
    qp: QueuePair | int, hand: HandPeer, number: int, payload: bytes, *, refused: bool = False, at: int = 0
) -> bytes:
    """A write to this QP, which refuses it for its R_Key or takes it."""
    qpn = qp if isinstance(qp, int) else qp.qpn
    rkey = hand.region.rkey ^ refused
    return hand.request(number, payload, va=REGION_VA + at, rkey=rkey, bth={"dqp": qpn})


def answers(hand: HandPeer) -> list[int]:
    """The QPs of the peer that are acknowledged now."""
    return [packet["bth"]["dqp"] for packet in of(hand.transmitted(), ACK)]


both = pytest.mark.parametrize("at_event", [False, True], ids=["completion", "event"])


@both
def test_a_qp_destroyed_in_the_middle_of_a_batch_takes_nothing_more_and_the_others_go_on(at_event: bool) -> None:
    hand = HandPeer(CONFIG)
    application = Application(hand, lambda: hand.endpoint.destroy_qp(application.qp), at_event=at_event)
    for wr_id in range(2):
        application.qp.post_receive(wr_id)
    hand.receive(
        to(hand.qp, hand, 0, b"one", at=0),
        to(application.qp, hand, 0, b"two", at=10),
        to(application.qp, hand, 1, b"three", refused=True, at=20),
        to(application.qp, hand, 2, b"four", at=30),
        to(hand.qp, hand, 1, b"five", at=40),
    )
    assert application.acted == 2
    assert [each.status for each in application.completions] == [WorkStatus.FLUSHED] * 2
    assert [bytes(hand.buffer[at : at + 5]).rstrip(b"\0") for at in range(0, 50, 10)] == [
        b"one",
        b"two",
        b"",
        b"",
        b"five",
    ]
    assert hand.counters["unknown_qp"] == 1
    assert answers(hand) == [PEER_QPN], "a QP that is gone answers nothing"
    assert hand.run(hand.now + SECOND) == []
    assert list(hand.endpoint.qps) == [hand.qp.qpn]


@both
def test_qps_created_in_the_middle_of_a_batch_make_it_forget_none_of_the_others(at_event: bool) -> None:
    hand = HandPeer(CONFIG)
    created: list[QueuePair] = []

    def create() -> None:
        created.append(bring_up(hand, hand.endpoint.create_qp(CONFIG, "fixed", qpn=NEW_QPN), PEER_QPN + 2))
        created.extend(hand.endpoint.create_qp(CONFIG, "fixed") for _ in range(MANY))

    application = Application(hand, create, at_event=at_event)
    application.qp.post_receive(0)
    hand.receive(
        to(hand.qp, hand, 0, b"one"),
        to(application.qp, hand, 0, b"", refused=False),
        to(application.qp, hand, 1, b"two", refused=True),
        to(NEW_QPN, hand, 0, b"three", at=10),
    )
    assert application.acted == 2
    assert len(created) == 1 + MANY
    assert bytes(hand.buffer[10:15]) == b"three"
    assert answers(hand) == [PEER_QPN, PEER_QPN + 1, PEER_QPN + 1, PEER_QPN + 2], "two are an ACK and a NAK"


@both
def test_a_qp_that_takes_the_place_of_one_destroyed_in_the_same_batch_is_another(at_event: bool) -> None:
    """By its number: packets behind are for it. In its slot: what is to be done for the old one is not done for it."""
    hand = HandPeer(CONFIG)

    def replace() -> None:
        qpn = application.qp.qpn
        hand.endpoint.destroy_qp(application.qp)
        bring_up(hand, hand.endpoint.create_qp(CONFIG, "fixed", qpn=qpn), PEER_QPN + 2)

    application = Application(hand, replace, at_event=at_event)
    application.qp.post_receive(0)
    hand.receive(
        to(application.qp, hand, 0, b"x", refused=True),
        to(application.qp, hand, 0, b"new", at=10),
        to(hand.qp, hand, 0, b"old", at=20),
    )
    assert application.acted == 2
    assert (bytes(hand.buffer[10:13]), bytes(hand.buffer[20:23])) == (b"new", b"old")
    assert sorted(answers(hand)) == [PEER_QPN, PEER_QPN + 2]
    assert hand.counters.get("unknown_qp", 0) == 0


@both
def test_a_qp_destroyed_when_its_retries_are_over_leaves_the_timers_of_others(at_event: bool) -> None:
    given_up_soon = replace(CONFIG, timeout=14)
    hand = HandPeer(given_up_soon)
    application = Application(
        hand, lambda: hand.endpoint.destroy_qp(application.qp), at_event=at_event, config=given_up_soon
    )
    other = hand.qp
    hand.qp = application.qp
    hand.post(600)
    hand.qp = other
    hand.post(600)
    hand.run(hand.now + 10 * SECOND)
    assert application.acted == 2
    assert [each.status for each in application.completions] == [WorkStatus.RETRY_EXCEEDED]
    assert hand.completed() == [(1, WorkStatus.RETRY_EXCEEDED)]
    assert list(hand.endpoint.qps) == [other.qpn]


@pytest.mark.parametrize("up", [False, True])
def test_all_qps_of_a_node_are_destroyed_when_it_tells_of_a_port(up: bool) -> None:
    hand = HandPeer(CONFIG)
    if up:
        hand.receive(request(1, PORT_STATUS_UPDATE, port_status_mask=0b01))
        hand.transmitted()

    def on_event(event: Event) -> None:
        if event.kind is PORT and event["side"] == "peer" and event["up"] == up:
            for qp in list(hand.endpoint.qps.values()):
                hand.endpoint.destroy_qp(qp)
            gc.collect()

    hand.endpoint.listeners.append(on_event)
    before, update, after = (
        to(hand.qp, hand, 0, b"before"),
        request(2, PORT_STATUS_UPDATE, port_status_mask=0b11 if up else 0b10),
        to(hand.qp, hand, 1, b"after", at=10),
    )
    hand.receive(before, update, after)
    assert (bytes(hand.buffer[:6]), bytes(hand.buffer[10:15])) == (b"before", bytes(5))
    assert hand.endpoint.qps == hand.endpoint.peer_nodes == {}
    assert hand.counters["unknown_qp"] == 1
    assert answers(hand) == []


def test_a_qp_destroyed_while_a_peer_that_was_doubted_is_heard_of_again() -> None:
    """The QP's own packet shows that a port status was forged: what is told then destroys the QP."""
    hand = HandPeer(CONFIG)
    hand.receive(request(1, PORT_STATUS_UPDATE, port_status_mask=0))
    hand.now += SECOND
    hand.endpoint.listeners.append(lambda event: hand.endpoint.destroy_qp(hand.qp))
    hand.receive(to(hand.qp, hand, 0, b"one"), to(hand.qp, hand, 1, b"two", at=10))
    assert hand.endpoint.qps == {}
    assert hand.counters["port_status_overruled"] == hand.counters["unknown_qp"] == 1
    assert answers(hand) == []


def test_what_belongs_to_a_qp_destroyed_inside_lives_until_the_next_batch() -> None:
    hand = HandPeer(CONFIG)
    seen: list[bool] = []

    class Owner:
        def __call__(self, completion: Completion) -> None:
            hand.endpoint.destroy_qp(hand.endpoint.qps[completion.qpn])

    owner = Owner()
    qp = bring_up(hand, hand.endpoint.create_qp(CONFIG, "fixed", complete=owner, qpn=NEW_QPN), PEER_QPN + 1)
    qp.post_receive(0)
    reference = weakref.ref(owner)
    del owner, qp

    def on_event(event: Event) -> None:
        gc.collect()
        seen.append(reference() is not None)

    hand.endpoint.listeners.append(on_event)
    hand.receive(to(NEW_QPN, hand, 0, b"x", refused=True))
    gc.collect()
    assert seen == [True]
    assert reference() is not None, "packets that are sent now may name its memory"
    hand.receive(in_ipv6(encode_transport([("bth", {"opcode": ACK, "dqp": 1})])))
    gc.collect()
    assert reference() is None


def test_a_qp_destroyed_between_batches_is_gone_at_once() -> None:
    hand = HandPeer(CONFIG)

    class Owner:
        def __call__(self, completion: Completion) -> None: ...

    owner = Owner()
    reference = weakref.ref(owner)
    hand.endpoint.destroy_qp(hand.endpoint.create_qp(CONFIG, "fixed", complete=owner))
    del owner
    gc.collect()
    assert reference() is None


def test_a_qp_that_was_destroyed_is_not_woken_and_not_brought_up() -> None:
    hand = HandPeer(CONFIG)
    qp = hand.connect(CONFIG, qpn=PEER_QPN + 1, to_rts=False)
    new = hand.endpoint.create_qp(CONFIG, "fixed")
    new.to_init()
    assert qp._parts is not None
    peer = qp._parts.peer
    for each in (qp, new):
        hand.endpoint.destroy_qp(each)
    with pytest.raises(CallerError, match="not one of this endpoint's"):
        qp.to_rts()
    with pytest.raises(CallerError, match="not one of this endpoint's"):
        new.to_rtr(peer)
    hand.endpoint.wake(qp)
    assert hand.run(hand.now + MILLISECOND) == []
    hand.qp = hand.connect(CONFIG, qpn=PEER_QPN + 2)
    hand.post(10)
    assert [packet["bth"]["dqp"] for packet in hand.transmitted()] == [PEER_QPN + 2]
