# SPDX-License-Identifier: BSD-2-Clause
"""Requests that end their QP: a NAK, nothing written, ERROR and flushed work (behaviour.md, Responder and Errors)."""

from __future__ import annotations

from hand_peer import ACK, HandPeer, of

from mrc.endpoint.config import QpConfig
from mrc.endpoint.qp_states import QpState

MTU = 256
CONFIG = QpConfig(path_mtu=MTU)
ACCESS = 0x62


def test_a_region_closed_or_only_read_from_is_no_region() -> None:
    """R_Key unknown: remote access error."""
    for close in (True, False):
        hand = HandPeer(CONFIG)
        region = hand.endpoint.memory.register(bytearray(100), va=0, remote_write=close)
        if close:
            assert hand.exchange(hand.request(0, b"x", rkey=region.rkey, va=0))[0]["aeth"]["syndrome"] == 0x1F
            hand.endpoint.memory.deregister(region)
        (nak,) = of(hand.exchange(hand.request(1, b"x", rkey=region.rkey, va=0)), ACK)
        assert nak["aeth"]["syndrome"] == ACCESS


def test_a_bad_request_that_is_a_duplicate_or_out_of_the_window_is_not_looked_at() -> None:
    """Only what would be written is checked: the PSN table comes first."""
    hand = HandPeer(CONFIG)
    hand.exchange(hand.request(0, b"x"), hand.request(2, b"x"))
    for number in (0, 2, 5000, -(1 << 23)):
        hand.exchange(hand.request(number, b"x", rkey=1))
        assert hand.qp.state == QpState.RTS
