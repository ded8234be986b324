# SPDX-License-Identifier: BSD-2-Clause
"""How an endpoint tells trimmed packets from whole ones, and whose they are (wire.md section 12)."""

from __future__ import annotations

import pytest
from hand_peer import ECT0, NACK, PEER_QPN, HandPeer

from mrc.endpoint.config import Capability, QpConfig

TRIMMED, TRIMMED_LASTHOP = 0x01, 0x02
DSCP_TRIMMABLE, DSCP_TRIMMED, DSCP_TRIMMED_LASTHOP = 4, 12, 16
CONFIG = QpConfig(path_mtu=256)
HEADERS = 60  # IPv6, UDP and BTH


def _answers_trims() -> HandPeer:
    return HandPeer(CONFIG, capabilities=Capability.TRIM_NACK)


def _trim(packet: bytes, dscp: int = DSCP_TRIMMED, kept: int = 8) -> bytes:
    """The headers through the BTH and `kept` bytes after it, the codepoint on this (the inner) header rewritten."""
    cut = bytearray(packet[: HEADERS + kept])
    word = int.from_bytes(cut[:4], "big") & 0xF00FFFFF | (dscp << 2 | ECT0) << 20
    cut[:4] = word.to_bytes(4, "big")
    return bytes(cut)


@pytest.mark.parametrize(
    ("outer", "inner", "reason"),
    [
        pytest.param(DSCP_TRIMMED, DSCP_TRIMMABLE, TRIMMED, id="outer"),
        pytest.param(DSCP_TRIMMED_LASTHOP, DSCP_TRIMMABLE, TRIMMED_LASTHOP, id="outer, last hop"),
        pytest.param(DSCP_TRIMMABLE, DSCP_TRIMMED, TRIMMED, id="inner"),
        pytest.param(DSCP_TRIMMABLE, DSCP_TRIMMED_LASTHOP, TRIMMED_LASTHOP, id="inner, last hop"),
        pytest.param(DSCP_TRIMMED, DSCP_TRIMMED_LASTHOP, TRIMMED, id="both: the outermost is newer"),
        pytest.param(DSCP_TRIMMED_LASTHOP, DSCP_TRIMMED, TRIMMED_LASTHOP, id="both, last hop"),
    ],
)
def test_the_codepoint_counts_on_either_header_and_the_outermost_says_where(
    outer: int, inner: int, reason: int
) -> None:
    """wire.md section 12: a trimming switch "rewrites the outermost DSCP"."""
    hand = _answers_trims()
    packet = _trim(hand.request(3, bytes(200)), inner)
    (nack,) = hand.exchange(packet, traffic_class=[outer << 2 | ECT0])
    assert (nack.opcode, nack["neth"]["reason"]) == (NACK, reason)
    assert hand.counters["trimmed_received"] == 1


def test_neither_codepoint_is_no_trimmed_packet() -> None:
    """wire.md section 12: "trimmed when it has one of the two TRIMMED codepoints and is not whole"."""
    hand = _answers_trims()
    packet = _trim(hand.request(3, bytes(200)), DSCP_TRIMMABLE)
    assert hand.exchange(packet, traffic_class=[DSCP_TRIMMABLE << 2 | ECT0]) == []
    assert hand.counters == {"bad_length": 1}


@pytest.mark.parametrize("timestamp", [None, 0x1234], ids=["no TSETH", "TSETH"])
def test_a_packet_a_byte_shorter_than_its_headers_and_icrc_is_trimmed(timestamp: int | None) -> None:
    """wire.md section 12: "too short for its opcode's headers and ICRC", of which TSETH is one where `ts` is set."""
    hand = _answers_trims()
    whole = hand.request(0, b"", timestamp=timestamp)
    (nack,) = hand.exchange(_trim(whole, kept=len(whole) - HEADERS - 1))
    assert nack.opcode == NACK
    assert hand.counters["trimmed_received"] == 1


def test_trimmed_packets_of_several_qps_in_one_batch_are_each_qps_own() -> None:
    """behaviour.md, Responder: "A trimmed packet: NACK TRIMMED", to the requestor whose it was."""
    hand = _answers_trims()
    first, second = hand.qp, hand.connect(CONFIG, qpn=PEER_QPN + 1)
    packets = [_trim(hand.request(number, bytes(200))) for number in (3, 4)]
    hand.qp = second
    packets.insert(1, _trim(hand.request(9, bytes(200)), DSCP_TRIMMED_LASTHOP))
    sent = hand.exchange(*packets)
    said = [
        (nack["bth"]["dqp"], nack["neth"]["nack_psn"] - hand.peer_first_psn, nack["neth"]["reason"]) for nack in sent
    ]
    assert sorted(said) == [(PEER_QPN, 3, TRIMMED), (PEER_QPN, 4, TRIMMED), (PEER_QPN + 1, 9, TRIMMED_LASTHOP)]
    assert (first.counters.nacks_sent, second.counters.nacks_sent) == (2, 1)


def test_trimmed_packets_for_unknown_qps_are_counted_and_keep_no_others_back() -> None:
    """behaviour.md, Errors: what is wrong "is dropped and counted under a named counter"."""
    hand = _answers_trims()
    strangers = [_trim(hand.request(0, bytes(200), bth={"dqp": qpn})) for qpn in (0x11, 0x11, 0xFFFFFE)]
    for round_trip in (1, 2):
        (nack,) = hand.exchange(*strangers, _trim(hand.request(5, bytes(200))))
        assert nack["neth"]["nack_psn"] == hand.peer_first_psn + 5
        assert hand.counters["unknown_qp"] == 3 * round_trip


def test_trimmed_packets_of_strangers_and_for_qps_not_ready_are_counted_each_time() -> None:
    """behaviour.md, Errors: "dropped and counted under a named counter"."""
    hand = _answers_trims()
    stranger = _trim(hand.request(0, bytes(200), source=0xBAD))
    for round_trip in (1, 2):
        assert hand.exchange(stranger, stranger) == []
        assert hand.counters["bad_source"] == 2 * round_trip
    fresh = hand.endpoint.create_qp(CONFIG)
    early = _trim(hand.request(0, bytes(200), bth={"dqp": fresh.qpn}))
    for round_trip in (1, 2):
        assert hand.exchange(early, early) == []
        assert hand.counters["wrong_qp_state"] == 2 * round_trip
