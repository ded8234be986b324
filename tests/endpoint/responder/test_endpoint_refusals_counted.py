# SPDX-License-Identifier: BSD-2-Clause
"""Which counter a refused request shows under, and what its event says (behaviour.md, Errors: "a named counter")."""

from __future__ import annotations

from typing import Any

import pytest
from hand_peer import ACK, LAST, REGION_VA, HandPeer, of

from mrc.endpoint.config import QpConfig, ResponderConfig

SIZE = 1 << 20
COUNTED: dict[str, tuple[str, str, dict[str, Any]]] = {
    "R_Key": ("bad_rkey", "names R_Key 0x12345678, which opens no region", {"rkey": 0x12345678}),
    "past the region": (
        "bad_address",
        "belongs to a message that does not lie in the region",
        {"va": REGION_VA + SIZE - 1},
    ),
    "2^62": ("bad_address", "names an address no region can have", {"va": 1 << 62}),
    "past 2^62": ("bad_address", "names an address no region can have", {"va": (1 << 64) - 8}),
    "length": ("bad_request_length", "carries 3 bytes of 9, which contradicts its opcode", {"dmalen": 9}),
    "Last of nothing": (
        "bad_request_length",
        "carries 0 bytes of 5, which contradicts its opcode",
        {"op": LAST, "payload": b"", "dmalen": 5},
    ),
    "immediate": (
        "invalid_request",
        "is a write with immediate, and there was no receive for it within 0 ms: post as many receives as writes with "
        "immediate are granted (max_wimm_dest), and another for each that completes",
        {"op": 0xCB, "rqmsn": 0},
    ),
}


def _bad(hand: HandPeer, number: int, others: dict[str, Any]) -> bytes:
    fields = {"payload": b"xyz", **others}
    return hand.request(number, fields.pop("payload"), **fields)


@pytest.mark.parametrize("why", COUNTED)
def test_every_refused_request_shows_under_its_counter(why: str) -> None:
    """Two QPs with one bad request each; the first offending PSN is the NAK's."""
    counter, says, others = COUNTED[why]
    hand = HandPeer(QpConfig(path_mtu=256, responder=ResponderConfig(wait_for_receive_ns=0)), memory=SIZE)
    for count in (1, 2):
        if count == 2:
            hand.qp = hand.connect(hand.config, qpn=0x77)
        ack, nak = of(hand.exchange(hand.request(0, b"good"), _bad(hand, 1, others)), ACK)
        assert ack.psn == hand.peer_first_psn
        assert nak.psn == hand.peer_first_psn + 1
        assert hand.counters[counter] == count
        assert hand.endpoint.events[-1].detail == f"the peer's request with PSN {hand.peer_first_psn + 1} {says}"


@pytest.mark.parametrize("why", ["R_Key", "past the region", "past 2^62", "length"])
def test_of_a_batch_the_first_offending_request_counts(why: str) -> None:
    """The others find the QP in ERROR, as they would in a batch of their own."""
    counter, _, others = COUNTED[why]
    hand = HandPeer(QpConfig(path_mtu=256), memory=SIZE)
    hand.exchange(hand.request(0, b"good"), *(_bad(hand, number, others) for number in (1, 2, 3)))
    assert hand.counters[counter] == 1
    assert hand.counters["wrong_qp_state"] == 2
    assert hand.counters["requests_received"] == 2


def test_a_peer_that_was_granted_no_immediates_and_sends_one() -> None:
    hand = HandPeer(QpConfig(path_mtu=256, max_wimm_dest=0))
    hand.qp.post_receive(1)
    (nak,) = of(hand.exchange(hand.request(0, b"x", op=0xCB)), ACK)
    assert nak["aeth"]["syndrome"] == 0x61
    assert hand.endpoint.events[-1].detail.endswith("is a write with immediate, and none are agreed")
