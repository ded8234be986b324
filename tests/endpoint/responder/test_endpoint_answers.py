# SPDX-License-Identifier: BSD-2-Clause
"""What an answer takes from the packet that causes it, and what a refusal tells the owner of the QP."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hand_peer import ACK, CE, ECT0, FIRST, NACK, ONLY_IMMEDIATE, PEER_QPN, PSN_MASK, REGION_VA, SACK, HandPeer, of

from mrc.endpoint.config import Capability, EndpointConfig, QpConfig, ResponderConfig
from mrc.endpoint.qp_states import QpState
from mrc.wire.profile import WireProfile
from mrc.wire.received_batch import ReceivedBatch

CONFIG = QpConfig(path_mtu=256, mpr_dest=1)
TRIMMED_CLASS = 12 << 2 | ECT0
TRIMMED, UNEXP_EVENT = 0x01, 0x19
EV = 0x01000003


def _trimmed(packet: bytes, kept: int = 8) -> bytes:
    cut = bytearray(packet[: 60 + kept])
    cut[:4] = (int.from_bytes(cut[:4], "big") & 0xF00FFFFF | TRIMMED_CLASS << 20).to_bytes(4, "big")
    return bytes(cut)


def _answers_trims() -> HandPeer:
    return HandPeer(CONFIG, capabilities=Capability.TRIM_NACK)


@pytest.mark.parametrize(("kept", "reflected"), [(4, 0), (7, 0), (8, 0xABCD)])
def test_what_a_buffer_held_before_is_no_timestamp_of_a_trimmed_packet(kept: int, reflected: int) -> None:
    """wire.md section 12: the responder trusts nothing but BTH and METH; a TSETH counts where all of it was kept."""
    hand = _answers_trims()
    batch = ReceivedBatch.from_packets([_trimmed(hand.request(0, bytes(200), timestamp=0xABCD), kept)])
    batch.data[0, 60 + kept :] = 0xFF
    hand.endpoint.receive(batch, hand.now)
    (nack,) = hand.transmitted()
    assert nack["neth"]["tx_timestamp"] == reflected


def test_the_va_behind_a_trimmed_meth_is_no_timestamp() -> None:
    """Without the ts bit the eight bytes kept are METH and the first half of the RETH's VA."""
    hand = _answers_trims()
    (nack,) = hand.exchange(_trimmed(hand.request(0, bytes(200), va=0x1234_5678_0000_0000)))
    assert nack["neth"]["tx_timestamp"] == 0


@pytest.mark.parametrize("unit_ns", [1, 2, 1000])
def test_the_time_held_is_added_in_the_unit_of_the_timestamp(unit_ns: int) -> None:
    """behaviour.md, Service time; wire.md section 4: tsr 1 is a unit of the implementation's own."""
    endpoint = EndpointConfig(seed=1, wire=WireProfile(tsr1_unit_ns=unit_ns))
    hand = HandPeer(CONFIG, endpoint=endpoint, capabilities=Capability.SVC_TIME)
    hand.receive(hand.request(0, b"x", timestamp=500, tsr=1, bth={"ackreq": 1}))
    hand.now += 6 * unit_ns
    (sack,) = of(hand.transmitted(), SACK)
    assert sack["cc_state"]["tx_timestamp"] == 506


@pytest.mark.parametrize("rtx", [0, 1])
def test_the_bth_of_a_sack_says_no_more_than_cack_psn_and_rtx(rtx: int) -> None:
    """wire.md section 3; and each SACK is counted."""
    hand = HandPeer(CONFIG)
    for number in range(3):
        (sack,) = of(hand.exchange(hand.request(number, b"x", bth={"rtx": rtx, "ackreq": 1})), SACK)
        values = {"opcode": SACK, "pkey": 0xFFFF, "dqp": PEER_QPN, "psn": hand.peer_first_psn + number, "rtx": rtx}
        assert {name: value for name, value in sack["bth"].items() if value} == {k: v for k, v in values.items() if v}
        assert hand.counters["sacks_sent"] == number + 1


@pytest.mark.parametrize("rtx", [0, 1])
def test_the_bth_of_a_nack_says_no_more_than_its_psn_and_rtx(rtx: int) -> None:
    """wire.md section 3: DQP the requestor's QPN, PSN the packet that caused it; P_Key ffff, all other bits 0."""
    hand = _answers_trims()
    (nack,) = hand.exchange(_trimmed(hand.request(9, bytes(200), bth={"rtx": rtx, "ackreq": 1})))
    values = {"opcode": NACK, "pkey": 0xFFFF, "dqp": PEER_QPN, "psn": hand.peer_first_psn + 9, "rtx": rtx}
    assert {name: value for name, value in nack["bth"].items() if value} == {k: v for k, v in values.items() if v}


