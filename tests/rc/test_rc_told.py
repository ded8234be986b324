# SPDX-License-Identifier: BSD-2-Clause
"""What RC tells its owner: when things happened, how often, to which QP and why, in words."""

from __future__ import annotations

import pytest
from rc_hand import (
    MILLISECOND,
    ONLY,
    OUR_PSN,
    OUR_QPN,
    PEER_PSN,
    RKEY,
    SEQUENCE_ERROR,
    HandPeer,
    answer,
    bth,
    write,
)

from mrc.endpoint.completions import WorkStatus
from mrc.rc import RcConfig, RcEndpoint, RcEndpointConfig
from mrc.wire.transmit_batch import TransmitBatch

P = OUR_PSN
TIMEOUT = 10
TIMEOUT_NS = 4_194_304  # 4.096 us x 2^10
RNR_1 = 0x20 | 1
RESERVED = 0x40
ANOTHER_KEY = write(ONLY, PEER_PSN, b"x", rkey=RKEY + 1)


# ------------------------------------------------------------------ when


def test_a_queue_pair_that_ends_before_anything_happened_ends_at_0() -> None:
    peer = HandPeer()
    peer.qp.to_error("enough")
    assert [event.at_ns for event in peer.endpoint.events] == [0]


def test_the_end_has_the_time_of_the_packet_that_brought_it() -> None:
    peer = HandPeer()
    peer.now = 7 * MILLISECOND
    peer.receive(ANOTHER_KEY)
    assert [(event.at_ns, event.qpn) for event in peer.endpoint.events] == [(7 * MILLISECOND, OUR_QPN)]


def test_the_end_has_the_time_of_the_timer_that_brought_it() -> None:
    peer = HandPeer(timeout=TIMEOUT, retry_count=0)
    peer.post(1)
    assert len(peer.sent()) == 1
    peer.pass_time(2 * TIMEOUT_NS)
    assert [event.at_ns for event in peer.endpoint.events] == [TIMEOUT_NS]


def test_the_end_has_the_time_of_the_turn_before_it() -> None:
    peer = HandPeer()
    peer.now = 3 * MILLISECOND
    peer.sent()
    peer.qp.to_error("enough")
    assert [event.at_ns for event in peer.endpoint.events] == [3 * MILLISECOND]


def test_of_events_that_nobody_takes_the_last_1024_are_kept() -> None:
    endpoint = RcEndpoint()
    for number in range(1500):
        endpoint.set_port(0, False, number)
    assert [event.at_ns for event in endpoint.events] == list(range(1500 - 1024, 1500))


@pytest.mark.parametrize("what", ["a sequence error", "silence"])
def test_the_timer_runs_on_while_what_is_sent_again_waits_for_its_turn(what: str) -> None:
    peer = HandPeer(timeout=TIMEOUT)
    peer.post(1)
    assert len(peer.sent()) == 1
    if what == "silence":
        peer.now = TIMEOUT_NS
        peer.endpoint.on_timer(peer.now)
    else:
        peer.now = MILLISECOND
        peer.receive(answer(P, SEQUENCE_ERROR))
    assert peer.qp.next_deadline() == peer.now + TIMEOUT_NS


def test_a_timer_that_does_not_move_is_kept_once() -> None:
    """As many packets as may come: what an endpoint holds does not grow with them."""
    peer = HandPeer()
    peer.post(1)
    assert len(peer.sent()) == 1
    for number in range(100):
        peer.receive(write(ONLY, PEER_PSN + number, b"x"))
    assert len(peer.endpoint._timers) == 1


# ------------------------------------------------------------------ how often, and to which


def test_each_of_several_is_counted() -> None:
    peer = HandPeer(retry_count=7)
    peer.post(1)
    assert len(peer.sent()) == 1
    for syndrome in (RESERVED, SEQUENCE_ERROR):
        for _ in range(3):
            peer.receive(answer(P, syndrome))
            peer.sent()
    for _ in range(3):
        peer.receive(answer(P, RNR_1))
        peer.pass_time(MILLISECOND)
        peer.sent()
    for _ in range(3):
        peer.receive(bth(ONLY, 0, dqp=0x77) + bytes(16))
    names = ("unknown_syndrome", "sequence_naks_received", "rnr_naks_received", "unknown_qp")
    assert {name: peer.count(name) for name in names} == dict.fromkeys(names, 3)


