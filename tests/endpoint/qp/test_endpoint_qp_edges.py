# SPDX-License-Identifier: BSD-2-Clause
"""Corners of a QP's life and of its ports: what is answered, probed and told (behaviour.md, QP life and Ports)."""

from __future__ import annotations

import pytest
from hand_operations import PORT_STATUS_UPDATE, answered, request
from hand_peer import (
    ACK,
    MICROSECOND,
    MILLISECOND,
    PEER_QPN,
    PROBE,
    SACK,
    HandPeer,
    Sent,
    data,
    of,
    peer_address,
)
from nacking import state_of

from mrc.endpoint.completions import WorkStatus
from mrc.endpoint.config import Capability, PathConfig, QpConfig
from mrc.endpoint.endpoint import Endpoint
from mrc.endpoint.node.operations import EvProbeResult
from mrc.endpoint.parts.deadlines import FOREVER
from mrc.endpoint.paths.states import EvState
from mrc.endpoint.qp_peer import QpPeer
from mrc.endpoint.qp_states import QpState
from mrc.errors import CallerError
from mrc.wire.received_batch import ReceivedBatch
from mrc.wire.transmit_batch import TransmitBatch

CONFIG = QpConfig(path_mtu=256, timeout=20)
ALL_MAY_GO = QpConfig(path_mtu=256, timeout=20, paths=PathConfig(ev_min_active=1))


def _status(mask: int, req_id: int) -> bytes:
    return request(req_id, PORT_STATUS_UPDATE, port_status_mask=mask, plane=0)


def _path_probes(sent: list[Sent], ev: int) -> list[Sent]:
    return [packet for packet in of(sent, PROBE) if packet.ev == ev]


# ------------------------------------------------------------------ before RTR, and over


@pytest.mark.parametrize("initialised", [False, True])
def test_a_qp_that_is_over_before_it_knew_a_peer_takes_nothing(initialised: bool) -> None:
    """behaviour.md, QP life: "ERROR from any state". Packets for it are dropped and counted, and none is answered."""
    hand = HandPeer(CONFIG)
    qp = hand.endpoint.create_qp(CONFIG)
    if initialised:
        qp.to_init()
    qp.to_error("enough")
    hand.qp = qp
    assert hand.exchange(hand.request(0, b"x"), hand.request(1, b"y"), hand.ack(-1), hand.probe()) == []
    assert qp.counters.as_dict() == {"wrong_qp_state": 4}
    assert qp.outstanding == 0


@pytest.mark.parametrize(
    ("steps", "sentence"),
    [
        (0, "a QP in RESET cannot go to RTS: from here it goes to RESET, INIT, ERROR"),
        (1, "a QP in INIT cannot go to RTS: from here it goes to RESET, RTR, ERROR"),
        (3, "a QP in RTS cannot go to RTS: from here it goes to RESET, ERROR"),
    ],
)
def test_a_refused_step_says_which_there_are(steps: int, sentence: str) -> None:
    """behaviour.md, QP life: "RESET -> INIT -> RTR -> RTS, ERROR from any state"; RESET as in the verbs."""
    hand = HandPeer(CONFIG)
    qp = hand.endpoint.create_qp(CONFIG)
    for step in (qp.to_init, lambda: qp.to_rtr(QpPeer(PEER_QPN + 1, 0, hand.profile, {})), qp.to_rts)[:steps]:
        step()
    with pytest.raises(CallerError, match=sentence):
        qp.to_rts()


def test_what_was_never_brought_up_has_neither_half() -> None:
    """A CallerError says what is missing: RTR for the responder, RTS for the requestor."""
    qp = Endpoint().create_qp(CONFIG)
    assert (qp.error, qp.peer_node, qp.paths, qp.controller, qp.agreed) == (None, None, None, None, Capability(0))
    assert qp.transmit(TransmitBatch(4), 4, 0) == 0
    with pytest.raises(CallerError, match="is in RESET: bring it to RTS first"):
        _ = qp.requestor
    with pytest.raises(CallerError, match="is in RESET: bring it to RTR first"):
        _ = qp.responder
    with pytest.raises(CallerError, match="is in RESET: receives are posted from INIT on"):
        qp.post_receive(1)
    qp.to_init()
    qp.post_receive(1)
    assert [qp.pending(), qp.has_work(), qp.has_control()] == [False] * 3
    assert qp.datapath.next_deadline() == FOREVER


def test_a_destroyed_qp_gives_its_number_its_window_and_its_peer_back() -> None:
    """behaviour.md, Congestion control: a controller "belongs to a destination"; its last QP takes it along."""
    hand = HandPeer(CONFIG)
    other = hand.connect(CONFIG, qpn=PEER_QPN + 1)
    assert len(hand.endpoint.peer_nodes) == 1
    hand.endpoint.destroy_qp(hand.qp)
    assert len(hand.endpoint.peer_nodes) == 1
    hand.endpoint.destroy_qp(other)
    assert (hand.endpoint.qps, hand.endpoint.peer_nodes) == ({}, {})


