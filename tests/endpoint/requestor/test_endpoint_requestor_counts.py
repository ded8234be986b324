# SPDX-License-Identifier: BSD-2-Clause
"""What a requestor counts: each counter adds up over rounds, one thing is counted once (behaviour.md, Errors)."""

from __future__ import annotations

import pytest
from hand_operations import REQUEST, RESPONSE
from hand_peer import MICROSECOND, MILLISECOND, PEER_QPN, PROBE, SECOND, HandPeer, Sent, data, in_ipv6, numbers, of
from nacking import CONFIG, NO_BITMAP, RTT, TRIMMED, send, trained

from mrc.endpoint.config import LossConfig, QpConfig
from mrc.endpoint.qp_states import QpState
from mrc.wire.packet import encode_transport

NO_HOLES = QpConfig(path_mtu=256, timeout=20, loss=LossConfig(reorder_guard_packets=1000))


def _spaced(hand: HandPeer, count: int) -> list[Sent]:
    """`count` packets 10 microseconds apart; the clock stands one RTT after the last."""
    sent = []
    for _ in range(count):
        sent += list(send(hand, 1).values())
        hand.now += 10 * MICROSECOND
    hand.now += RTT
    return sent


def _counted(hand: HandPeer, *names: str) -> list[int]:
    return [hand.counters.get(name, 0) for name in names]


def test_packets_and_bytes_sent() -> None:
    """Payload bytes, without headers and padding; what is sent again counts again."""
    hand = trained()
    assert _counted(hand, "data_packets_sent", "data_bytes_sent", "retransmitted_packets") == [1, 256, 0]
    hand.post(600)
    sent = data(hand.transmitted())
    hand.post(1)
    sent += data(hand.transmitted())
    assert _counted(hand, "data_packets_sent", "data_bytes_sent", "retransmitted_packets") == [5, 857, 0]
    hand.exchange(hand.nack(1, TRIMMED, ev=sent[0].ev), hand.nack(3, TRIMMED, ev=sent[2].ev))
    assert _counted(hand, "data_packets_sent", "data_bytes_sent", "retransmitted_packets") == [7, 857 + 256 + 88, 2]
    hand.exchange(hand.nack(4, TRIMMED, ev=sent[3].ev))
    assert _counted(hand, "data_packets_sent", "data_bytes_sent", "retransmitted_packets") == [8, 857 + 345, 3]


def test_answers_received_by_kind() -> None:
    """Each one, whether it brings news or not."""
    hand = trained()
    sent = send(hand, 4)
    kinds = ("sacks_received", "acks_received", "nacks_received")
    assert _counted(hand, *kinds) == [1, 0, 0]
    hand.receive(hand.sack(1), hand.sack(1), hand.ack(1))
    hand.receive(hand.nack(3, NO_BITMAP, ev=sent[3].ev), hand.nack(3, NO_BITMAP, ev=sent[3].ev), hand.ack(1))
    assert _counted(hand, *kinds) == [3, 2, 2]
    hand.receive(hand.sack(2), hand.ack(4), hand.nack(3, NO_BITMAP), hand.ack(-1))
    assert _counted(hand, *kinds) == [4, 4, 3]


@pytest.mark.parametrize("kind", ["sack", "ack", "nack"])
def test_answers_about_what_was_never_sent(kind: str) -> None:
    """behaviour.md: "a SACK or ACK for a PSN never sent is dropped and counted", each of them, whatever is by it."""
    hand = trained()
    send(hand, 3)  # 1 to 3

    def about(number: int) -> bytes:
        return {"sack": hand.sack(number), "ack": hand.ack(number), "nack": hand.nack(number, NO_BITMAP)}[kind]

    hand.receive(about(4), about(1), about(9))
    assert hand.counters["ack_for_unsent_psn"] == 2
    hand.receive(about(4))
    assert hand.counters["ack_for_unsent_psn"] == 3
    assert hand.qp.outstanding == 2  # what was about packet 1 was taken


def test_marks_and_trims_of_evs_that_are_none_of_ours() -> None:
    hand = trained()
    send(hand, 4)
    for round_trip in (1, 2):
        hand.receive(hand.sack(0, ev=0xDEAD, m=1), hand.sack(0, ev=0xDEAD, m=2), hand.sack(0, ev=0xDEAD, m=0))
        assert hand.counters["unknown_ev"] == 3 * round_trip - 1
        hand.receive(hand.nack(1, TRIMMED, ev=0xDEAD))
        assert hand.counters["unknown_ev"] == 3 * round_trip


def test_nacks_for_unknown_reasons() -> None:
    """wire.md section 7 has seven; others are counted, and what they name is lost once."""
    hand = trained()
    send(hand, 3)
    hand.receive(hand.nack(1, 0x03), hand.nack(2, 0xFF))
    hand.receive(hand.nack(1, 0x00))
    assert _counted(hand, "unknown_nack_reason", "losses_by_nack") == [3, 2]
    assert hand.qp.outstanding == 1


