# SPDX-License-Identifier: BSD-2-Clause
"""Turns at sending: whole shares of small messages, AckReq, windows that are shut, a log that is full."""

from __future__ import annotations

from hand_peer import MICROSECOND, PEER_QPN, PROBE, SECOND, HandPeer, data, numbers, of
from nacking import CONFIG, RTT, TRIMMED, send, trained
from recording_window import RecordingWindows
from several import NOMINAL, SMALL, Several

from mrc.endpoint.completions import WorkStatus
from mrc.endpoint.config import Capability, LossConfig, QpConfig
from mrc.endpoint.datapath.qps import SendState, send_state
from mrc.wire.packet import decode_transport
from mrc.wire.transmit_batch import TransmitBatch


def _rows(batch: TransmitBatch) -> list[tuple[int, int]]:
    """(PSN, AckReq) of each row."""
    bths = [dict(decode_transport(batch.packet(row)[48:]).layers)["bth"] for row in range(batch.count)]
    return [(bth["psn"], bth["ackreq"]) for bth in bths]


def test_a_share_holds_many_small_messages() -> None:
    """EndpointConfig.fair_share: "Packets one QP may put into a batch", not messages."""
    several = Several(2, 1 << 30, fair_share=8)
    for at in (0, 1):
        several.of(at)
        for _ in range(16):
            several.hand.post(10)
    sent = several.sent()
    turns = [at for at, _ in sent]
    assert turns == [0] * 8 + [1] * 8 + [0] * 8 + [1] * 8
    assert [number for at, number in sent if at == 1] == list(range(16))


def test_a_share_holds_retransmissions_and_what_follows_them() -> None:
    """behaviour.md, Requestor: "Retransmissions go before new data"; new data goes on in the same turn."""
    several = Several(2, 1 << 30, fair_share=8)
    several.of(0).post(256 * 4)
    several.hand.post(256 * 4)
    sent = data(several.hand.transmitted())
    nacks = [several.hand.nack(number, TRIMMED, ev=sent[number].ev) for number in (1, 2)]
    several.hand.post(256 * 20)
    several.hand.receive(*nacks)
    several.of(1).post(256 * 20)
    turns = several.sent()
    assert turns[:8] == [(0, 1), (0, 2), *((0, number) for number in range(8, 14))]
    assert turns[8:16] == [(1, number) for number in range(8)]


def test_what_leaves_a_shared_window_makes_room_for_who_waited_longest_whoever_it_was() -> None:
    """behaviour.md, Congestion control: a controller "may govern several QPs". One packet a turn, six in flight.

    QP 2 is the first whose turn ended at a shut window, then 0, then 1. Two packets leave the network at a time; who
    has the turn takes that room, since nobody else is ready; its next turn comes after the others'.
    """
    several = Several(3, 6 * NOMINAL, fair_share=1)
    for at in range(3):
        several.of(at).post(256 * 20)
    assert several.sent() == [(0, 0), (1, 0), (2, 0), (0, 1), (1, 1), (2, 1)]
    for opens, number, turn in ((1, 1, 2), (0, 1, 0), (2, 1, 1), (2, 3, 2), (0, 3, 0), (1, 3, 1), (1, 5, 2)):
        several.hand.receive(several.of(opens).ack(number))
        assert [at for at, _ in several.sent()] == [turn, turn]


def test_an_answer_costs_a_qp_that_waits_for_the_window_no_place() -> None:
    """Scheduler: "One that waits keeps its place until it has sent data, whatever else it sends." QP 0 waits first."""
    several = Several(3, 4 * NOMINAL)
    several.of(2).post(256 * 4)
    several.sent()
    for at in (0, 1):
        several.of(at).post(256 * 4)
        assert several.sent() == []
    answers = several.of(0).exchange(several.hand.request(0, b"x", bth={"ackreq": 1}))
    assert [packet.is_data for packet in answers] == [False, False]
    for number, turn in ((0, 0), (1, 1), (2, 0), (3, 1)):
        several.hand.receive(several.of(2).ack(number))
        assert [at for at, _ in several.sent()] == [turn]


