# SPDX-License-Identifier: BSD-2-Clause
"""The window of PSNs that transfers have: a packet lost twice does not shut it (mrc.net.node.transfer_config)."""

from __future__ import annotations

from hand_peer import MICROSECOND, MILLISECOND, HandPeer, Sent, data, numbers

from mrc.endpoint.congestion.fixed import FixedWindowConfig
from mrc.endpoint.endpoint import EndpointConfig
from mrc.net.tuning import transfer_config

TRANSFER = transfer_config(path_mtu=256)
RTT = 2 * MILLISECOND
SACK_BITS = 64


def _all_but_the_first(hand: HandPeer, sent: list[Sent]) -> list[bytes]:
    """What a responder says that has never seen packet 0, of these."""
    arrived = {number for number in numbers(hand, sent) if number}
    last = max(arrived)
    return [
        hand.sack(
            -1, {number for number in arrived if start <= number < start + SACK_BITS}, offset=start + 1, trigger=last
        )
        for start in range(min(arrived), last + 1, SACK_BITS)
    ]


def test_a_packet_lost_twice_does_not_shut_the_window() -> None:
    """Four round trips of full windows go by until it could have been noticed twice, and its third copy arrives."""
    hand = HandPeer(TRANSFER)
    hand.post(256 * 8 * FixedWindowConfig().window_packets)
    sent, copies = data(hand.transmitted()), 1
    for _ in range(4):
        assert len(sent) >= EndpointConfig().transmit_batch
        hand.now += RTT
        hand.receive(*_all_but_the_first(hand, sent))
        hand.now += 10 * MICROSECOND
        sent = data(hand.transmitted())
        copies += numbers(hand, sent).count(0)
    assert max(numbers(hand, sent)) >= 4 * FixedWindowConfig().window_packets
    assert copies >= 3