def test_losses_by_what_told_them() -> None:
    """behaviour.md, Loss: a NACK, a hole, a path timer; each transmission is lost once."""
    hand = trained()
    kinds = ("losses_by_nack", "losses_by_hole", "losses_by_path_timer")
    sent = _spaced(hand, 8)  # 1 to 8
    hand.exchange(hand.nack(1, TRIMMED, ev=sent[0].ev), hand.nack(2, TRIMMED, ev=sent[1].ev))
    hand.exchange(hand.nack(2, TRIMMED, ev=sent[1].ev))  # says nothing new
    assert _counted(hand, *kinds) == [2, 0, 0]
    assert numbers(hand, hand.exchange(hand.sack(2, above=[5, 6, 7, 8], trigger=8))) == [3, 4]
    assert _counted(hand, *kinds) == [2, 2, 0]
    hand.now += RTT
    hand.receive(hand.ack(8))
    _spaced(hand, 8)  # 9 to 16
    assert numbers(hand, hand.exchange(hand.sack(8, above=range(10, 17), trigger=16))) == [9]
    assert _counted(hand, *kinds) == [2, 3, 0]


def test_losses_by_path_timer_add_up() -> None:
    """The peer is heard all the time and acknowledges nothing new, so that no silence keeps the timers back."""
    hand = trained(NO_HOLES)
    for round_trip in (1, 2):
        first = 3 * round_trip - 2
        send(hand, 3)
        again: list[Sent] = []
        for _ in range(40):
            hand.now += 50 * MICROSECOND
            hand.receive(hand.ack(first - 1))
            again += data(hand.run(hand.now))
        assert sorted(numbers(hand, again)) == [first, first + 1, first + 2]
        assert hand.counters["losses_by_path_timer"] == 3 * round_trip
        hand.receive(hand.ack(first + 2))


def test_probes_that_were_never_sent_or_are_answered_twice() -> None:
    hand = trained()
    send(hand, 2)
    (probe,) = of(hand.run(hand.now + 10 * MILLISECOND, stop_at_first=True), PROBE)
    assert hand.counters["tail_probes_sent"] == 1
    probe_id = probe["peth"]["probe_id"]
    hand.receive(hand.sack(0, probe_id=probe_id))
    assert "unknown_probe_answer" not in hand.counters
    hand.receive(hand.sack(0, probe_id=probe_id), hand.sack(0, probe_id=probe_id ^ 0x8000))
    hand.receive(hand.sack(0, probe_id=probe_id ^ 0x4000))
    assert hand.counters["unknown_probe_answer"] == 3


def test_tail_probes_sent_add_up() -> None:
    """300 us after the last transmission, then at twice the distance while none is answered."""
    hand = trained()
    send(hand, 2)
    sent = of(hand.run(hand.now + 300 * MICROSECOND * (1 + 2 + 4 + 8)), PROBE)
    assert len(sent) == 4
    assert hand.counters["tail_probes_sent"] == 4


def test_what_more_data_follows_at_once_is_no_tail() -> None:
    """A loop that was busy sends its next data and runs its timers in one turn: the 300 us count from that data."""
    hand = trained()
    send(hand, 2)
    hand.now += 300 * MICROSECOND
    hand.post(256)
    hand.endpoint.on_timer(hand.now)
    assert [packet.opcode for packet in hand.transmitted() if not packet.is_data] == []
    last_sent_at = hand.now
    (probe,) = of(hand.run(hand.now + 10 * MILLISECOND, stop_at_first=True), PROBE)
    assert probe.at == last_sent_at + 300 * MICROSECOND
    assert hand.counters["tail_probes_sent"] == 1


def test_data_that_no_window_lets_out_leaves_the_tail_a_tail() -> None:
    hand = trained(QpConfig(path_mtu=256, timeout=20, mpr=1))
    send(hand, 128)
    hand.post(256)
    assert not data(hand.transmitted())
    sent_at = hand.now
    (probe,) = of(hand.run(hand.now + 10 * MILLISECOND, stop_at_first=True), PROBE)
    assert probe.at == sent_at + 300 * MICROSECOND


def test_local_ack_timeouts_add_up() -> None:
    """1.024 us x 2^10 each time."""
    hand = HandPeer(QpConfig(path_mtu=256, timeout=10))
    hand.post(256)
    hand.transmitted()
    started = hand.now
    for timeouts in (1, 2, 3):
        hand.run(started + timeouts * (1024 << 10))
        assert hand.counters["local_ack_timeouts"] == timeouts


def test_samples_of_round_trips_add_up() -> None:
    """One for each SACK with a valid one, batched or not; a SACK that says nothing new has none."""
    hand = trained()
    send(hand, 6)
    hand.now += RTT
    hand.receive(hand.sack(0, above=[1], trigger=1), hand.sack(0, above=[1, 2], trigger=2))
    assert hand.counters["rtt_samples"] == 3
    hand.receive(hand.sack(3), hand.sack(4), hand.sack(5))
    hand.receive(hand.sack(5))
    assert hand.counters["rtt_samples"] == 6