def test_a_source_may_be_on_any_of_16_ports() -> None:
    """QpPeer.sources: "by the local port its packets come in on"; ports 0 to 15, each with its own address."""
    hand = HandPeer(CONFIG)
    qp = hand.endpoint.create_qp(CONFIG)
    qp.to_init()
    # fd00:1:ffff:ffff:ffff:ffff:0:7 and ...:8: each half of an address has bits of its own.
    high, low = 0xFD00_0001 << 96 | (1 << 96) - (1 << 32) | 7, 0xFD00_0001 << 96 | (1 << 96) - (1 << 32) | 8
    qp.to_rtr(QpPeer(PEER_QPN + 1, hand.peer_first_psn, hand.profile, {0: peer_address(0), 14: low, 15: high}))
    hand.qp = qp
    hand.receive(hand.request(0, b"a", source=high), port=15)
    hand.receive(hand.request(1, b"b", source=low), port=14)
    assert qp.counters.requests_received == 2
    hand.receive(hand.request(2, b"c", source=low), port=15)
    hand.receive(hand.request(2, b"c", source=high & ~(1 << 96)), port=15)
    hand.receive(hand.request(2, b"c", source=high), port=0)
    assert (qp.counters.requests_received, qp.counters.bad_source) == (2, 3)
    for wrong in (-1, 16):
        fresh = hand.endpoint.create_qp(CONFIG)
        fresh.to_init()
        with pytest.raises(CallerError, match=f"ports are numbered 0..15, got {wrong}"):
            fresh.to_rtr(QpPeer(PEER_QPN + 2, 0, hand.profile, {wrong: high}))
        assert fresh.state == QpState.INIT


# ------------------------------------------------------------------ ports


def test_a_port_said_to_be_full_twice_is_full() -> None:
    """behaviour.md, Paths: an EV is picked among those "whose port is up and has room"."""
    hand = HandPeer(CONFIG)
    for _ in range(2):
        hand.endpoint.set_port_room(0, False)
    hand.post(256 * 20)
    assert {packet.port for packet in data(hand.transmitted())} == {1}
    for _ in range(2):
        hand.endpoint.set_port_room(0, True)
    hand.post(256 * 20)
    assert {packet.port for packet in data(hand.transmitted())} == {0, 1}


def test_a_port_that_drained_lets_every_qp_that_waited_send() -> None:
    """Two QPs wait for the port; a third has nothing to send."""
    hand = HandPeer(CONFIG)
    qps = [hand.qp, hand.connect(CONFIG, qpn=PEER_QPN + 1), hand.connect(CONFIG, qpn=PEER_QPN + 2)]
    for port in (0, 1):
        hand.endpoint.set_port_room(port, False)
    for hand.qp in qps[:2]:
        hand.post(256 * 2)
    assert hand.transmitted() == []
    hand.endpoint.set_port_room(1, True)
    sent = hand.transmitted()
    assert sorted(packet["bth"]["dqp"] - PEER_QPN for packet in sent) == [0, 0, 1, 1]


def test_an_ev_that_went_bad_while_the_peers_port_was_down_is_probed_once_it_is_back() -> None:
    """behaviour.md, Ports: "Both are undone when the port is back"; Probing: "one path timer after it went bad", 10 ms
    before any sample of a round trip."""
    hand = HandPeer(ALL_MAY_GO)
    hand.post(256 * 16)
    lost = next(packet for packet in data(hand.transmitted()) if packet.ev >> 24 == 1)
    hand.receive(_status(0b01, 1))  # plane 1 is down
    hand.now += 100 * MICROSECOND
    hand.receive(hand.sack(-1, ev=lost.ev, m=2))
    assert state_of(hand, lost.ev) == EvState.ASSUMED_BAD
    assert _path_probes(hand.run(hand.now + 100 * MILLISECOND), lost.ev) == []
    back_at = hand.now
    hand.receive(_status(0b11, 2))
    first = _path_probes(hand.run(back_at + 60 * MILLISECOND), lost.ev)[0]
    assert first.at - back_at == 10 * MILLISECOND


def test_a_port_that_is_back_lets_what_waited_leave_at_once_here_and_at_the_peer() -> None:
    """behaviour.md, Ports. One plane only, so that nothing leaves without it. A QP in RTR has nothing to say to it."""
    hand = HandPeer(CONFIG, planes=1)
    hand.connect(CONFIG, qpn=PEER_QPN + 1, to_rts=False)
    hand.receive(_status(0b0, 1))
    hand.transmitted()
    hand.post(256)
    assert data(hand.transmitted()) == []
    hand.receive(_status(0b1, 2))
    assert len(data(hand.transmitted())) == 1
    hand.endpoint.set_port(0, up=False, now=hand.now)
    hand.post(256)
    assert data(hand.transmitted()) == []
    hand.endpoint.set_port(0, up=True, now=hand.now)
    assert len(data(hand.transmitted())) == 1
    hand.receive(hand.ack(1))
    assert hand.completed() == [(0, WorkStatus.SUCCESS), (1, WorkStatus.SUCCESS)]


