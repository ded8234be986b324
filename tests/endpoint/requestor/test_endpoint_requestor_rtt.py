# SPDX-License-Identifier: BSD-2-Clause
"""Round trips and timers (behaviour.md, Requestor), and what a controller is told (nscc.md)."""

from __future__ import annotations

import pytest
from hand_peer import MICROSECOND, MILLISECOND, PROBE, HandPeer, Sent, data, numbers, of
from recording_window import RecordingWindows

from mrc.endpoint.config import Capability, LossConfig, QpConfig

RTT = 100 * MICROSECOND
ENDURE = QpConfig(path_mtu=256, timeout=20)  # a local ACK timeout of 1.07 s, out of the way of other timers
# Losses are not found by holes: what the path timer does shows.
NO_HOLES = QpConfig(path_mtu=256, timeout=20, loss=LossConfig(reorder_guard_packets=1000))
UNIT = 128  # ns, of a timestamp
TRIMMED = 0x01


def _send(hand: HandPeer, count: int = 1) -> list[Sent]:
    hand.post(256 * count)
    return data(hand.transmitted())


def _trained(config: QpConfig = ENDURE, rtt: int = RTT, **others: object) -> HandPeer:
    """One packet sent and acknowledged after `rtt`: srtt is rtt, rttvar half of it."""
    hand = HandPeer(config, **others)  # type: ignore[arg-type]
    _send(hand)
    hand.now += rtt
    hand.receive(hand.sack(0))
    hand.completed()
    return hand


def _samples(hand: HandPeer) -> int:
    return hand.counters.get("rtt_samples", 0)


# ------------------------------------------------------------------ valid samples


def test_a_transport_ack_and_the_answer_to_a_probe_are_no_samples_of_a_packet() -> None:
    """wire.md 6: "when pr=1 this is probe_id", not the PSN of a packet; an AETH names no packet at all."""
    hand = _trained()
    _send(hand, 3)
    (probe,) = of(hand.run(hand.now + 500 * MICROSECOND, stop_at_first=True), PROBE)
    hand.now += 7 * RTT
    hand.receive(hand.ack(1))
    hand.receive(hand.sack(2, probe_id=probe["peth"]["probe_id"]))
    assert _samples(hand) == 1
    assert hand.qp.requestor.rtt.srtt == RTT


def test_a_sack_is_a_sample_where_the_transport_ack_of_the_same_packet_came_first() -> None:
    """Both leave the responder together. With a window of one packet it may be so every time: no sample would ever be
    taken, and the window never grow. Once: the network may double the SACK."""
    windows = RecordingWindows(1 << 30)
    hand = HandPeer(ENDURE, controller=windows)
    for number in range(3):
        (packet,) = _send(hand)
        hand.now += RTT
        hand.receive(hand.ack(number))
        windows.only.calls.clear()
        hand.receive(hand.sack(number, ev=packet.ev))
        assert [call.rtt_ns for call in windows.only.of("ack")] == [RTT]
        hand.now += 10 * RTT
        hand.receive(hand.sack(number, ev=packet.ev))
        assert _samples(hand) == number + 1


@pytest.mark.parametrize("resent", [0, 1, 2])
def test_and_of_an_ambiguous_packet_it_is_none(resent: int) -> None:
    """MRC-RTT-02, MRC-RTT-03."""
    hand = _trained()
    (packet,) = _send(hand)
    for _ in range(resent):
        (packet,) = data(hand.exchange(hand.nack(1, TRIMMED, ev=packet.ev, rtx=packet["bth"]["rtx"])))
    hand.now += RTT
    hand.receive(hand.ack(1), hand.sack(1, ev=packet.ev, rtx=int(resent > 0)))
    assert _samples(hand) == 1 + (resent < 2)


def test_a_sack_that_the_network_held_while_later_packets_were_acknowledged_is_no_sample() -> None:
    """It would show its own age."""
    hand = _trained()
    sent = _send(hand, 3)
    hand.now += RTT
    hand.receive(hand.ack(3))
    hand.now += 10 * RTT
    hand.receive(hand.sack(1, ev=sent[0].ev), hand.sack(2, ev=sent[1].ev))
    assert _samples(hand) == 1
    assert hand.qp.requestor.rtt.srtt == RTT


# ------------------------------------------------------------------ service time

SVC = Capability.SVC_TIME


