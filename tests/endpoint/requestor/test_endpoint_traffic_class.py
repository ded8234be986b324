# SPDX-License-Identifier: BSD-2-Clause
"""The traffic class of a QP's packets, whatever their kind (wire.md section 12)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hand_peer import ACK, MICROSECOND, PROBE, SACK, SECOND, HandPeer, Sent, data, numbers, of

from mrc.endpoint.config import NO_CAPABILITIES, Capability, QpConfig
from mrc.errors import CallerError

CONFIG = QpConfig(path_mtu=256, timeout=20)  # a local ACK timeout of 1.07 s, out of the way of other timers


def _every_kind(hand: HandPeer) -> dict[str, list[Sent]]:
    """First transmissions, retransmissions, a tail probe, SACKs, ACKs and a NAK of one QP."""
    first: list[Sent] = []
    for _ in range(20):
        hand.post(256)
        first += data(hand.transmitted())
        hand.now += 10 * MICROSECOND
    hand.now += 100 * MICROSECOND
    again = data(hand.exchange(hand.sack(4, above=range(6, 20), trigger=19)))
    assert numbers(hand, again) == [5]
    hand.receive(hand.ack(19))
    hand.post(256)
    first += data(hand.transmitted())
    probes = of(hand.run(hand.now + SECOND // 2, stop_at_first=True), PROBE)
    answers = hand.exchange(hand.request(0, b"x", bth={"ackreq": 1}))
    naks = of(hand.exchange(hand.request(1, b"x", rkey=1)), ACK)
    kinds = {
        "data": first,
        "retransmission": again,
        "probe": probes,
        "sack": of(answers, SACK),
        "ack": of(answers, ACK),
        "nak": naks,
    }
    assert all(kinds.values()), kinds
    return kinds


@pytest.mark.parametrize("capabilities", [NO_CAPABILITIES, Capability.TRIM_NACK])
def test_a_qp_may_have_a_traffic_class_of_its_own(capabilities: Capability) -> None:
    """Its data, retransmissions and probes have it, with ECT(0) in place of its ECN bits; answers do not."""
    for given in (3 << 2, 3 << 2 | 3):
        hand = HandPeer(replace(CONFIG, traffic_class=given), capabilities=capabilities)
        kinds = _every_kind(hand)
        for kind in ("data", "retransmission", "probe"):
            assert {packet.traffic_class for packet in kinds[kind]} == {3 << 2 | 0b10}, kind
        for kind in ("sack", "ack", "nak"):
            assert {packet.traffic_class for packet in kinds[kind]} == {46 << 2}, kind


@pytest.mark.parametrize("wrong", [-1, 256])
def test_a_traffic_class_is_a_byte(wrong: int) -> None:
    with pytest.raises(CallerError, match=r"traffic_class must be 0\.\.255"):
        QpConfig(traffic_class=wrong)
