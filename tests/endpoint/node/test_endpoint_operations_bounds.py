# SPDX-License-Identifier: BSD-2-Clause
"""Endpoint operations at their bounds: how many are out, how many answers wait, and no EV to send on."""

from __future__ import annotations

import pytest
from hand_operations import EV_PROBE, PORT_STATUS_UPDATE, RESPONSE, request, requests, response
from hand_peer import MILLISECOND, HandPeer, of

from mrc.errors import CallerError
from mrc.wire.transmit_batch import TransmitBatch

MOST_REQUESTS, MOST_RESPONSES = 4096, 1024


def test_4096_requests_are_out_at_once_and_not_one_more() -> None:
    """Not for the caller, and not to learn reverse EVs either; what arrives is answered as ever."""
    hand = HandPeer()
    (node,) = hand.endpoint.peer_nodes.values()
    for _ in range(MOST_REQUESTS):
        hand.endpoint.probe_ev(node, 0)
    with pytest.raises(CallerError):
        hand.endpoint.probe_ev(node, 0)
    batch = TransmitBatch(MOST_REQUESTS + 16)
    assert hand.endpoint.transmit(batch, hand.now) == MOST_REQUESTS
    for number in range(4):
        hand.receive(hand.request(number, b"x"))
        assert requests(hand.transmitted(), EV_PROBE) == []
        hand.now += 11 * MILLISECOND


def test_1024_answers_wait_at_once_and_the_rest_is_dropped_and_counted() -> None:
    hand = HandPeer()
    for first in (0, MOST_RESPONSES):
        hand.receive(*(request(first + at, EV_PROBE) for at in range(MOST_RESPONSES + 3)))
        answers = of(hand.transmitted(), RESPONSE)
        assert [packet.psn for packet in answers] == [first + at for at in range(MOST_RESPONSES)]
    assert hand.counters["endpoint_responses_dropped"] == 6
    assert hand.counters["ev_probes_answered"] == 2 * (MOST_RESPONSES + 3)


def test_with_every_port_down_answers_are_dropped_and_counted() -> None:
    """They cannot wait: their timestamps would be old by then."""
    hand = HandPeer()
    for port in (0, 1):
        hand.endpoint.set_port(port, False, hand.now)
    assert hand.exchange(request(1, EV_PROBE), request(2, PORT_STATUS_UPDATE, port_status_mask=3)) == []
    assert hand.exchange(request(3, EV_PROBE)) == []
    assert hand.counters["endpoint_responses_dropped"] == 3


@pytest.mark.parametrize("batch", [1, 7, 16, 17, 240])
def test_how_many_come_at_once_makes_no_difference_to_what_is_looked_at(batch: int) -> None:
    """240 packets at one time, in batches: 80 EV probes and 80 statuses of the peer's, 40 answers never asked for and
    40 strangers. A status has a rate of 64 at once; all else of the peer's is looked at, the strangers never."""
    hand = HandPeer()
    stranger = 0xFD00_0000_0000_0000_0000_0000_0000_BAD0
    packets = []
    for number in range(40):
        packets += [request(6 * number, EV_PROBE), request(6 * number + 1, PORT_STATUS_UPDATE, port_status_mask=3)]
        packets += [request(6 * number + 2, EV_PROBE, source=stranger), response(6 * number + 3, EV_PROBE)]
        packets += [request(6 * number + 4, PORT_STATUS_UPDATE, port_status_mask=3), request(6 * number + 5, EV_PROBE)]
    sent = []
    for first in range(0, len(packets), batch):
        sent += of(hand.exchange(*packets[first : first + batch]), RESPONSE)
    counters = hand.counters
    assert len(sent) == 80 + 64
    assert counters["ev_probes_answered"] == 80
    assert counters["port_updates_received"] == 64
    assert counters["over_rate"] == 16
    assert counters["unknown_peer"] == 40
    assert counters["unexpected_endpoint_response"] == 40


@pytest.mark.parametrize("whose", ["ours", "the peer's"])
def test_with_every_port_down_nothing_is_probed_to_learn(whose: str) -> None:
    """Not even while data arrives; and probing goes on when a port is back."""
    hand = HandPeer()
    if whose == "ours":
        for port in (0, 1):
            hand.endpoint.set_port(port, False, hand.now)
    else:
        hand.exchange(request(1, PORT_STATUS_UPDATE, port_status_mask=0))
    for number in range(5):
        assert requests(hand.exchange(hand.request(number, b"x")), EV_PROBE) == []
        hand.now += 11 * MILLISECOND
    if whose == "ours":
        hand.endpoint.set_port(1, True, hand.now)
    else:
        hand.exchange(request(2, PORT_STATUS_UPDATE, port_status_mask=0b10))
    (probe,) = requests(hand.exchange(hand.request(5, b"x")), EV_PROBE)
    assert probe.port == 1


@pytest.mark.parametrize("op", [2, 3])
def test_each_unknown_operation_counts(op: int) -> None:
    hand = HandPeer()
    for req_id in range(3):
        assert hand.exchange(request(req_id, op)) == []
    assert hand.counters == {"unknown_endpoint_operation": 3}


def test_each_misdirected_packet_counts() -> None:
    """A write for DQP 2, three times."""
    hand = HandPeer()
    for number in range(3):
        assert hand.exchange(hand.request(number, b"x", bth={"dqp": 2})) == []
    assert hand.counters == {"misdirected": 3}