def test_nacks_one_by_one_alternate_planes() -> None:
    hand = _answers_trims()
    ports = []
    for number in range(6):
        (nack,) = hand.exchange(_trimmed(hand.request(number, bytes(200))))
        ports.append(nack.port)
    assert ports in ([0, 1] * 3, [1, 0] * 3)
    assert hand.counters["nacks_sent"] == 6


def test_what_is_only_counted_is_counted_each_time() -> None:
    hand = _answers_trims()
    far_behind = -(1 << 23)
    for times in (1, 2):
        assert hand.exchange(_trimmed(hand.request(far_behind, bytes(200)))) == []
        assert hand.counters["psn_out_of_range"] == times
    for times in (1, 2):
        hand.exchange(hand.probe(times), hand.probe(times + 10))
        assert hand.counters["probes_answered"] == 2 * times


def test_bytes_count_from_nothing_after_a_probe() -> None:
    """A packet counts at least 1024 bytes, one less than what makes a SACK due here."""
    hand = HandPeer(QpConfig(path_mtu=256, sack_threshold_bytes=1025))
    hand.exchange(hand.probe())
    assert of(hand.exchange(hand.request(0, b"x")), SACK) == []
    assert len(of(hand.exchange(hand.request(1, b"x")), SACK)) == 1


def test_a_qp_given_up_names_the_very_next_psn_as_not_acknowledged() -> None:
    """wire.md section 7, UNEXP_EVENT: of an old packet and the one that epsn waits for, the latter."""
    hand = HandPeer(CONFIG)
    hand.exchange(hand.request(0, b"before"))
    hand.qp.to_error("the application has had enough")
    (nack,) = hand.exchange(hand.request(0, b"old"), hand.request(1, b"new", ev=EV), hand.request(-1, b"older"))
    assert (nack["neth"]["reason"], nack["neth"]["nack_psn"]) == (UNEXP_EVENT, hand.peer_first_psn + 1)
    assert nack["neth"]["entropy"] == EV


REFUSALS: dict[str, tuple[QpConfig, int, list[dict[str, Any]], str]] = {
    "no receive": (
        QpConfig(path_mtu=256, responder=ResponderConfig(wait_for_receive_ns=0)),
        0,
        [{"op": ONLY_IMMEDIATE}],
        "is a write with immediate, and there was no receive for it within 0 ms: post as many receives as writes with "
        "immediate are granted (max_wimm_dest), and another for each that completes",
    ),
    "none agreed": (
        QpConfig(path_mtu=256, max_wimm_dest=0),
        1,
        [{"op": ONLY_IMMEDIATE}],
        "is a write with immediate, and none are agreed",
    ),
    "wrong RQMSN": (CONFIG, 1, [{"op": ONLY_IMMEDIATE, "rqmsn": 5}], "has RQMSN 5 where 0 is next"),
    "length": (CONFIG, 0, [{"op": FIRST, "payload": b"x"}], "carries 1 bytes of 1, which contradicts its opcode"),
    "no region": (CONFIG, 0, [{"payload": b"x", "rkey": 0x1234}], "R_Key 0x00001234"),
    "outside": (CONFIG, 0, [{"payload": b"xy", "va": REGION_VA - 1}], "a message that does not lie in the region"),
    "no address": (CONFIG, 0, [{"payload": b"xy", "va": 1 << 63}], "no region can have"),
}


@pytest.mark.parametrize("why", REFUSALS)
@pytest.mark.parametrize("first_psn", [1000, PSN_MASK])
def test_the_owner_learns_which_request_ended_the_qp_and_why(why: str, first_psn: int) -> None:
    """behaviour.md, Errors: "leave an event"."""
    config, receives, requests, words = REFUSALS[why]
    hand = HandPeer(config, peer_first_psn=first_psn)
    for wr_id in range(receives):
        hand.qp.post_receive(wr_id)
    hand.exchange(*(hand.request(number, **request) for number, request in enumerate(requests)))
    assert hand.qp.state == QpState.ERROR
    (event,) = hand.endpoint.events
    assert event.detail.startswith("the peer's request with PSN ")
    assert words in event.detail
    assert f"PSN {first_psn} " in event.detail


