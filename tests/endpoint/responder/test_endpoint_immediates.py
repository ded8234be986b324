# SPDX-License-Identifier: BSD-2-Clause
"""Writes with immediate at the responder: posted receives, RQMSN order, what ends the QP (behaviour.md, Responder)."""

from __future__ import annotations

import random

import pytest
from hand_peer import ACK, FIRST, LAST_IMMEDIATE, MIDDLE, ONLY_IMMEDIATE, PSN_MASK, REGION_VA, HandPeer, of
from hypothesis import given
from hypothesis import strategies as st

from mrc.endpoint.completions import Completion, WorkKind, WorkStatus
from mrc.endpoint.config import QpConfig
from mrc.endpoint.qp_states import QpState
from mrc.errors import CallerError

MTU = 256
CONFIG = QpConfig(path_mtu=MTU, max_wimm_dest=4)
INVALID = 0x61


def _with_receives(count: int, config: QpConfig = CONFIG) -> HandPeer:
    hand = HandPeer(config)
    for number in range(count):
        hand.qp.post_receive(100 + number)
    return hand


def _immediate(hand: HandPeer, number: int, rqmsn: int, value: int = 0, size: int = 4, **others: object) -> bytes:
    """An Only with Immediate of `size` bytes that lands at 16 x its number."""
    fill = bytes((number & 0x7F | 0x80,)) * size
    va = REGION_VA + 16 * (number % 1024)
    return hand.request(number, fill, op=ONLY_IMMEDIATE, va=va, rqmsn=rqmsn, immediate=value, **others)  # type: ignore[arg-type]


def _delivered(hand: HandPeer) -> list[tuple[int, int, int | None]]:
    """(wr_id, bytes, immediate) of the receives that have completed since the last call."""
    done = list(hand.endpoint.completions)
    hand.endpoint.completions.clear()
    assert all(each.kind == WorkKind.RECV_RDMA_WITH_IMM and each.status == WorkStatus.SUCCESS for each in done)
    assert all(each.qpn == hand.qp.qpn for each in done)
    return [(each.wr_id, each.byte_len, each.immediate) for each in done]


def _flushed(hand: HandPeer) -> list[int]:
    done = list(hand.endpoint.completions)
    hand.endpoint.completions.clear()
    expected = [
        Completion(each.wr_id, hand.qp.qpn, WorkStatus.FLUSHED, 0, WorkKind.RECV_RDMA_WITH_IMM, None) for each in done
    ]
    assert done == expected
    return [each.wr_id for each in done]


def test_the_completion_counts_the_whole_message() -> None:
    """byte_len is DMALen: "the whole message's length and the same in each of its packets"."""
    hand = _with_receives(1)
    content = bytes(at * 7 & 0xFF for at in range(600))
    cut = ((FIRST, 0, 256), (MIDDLE, 256, 512), (LAST_IMMEDIATE, 512, 600))
    for number in (2, 0, 1):
        op, start, stop = cut[number]
        packet = hand.request(
            number, content[start:stop], op=op, va=REGION_VA + start, dmalen=600, rqmsn=0, immediate=0x01020304
        )
        hand.exchange(packet)
        assert _delivered(hand) == ([(100, 600, 0x01020304)] if number == 1 else [])
    assert hand.buffer[:600] == content


def test_an_immediate_of_nothing_delivers_its_number() -> None:
    """A zero-length write "is one Only packet: it uses a PSN, places nothing, its R_Key is not checked"."""
    hand = _with_receives(1)
    hand.exchange(hand.request(0, b"", op=ONLY_IMMEDIATE, va=0, rkey=0, immediate=5))
    assert _delivered(hand) == [(100, 0, 5)]
    assert hand.qp.state == QpState.RTS


@given(st.integers(0, 1 << 32), st.sampled_from([0, (1 << 16) - 20]))
def test_whatever_the_order_of_arrival_delivery_is_in_rqmsn_order(seed: int, first_psn: int) -> None:
    """ "delivered, in RQMSN order": plain writes and immediates mixed, in batches of any size. MRC-IMM-03."""
    chance = random.Random(seed)
    hand = HandPeer(QpConfig(path_mtu=MTU, max_wimm_dest=64), peer_first_psn=first_psn)
    for number in range(64):
        hand.qp.post_receive(number)
    packets, expected, rqmsn = [], [], 0
    for number in range(40):
        if chance.random() < 0.5:
            packets.append(_immediate(hand, number, rqmsn, 1000 + number))
            expected.append((rqmsn, 4, 1000 + number))
            rqmsn += 1
        else:
            packets.append(hand.request(number, b"plain"))
    order = list(range(40))
    chance.shuffle(order)
    arrived: set[int] = set()
    while order:
        count = chance.randrange(1, 8)
        chunk, order = order[:count], order[count:]
        hand.exchange(*(packets[at] for at in chunk))
        arrived |= set(chunk)
        edge = next(number for number in range(41) if number not in arrived)
        assert _delivered(hand) == [each for each in expected if each[2] - 1000 < edge]
        expected = [each for each in expected if each[2] - 1000 >= edge]
    assert not expected