def test_who_sends_out_of_its_turn_waits_anew() -> None:
    """Scheduler: it keeps its place "until it has sent data": QP 1 waited first, and sends when work is posted on it
    just after the window became larger. Then QP 0 has waited longer."""
    several = Several(3, 4 * NOMINAL)
    several.of(2).post(256 * 4)
    several.sent()
    for at in (1, 0):
        several.of(at).post(256 * 8)
        assert several.sent() == []
    several.window.become(5 * NOMINAL)
    several.of(1).post(256)
    assert several.sent() == [(1, 0)]
    for number, turn in ((0, 0), (1, 1), (2, 0), (3, 1)):
        several.hand.receive(several.of(2).ack(number))
        assert [at for at, _ in several.sent()] == [turn]


def test_a_qp_fills_what_is_left_of_a_batch_and_says_how_much() -> None:
    """QueuePair.transmit: "Append up to `limit` packets, answers first. Returns how many."

    AckReq is on packets "after which the sender cannot go on"; after 3 of 5 it can.
    """
    hand = HandPeer(CONFIG, first_psn=100)
    hand.post(256 * 5)
    batch = TransmitBatch(16)
    assert hand.qp.transmit(batch, 3, hand.now) == 3
    assert hand.qp.transmit(batch, 0, hand.now) == 0
    assert hand.qp.transmit(batch, 10, hand.now) == 2
    assert hand.qp.transmit(batch, 10, hand.now) == 0
    batch.seal(0)
    assert _rows(batch) == [(100, 0), (101, 0), (102, 0), (103, 0), (104, 1)]


def test_answers_take_their_part_of_the_limit() -> None:
    """A SACK and an ACK leave first and count towards the limit."""
    hand = HandPeer(CONFIG)
    hand.receive(hand.request(0, b"x", bth={"ackreq": 1}))
    hand.post(256 * 5)
    batch = TransmitBatch(16)
    assert hand.qp.transmit(batch, 4, hand.now) == 4
    assert batch.count == 4
    assert hand.qp.requestor.sent.outstanding == 2


def test_with_others_next_the_last_packet_of_a_turn_asks() -> None:
    """AckReq: "other QPs have their turn next, and may leave no window to go on with"."""
    hand = HandPeer(CONFIG, first_psn=7)
    hand.post(256 * 5)
    batch = TransmitBatch(16)
    assert hand.qp.datapath.transmit(batch, 3, hand.now, True) == 3
    batch.seal(0)
    assert _rows(batch) == [(7, 0), (8, 0), (9, 1)]


def test_one_psn_of_room_behind_a_shut_congestion_window_needs_no_probe() -> None:
    """behaviour.md, Loss: a probe finds "tail losses"; nothing is out, and others hold the window.

    The peer's window has exactly one PSN left; no timer runs for what waits for the congestion window alone.
    """
    dynamic = Capability.DYNAMIC_MPR
    windows = RecordingWindows(1 << 40)
    config = QpConfig(path_mtu=256, mpr=1, capabilities=dynamic, timeout=10)
    hand = HandPeer(config, controller=windows, capabilities=dynamic)
    hand.post(256 * 127)
    hand.transmitted()
    hand.now += RTT
    hand.receive(hand.ack(126))
    assert hand.run(hand.now + SECOND) == []
    windows.only.become(0)
    hand.post(256 * 10)
    assert hand.run(hand.now + SECOND) == []
    windows.only.become(1 << 40)
    hand.endpoint.wake(hand.qp)
    assert numbers(hand, hand.transmitted()) == [127]
    assert hand.completed() == [(0, WorkStatus.SUCCESS)]


def test_a_packet_that_stays_out_for_long_stops_the_sender_and_not_for_ever() -> None:
    """behaviour.md, Requestor: everything sent is waited for. Packet 1 brings no news while packet 2 is trimmed again
    and again; when no more can be kept track of the QP is no longer READY, and all is well once time has passed."""
    config = QpConfig(path_mtu=256, mpr=1, timeout=14, exponential_retries=25)
    hand = trained(config)
    send(hand, 1)
    latest = send(hand, 1)[2]
    sent_again = 0
    for _ in range(5000):
        fresh = data(hand.exchange(hand.nack(2, TRIMMED, ev=latest.ev, rtx=latest["bth"]["rtx"])))
        assert send_state(hand.qp.datapath) != SendState.READY
        if not fresh:
            break
        (latest,) = fresh
        sent_again += 1
    assert 500 < sent_again < 5000
    again = data(hand.run(hand.now + SECOND, stop_at_first=True))
    while sorted(set(numbers(hand, again))) != [1, 2]:
        again += data(hand.run(hand.now + SECOND, stop_at_first=True))
    hand.receive(hand.ack(2))
    assert hand.completed() == [(1, WorkStatus.SUCCESS), (2, WorkStatus.SUCCESS)]


