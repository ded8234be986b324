# SPDX-License-Identifier: BSD-2-Clause
"""Where service time is not agreed a timestamp comes back as it was, in whichever unit (behaviour.md, Responder)."""

from __future__ import annotations

import pytest
from hand_peer import SACK, HandPeer, of

from mrc.endpoint.config import NO_CAPABILITIES, QpConfig


@pytest.mark.parametrize("tsr", [0, 1])
@pytest.mark.parametrize("held_ns", [0, 1, 5_000, 3_000_000])
def test_a_timestamp_comes_back_as_it_was(tsr: int, held_ns: int) -> None:
    """ "Service time, where negotiated". MRC-SACK-26."""
    hand = HandPeer(QpConfig(path_mtu=256), capabilities=NO_CAPABILITIES)
    hand.receive(hand.request(0, b"x", bth={"ackreq": 1}, timestamp=500, tsr=tsr))
    hand.now += held_ns
    (sack,) = of(hand.transmitted(), SACK)
    assert sack["cc_state"]["tx_timestamp"] == 500