def test_rqmsn_wraps_at_16_bits() -> None:
    """wire.md section 4: RQMSN(16). The count is set close to the wrap."""
    hand = HandPeer(QpConfig(path_mtu=MTU, max_wimm_dest=64))
    start = (1 << 16) - 30
    hand.qp._receives.delivered = start
    for number in range(64):
        hand.qp.post_receive(number)
    hand.exchange(*(_immediate(hand, at, start + at & 0xFFFF, at) for at in range(63, -1, -1)))
    assert _delivered(hand) == [(at, 4, at) for at in range(64)]
    assert hand.qp.state == QpState.RTS


# ------------------------------------------------------------------ what ends the QP


def _expect_refusal(hand: HandPeer, packets: list[bytes], number: int) -> None:
    sent = hand.exchange(*packets)
    *before, nak = sent
    assert nak["aeth"]["syndrome"] == INVALID
    assert nak.psn == (hand.peer_first_psn + number) & PSN_MASK
    # Of what is acknowledged nothing is refused.
    assert all(answer.psn == (hand.peer_first_psn + number - 1) & PSN_MASK for answer in of(before, ACK))
    assert hand.qp.state == QpState.ERROR
    assert hand.counters["invalid_request"] == 1
    assert hand.endpoint.events[0].detail


def test_where_none_are_agreed_the_first_ends_the_qp() -> None:
    hand = _with_receives(1, QpConfig(path_mtu=MTU, max_wimm_dest=0))
    _expect_refusal(hand, [_immediate(hand, 0, 0)], 0)


@pytest.mark.parametrize("rqmsn", [0, 2, 0xFFFF], ids=["again", "one left out", "before the first"])
def test_an_rqmsn_out_of_sequence_ends_the_qp(rqmsn: int) -> None:
    """RQMSN counts the writes with immediate in order: after 0 comes 1."""
    hand = _with_receives(3)
    hand.exchange(_immediate(hand, 0, 0))
    assert len(_delivered(hand)) == 1
    _expect_refusal(hand, [_immediate(hand, 1, rqmsn)], 1)


def test_an_immediate_with_a_bad_r_key_or_length_is_refused_as_any_write() -> None:
    for others, syndrome in (({"rkey": 1}, 0x62), ({"dmalen": 9}, INVALID)):
        hand = _with_receives(1)
        (nak,) = of(hand.exchange(_immediate(hand, 0, 0, **others)), ACK)
        assert nak["aeth"]["syndrome"] == syndrome
        assert _flushed(hand) == [100]
        assert not any(hand.buffer)


# ------------------------------------------------------------------ posting


def test_receives_are_posted_from_init_on() -> None:
    """As in the verbs: INIT, RTR and RTS; in ERROR they complete at once, flushed."""
    hand = HandPeer(CONFIG)
    qp = hand.endpoint.create_qp(CONFIG)
    with pytest.raises(CallerError, match="RESET"):
        qp.post_receive(1)
    qp.to_init()
    qp.post_receive(1)
    qp.to_error("enough")
    qp.post_receive(2)
    done = [(each.wr_id, each.status, each.kind) for each in hand.endpoint.completions]
    assert done == [(at, WorkStatus.FLUSHED, WorkKind.RECV_RDMA_WITH_IMM) for at in (1, 2)]


def test_receives_posted_in_rtr_serve_immediates_before_rts() -> None:
    hand = HandPeer(CONFIG, to_rts=False)
    hand.qp.post_receive(1)
    hand.exchange(_immediate(hand, 0, 0, 3))
    assert _delivered(hand) == [(1, 4, 3)]


def test_no_more_may_wait_than_are_agreed_even_if_they_claim_one_rqmsn() -> None:
    """behaviour.md, Write-with-immediate: "More in flight than negotiated"."""
    hand = _with_receives(9, QpConfig(path_mtu=MTU, max_wimm_dest=2))
    hand.receive(_immediate(hand, 1, 0), _immediate(hand, 2, 0))
    assert hand.qp.state == QpState.RTS
    hand.receive(_immediate(hand, 3, 0))
    assert hand.qp.state == QpState.ERROR
    assert "more writes with immediate are in flight than the 2 agreed" in hand.endpoint.events[-1].detail