def test_a_qp_connected_while_ports_are_down_uses_the_others() -> None:
    """behaviour.md, Ports: the peer "then avoids that plane towards us", and so do QPs that come later."""
    hand = HandPeer(CONFIG, planes=3)
    hand.endpoint.set_port(0, up=False, now=hand.now)
    hand.receive(request(1, PORT_STATUS_UPDATE, port_status_mask=0b101, plane=2), port=2)
    hand.transmitted()
    hand.qp = hand.connect(CONFIG, qpn=PEER_QPN + 1)
    hand.post(256 * 20)
    assert {packet.port for packet in data(hand.transmitted())} == {2}


def test_a_node_that_tells_how_long_it_held_a_packet_tells_it_whatever_its_other_qps_can() -> None:
    """QP life: "service-time capability" of QPs to one node. An EV probe went 1,000 units there and back, 300 of them
    held; the QP connected last has not agreed on it. A unit is 128 ns."""
    svc = Capability.SVC_TIME
    hand = HandPeer(QpConfig(capabilities=svc), capabilities=svc)
    hand.connect(QpConfig(capabilities=Capability(0)), qpn=PEER_QPN + 1)
    (node,) = hand.endpoint.peer_nodes.values()
    results: list[EvProbeResult] = []
    hand.endpoint.probe_ev(node, 0, on_result=results.append)
    (probe,) = hand.transmitted()
    hand.now += 1000 * 128
    answered(hand, probe, held=300, plane=probe.port)
    assert [result.rtt_ns for result in results] == [700 * 128]


# ------------------------------------------------------------------ what SACKs ask


def test_a_receiver_penalty_is_asked_for_without_going_back_unless_that_is_said() -> None:
    """wire.md section 6: restore_cwnd(1), rcv_cwnd_pen(7)."""
    hand = HandPeer(CONFIG)
    asked = []
    for number, (penalty, restore) in enumerate([(5, None), (127, True), (0, False)]):
        if restore is None:
            hand.qp.set_receiver_penalty(penalty)
        else:
            hand.qp.set_receiver_penalty(penalty, restore)
        (sack,) = of(hand.exchange(hand.request(number, b"x", bth={"ackreq": 1})), SACK)
        asked.append((sack["cc_state"]["rcv_cwnd_pen"], sack["cc_state"]["restore_cwnd"]))
    assert asked == [(5, 0), (127, 1), (0, 0)]


def test_all_kinds_of_packets_in_one_batch_are_each_taken() -> None:
    """One batch: a request, a probe, a SACK, an ACK, and a stranger's request between them."""
    hand = HandPeer(CONFIG)
    hand.post(256 * 3)
    hand.transmitted()
    sent = hand.exchange(
        hand.sack(0),
        hand.request(0, b"x"),
        hand.request(1, b"y", source=0xBAD),
        hand.probe(9),
        hand.ack(2),
    )
    assert {packet.opcode for packet in sent} == {SACK, ACK}
    assert [packet["seth"]["probe_id"] for packet in of(sent, SACK) if packet["seth"]["pr"]] == [9]
    assert hand.completed() == [(0, WorkStatus.SUCCESS)]
    assert (hand.counters["requests_received"], hand.counters["bad_source"]) == (1, 1)


def test_of_a_mixed_batch_a_qp_in_rtr_takes_what_it_can() -> None:
    """behaviour.md, QP life: RTR receives; what only a requestor could take is dropped and counted, nothing else is."""
    hand = HandPeer(CONFIG, to_rts=False)
    sent = hand.exchange(hand.request(0, b"x"), hand.ack(-1), hand.probe(9), hand.sack(-1))
    assert {packet.opcode for packet in sent} == {SACK, ACK}
    assert hand.counters["wrong_qp_state"] == 2
    assert hand.buffer[:1] == b"x"


def test_packets_for_several_qps_in_one_batch_reach_each_its_own() -> None:
    hand = HandPeer(CONFIG)
    qps = [hand.qp, hand.connect(CONFIG, qpn=PEER_QPN + 1)]
    acks = []
    for hand.qp in qps:
        hand.post(256)
        acks.append(hand.ack(0))
    hand.transmitted()
    stranger = hand.request(0, b"", bth={"dqp": 0xABCDEF})
    hand.endpoint.receive(ReceivedBatch.from_packets([stranger, *acks, stranger]), hand.now)
    assert [(done.qpn, done.status) for done in hand.endpoint.completions] == [
        (qp.qpn, WorkStatus.SUCCESS) for qp in qps
    ]
    assert hand.counters["unknown_qp"] == 2
    for strangers in (1, 2):
        hand.receive(*[stranger] * strangers)
    assert hand.counters["unknown_qp"] == 5
