# SPDX-License-Identifier: BSD-2-Clause
"""EV probes, node to node on DQP 2: asked for, answered, timed out (wire.md section 8; behaviour.md, Paths)."""

from __future__ import annotations

import pytest
from hand_operations import EV_PROBE, PORT_STATUS_UPDATE, RESPONSE, answered, request, response
from hand_peer import MICROSECOND, MILLISECOND, HandPeer, Sent, of

from mrc.endpoint.config import Capability, EndpointConfig, PeerNodeConfig, QpConfig
from mrc.endpoint.node.operations import EvProbeResult
from mrc.endpoint.node.peer_node import PeerNode
from mrc.errors import CallerError
from mrc.wire.profile import WireProfile
from mrc.wire.transmit_batch import TransmitBatch

SERVICE_TIME = Capability.SVC_TIME


def _node(hand: HandPeer) -> PeerNode:
    (node,) = hand.endpoint.peer_nodes.values()
    return node


def _probe(hand: HandPeer, number: int, results: list[EvProbeResult], dscp: int | None = None) -> Sent:
    req_id = hand.endpoint.probe_ev(_node(hand), number, dscp=dscp, on_result=results.append)
    (sent,) = hand.transmitted()
    assert (sent.psn, sent["bth"]["dqp"], sent["erth"]["op"]) == (req_id, 2, EV_PROBE)
    return sent


# ------------------------------------------------------------------ answering


def test_the_request_id_is_the_low_16_bits_of_the_psn() -> None:
    """wire.md section 3: "the request id in PSN bits 15:0"."""
    hand = HandPeer()
    (answer,) = hand.exchange(request(0xAB1234, EV_PROBE))
    assert answer.psn == 0x1234


def test_headers_left_from_data_do_not_show_in_a_response() -> None:
    """Reserved fields are 0, whatever the batch was used for before."""
    hand = HandPeer(QpConfig(path_mtu=256))
    hand.post(256 * 100)
    hand.transmitted()
    (answer,) = hand.exchange(request(1, EV_PROBE, tx_timestamp=7, ftype=1))
    assert answer.whole[60:96] == bytes([0, EV_PROBE << 2]) + bytes(26) + bytes([0, 7]) + bytes(6)


@pytest.mark.parametrize(("shift", "byte"), [(2, EV_PROBE << 2), (4, EV_PROBE << 4)])
def test_op_sits_where_the_wire_profile_says(shift: int, byte: int) -> None:
    """Bits 3:2 of EETH byte 1, or with the switch 5:4; the same bits are read in an answer."""
    profile = WireProfile(eeth_op_shift=shift)
    hand = HandPeer(endpoint=EndpointConfig(wire=profile))
    (answer,) = hand.exchange(request(1, EV_PROBE))
    assert answer.whole[61] == byte
    results: list[EvProbeResult] = []
    sent = _probe(hand, 0, results)
    hand.receive(response(sent.psn, EV_PROBE, profile=profile))
    assert [result.rtt_ns for result in results] == [0]


@pytest.mark.parametrize(
    ("both", "tsr", "held_ns", "reflected"),
    [
        (False, 0, 12_800, 1000),
        (True, 0, 12_800, 1100),
        (True, 1, 50_000, 1050),  # tsr 1: the unit is 1 us
        (True, 0, 0, 1000),
    ],
)
def test_the_time_a_probe_was_held_is_in_the_timestamp_where_both_can(
    both: bool, tsr: int, held_ns: int, reflected: int
) -> None:
    """Service time: tx_timestamp plus the time the packet was held, in its unit."""
    hand = HandPeer(capabilities=SERVICE_TIME if both else Capability(0))
    hand.receive(request(1, EV_PROBE, tx_timestamp=1000, tsr=tsr, ftype=1))
    hand.now += held_ns
    (answer,) = hand.transmitted()
    assert answer["eeth"]["tx_timestamp"] == reflected


def test_a_request_without_a_timestamp_is_answered_with_0() -> None:
    hand = HandPeer(capabilities=SERVICE_TIME)
    hand.receive(request(1, EV_PROBE, tx_timestamp=1000, ftype=0))
    hand.now += 12_800
    (answer,) = hand.transmitted()
    assert answer["eeth"]["tx_timestamp"] == 0