@pytest.mark.parametrize(
    ("ours", "peers", "timestamps", "held", "taken"),
    [
        pytest.param(SVC, SVC, True, 0, 0, id="not held"),
        pytest.param(SVC, SVC, True, 320, 320, id="held 41 us"),
        pytest.param(SVC, Capability(0), True, 320, 0, id="peer cannot"),
        pytest.param(Capability(0), SVC, True, 320, 0, id="we cannot"),
        pytest.param(SVC, SVC, False, 320, 0, id="no TSETH"),
    ],
)
@pytest.mark.parametrize("start", [3 * 0x10000, 3 * 0x10000 + 0xFFF0], ids=["in the middle", "about to wrap"])
def test_the_time_a_packet_was_held_is_taken_off_where_that_is_negotiated(
    ours: Capability, peers: Capability, timestamps: bool, held: int, taken: int, start: int
) -> None:
    """behaviour.md, Responder: "Where service time is negotiated, the reflected timestamp is tx_timestamp plus the time
    the packet was held, in its unit; 0 when the request had no TSETH." Timestamps wrap at 16 bits."""
    windows = RecordingWindows(1 << 30)
    config = QpConfig(path_mtu=256, timeout=20, capabilities=ours, timestamps=timestamps)
    hand = HandPeer(config, controller=windows, capabilities=peers)
    hand.now = (start + 5) * UNIT
    (packet,) = _send(hand)
    hand.now += 1000 * UNIT
    reflected = packet["tseth"]["tx_timestamp"] + held & 0xFFFF if timestamps else 0
    hand.receive(hand.sack(0, timestamp=reflected))
    assert hand.qp.requestor.rtt.srtt == (1000 - taken) * UNIT
    assert windows.only.of("ack")[0].rtt_ns == (1000 - taken) * UNIT


@pytest.mark.parametrize("reflected", [0, 1, 0x7FFF, 0xFFFF])
def test_a_reflected_timestamp_that_cannot_be_true_makes_no_sample_of_nothing(reflected: int) -> None:
    """wire.md 4: the requestor "takes RTT from its own send-time record where it can and treats the reflected timestamp
    as the cross-check". None of these lies between sending and now."""
    hand = HandPeer(QpConfig(path_mtu=256, timeout=20, capabilities=SVC), capabilities=SVC)
    hand.now = (3 * 0x10000 + 0x4000) * UNIT
    _send(hand)
    hand.now += 1000 * UNIT
    hand.receive(hand.sack(0, timestamp=reflected))
    assert hand.qp.requestor.rtt.srtt == 1000 * UNIT


# ------------------------------------------------------------------ the path timer


def _until_resent(hand: HandPeer, number: int, at_most: int, heard_every: int = 100 * MICROSECOND) -> Sent:
    """The peer acknowledges nothing new, again and again, until this packet is sent again."""
    last = hand.now + at_most
    while hand.now < last:
        for packet in data(hand.run(hand.now + heard_every)):
            if numbers(hand, [packet]) == [number]:
                return packet
        hand.receive(hand.ack(-1))
        assert data(hand.transmitted()) == []
    raise AssertionError(f"packet {number} was not sent again within {at_most} ns")


def test_the_path_timer_is_srtt_and_4_rttvar() -> None:
    """behaviour.md, Requestor: "Path timer (C): srtt + 4 rttvar, at least 1 ms". rttvar starts at rtt / 2."""
    hand = _trained(NO_HOLES, MILLISECOND)
    (packet,) = _send(hand)
    again = _until_resent(hand, 1, 6 * MILLISECOND, heard_every=MILLISECOND // 2)
    assert again.at - packet.at == 3 * MILLISECOND
    assert (again["bth"]["rtx"], hand.counters["losses_by_path_timer"]) == (1, 1)


# ------------------------------------------------------------------ the tail


def test_the_first_sample_decides_when_the_tail_sent_before_it_is_asked_about() -> None:
    """behaviour.md, Requestor: one srtt + 4 rttvar after the last transmission, and no longer the 10 ms it was sent
    under."""
    hand = HandPeer(ENDURE)
    _send(hand, 3)
    sent_at = hand.now
    hand.now += RTT
    hand.receive(hand.sack(0))
    (probe,) = of(hand.run(hand.now + 9 * MILLISECOND, stop_at_first=True), PROBE)
    assert probe.at == sent_at + 3 * RTT


def test_a_lost_retransmission_at_the_tail_is_found_by_a_probe_too() -> None:
    """behaviour.md, Requestor: "one srtt + 4 rttvar after the last transmission", whichever that is."""
    hand = _trained()
    (packet,) = _send(hand)
    hand.now += 250 * MICROSECOND
    (again,) = data(hand.exchange(hand.nack(1, TRIMMED, ev=packet.ev)))
    (probe,) = hand.run(hand.now + 10 * MILLISECOND, stop_at_first=True)
    assert (probe.opcode, probe.at - again.at) == (PROBE, 3 * RTT)
    hand.now += RTT
    assert numbers(hand, hand.exchange(hand.sack(0, probe_id=probe["peth"]["probe_id"]))) == [1]


def test_the_answer_to_a_probe_says_nothing_about_what_was_sent_after_it() -> None:
    """behaviour.md, Requestor: "something *transmitted at least one reorder guard later* has been acknowledged"."""
    hand = _trained()
    _send(hand, 2)
    (probe,) = hand.run(hand.now + 10 * MILLISECOND, stop_at_first=True)
    hand.now += 10 * MICROSECOND
    _send(hand, 10)
    hand.now += RTT
    again = hand.exchange(hand.sack(0, probe_id=probe["peth"]["probe_id"]))
    assert numbers(hand, again) == [1, 2]