def test_a_nak_that_is_sent_again_counts_again() -> None:
    peer = HandPeer()
    for _ in range(3):
        assert len(peer.answers(ANOTHER_KEY)) == 1
    # The first ended it.
    assert (peer.count("naks_sent"), peer.count("wrong_qp_state")) == (3, 2)


def test_a_batch_that_holds_packets_already_gets_those_that_are_new_counted() -> None:
    peer, batch = HandPeer(), TransmitBatch(10)
    for wanted in (1, 1, 0):
        if wanted:
            peer.post(1)
        assert peer.endpoint.transmit(batch, peer.now) == wanted
    assert batch.count == 2


def test_completions_name_their_queue_pair_and_claim_nothing_that_failed() -> None:
    peer = HandPeer()
    for wr_id in (1, 2, 3):
        peer.post(100, wr_id=wr_id)
    assert len(peer.sent()) == 3
    peer.receive(answer(P))
    peer.receive(ANOTHER_KEY)
    peer.post(100, wr_id=4)
    done = [(each.wr_id, each.qpn, each.status, each.byte_len) for each in peer.taken()]
    # What the peer did wrong is no fault of our own work.
    assert done == [
        (1, OUR_QPN, WorkStatus.SUCCESS, 100),
        *((wr_id, OUR_QPN, WorkStatus.FLUSHED, 0) for wr_id in (2, 3, 4)),
    ]


# ------------------------------------------------------------------ why


def test_a_queue_pair_without_an_error_names_none() -> None:
    assert HandPeer().qp.error is None


@pytest.mark.parametrize("retry_count", [0, 2])
def test_silence_is_named(retry_count: int) -> None:
    peer = HandPeer(timeout=TIMEOUT, retry_count=retry_count)
    peer.post(1)
    for _ in range(retry_count + 1):
        peer.sent()
        peer.pass_time(TIMEOUT_NS)
    assert peer.qp.error == f"the peer does not answer: {retry_count} retries brought nothing"


def test_loss_without_end_is_named() -> None:
    peer = HandPeer(retry_count=2)
    peer.post(1)
    for _ in range(3):
        peer.sent()
        peer.receive(answer(P, SEQUENCE_ERROR))
    assert peer.qp.error == "packets got lost on the way again and again: 2 retries brought nothing"


def test_a_receiver_that_is_never_ready_is_named() -> None:
    peer = HandPeer(rnr_retry=0)
    peer.post(1, 5)
    peer.sent()
    peer.receive(answer(P, RNR_1))
    assert peer.qp.error == "the peer never had a receive posted"


# ------------------------------------------------------------------ what is set, and what is drawn


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("timeout", (1, 31)),
        ("retry_count", (0, 7)),
        ("rnr_retry", (0, 7)),
        ("min_rnr_timer", (0, 31)),
        ("window_packets", (1, 1 << 15)),
        ("ack_every_packets", (1, 1 << 15)),
        ("traffic_class", (0, 255)),
    ],
)
def test_parameters_at_the_end_of_their_range(name: str, values: tuple[int, int]) -> None:
    for value in values:
        assert getattr(RcConfig(**{name: value}), name) == value


def drawn(seed: int) -> list[tuple[int, int]]:
    endpoint = RcEndpoint(RcEndpointConfig(seed=seed))
    return [(qp.qpn, qp.first_psn) for qp in (endpoint.create_qp() for _ in range(5))]


def test_qpns_and_psns_come_from_the_seed() -> None:
    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)
    psns = [psn for _, psn in drawn(1)]
    assert len(set(psns)) == 5
    assert all(0 <= psn < 1 << 24 for psn in psns)