def test_a_wide_reorder_guard_does_not_keep_a_probe_from_finding_the_tail() -> None:
    """behaviour.md, Loss: "Tail losses are found by a reliability probe"; (b) says how much later something is: here
    5000 packets, more than a window of 128 needs room for otherwise."""
    hand = trained(QpConfig(path_mtu=256, mpr=1, timeout=20, loss=LossConfig(reorder_guard_packets=5000)))
    send(hand, 3)
    (probe,) = of(hand.run(hand.now + 400 * MICROSECOND), PROBE)
    again = hand.exchange(hand.sack(1, probe_id=probe["peth"]["probe_id"]))
    assert numbers(hand, again) == [2, 3]
    assert hand.counters["losses_by_hole"] == 2


def test_a_window_of_the_last_byte_takes_one_packet_more() -> None:
    """behaviour.md, Requestor: "Sends while inflight < cwnd"."""
    for window, count in ((1, 1), (NOMINAL, 1), (NOMINAL + 1, 2), (5 * NOMINAL - 1, 5), (5 * NOMINAL, 5)):
        several = Several(1, window, config=SMALL)
        several.of(0).post(256 * 20)
        assert several.sent() == [(0, number) for number in range(count)]


def test_each_qp_of_an_endpoint_sends_to_its_own_peer() -> None:
    several = Several(3, 1 << 30)
    for at in range(3):
        several.of(at).post(256 * (at + 1))
    sent = data(several.hand.transmitted())
    assert [packet["bth"]["dqp"] - PEER_QPN for packet in sent] == [0, 1, 1, 2, 2, 2]


def _kinds(hand: HandPeer, batch: TransmitBatch) -> list[str]:
    """What the next `transmit` gives: "data", or the opcode's number."""
    batch.clear()
    hand.endpoint.transmit(batch, hand.now)
    opcodes = [dict(decode_transport(batch.packet(row)[48:]).layers)["bth"]["opcode"] for row in range(batch.count)]
    return ["SACK" if each == 0xDC else "ACK" if each == 0xD1 else "data" for each in opcodes]


def test_a_lone_packet_of_data_goes_ahead_of_answers_once() -> None:
    """QueuePair.transmit: a write answered by a write is not kept waiting by its acknowledgement, which in turn is not
    put off twice."""
    hand, batch = HandPeer(CONFIG), TransmitBatch(16)
    hand.receive(hand.request(0, b"x", bth={"ackreq": 1}))
    hand.post(10)
    assert _kinds(hand, batch) == ["data"]
    hand.post(10)
    assert _kinds(hand, batch) == ["SACK", "ACK", "data"]
    assert _kinds(hand, batch) == []
    assert hand.endpoint.data_before_answers == 1


def test_more_than_one_packet_of_data_waits_for_the_answers() -> None:
    hand, batch = HandPeer(CONFIG), TransmitBatch(16)
    hand.receive(hand.request(0, b"x", bth={"ackreq": 1}))
    hand.post(257)
    assert _kinds(hand, batch) == ["SACK", "ACK", "data", "data"]
    hand.receive(hand.request(1, b"x", bth={"ackreq": 1}))
    hand.post(10)
    hand.post(10)
    assert _kinds(hand, batch) == ["SACK", "ACK", "data", "data"]
    assert hand.endpoint.data_before_answers == 0


def test_a_lone_packet_that_may_not_leave_keeps_no_answer_waiting() -> None:
    several = Several(2, NOMINAL)
    several.of(0).post(256)
    several.sent()
    several.of(1).post(10)
    answers = several.of(1).exchange(several.hand.request(0, b"x", bth={"ackreq": 1}))
    assert [packet.is_data for packet in answers] == [False, False]