def test_retransmissions_that_were_not_needed_add_up() -> None:
    """behaviour.md: a retransmission "proves spurious" when the original arrives: a SACK for it has no rtx."""
    hand = trained()
    for rounds in (1, 2):
        base = hand.posted
        sent = _spaced(hand, 40)
        arrived = [number for number in range(base, base + 40) if number not in (base, base + 1)]
        again = numbers(hand, hand.exchange(hand.sack(base - 1, above=arrived, trigger=base + 39)))
        assert again == [base, base + 1]
        hand.receive(hand.sack(base + 39, trigger=base, ev=sent[0].ev), hand.sack(base + 39, trigger=base + 1))
        assert hand.counters["spurious_retransmissions"] == 2 * rounds
        hand.now += 10 * MILLISECOND


def test_a_sack_beyond_what_was_sent_is_dropped_though_it_names_a_packet_that_was() -> None:
    """behaviour.md: a SACK "for a PSN never sent": its cack_psn is one too high, its trigger is not."""
    hand = trained()
    send(hand, 3)
    hand.receive(hand.sack(4, trigger=2), hand.sack(4, trigger=-1), hand.sack(4, above=[2], trigger=2, offset=-3))
    assert (hand.counters["ack_for_unsent_psn"], hand.qp.outstanding) == (3, 3)
    assert hand.completed() == []


# ------------------------------------------------------------------ what no requestor takes


def test_syndromes_that_are_neither_ack_nor_nak_are_counted_and_dropped() -> None:
    """wire.md section 5 has 0x00 to 0x1F and 0x60 to 0x63; the others mean nothing here."""
    hand = trained()
    send(hand, 3)
    hand.receive(hand.ack(1, syndrome=0x20), hand.ack(2, syndrome=0x7F))
    hand.receive(hand.ack(3, syndrome=0xE1))
    assert hand.counters["invalid_request"] == 3
    assert (hand.qp.state, hand.qp.outstanding) == (QpState.RTS, 3)
    hand.receive(hand.ack(3, syndrome=0x20), hand.ack(3))
    assert len(hand.completed()) == 1


def test_endpoint_operations_to_an_ordinary_qp_are_counted_one_by_one() -> None:
    """wire.md section 3: they carry DQP 2."""
    hand = trained()

    def misdirected(opcode: int, header: str) -> bytes:
        bth = {"opcode": opcode, "pkey": 0xFFFF, "dqp": hand.qp.qpn}
        return in_ipv6(encode_transport([("bth", bth), (header, {})]))

    packets = [misdirected(REQUEST, "erth"), misdirected(REQUEST, "erth"), misdirected(RESPONSE, "eeth")]
    for rounds in (1, 2):
        assert hand.exchange(*packets) == []
        assert hand.counters["misdirected"] == 3 * rounds


def test_answers_to_a_qp_that_sends_nothing_are_counted_one_by_one() -> None:
    """A QP in RTR has no requestor yet; one in ERROR has none any more."""
    hand = HandPeer(CONFIG, to_rts=False)
    for rounds in (1, 2):
        hand.receive(hand.sack(-1), hand.sack(-1), hand.ack(-1), hand.nack(0, TRIMMED))
        assert hand.counters == {"wrong_qp_state": 4 * rounds}
    hand.qp.to_error("enough")
    hand.receive(hand.sack(-1), hand.ack(-1))
    hand.receive(hand.request(0, b"x"))
    assert hand.counters["wrong_qp_state"] == 11


def test_packets_of_strangers_are_counted_one_by_one_and_keep_no_others_back() -> None:
    """wire.md: the inner source is the peer's; acknowledgements of others are worth nothing."""
    hand = trained()
    send(hand, 3)
    for rounds in (1, 2):
        hand.receive(hand.ack(3, source=0xBAD), hand.sack(3, source=0xBAD), hand.ack(rounds))
        assert hand.counters["bad_source"] == 2 * rounds
        assert hand.qp.outstanding == 3 - rounds
    hand.receive(hand.ack(3, source=0xBAD))
    assert hand.counters["bad_source"] == 5


def test_a_destroyed_qp_leaves_its_counts_to_the_endpoint() -> None:
    """Counters: "An endpoint has one; each QP has its own"; the total is both, and of QPs gone."""
    hand = trained()
    other = hand.connect(CONFIG, qpn=PEER_QPN + 1)
    first, hand.qp = hand.qp, other
    hand.post(256)
    hand.transmitted()
    before = hand.counters
    assert before["data_packets_sent"] == 2
    hand.endpoint.destroy_qp(first)
    assert hand.counters == before
    hand.endpoint.destroy_qp(other)
    assert hand.counters == before
    assert hand.run(hand.now + SECOND) == []
