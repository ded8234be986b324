# SPDX-License-Identifier: BSD-2-Clause
"""Peers that were let in and mean harm: each can end its own QP, and nothing else."""

from __future__ import annotations

import random
import tracemalloc

import pytest
from hand_peer import (
    FIRST,
    LAST,
    LAST_IMMEDIATE,
    MIDDLE,
    MILLISECOND,
    ONLY,
    ONLY_IMMEDIATE,
    REGION_VA,
    SECOND,
    HandPeer,
    data,
    of,
)

from mrc.endpoint.completions import WorkStatus
from mrc.endpoint.config import Capability, QpConfig
from mrc.endpoint.qp_states import QpState

ACK, SACK, NACK, PROBE = 0xD1, 0xDC, 0xDD, 0xDE
CONFIG = QpConfig(path_mtu=256)
HUGE = (1 << 31, (1 << 31) + 1, (1 << 32) - 1)


def holds_nothing_of(hand: HandPeer, whole: bytes) -> bool:
    """No R_Key, no address and no memory of ours is in a packet."""
    key = hand.region.rkey.to_bytes(4, "big")
    return key not in whole and key[::-1] not in whole and REGION_VA.to_bytes(8, "big") not in whole


# ------------------------------------------------------------------ never acknowledges


def test_a_peer_that_never_acknowledges_is_given_up_in_bounded_time_and_memory() -> None:
    """The window is sent once, the retries grow further apart, and then the QP, and only it, is in ERROR."""
    hand = HandPeer(QpConfig(path_mtu=256, timeout=10, linear_retries=7, exponential_retries=3))
    other = hand.connect(CONFIG, qpn=0x77, sources={0: 0xF0, 1: 0xF1})
    for _ in range(2000):
        hand.post(256)
    sent = len(data(hand.transmitted()))
    assert sent <= hand.qp.config.send_window
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        again = data(hand.run(hand.now + 20 * SECOND))
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert hand.qp.state == QpState.ERROR
    assert after - before < 32 << 20
    assert len(again) <= 25 * sent
    done = hand.completed()
    assert len(done) == 2000
    assert done[0] == (0, WorkStatus.RETRY_EXCEEDED)
    assert other.state == QpState.RTS


def test_a_peer_that_acknowledges_all_but_the_first_packet_for_ever_is_given_up() -> None:
    """A hole that never closes: the window stops at it."""
    hand = HandPeer(QpConfig(path_mtu=256, timeout=10, linear_retries=3, exponential_retries=2))
    for _ in range(3000):
        hand.post(256)
    highest = 0
    for _ in range(4000):
        hand.now += MILLISECOND
        hand.endpoint.on_timer(hand.now)
        highest += len([packet for packet in data(hand.transmitted()) if not packet["bth"]["rtx"]])
        if hand.qp.state == QpState.ERROR:
            break
        above = range(max(1, highest - 60), highest)
        hand.receive(hand.sack(-1, above=above, offset=above.start + 1, trigger=above[-1]) if above else hand.sack(-1))
    assert hand.qp.state == QpState.ERROR
    assert highest <= hand.qp.config.send_window


# ------------------------------------------------------------------ windows


def dynamic() -> HandPeer:
    agreed = Capability.DYNAMIC_MPR
    return HandPeer(QpConfig(path_mtu=256, mpr=1, max_mpr=2, capabilities=agreed), capabilities=agreed)


def test_an_mpr_of_0_is_not_a_closed_window() -> None:
    """behaviour.md, Dynamic MPR: "an mpr field of 0 means "not in use", never "closed""."""
    hand = dynamic()
    for _ in range(300):
        hand.post(256)
    assert len(data(hand.transmitted())) == 128
    assert len(data(hand.exchange(hand.sack(9, mpr=0)))) == 10