def test_what_no_qp_knows_the_sender_of_is_dropped_and_counted() -> None:
    """An unknown address, and a known one at the wrong port."""
    hand = HandPeer()
    assert hand.exchange(request(1, EV_PROBE, source=12345)) == []
    assert hand.exchange(request(1, EV_PROBE, plane=0), port=1) == []
    assert hand.exchange(request(1, PORT_STATUS_UPDATE, source=12345, port_status_mask=0)) == []
    assert hand.counters == {"unknown_peer": 3}
    assert _node(hand).planes_down == set()


def test_other_packets_for_dqp_2_and_operations_for_a_qp_are_misdirected() -> None:
    hand = HandPeer()
    assert hand.exchange(request(1, EV_PROBE, bth={"opcode": 0xD8}, dqp=hand.qp.qpn)) == []
    hand.receive(hand.request(0, b"x", bth={"dqp": 2}))
    assert hand.transmitted() == []
    assert hand.counters == {"misdirected": 2}


def test_a_node_without_qps_is_forgotten() -> None:
    """Connectionless, but not open to everybody: what nobody is connected to is not answered."""
    hand = HandPeer()
    assert len(hand.exchange(request(1, EV_PROBE))) == 1
    results: list[EvProbeResult] = []
    _probe(hand, 0, results)
    hand.endpoint.destroy_qp(hand.qp)
    assert [result.rtt_ns for result in results] == [None]
    assert hand.endpoint.peer_nodes == {}
    assert hand.exchange(request(2, EV_PROBE)) == []
    assert hand.counters["unknown_peer"] == 1


# ------------------------------------------------------------------ probing


@pytest.mark.parametrize(("dscp", "traffic_class"), [(None, 46 << 2), (0, 0), (4, 4 << 2), (63, 63 << 2)])
def test_a_probe_goes_in_the_class_its_caller_names(dscp: int | None, traffic_class: int) -> None:
    """MRC-OP-08."""
    hand = HandPeer()
    assert _probe(hand, 0, [], dscp).traffic_class == traffic_class


def test_service_time_is_taken_off_where_both_can() -> None:
    """100 units of 128 ns held, of a round trip of 50 us; and a round trip of 40 ms, longer than the clock's 8.4 ms."""
    for capabilities, rtt, taken_off, of_50 in (
        (SERVICE_TIME, 12_800, True, 37_200),
        (Capability(0), 0, False, 50_000),
    ):
        hand = HandPeer(capabilities=capabilities)
        results: list[EvProbeResult] = []
        sent = _probe(hand, 0, results)
        hand.now += 50 * MICROSECOND
        answered(hand, sent, held=100)
        sent = _probe(hand, 0, results)
        hand.now += 40 * MILLISECOND
        answered(hand, sent, held=100)
        assert [(r.rtt_ns, r.service_time_taken_off) for r in results] == [
            (of_50, taken_off),
            (40 * MILLISECOND - rtt, taken_off),
        ]


def test_a_service_time_longer_than_the_round_trip_is_none() -> None:
    """A peer that reflects nonsense cannot make a round trip negative."""
    hand = HandPeer(capabilities=SERVICE_TIME)
    results: list[EvProbeResult] = []
    sent = _probe(hand, 0, results)
    hand.now += 10 * MICROSECOND
    answered(hand, sent, held=-1)
    assert [(r.rtt_ns, r.service_time_taken_off) for r in results] == [(10_000, False)]


def test_a_probe_without_an_answer_has_failed_after_its_timeout() -> None:
    """Reported once; an answer after that is counted and changes nothing."""
    config = EndpointConfig(peer_nodes=PeerNodeConfig(ev_probe_timeout_ns=7 * MILLISECOND))
    hand = HandPeer(endpoint=config)
    results: list[EvProbeResult] = []
    sent = _probe(hand, 3, results)
    hand.run(hand.now + 7 * MILLISECOND - 1)
    assert results == []
    hand.run(hand.now + 1)
    path = _node(hand).paths[3]
    assert results == [EvProbeResult(sent.psn, path.ev, path.port, None, False)]
    answered(hand, sent)
    assert len(results) == 1
    assert hand.counters == {"ev_probes_sent": 1, "ev_probes_failed": 1, "unexpected_endpoint_response": 1}


def test_probes_under_way_are_told_apart_by_their_ids() -> None:
    """Answers in another order than the probes."""
    hand = HandPeer()
    results: list[EvProbeResult] = []
    sent = [_probe(hand, number, results) for number in range(4)]
    assert len({packet.psn for packet in sent}) == 4
    for packet in (sent[2], sent[0], sent[3], sent[1]):
        hand.now += 10 * MICROSECOND
        answered(hand, packet)
    evs = [path.ev for path in _node(hand).paths]
    assert [(r.ev, r.rtt_ns) for r in results] == [
        (evs[2], 10_000),
        (evs[0], 20_000),
        (evs[3], 30_000),
        (evs[1], 40_000),
    ]


