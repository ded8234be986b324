# SPDX-License-Identifier: BSD-2-Clause
"""What answers are sent with (wire.md section 12)."""

from __future__ import annotations

from hand_operations import EV_PROBE, request
from hand_peer import ACK, NACK, SACK, HandPeer

from mrc.endpoint.config import Capability, QpConfig

RESPONSE = 0xD9
TRIMMED = 12 << 2
CONTROL = 46 << 2


def test_all_answers_are_sent_with_dscp_control() -> None:
    """wire.md 12: "DSCP_CONTROL | SACK, NACK, ACK, endpoint responses | 46", not ECN-capable."""
    hand = HandPeer(QpConfig(path_mtu=256), capabilities=Capability.TRIM_NACK)
    sent = hand.exchange(hand.request(0, b"x", bth={"ackreq": 1}))
    sent += hand.exchange(hand.request(1, b"y")[:68], traffic_class=[TRIMMED])
    sent += hand.exchange(request(5, EV_PROBE))
    assert {packet.opcode for packet in sent} >= {SACK, NACK, ACK, RESPONSE}
    for packet in sent:
        inner = int.from_bytes(packet.whole[:4], "big") >> 20 & 0xFF
        assert (packet.traffic_class, inner) == (CONTROL, CONTROL), hex(packet.opcode)
