# SPDX-License-Identifier: BSD-2-Clause
"""Requests that end their QP: a NAK, nothing written, ERROR and flushed work (behaviour.md, Responder and Errors)."""

from __future__ import annotations

from typing import Any

import pytest
from hand_peer import ACK, FIRST, LAST, MIDDLE, ONLY, REGION_VA, HandPeer, of

from mrc.endpoint.completions import WorkStatus
from mrc.endpoint.config import QpConfig
from mrc.endpoint.qp_states import QpState
from mrc.trace.vocabulary import QP_STATE

MTU = 256
CONFIG = QpConfig(path_mtu=MTU)
SIZE = 1 << 20
INVALID, ACCESS = 0x61, 0x62

REFUSED: dict[str, tuple[int, dict[str, Any]]] = {
    "unknown R_Key": (ACCESS, {"payload": b"x", "rkey": 0x12345678}),
    "before the region": (ACCESS, {"payload": b"xy", "va": REGION_VA - 1}),
    "past the region": (ACCESS, {"payload": b"xy", "va": REGION_VA + SIZE - 1}),
    "far past the region": (ACCESS, {"payload": b"x", "va": (1 << 64) - 1}),
    "at 2^63": (ACCESS, {"payload": b"x", "va": 1 << 63}),
    "First shorter than the path MTU": (INVALID, {"op": FIRST, "payload": bytes(MTU - 1), "dmalen": 600}),
    "Middle shorter than the path MTU": (INVALID, {"op": MIDDLE, "payload": bytes(4), "dmalen": 600}),
    "First longer than the path MTU": (INVALID, {"op": FIRST, "payload": bytes(MTU + 4), "dmalen": 600}),
    "Last of nothing": (INVALID, {"op": LAST, "payload": b"", "dmalen": 600}),
    "Last longer than the path MTU": (INVALID, {"op": LAST, "payload": bytes(MTU + 1), "dmalen": 600}),
    "Only longer than the path MTU": (INVALID, {"op": ONLY, "payload": bytes(MTU + 1)}),
    "Only shorter than DMALen": (INVALID, {"op": ONLY, "payload": bytes(10), "dmalen": 11}),
    "Only longer than DMALen": (INVALID, {"op": ONLY, "payload": bytes(10), "dmalen": 9}),
    "Only of nothing with a DMALen": (INVALID, {"op": ONLY, "payload": b"", "dmalen": 9}),
}


@pytest.mark.parametrize("why", REFUSED)
def test_a_refused_request_is_nakked_and_ends_its_qp(why: str) -> None:
    """NAK (0x61 or 0x62) of the offending PSN, QP to error, nothing written, posted work flushed, an event left.

    MRC-ACK-08, MRC-REQ-14, MRC-REQ-15, MRC-RESP-13, MRC-RESP-14, MRC-RESP-15, MRC-ERR-04, MRC-ERR-05.
    """
    syndrome, others = REFUSED[why]
    hand = HandPeer(CONFIG, memory=SIZE)
    hand.post(10)
    hand.transmitted()
    sent = hand.exchange(hand.request(5, **others))
    (nak,) = of(sent, ACK)
    assert (nak.psn, nak["aeth"]["syndrome"]) == (hand.peer_first_psn + 5, syndrome)
    assert hand.qp.state == QpState.ERROR
    assert not any(hand.buffer)
    assert hand.completed() == [(0, WorkStatus.FLUSHED)]
    assert [(event.kind, event.qpn) for event in hand.endpoint.events] == [(QP_STATE, hand.qp.qpn)]
    assert hand.endpoint.events[0].detail
    # The QP is over: it takes nothing more, and sends nothing more of its own accord.
    hand.exchange(hand.request(0, b"x"))
    assert hand.counters["wrong_qp_state"] == 1
    assert not any(hand.buffer)
    assert hand.run(hand.now + 10**10) == []


@pytest.mark.parametrize("where", [0, 1, 2, 5, 7])
@pytest.mark.parametrize("count", [3, 8])
def test_a_refused_request_is_the_last_that_counts(where: int, count: int) -> None:
    """Neither it nor what comes after it is written. What came before it is, and is acknowledged before the NAK leaves.

    MRC-RESP-15, MRC-RESP-20.
    """
    hand = HandPeer(CONFIG)
    where = min(where, count - 1)
    packets = [hand.request(at, b"good", va=REGION_VA + 4 * at) for at in range(count)]
    packets[where] = hand.request(where, b"bad!", rkey=1)
    *acks, nak = of(hand.exchange(*packets), ACK)
    assert [(ack.psn - hand.peer_first_psn, ack["aeth"]["syndrome"]) for ack in acks] == [(where - 1, 0x1F)][:where]
    assert (nak.psn - hand.peer_first_psn, nak["aeth"]["syndrome"]) == (where, ACCESS)
    assert hand.buffer[: 4 * where] == b"good" * where
    assert not any(hand.buffer[4 * where :])


def test_what_lies_in_the_region_to_its_last_byte_is_written() -> None:
    hand = HandPeer(CONFIG, memory=1000)
    hand.exchange(hand.request(0, b"first"), hand.request(1, b"last", va=REGION_VA + 996))
    assert (hand.buffer[:5], hand.buffer[996:]) == (b"first", b"last")
    assert hand.qp.state == QpState.RTS


def test_a_zero_length_write_uses_a_psn_and_its_r_key_is_not_checked() -> None:
    """One Only packet, places nothing. MRC-RESP-16, MRC-RESP-21."""
    hand = HandPeer(CONFIG)
    (ack,) = of(hand.exchange(hand.request(0, b"", rkey=0, va=0)), ACK)
    assert (ack.psn, ack["aeth"]) == (hand.peer_first_psn, {"syndrome": 0x1F, "msn": 1})
    assert hand.qp.state == QpState.RTS
    assert not any(hand.buffer)
    assert hand.counters["requests_received"] == 1
    assert "bytes_placed" not in hand.counters


def test_a_zero_length_write_beside_others_in_a_batch() -> None:
    hand = HandPeer(CONFIG)
    packets = [hand.request(0, b"a"), hand.request(1, b"", rkey=0, va=1 << 63), hand.request(2, b"c", va=REGION_VA + 1)]
    (ack,) = of(hand.exchange(*packets), ACK)
    assert ack["aeth"]["msn"] == 3
    assert hand.buffer[:3] == b"ac\0"


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


def test_one_qps_error_leaves_the_others() -> None:
    """Put that QP, and nothing else, into ERROR. MRC-ERR-03."""
    hand = HandPeer(CONFIG)
    other = hand.connect(CONFIG, qpn=0x77)
    hand.exchange(hand.request(0, b"x", rkey=1))
    assert (hand.qp.state, other.state) == (QpState.ERROR, QpState.RTS)
    hand.qp = other
    (ack,) = of(hand.exchange(hand.request(0, b"fine")), ACK)
    assert ack["aeth"]["syndrome"] == 0x1F
    assert hand.buffer[:4] == b"fine"


def test_a_bad_packet_for_one_qp_in_a_batch_leaves_the_other_qps_packets() -> None:
    hand = HandPeer(CONFIG)
    first, other = hand.qp, hand.connect(CONFIG, qpn=0x77)
    bad = hand.request(0, b"bad", rkey=1)
    hand.qp = other
    hand.exchange(bad, hand.request(0, b"fine"))
    assert (first.state, other.state) == (QpState.ERROR, QpState.RTS)
    assert hand.buffer[:4] == b"fine"
