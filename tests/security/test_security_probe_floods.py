# SPDX-License-Identifier: BSD-2-Clause
"""Probes by the hundred thousand: a stranger's are not answered, those with the peer's address up to a rate."""

from __future__ import annotations

import tracemalloc

from attacks import STRANGER, answered_bytes, length_of
from hand_operations import EV_PROBE, RESPONSE, request
from hand_peer import MILLISECOND, SECOND, HandPeer, data, of

from mrc.endpoint.config import QpConfig, ResponderConfig

SACK = 0xDC
BURST, PER_SECOND = 100, 1000
CONFIG = QpConfig(path_mtu=256, responder=ResponderConfig(answers_burst=BURST, answers_per_second=PER_SECOND))
EV_BURST, EV_PER_SECOND = 4096, 2000


def test_ev_probes_of_a_stranger_are_not_answered() -> None:
    hand = HandPeer(CONFIG)
    for _ in range(100):
        assert hand.exchange(*(request(at, EV_PROBE, source=STRANGER + at) for at in range(100))) == []
        hand.now += MILLISECOND
    assert hand.counters == {"unknown_peer": 100 * 100}


def test_reliability_probes_of_a_stranger_are_not_answered() -> None:
    hand = HandPeer(CONFIG)
    assert hand.exchange(*(hand.probe(at, source=STRANGER + at) for at in range(100))) == []
    assert hand.counters == {"bad_source": 100}


def test_ev_probes_with_the_peers_address_are_answered_up_to_a_rate() -> None:
    hand = HandPeer(CONFIG)
    probes = [request(at, EV_PROBE) for at in range(100)]
    answers = 0
    for _ in range(200):
        said = hand.exchange(*probes)
        assert answered_bytes(said) <= 3 * length_of(probes)
        answers += len(of(said, RESPONSE))
        hand.now += MILLISECOND
    assert EV_BURST <= answers <= EV_BURST + EV_PER_SECOND // 5 + 1
    assert hand.counters["over_rate"] == 200 * 100 - answers
    hand.now += SECOND
    assert len(of(hand.exchange(request(7, EV_PROBE)), RESPONSE)) == 1


def test_reliability_probes_with_the_peers_address_are_answered_up_to_a_rate() -> None:
    hand = HandPeer(CONFIG)
    answers = 0
    for _ in range(100):
        answers += len(of(hand.exchange(*(hand.probe(at) for at in range(100))), SACK))
        hand.now += MILLISECOND
    assert BURST <= answers <= BURST + PER_SECOND // 10 + 1


def test_a_flood_of_probes_keeps_no_data_from_being_acknowledged() -> None:
    """Copies, probes and new requests have limits of their own."""
    hand = HandPeer(CONFIG)
    for number in range(20):
        said = hand.exchange(*(hand.probe(at) for at in range(100)), hand.request(number, b"x", bth={"ackreq": 1}))
        heard = [packet["seth"] for packet in of(said, SACK)]
        assert any(not seth["pr"] and seth["cack_psn"] == hand.peer_first_psn + number for seth in heard)
        hand.now += MILLISECOND


def test_a_flood_of_probes_does_not_stop_what_we_send() -> None:
    hand = HandPeer(CONFIG)
    for number in range(20):
        hand.post(256)
        sent = data(hand.exchange(*(hand.probe(at) for at in range(100))))
        assert len(sent) == 1
        hand.receive(hand.ack(number))
        hand.now += MILLISECOND
    assert len(hand.completed()) == 20


def test_answers_that_cannot_leave_do_not_pile_up() -> None:
    """Nobody asks the endpoint to transmit meanwhile: what waits is bounded, the rest is dropped."""
    hand = HandPeer(QpConfig(path_mtu=256))
    flood = [request(at, EV_PROBE) for at in range(100)] + [hand.probe(at) for at in range(100)]
    flood += [hand.request(-5, b"")] * 100 + [hand.request(5000, b"")] * 100
    for _ in range(12):
        hand.receive(*flood)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for _ in range(12):
            hand.receive(*flood)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 512 << 10
    assert len(hand.transmitted()) <= 1024 + 2 * 1024 + 1
