# SPDX-License-Identifier: BSD-2-Clause
"""SACKs: what triggers one and what it says (behaviour.md, Responder; wire.md section 6)."""

from __future__ import annotations

import pytest
from hand_peer import CE, ECT0, NACK, PEER_QPN, REGION_VA, SACK, HandPeer, of

from mrc.endpoint.config import EndpointConfig, QpConfig
from mrc.wire.profile import WireProfile

CONFIG = QpConfig(path_mtu=4096)


def _whole(hand: HandPeer, number: int, size: int = 4096, **others: object) -> bytes:
    return hand.request(number, bytes(size), **others)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("mtu", "each"),
    [(256, 16), (512, 16), (4096, 4)],
    ids=["256 counts as 1024", "512 counts as 1024", "4096"],
)
def test_bytes_since_the_last_sack_trigger_one_at_16_kib(mtu: int, each: int) -> None:
    """Each packet counts max(size, 1024); 16 x 1024 and 4 x 4096 (and their headers) reach 16 KiB.

    MRC-SACK-15, MRC-SACK-16.
    """
    hand = HandPeer(QpConfig(path_mtu=mtu))
    for number in range(3 * each):
        sacks = of(hand.exchange(_whole(hand, number, mtu)), SACK)
        assert len(sacks) == ((number + 1) % each == 0), number
    # The same in one batch: the triggering packets are the same ones.
    hand = HandPeer(QpConfig(path_mtu=mtu))
    sacks = of(hand.exchange(*(_whole(hand, number, mtu) for number in range(3 * each))), SACK)
    acks = [(sack["seth"]["cack_psn"] + sack["seth"]["ack_psn_offset"] - hand.peer_first_psn) for sack in sacks]
    assert acks == [each - 1, 2 * each - 1, 3 * each - 1]


def test_the_threshold_is_configured() -> None:
    """MRC-SACK-16."""
    hand = HandPeer(QpConfig(path_mtu=256, sack_threshold_bytes=3 * 1024))
    assert [len(of(hand.exchange(_whole(hand, number, 256)), SACK)) for number in range(6)] == [0, 0, 1, 0, 0, 1]


def test_any_sack_starts_the_count_anew() -> None:
    """Bytes since the last SACK. MRC-SACK-15."""
    hand = HandPeer(CONFIG)
    triggered = []
    for number in range(8):
        ackreq = number == 2
        triggered.append(len(of(hand.exchange(_whole(hand, number, bth={"ackreq": ackreq})), SACK)))
    assert triggered == [0, 0, 1, 0, 0, 0, 1, 0]


def test_the_sack_of_a_probe_starts_the_count_anew_too() -> None:
    """Bytes since the last SACK, whatever triggered that one. MRC-SACK-15."""
    hand = HandPeer(CONFIG)
    triggered = []
    for number in range(8):
        if number == 3:
            assert len(of(hand.exchange(hand.probe()), SACK)) == 1
        triggered.append(len(of(hand.exchange(_whole(hand, number)), SACK)))
    assert triggered == [0, 0, 0, 0, 0, 0, 1, 0]


def test_packets_that_are_refused_or_out_of_the_window_trigger_no_sack() -> None:
    """Row 4 of the table has a NACK and nothing else, marks and AckReq notwithstanding."""
    hand = HandPeer(CONFIG)
    packets = [hand.request(5000 + at, b"x", bth={"ackreq": 1, "rtx": 1}, traffic_class=CE) for at in range(20)]
    assert of(hand.exchange(*packets), SACK) == []


def test_each_marked_packet_is_answered_for_its_own_ev() -> None:
    """MRC-SACK-04, MRC-ECN-02."""
    hand = HandPeer(CONFIG)
    packets = [hand.request(at, b"x", ev=at, traffic_class=CE if at in (1, 3) else ECT0) for at in range(5)]
    sacks = of(hand.exchange(*packets), SACK)
    assert [(sack["seth"]["m"], sack["seth"]["entropy"]) for sack in sacks] == [(1, 1), (1, 3)]


