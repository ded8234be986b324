# SPDX-License-Identifier: BSD-2-Clause
"""What a QP still owes its peer, which is why its owner waits before ending it (mrc.verbs, `QP.drain`)."""

from __future__ import annotations

from hand_peer import FIRST, LAST, MILLISECOND, HandPeer

from mrc.endpoint.config import QpConfig, ResponderConfig

MTU = 256
CONFIG = QpConfig(path_mtu=MTU)


def test_nothing_is_owed_to_a_peer_that_is_not_known_or_sent_nothing() -> None:
    hand = HandPeer(CONFIG)
    assert not hand.endpoint.create_qp(CONFIG, "fixed").owes()
    assert not hand.qp.owes()


def test_an_answer_is_owed_until_it_has_been_sent() -> None:
    hand = HandPeer(CONFIG)
    for packet in (hand.request(0, b"x"), hand.probe(), hand.request(5000, b"x")):
        hand.receive(packet)
        assert hand.qp.owes()
        assert hand.transmitted()
        assert not hand.qp.owes()


def test_an_ack_that_waits_is_owed() -> None:
    """behaviour.md, Transport ACK: "At most one per received batch"; the config lets it wait beside a SACK."""
    hand = HandPeer(QpConfig(path_mtu=MTU, responder=ResponderConfig(ack_after_sack_ns=MILLISECOND)))
    hand.exchange(hand.request(0, b"x", bth={"ackreq": 1}))
    assert hand.qp.owes()
    hand.run(hand.now + MILLISECOND)
    assert not hand.qp.owes()


def test_what_lies_above_a_hole_is_owed_the_packets_below() -> None:
    hand = HandPeer(CONFIG)
    hand.exchange(hand.request(1, b"x"))
    assert hand.qp.owes()
    hand.exchange(hand.request(0, b"x"))
    assert not hand.qp.owes()


def test_a_message_in_part_is_owed_the_rest() -> None:
    hand = HandPeer(CONFIG)
    hand.exchange(hand.request(0, bytes(MTU), op=FIRST, dmalen=MTU + 1))
    assert hand.qp.owes()
    hand.exchange(hand.request(1, b"x", op=LAST, va=hand.region.va + MTU, dmalen=MTU + 1))
    assert not hand.qp.owes()