def test_answers_nobody_waits_for_are_counted() -> None:
    """An id never given, another operation's, one not sent yet, one from another node, and the same answer twice."""
    hand = HandPeer()
    results: list[EvProbeResult] = []
    sent = _probe(hand, 0, results)
    hand.receive(response((sent.psn + 9) & 0xFFFF, EV_PROBE))
    hand.receive(response(sent.psn, PORT_STATUS_UPDATE))
    unsent = hand.endpoint.probe_ev(_node(hand), 1, on_result=results.append)
    hand.receive(response(unsent, EV_PROBE))
    other = HandPeer.connect(hand, hand.config, sources={0: 0xFE})
    hand.receive(response(sent.psn, EV_PROBE, source=0xFE))
    assert results == []
    assert hand.counters["unexpected_endpoint_response"] == 4
    answered(hand, sent)
    answered(hand, sent)
    assert len(results) == 1
    assert hand.counters["unexpected_endpoint_response"] == 5
    assert other.peer_node is not hand.qp.peer_node


def test_what_cannot_be_probed_is_the_callers_mistake() -> None:
    hand = HandPeer()
    for number, dscp in ((8, None), (-1, None), (0, 64), (0, -1)):
        with pytest.raises(CallerError):
            hand.endpoint.probe_ev(_node(hand), number, dscp=dscp)
    assert hand.transmitted() == []


@pytest.mark.seconds
def test_what_is_out_is_bounded_and_ids_come_round() -> None:
    """65,536 request ids; 17 times 4096 probes that nobody answers, then one more under an old id."""
    hand = HandPeer()
    results: list[EvProbeResult] = []
    batch = TransmitBatch(4096)
    used: set[int] = set()
    for _ in range(17):
        ids = {hand.endpoint.probe_ev(_node(hand), 0, on_result=results.append) for _ in range(4096)}
        assert len(ids) == 4096
        with pytest.raises(CallerError):
            hand.endpoint.probe_ev(_node(hand), 0)
        used |= ids
        batch.clear()
        assert hand.endpoint.transmit(batch, hand.now) == 4096
        hand.now += 100 * MILLISECOND
        hand.endpoint.on_timer(hand.now)
    assert len(used) == 1 << 16
    assert len(results) == 17 * 4096
    sent = _probe(hand, 0, results)
    assert sent.psn in used
    answered(hand, sent)
    assert results[-1].rtt_ns == 0


def test_qps_to_one_node_share_it_and_others_do_not() -> None:
    """A peer node is the set of its inner addresses."""
    hand = HandPeer()
    second = hand.connect(hand.config, qpn=99)
    stranger = hand.connect(hand.config, qpn=100, sources={0: 0xFE})
    assert second.peer_node is hand.qp.peer_node
    assert stranger.peer_node is not hand.qp.peer_node
    assert len(hand.endpoint.peer_nodes) == 2
    hand.endpoint.destroy_qp(hand.qp)
    assert len(hand.endpoint.peer_nodes) == 2
    hand.endpoint.destroy_qp(second)
    assert [node.qpns for node in hand.endpoint.peer_nodes.values()] == [{stranger.qpn}]
    assert of(hand.transmitted(), RESPONSE) == []


@pytest.mark.parametrize("late", [0, 1, 3_000 * MILLISECOND])
def test_an_answer_at_the_timeout_or_later_is_none_whatever_is_looked_at_first(late: int) -> None:
    """An endpoint that stood still finds the answer and its own timer due at once. The stop is no round trip."""
    hand = HandPeer()
    results: list[EvProbeResult] = []
    sent = _probe(hand, 0, results)
    hand.now += PeerNodeConfig().ev_probe_timeout_ns + late
    answered(hand, sent)
    assert [each.rtt_ns for each in results] == [None]
    assert hand.counters["ev_probes_failed"] == 1
    assert _node(hand).rtt.srtt == 0
    hand.receive(response(sent.psn, EV_PROBE))
    assert len(results) == 1


def test_an_answer_just_before_the_timeout_counts() -> None:
    hand = HandPeer()
    results: list[EvProbeResult] = []
    sent = _probe(hand, 0, results)
    hand.now += PeerNodeConfig().ev_probe_timeout_ns - 1
    answered(hand, sent)
    assert [each.rtt_ns for each in results] == [PeerNodeConfig().ev_probe_timeout_ns - 1]
