# SPDX-License-Identifier: BSD-2-Clause
"""Off the path, without a peer's address: nothing is answered, nothing moves, and known and unknown QPs look alike."""

from __future__ import annotations

import random
import tracemalloc

import pytest
from attacks import STRANGER, answered_bytes, any_packet, every_kind, length_of, standing, trimmed
from hand_operations import EV_PROBE, request
from hand_peer import MILLISECOND, PEER_QPN, SECOND, HandPeer, peer_address
from hypothesis import given
from hypothesis import strategies as st

from mrc.endpoint.config import Capability, QpConfig

CONFIG = QpConfig(path_mtu=256)
ALL = Capability.TRIM_NACK | Capability.DYNAMIC_MPR | Capability.SVC_TIME
LAW = 3


def victim() -> HandPeer:
    """A QP with packets in flight, so that there is something to acknowledge."""
    hand = HandPeer(QpConfig(path_mtu=256, capabilities=ALL), capabilities=ALL)
    for _ in range(4):
        hand.post(256)
    hand.transmitted()
    return hand


KINDS = tuple(every_kind(victim(), STRANGER))


@pytest.mark.parametrize("kind", KINDS)
def test_a_strangers_packet_is_not_answered_and_moves_nothing(kind: str) -> None:
    """behaviour.md, Responder: "known QP, allowed source". Errors: "never changes state: it is dropped and counted"."""
    hand = victim()
    before = standing(hand)
    counted = sum(hand.counters.values())
    assert hand.exchange(every_kind(hand, STRANGER)[kind]) == []
    assert standing(hand) == before
    assert sum(hand.counters.values()) > counted, "dropped, and counted"


@pytest.mark.parametrize("kind", KINDS)
def test_the_peers_address_of_another_plane_is_a_strangers(kind: str) -> None:
    """A source is good at the port its packets come in on, and nowhere else."""
    hand = victim()
    before = standing(hand)
    assert hand.exchange(every_kind(hand, peer_address(1))[kind], port=0) == []
    assert standing(hand) == before


@pytest.mark.parametrize("kind", KINDS)
def test_a_stranger_cannot_tell_a_known_qp_from_an_unknown_one(kind: str) -> None:
    hand = victim()
    unknown = next(qpn for qpn in range(0x10, 0x100) if qpn not in hand.endpoint.qps)
    known = hand.exchange(every_kind(hand, STRANGER)[kind])
    assert hand.exchange(every_kind(hand, STRANGER, dqp=unknown)[kind]) == known == []


@pytest.mark.parametrize("qp_state", ["RESET", "INIT", "ERROR", "destroyed"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_qp_without_an_established_peer_answers_no_stranger(kind: str, qp_state: str) -> None:
    hand = victim()
    packet = every_kind(hand, STRANGER)[kind]
    if qp_state == "ERROR":
        hand.qp.to_error("its owner gave up")
    elif qp_state == "destroyed":
        hand.endpoint.destroy_qp(hand.qp)
    else:
        fresh = hand.endpoint.create_qp(CONFIG, qpn=0x1234)
        if qp_state == "INIT":
            fresh.to_init()
        # Not even the address of a peer of another QP helps.
        packet = every_kind(hand, STRANGER, dqp=0x1234)[kind]
    hand.transmitted()
    assert hand.exchange(packet) == []


@given(seed=st.integers(0, 1 << 32), batch=st.sampled_from([1, 3, 24, 60]))
def test_the_law_of_amplification(seed: int, batch: int) -> None:
    """Responses never exceed three times the bytes of the request that caused them for a peer that is not established:
    whatever the packets, at once and through all timers of the next second. In fact there are none at all."""
    chance = random.Random(seed)
    hand = HandPeer(CONFIG)
    dqps = [hand.qp.qpn, 2, 0, PEER_QPN, 0x77, 0xFFFFFF]
    packets = [any_packet(chance, dqps, STRANGER + chance.randrange(4)) for _ in range(batch)]
    packets += [trimmed(packet) for packet in packets[: batch // 3]]
    said = hand.exchange(*packets, port=chance.randrange(2)) + hand.run(hand.now + SECOND)
    assert answered_bytes(said) <= LAW * length_of(packets)
    assert said == []


@given(seed=st.integers(0, 1 << 32))
def test_bytes_that_are_no_packets_are_not_answered(seed: int) -> None:
    chance = random.Random(seed)
    hand = HandPeer(CONFIG)
    before = standing(hand)
    assert hand.exchange(*(chance.randbytes(chance.randrange(1, 400)) for _ in range(40))) == []
    assert standing(hand) == before


def test_a_flood_from_made_up_addresses_leaves_no_record_behind() -> None:
    """No peer node, no request, no answer in waiting; memory stays what it was."""
    hand = victim()
    chance = random.Random(1)

    def wave() -> list[bytes]:
        sources = [chance.getrandbits(128) for _ in range(100)]
        probes = [request(number, EV_PROBE, source=source) for number, source in enumerate(sources)]
        return probes + [any_packet(chance, [chance.randrange(1 << 24)], source) for source in sources]

    hand.exchange(*wave())
    tracemalloc.start()
    try:
        hand.exchange(*wave())
        before, _ = tracemalloc.get_traced_memory()
        for _ in range(8):
            hand.exchange(*wave())
            hand.now += MILLISECOND // 10
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 64 << 10
    assert len(hand.endpoint.peer_nodes) == 1
    assert hand.counters["unknown_peer"] >= 8 * 100
