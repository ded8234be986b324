# SPDX-License-Identifier: BSD-2-Clause
"""Writes with immediate as the requestor sends them (wire.md 2 and 4; behaviour.md, Responder and Requestor)."""

from __future__ import annotations

import pytest
from draws import draws
from hand_peer import (
    LAST,
    LAST_IMMEDIATE,
    MICROSECOND,
    MILLISECOND,
    ONLY,
    ONLY_IMMEDIATE,
    PSN_MASK,
    HandPeer,
    Sent,
    data,
    numbers,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from mrc import CORE
from mrc.core import COMPILED
from mrc.endpoint.completions import WorkStatus
from mrc.endpoint.config import EndpointConfig, QpConfig
from mrc.endpoint.memory import MemoryRegion
from mrc.endpoint.qp_states import QpState
from mrc.endpoint.work import WriteRequest
from mrc.wire.profile import WireProfile
from mrc.wire.transmit_batch import TransmitBatch

RTT = 100 * MICROSECOND
CONFIG = QpConfig(path_mtu=256, timeout=20)
TRIMMED = 0x01


def _sent(hand: HandPeer, *lengths: int, immediate: int | None = None) -> list[Sent]:
    for length in lengths:
        hand.post(length, immediate=immediate)
    return data(hand.transmitted())


# ------------------------------------------------------------------ on the wire


def test_an_immediate_of_0_is_written_over_what_a_row_of_the_batch_had() -> None:
    """Rows are used again: the second packet is written where the first one was."""
    hand = HandPeer(CONFIG)
    immediates = [_sent(hand, 0, immediate=each)[0]["immdt"]["data"] for each in (0xFFFFFFFF, 0)]
    assert immediates == [0xFFFFFFFF, 0]


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("length", [1, 256, 257, 1023])
def test_only_the_last_packet_of_a_solicited_write_has_se_and_keeps_its_pad_count(length: int, first: bool) -> None:
    """wire.md 2: SE is beside M and the pad count in one byte, above M or below it by the profile."""
    hand = HandPeer(CONFIG, endpoint=EndpointConfig(seed=1, wire=WireProfile(solicited_event_first=first)))
    hand.post(length, immediate=7, solicited=True)
    hand.post(length, immediate=7)
    flags = [packet.whole[49] for packet in data(hand.transmitted())]
    packets = -(-length // 256)
    plain = [0] * (packets - 1) + [(-length % 4) << 4]
    assert flags == [*plain[:-1], plain[-1] | (0x80 if first else 0x40), *plain]


@pytest.mark.skipif(CORE.kind != COMPILED, reason="65,536 messages: once is enough, where numbers have sizes")
def test_rqmsn_and_msn_wrap_after_16_bits() -> None:
    """wire.md 4: "RQMSN(16), MSN(16)." 65,536 immediates and one plain write before the first wrap.

    Most of them leave unread: every packet acknowledged, only the last few looked at.
    """
    hand = HandPeer(QpConfig(path_mtu=256, max_wimm=1024, timeout=24))
    hand.post(0)
    batch = TransmitBatch(1024)
    source = MemoryRegion(b"", 0, 0, remote_write=False)
    packets = 1
    hand.transmitted()
    for _ in range(64):
        for at in range(1023):
            hand.qp.post_write(WriteRequest(at, source, 0, 0, 0, 0, 1))
        hand.endpoint.wake(hand.qp)
        packets += hand.endpoint.transmit(batch, hand.now)
        batch.clear()
        hand.receive(hand.ack(packets - 1))
        hand.endpoint.completions.clear()
    assert packets == 1 + 64 * 1023
    left = 65536 - 64 * 1023
    sent = _sent(hand, *[0] * (left + 2), immediate=1)
    assert [packet["meth"]["rqmsn"] for packet in sent[-4:]] == [65534, 65535, 0, 1]
    assert [packet["meth"]["msn"] for packet in sent[-4:]] == [65535, 0, 1, 2]
    hand.receive(hand.ack(packets + left + 1))
    assert len(hand.completed()) == left + 2


# ------------------------------------------------------------------ how many at once


def test_an_immediate_of_many_packets_counts_once_until_its_last_packet_is_acknowledged() -> None:
    """behaviour.md, Responder: "the requestor keeps at most max_wimm_dest unacknowledged"."""
    hand = HandPeer(QpConfig(path_mtu=256, max_wimm=1, timeout=20))
    assert numbers(hand, _sent(hand, 256 * 5, 256 * 3, immediate=5)) == [0, 1, 2, 3, 4]
    for cack in range(4):
        assert data(hand.exchange(hand.ack(cack))) == []
    assert numbers(hand, hand.exchange(hand.ack(4))) == [5, 6, 7]


def test_an_immediate_that_arrived_above_a_hole_still_counts() -> None:
    """behaviour.md, Responder: "An early immediate waits until every earlier request has arrived", so it is in flight,
    and a further one would be "More in flight than negotiated"."""
    hand = HandPeer(QpConfig(path_mtu=256, max_wimm=3, timeout=20))
    _sent(hand, 256)
    assert numbers(hand, _sent(hand, 0, 0, 0, 0, 0, immediate=9)) == [1, 2, 3]
    assert 4 not in numbers(hand, hand.exchange(hand.sack(-1, above=[1, 2, 3])))
    assert numbers(hand, hand.exchange(hand.ack(3)))[:2] == [4, 5]


def test_a_retransmission_is_no_further_immediate() -> None:
    """behaviour.md, Responder: "the requestor keeps at most max_wimm_dest unacknowledged"; one sent again is still
    one."""
    hand = HandPeer(QpConfig(path_mtu=256, max_wimm=2, timeout=20))
    (first, _) = _sent(hand, 0, 0, 0, 0, 0, immediate=9)
    for _ in range(3):
        (first,) = data(hand.exchange(hand.nack(0, TRIMMED, ev=first.ev, rtx=first["bth"]["rtx"])))
        assert numbers(hand, [first]) == [0]
    assert numbers(hand, hand.exchange(hand.ack(0))) == [2]
    assert numbers(hand, hand.exchange(hand.ack(1))) == [3]
    assert numbers(hand, hand.exchange(hand.ack(3))) == [4]
    hand.receive(hand.ack(4))
    assert hand.completed() == [(at, WorkStatus.SUCCESS) for at in range(5)]


# ------------------------------------------------------------------ completions


def test_immediates_held_back_are_flushed_in_post_order_when_the_qp_fails() -> None:
    """behaviour.md, Errors: "flush its work with error completions". Sent or not, begun or not."""
    hand = HandPeer(QpConfig(path_mtu=256, max_wimm=2))
    _sent(hand, 600, 0, 0, 300, immediate=1)
    hand.receive(hand.ack(1, syndrome=0x61))
    assert hand.qp.state == QpState.ERROR
    assert hand.completed() == [
        (0, WorkStatus.REMOTE_INVALID_REQUEST),
        (1, WorkStatus.FLUSHED),
        (2, WorkStatus.FLUSHED),
        (3, WorkStatus.FLUSHED),
    ]


# ------------------------------------------------------------------ sent again


def _masked(packet: Sent) -> bytes:
    """A packet without what belongs to one transmission: class, EV, AckReq and rtx, timestamp, ICRC."""
    masked = bytearray(packet.whole)
    masked[0:4] = bytes(4)  # traffic class and flow label
    masked[40:42] = bytes(2)  # UDP source port
    masked[56] &= 0x5F  # AckReq (bit 7) and rtx (bit 5)
    masked[64:66] = bytes(2)  # tx_timestamp
    return bytes(masked[:-4])


@pytest.mark.parametrize("length", [0, 1, 255, 256, 257, 700])
def test_an_immediate_sent_again_is_the_same_packet(length: int) -> None:
    """wire.md 3: rtx says "this packet is a retransmission"; all a responder places it by is the same.

    behaviour.md, Responder: "RQMSN is the same in every packet of the message".
    """
    hand = HandPeer(CONFIG, planes=1)  # inner addresses belong to a plane
    _sent(hand, 300, immediate=0x01020304)
    first = _sent(hand, length, immediate=0xA5A5A5A5)
    hand.now += 3 * MILLISECOND
    nacks = [
        hand.nack(number, TRIMMED, ev=packet.ev) for number, packet in zip(numbers(hand, first), first, strict=True)
    ]
    again = data(hand.exchange(*nacks))
    assert [packet.psn for packet in again] == [packet.psn for packet in first]
    assert [_masked(packet) for packet in again] == [_masked(packet) for packet in first]
    assert {packet["bth"]["rtx"] for packet in again} == {1}
    stamps = {packet["tseth"]["tx_timestamp"] for packet in again}
    assert stamps == {hand.now // 128 & 0xFFFF}
    assert stamps.isdisjoint(packet["tseth"]["tx_timestamp"] for packet in first)
    assert again[-1]["immdt"]["data"] == 0xA5A5A5A5


def test_packets_with_and_without_immediate_are_sent_again_together() -> None:
    """behaviour.md, Requestor: "Only what is missing is sent again", "oldest first". Headers of two lengths."""
    hand = HandPeer(CONFIG, planes=1)
    for at in range(24):
        hand.post(100 * at, immediate=at if at % 3 else None)
    first = data(hand.transmitted())
    missing = [number for number in range(len(first)) if number % 4]
    hand.now += RTT
    again = data(hand.exchange(*(hand.nack(number, TRIMMED, ev=first[number].ev) for number in missing)))
    assert numbers(hand, again) == missing
    assert [_masked(packet) for packet in again] == [_masked(first[number]) for number in missing]


# ------------------------------------------------------------------ any mixture


@settings(deadline=None, max_examples=draws(20))
@given(
    work=st.lists(st.tuples(st.sampled_from([0, 1, 255, 256, 257, 700, 1500]), st.booleans()), min_size=1, max_size=40),
    most=st.integers(1, 5),
    steps=st.lists(st.integers(1, 9), min_size=1, max_size=8),
    first_psn=st.sampled_from([0, 5, (1 << 24) - 1, (1 << 24) - 20]),
)
def test_any_mixture_keeps_the_limit_and_completes_in_post_order(
    work: list[tuple[int, bool]], most: int, steps: list[int], first_psn: int
) -> None:
    """behaviour.md, Responder: "at most max_wimm_dest unacknowledged"; Requestor: "Work completes in post order".

    MRC-IMM-01, MRC-SEND-05, MRC-REQ-03. PSNs may wrap at 2^24.
    """
    hand = HandPeer(QpConfig(path_mtu=256, max_wimm=most, timeout=24), first_psn=first_psn)
    contents = [hand.post(length, immediate=at if has else None) for at, (length, has) in enumerate(work)]
    arrived: list[Sent] = []
    acked, done = 0, []
    for step in range(10_000):
        arrived += data(hand.transmitted())
        ends = [packet for packet in arrived if packet.opcode in (ONLY, LAST, ONLY_IMMEDIATE, LAST_IMMEDIATE)]
        begun = {packet["meth"]["msn"] for packet in arrived}
        ended = {packet["meth"]["msn"] for packet in ends if (packet.psn - first_psn & PSN_MASK) < acked}
        assert sum(work[msn][1] for msn in begun - ended) <= most
        if acked == len(arrived):
            break
        assert arrived[-1]["bth"]["ackreq"] == 1
        acked = min(len(arrived), acked + steps[step % len(steps)])
        hand.receive(hand.ack(acked - 1))
        done += hand.completed()
    assert [(packet.psn - first_psn) & PSN_MASK for packet in arrived] == list(range(len(arrived)))
    assert done == [(at, WorkStatus.SUCCESS) for at in range(len(work))]
    for msn, (content, (_, has)) in enumerate(zip(contents, work, strict=True)):
        mine = [packet for packet in arrived if packet["meth"]["msn"] == msn]
        assert b"".join(packet.payload for packet in mine) == content
        assert [packet.layers["immdt"]["data"] for packet in mine if "immdt" in packet.layers] == [msn] * has
        rqmsn = sum(other for _, other in work[:msn]) if has else 0
        assert {packet["meth"]["rqmsn"] for packet in mine} == {rqmsn}
