# SPDX-License-Identifier: BSD-2-Clause
"""On the path: the peer's own packets, again and again. Nothing is written twice, and answers are bounded."""

from __future__ import annotations

import pytest
from attacks import answered_bytes, length_of, trimmed
from hand_peer import MIDDLE, MILLISECOND, ONLY_IMMEDIATE, REGION_VA, SECOND, HandPeer, of

from mrc.endpoint.config import Capability, QpConfig, ResponderConfig
from mrc.endpoint.qp_states import QpState

SACK, NACK, ACK = 0xDC, 0xDD, 0xD1
BURST, PER_SECOND = 200, 1000
CONFIG = QpConfig(
    path_mtu=256,
    responder=ResponderConfig(answers_burst=BURST, answers_per_second=PER_SECOND),
    capabilities=Capability.TRIM_NACK,
)


def flooded(hand: HandPeer, packet: bytes, opcode: int, milliseconds: int = 100) -> tuple[int, int]:
    """100,000 copies a second for so long; (answers of this opcode, answers they may be)."""
    answers = 0
    for _ in range(milliseconds):
        answers += len(of(hand.exchange(*[packet] * 100), opcode))
        hand.now += MILLISECOND
    return answers, BURST + PER_SECOND * milliseconds // 1000 + 1


def test_a_replayed_write_does_not_undo_what_was_written_since() -> None:
    """behaviour.md, Responder: "old duplicate | not written"."""
    hand = HandPeer(CONFIG)
    first = hand.request(0, b"old")
    hand.exchange(first)
    hand.exchange(hand.request(1, b"new"))
    said = hand.exchange(first)
    assert bytes(hand.buffer[:3]) == b"new"
    assert {packet.opcode for packet in said} == {ACK, SACK}
    assert hand.qp.state == QpState.RTS


def test_a_replayed_immediate_is_not_delivered_again() -> None:
    hand = HandPeer(CONFIG)
    for wr_id in range(2):
        hand.qp.post_receive(wr_id)
    packet = hand.request(0, b"x", op=ONLY_IMMEDIATE, immediate=5)
    for _ in range(50):
        hand.exchange(packet)
    assert len(hand.endpoint.completions) == 1


def test_a_replay_with_another_r_key_is_not_looked_at() -> None:
    """The PSN comes first: what is old ends no QP, and is no oracle for R_Keys."""
    hand = HandPeer(CONFIG)
    hand.exchange(hand.request(0, b"x"))
    right = hand.exchange(hand.request(0, b"x"))
    wrong = hand.exchange(hand.request(0, b"x", rkey=hand.region.rkey ^ 0x5555))
    assert [packet.opcode for packet in right] == [packet.opcode for packet in wrong]
    assert hand.qp.state == QpState.RTS


@pytest.mark.parametrize("ackreq", [0, 1])
@pytest.mark.parametrize("rtx", [0, 1])
def test_copies_of_an_old_request_get_so_many_sacks_and_no_more(ackreq: int, rtx: int) -> None:
    hand = HandPeer(CONFIG)
    hand.exchange(hand.request(0, b"x"))
    packet = hand.request(0, b"x", bth={"ackreq": ackreq, "rtx": rtx})
    answers, most = flooded(hand, packet, SACK)
    assert BURST <= answers <= most
    assert hand.counters["over_rate"] == 100 * 100 - answers


def test_copies_of_a_request_above_a_hole_too() -> None:
    hand = HandPeer(CONFIG)
    packet = hand.request(5, b"x")
    hand.exchange(packet)
    answers, most = flooded(hand, packet, SACK)
    assert BURST <= answers <= most


def test_copies_beyond_the_window_get_so_many_nacks_and_no_more() -> None:
    hand = HandPeer(CONFIG)
    answers, most = flooded(hand, hand.request(5000, b"x"), NACK)
    assert BURST <= answers <= most


def test_copies_cut_short_get_so_many_nacks_and_no_more() -> None:
    """No ICRC says that a switch cut them."""
    hand = HandPeer(CONFIG, capabilities=Capability.TRIM_NACK)
    answers, most = flooded(hand, trimmed(hand.request(0, b"x")), NACK)
    assert BURST <= answers <= most


def test_one_transport_ack_a_batch_however_many_copies() -> None:
    """behaviour.md, Transport ACK: "At most one per received batch"."""
    hand = HandPeer(CONFIG)
    hand.exchange(hand.request(0, b"x"))
    assert len(of(hand.exchange(*[hand.request(0, b"x")] * 100), ACK)) == 1


def test_after_a_flood_of_copies_the_peer_is_served_as_before() -> None:
    """New requests are not counted among them, and a second later copies are answered again."""
    hand = HandPeer(CONFIG)
    hand.exchange(hand.request(0, b"x"))
    flooded(hand, hand.request(0, b"x"), SACK, 20)
    said = hand.exchange(hand.request(1, b"y", va=REGION_VA + 9, bth={"ackreq": 1}))
    assert [packet["seth"]["cack_psn"] for packet in of(said, SACK)] == [hand.peer_first_psn + 1]
    assert hand.buffer[9] == ord("y")
    hand.now += SECOND
    assert len(of(hand.exchange(hand.request(0, b"x")), SACK)) == 1


@pytest.mark.parametrize(
    "kind", ["old", "above a hole", "beyond the window", "trimmed", "probe", "wrong R_Key", "outside"]
)
def test_with_the_peers_address_too_answers_are_within_the_law(kind: str) -> None:
    """What is answered goes to the peer: whoever uses its address gains no more than three times what he sends."""
    hand = HandPeer(CONFIG, capabilities=Capability.TRIM_NACK)
    hand.exchange(hand.request(0, b"x"), hand.request(5, b"x"))
    packet = {
        "old": hand.request(0, b""),
        "above a hole": hand.request(5, b""),
        "beyond the window": hand.request(5000, b""),
        "trimmed": trimmed(hand.request(1, b"x")),
        "probe": hand.probe(),
        "wrong R_Key": hand.request(1, b"x", rkey=1),
        "outside": hand.request(1, b"x", va=0),
    }[kind]
    said = hand.exchange(packet)
    assert 0 < answered_bytes(said) <= 3 * length_of([packet])


def test_a_captured_message_is_worth_nothing_at_another_qp() -> None:
    """A packet replayed to another QP, with a new ICRC, is refused: that QP has its own PSNs, and its own peer."""
    hand = HandPeer(CONFIG)
    other = hand.connect(CONFIG, qpn=0x99, sources={0: 0xF0, 1: 0xF1})
    said = hand.exchange(hand.request(0, b"x" * 256, op=MIDDLE, dmalen=1024, bth={"dqp": other.qpn}))
    assert said == []
    assert other.counters.bad_source == 1
    assert not any(hand.buffer)