def test_a_window_that_shrinks_at_will_takes_back_nothing_that_was_sent() -> None:
    """behaviour.md, Dynamic MPR: "what is in flight beyond the edge stays valid"."""
    hand = dynamic()
    for _ in range(400):
        hand.post(256)
    hand.transmitted()
    sent = 128 + len(data(hand.exchange(hand.sack(0, mpr=2))))
    assert sent == 1 + 256
    chance = random.Random(3)
    for cack in range(1, 130):
        sent += len(data(hand.exchange(hand.sack(cack, mpr=chance.choice([1, 0, 2])))))
        assert sent >= 1 + 256, "nothing is taken back"
        assert sent <= cack + 1 + 256, "and nothing sent beyond what was granted"
    assert hand.qp.state == QpState.RTS


def test_a_window_of_any_size_is_followed_no_further_than_we_have_records_for() -> None:
    hand = dynamic()
    for _ in range(2000):
        hand.post(256)
    hand.transmitted()
    for _ in range(20):
        hand.exchange(hand.sack(-1, mpr=255))
    assert hand.qp.requestor.sent.next_psn - hand.qp.requestor.sent.una == 2 * 128


@pytest.mark.parametrize("controller", ["nscc", "fixed"])
def test_a_penalty_for_ever_slows_the_peers_own_data_and_does_not_stop_it(controller: str) -> None:
    hand = HandPeer(CONFIG, controller=controller)
    for _ in range(200):
        hand.post(256)
    done = 0
    for _ in range(2000):
        hand.now += MILLISECOND
        hand.endpoint.on_timer(hand.now)
        hand.transmitted()
        sent = hand.qp.requestor.sent
        hand.receive(hand.sack(sent.next_psn - 1 - hand.qp.first_psn, penalty=127))
        done += len(hand.completed())
        if done == 200:
            break
    assert done == 200


def test_requests_beyond_the_window_take_no_room() -> None:
    """behaviour.md, Responder: NACK PSN_OOR_WINDOW, not written."""
    hand = HandPeer(CONFIG)
    for number in range(1024, 1324):
        (said,) = hand.exchange(hand.request(number, b"x"))
        assert said.opcode == NACK
    assert not any(hand.buffer)
    assert hand.qp.responder.received.held == 0


# ------------------------------------------------------------------ sizes and keys


@pytest.mark.parametrize("dmalen", HUGE)
@pytest.mark.parametrize("op", [FIRST, MIDDLE, LAST, LAST_IMMEDIATE, ONLY, ONLY_IMMEDIATE])
def test_a_message_of_two_gigabytes_is_refused_at_its_first_packet_and_allocates_nothing(op: int, dmalen: int) -> None:
    """wire.md 4: DMALen is the whole message's length. It cannot lie in a region of 1 MiB, whatever this packet does,
    and no completion must tell an application of 2^31 bytes that never came."""
    hand = HandPeer(CONFIG)
    hand.qp.post_receive(1)
    packet = hand.request(0, b"x" * (256 if op in (FIRST, MIDDLE) else 8), op=op, dmalen=dmalen)
    tracemalloc.start()
    try:
        said = hand.exchange(packet)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 << 20
    assert [one["aeth"]["syndrome"] in (0x61, 0x62) for one in of(said, ACK)] == [True]
    assert not any(hand.buffer)
    assert [status for _, status in hand.completed()] == [WorkStatus.FLUSHED]


@pytest.mark.parametrize("va", [0, REGION_VA - 1, REGION_VA + (1 << 20) - 4, (1 << 64) - 4, (1 << 63), (1 << 63) - 8])
def test_no_address_outside_the_region_is_written_or_told_apart(va: int) -> None:
    hand = HandPeer(CONFIG)
    said = hand.exchange(hand.request(0, b"x" * 8, va=va))
    (nak,) = of(said, ACK)
    assert nak["aeth"]["syndrome"] == 0x62
    assert not any(hand.buffer)
    assert holds_nothing_of(hand, nak.whole)


def test_one_wrong_r_key_ends_the_qp_so_that_there_is_no_second_guess() -> None:
    """behaviour.md, Responder: "bad R_Key ... QP goes to error. Nothing of the request is written"."""
    hand = HandPeer(CONFIG)
    other = hand.connect(CONFIG, qpn=0x77)
    (nak,) = of(hand.exchange(hand.request(0, b"guess", rkey=hand.region.rkey ^ 1)), ACK)
    assert nak["aeth"]["syndrome"] == 0x62
    for number in range(1, 100):
        hand.exchange(hand.request(number, b"guess", rkey=hand.region.rkey))
    assert not any(hand.buffer), "not even with the right one"
    assert hand.qp.state == QpState.ERROR
    assert other.state == QpState.RTS