def test_a_timestamped_request_is_placed_behind_the_longer_header() -> None:
    """wire.md section 2: METH TSETH RETH."""
    hand = HandPeer(CONFIG)
    hand.exchange(hand.request(0, b"hello", timestamp=1), hand.request(1, b"world", va=REGION_VA + 5))
    assert hand.buffer[:11] == b"helloworld\0"


def test_who_a_sack_is_from_and_for() -> None:
    """DQP the requestor's; spdcid and dpdcid the low 16 bits of sender's and receiver's QPN; PSN cack_psn; DSCP 46.

    MRC-SACK-05, MRC-SACK-07, MRC-WIRE-30.
    """
    hand = HandPeer(CONFIG)
    (sack,) = of(hand.exchange(hand.request(0, b"x", bth={"ackreq": 1})), SACK)
    assert sack["bth"]["dqp"] == PEER_QPN
    assert (sack["seth"]["spdcid"], sack["seth"]["dpdcid"]) == (hand.qp.qpn & 0xFFFF, PEER_QPN & 0xFFFF)
    assert sack.psn == sack["seth"]["cack_psn"] == hand.peer_first_psn
    assert sack.traffic_class >> 2 == 46
    assert (sack["seth"]["type"], sack["seth"]["next"], sack["seth"]["cc_type"], sack["seth"]["cc_flags"]) == (
        0,
        0,
        0,
        0,
    )
    assert sack["seth"]["mpr"] == 0  # 0 when dynamic MPR is off


def test_dcids_may_be_those_of_the_data() -> None:
    """wire.md section 6, dcids_of_data: "so that the requestor's own QPN is spdcid"; so it is in a NACK.

    MRC-SACK-05, MRC-NACK-25. The requestor is the peer here. The second request lies beyond the window.
    """
    hand = HandPeer(CONFIG, endpoint=EndpointConfig(wire=WireProfile(dcids_of_data=True)))
    asked = hand.request(0, b"x", bth={"ackreq": 1}), hand.request(5000, b"x")
    answers = hand.exchange(*asked)
    (sack,), (nack,) = of(answers, SACK), of(answers, NACK)
    expected = PEER_QPN & 0xFFFF, hand.qp.qpn & 0xFFFF
    assert (sack["seth"]["spdcid"], sack["seth"]["dpdcid"]) == expected
    assert (nack["neth"]["spdcid"], nack["neth"]["dpdcid"]) == expected
    assert {sack["bth"]["dqp"], nack["bth"]["dqp"]} == {PEER_QPN}


# ------------------------------------------------------------------ CC_STATE


def test_rcvd_bytes_is_the_total_of_new_packets_in_units_of_256() -> None:
    """Each new packet counts its UDP length + 40; duplicates do not; the sum is rounded up. MRC-SACK-14."""
    hand = HandPeer(CONFIG)
    total = 0
    for number, size in enumerate((4096, 1, 0, 257, 1000)):
        packet = hand.request(number, bytes(size), bth={"ackreq": 1})
        total += int.from_bytes(packet[44:46], "big") + 40
        (sack,) = of(hand.exchange(packet), SACK)
        assert sack["cc_state"]["rcvd_bytes"] == -(-total // 256)
        (again,) = of(hand.exchange(packet), SACK)
        assert again["cc_state"]["rcvd_bytes"] == -(-total // 256)
    assert total > 5000


def test_rcvd_bytes_wraps_at_24_bits() -> None:
    """2^24 x 256 bytes is 4 GiB: the running total comes to that exactly, then one packet beyond it. MRC-SACK-14."""
    hand = HandPeer(CONFIG)
    packets = [hand.request(number, b"x", bth={"ackreq": 1}) for number in (0, 1)]
    hand.qp.responder.sacks.received_bytes = (1 << 32) - (int.from_bytes(packets[0][44:46], "big") + 40)
    told = [of(hand.exchange(packet), SACK)[0]["cc_state"]["rcvd_bytes"] for packet in packets]
    assert told == [0, 1]