def test_an_rqmsn_said_twice_is_named_with_the_one_that_was_due() -> None:
    hand = HandPeer(CONFIG)
    for wr_id in range(2):
        hand.qp.post_receive(wr_id)
    hand.exchange(hand.request(0, b"x", op=ONLY_IMMEDIATE), hand.request(1, b"y", op=ONLY_IMMEDIATE))
    (event,) = hand.endpoint.events
    assert event.detail.endswith("has RQMSN 0 where 1 is next")


def test_more_immediates_in_flight_than_agreed_are_named() -> None:
    hand = HandPeer(QpConfig(path_mtu=256, max_wimm_dest=2))
    hand.exchange(*(hand.request(1 + at, b"x", op=ONLY_IMMEDIATE, rqmsn=at) for at in range(2)))
    assert hand.qp.state == QpState.RTS
    hand.exchange(hand.request(3, b"x", op=ONLY_IMMEDIATE, rqmsn=2))
    (event,) = hand.endpoint.events
    assert "RQMSN 2: more writes with immediate are in flight than the 2 agreed" in event.detail
    assert f"PSN {hand.peer_first_psn + 3} " in event.detail


def test_a_trimmed_packet_among_whole_ones_is_answered_for_itself() -> None:
    hand = _answers_trims()
    packets = [hand.request(0, b"a"), _trimmed(hand.request(1, bytes(200), ev=EV)), hand.request(2, b"c", ev=7)]
    (nack,) = of(hand.exchange(*packets), NACK)
    assert (nack["neth"]["nack_psn"], nack["neth"]["entropy"]) == (hand.peer_first_psn + 1, EV)
    assert nack["neth"]["reason"] == TRIMMED
    assert np.frombuffer(hand.buffer, np.uint8)[:1].tolist() == [ord("c")]


@pytest.mark.parametrize("kind", ["probe", "duplicate", "beyond"])
def test_as_many_answers_as_the_burst_allows_and_no_fewer(kind: str) -> None:
    """`answers_burst` is 4: of ten packets of a kind that bring nothing new four are answered."""
    responder = ResponderConfig(answers_burst=4, answers_per_second=1)
    hand = HandPeer(QpConfig(path_mtu=256, mpr_dest=1, responder=responder))
    hand.exchange(hand.request(0, b"x"))
    packets = {
        "probe": [hand.probe(number) for number in range(10)],
        "duplicate": [hand.request(0, b"x")] * 10,
        "beyond": [hand.request(500 + number, b"x") for number in range(10)],
    }[kind]
    assert len([each for each in hand.exchange(*packets) if each.opcode != ACK]) == 4
    assert hand.counters["over_rate"] == 6


def test_marked_packets_count_also_when_they_bring_nothing_new() -> None:
    """wire.md section 12: "CE counts if it is on either header"."""
    hand = HandPeer(CONFIG)
    for _ in range(3):
        hand.exchange(hand.request(0, b"x", traffic_class=CE))
    assert hand.counters["ecn_marked_received"] == 3


def test_every_psn_half_a_circle_away_is_counted() -> None:
    """behaviour.md, PSN table: the last row, "none; counted"."""
    hand = HandPeer(CONFIG)
    for _ in range(3):
        assert hand.exchange(hand.request(1 << 23, b"x")) == []
    assert hand.counters["psn_out_of_range"] == 3


def test_a_qp_that_never_sent_anything_answers_for_its_end() -> None:
    """wire.md section 7, UNEXP_EVENT; the first packet after the end is an old one."""
    hand = HandPeer(CONFIG)
    hand.qp.to_error("the application has had enough")
    (nack,) = hand.exchange(hand.request(-1, b"old"))
    assert nack["neth"]["reason"] == UNEXP_EVENT


def test_reserved_bits_are_0_whatever_the_row_held_before() -> None:
    """wire.md section 6: the first 16 bits of a SETH are `m << 5 | pr << 1`; section 7: of a NETH they are 0."""
    hand = HandPeer(QpConfig(path_mtu=256, mpr_dest=1))

    def first_bits(packet: bytes) -> int:
        (answer,) = (each for each in hand.exchange(packet) if each.opcode != ACK)
        return int.from_bytes(answer.whole[60:62], "big")

    asks = {"ackreq": 1}
    assert first_bits(hand.request(0, b"x", bth=asks)) == 0
    assert first_bits(hand.request(1, b"x", bth=asks, traffic_class=CE)) == 1 << 5
    assert first_bits(hand.probe()) == 1 << 1
    assert first_bits(hand.probe(traffic_class=CE)) == 1 << 5 | 1 << 1
    assert first_bits(hand.request(900, b"x")) == 0