def test_a_wrong_r_key_and_a_wrong_address_are_answered_alike() -> None:
    """Otherwise the answer would tell which R_Keys there are."""
    answers = []
    for change in ({"rkey": 1}, {"va": 0}):
        hand = HandPeer(CONFIG)
        (nak,) = hand.exchange(hand.request(0, b"x", **change))
        answers.append(nak.whole[48 + 12 : -4])
    assert answers[0] == answers[1]


def test_no_answer_holds_an_r_key_or_memory() -> None:
    hand = HandPeer(CONFIG, capabilities=Capability.TRIM_NACK)
    secret = bytes(range(0xA0, 0xC0))
    hand.buffer[:32] = secret
    said = hand.exchange(
        hand.request(0, b"x", va=REGION_VA + 100),
        hand.request(0, b"x", va=REGION_VA + 100),
        hand.request(9, b"x", va=REGION_VA + 100),
        hand.request(5000, b"x"),
        hand.probe(),
    )
    said += hand.exchange(hand.request(1, b"x", va=0))
    said += hand.exchange(hand.request(2, b"x"))
    assert {packet.opcode for packet in said} >= {ACK, SACK, NACK}
    for packet in said:
        assert holds_nothing_of(hand, packet.whole)
        assert secret[:4] not in packet.whole
        assert packet.payload == b""


def test_a_qp_in_error_answers_once_a_batch_however_many_requests_come() -> None:
    hand = HandPeer(CONFIG)
    hand.exchange(hand.request(0, b"x", rkey=1))
    for _ in range(20):
        assert len(hand.exchange(*(hand.request(number, b"x") for number in range(100)))) == 1


def test_qps_of_one_owner_do_not_open_the_memory_of_another() -> None:
    """R_Keys hold within a protection domain."""
    hand = HandPeer(CONFIG)
    theirs = hand.endpoint.create_memory()
    secret = bytearray(64)
    region = theirs.register(secret, va=REGION_VA)
    hand.exchange(hand.request(0, b"x", rkey=region.rkey))
    assert hand.qp.state == QpState.ERROR
    assert not any(secret)


def test_r_keys_that_were_given_back_open_nothing() -> None:
    hand = HandPeer(CONFIG)
    hand.exchange(hand.request(0, b"x"))
    hand.endpoint.memory.deregister(hand.region)
    hand.exchange(hand.request(1, b"y"))
    assert hand.buffer[0] == ord("x")
    assert hand.qp.state == QpState.ERROR


def test_immediates_beyond_what_was_granted_end_their_qp() -> None:
    """behaviour.md, Write-with-immediate: "More in flight than negotiated ...: NAK, QP to error". None takes room."""
    hand = HandPeer(QpConfig(path_mtu=256, max_wimm_dest=4))
    for wr_id in range(100):
        hand.qp.post_receive(wr_id)
    for number in range(1, 60):
        hand.exchange(hand.request(number, b"x", op=ONLY_IMMEDIATE, rqmsn=number))
        if hand.qp.state == QpState.ERROR:
            break
    assert hand.qp.state == QpState.ERROR
    assert number <= 5


@pytest.mark.parametrize("turn", [1, 2, 4])
def test_immediates_that_claim_one_turn_take_no_more_room(turn: int) -> None:
    """What waits is bounded by the grant, whatever RQMSN it claims: many PSNs may claim one, or a few of them."""
    hand = HandPeer(QpConfig(path_mtu=256, max_wimm_dest=4))
    for wr_id in range(100):
        hand.qp.post_receive(wr_id)
    for number in range(1, 60):
        hand.exchange(hand.request(number, b"x", op=ONLY_IMMEDIATE, rqmsn=number % turn))
        if hand.qp.state == QpState.ERROR:
            break
    assert hand.qp.state == QpState.ERROR
    assert number == 5
