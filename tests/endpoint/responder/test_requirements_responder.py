# SPDX-License-Identifier: BSD-2-Clause
"""When a responder places, and what it says of what was trimmed (behaviour.md, Responder)."""

from __future__ import annotations

import pytest
from hand_peer import ECT0, PROBE, REGION_VA, SACK, HandPeer, data, of
from within import SEEN_FROM_WITHIN

from mrc.endpoint.config import QpConfig
from mrc.wire import octets

CONFIG = QpConfig(path_mtu=256)


@SEEN_FROM_WITHIN
def test_the_bitmap_moves_before_the_payload_is_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where cack_psn stands when the copying begins. MRC-RESP-12."""
    hand = HandPeer(CONFIG)
    stood_at: list[int] = []
    place = octets.place

    def observed(address: int, source: memoryview, source_at: int, length: int) -> None:
        stood_at.append(hand.qp.responder.received.cack_psn - hand.peer_first_psn)
        place(address, source, source_at, length)

    monkeypatch.setattr(octets, "place", observed)
    hand.receive(*(hand.request(at, b"data", va=REGION_VA + 4 * at) for at in range(8)))
    assert hand.buffer[:32] == b"data" * 8
    assert stood_at == list(range(8))


def test_a_probe_finds_what_was_trimmed_where_no_nack_tells() -> None:
    """Both halves: the responder's answer shows the hole, and a requestor that gets such an answer fills it.

    MRC-PROBE-06.
    """
    hand = HandPeer(CONFIG)
    trimmed = hand.request(1, b"data" * 10, traffic_class=12 << 2 | ECT0)[: 48 + 12 + 8]
    hand.receive(hand.request(0, b"a"), trimmed, hand.request(2, b"c", va=REGION_VA + 2))
    assert hand.counters["trimmed_received"] == 1
    hand.transmitted()
    (sack,) = of(hand.exchange(hand.probe()), SACK)
    assert (sack["seth"]["cack_psn"], sack["seth"]["sack_offset"]) == (hand.peer_first_psn, 1)
    assert sack["seth"]["bitmap"] == 0b10

    hand.post(256 * 3)
    sent = data(hand.transmitted())
    (probe,) = of(hand.run(hand.now + 10**9, stop_at_first=True), PROBE)
    hand.now += 100_000
    answer = hand.sack(0, above=[2], probe_id=probe["peth"]["probe_id"])
    (again,) = data(hand.exchange(answer))
    assert (again.psn, again.payload) == (sent[1].psn, sent[1].payload)
