# SPDX-License-Identifier: BSD-2-Clause
"""What the requestor sends and how it takes acknowledgements (behaviour.md, Requestor; wire.md section 4)."""

from __future__ import annotations

import pytest
from hand_peer import (
    ECT0,
    FIRST,
    LAST,
    MICROSECOND,
    MIDDLE,
    MILLISECOND,
    ONLY,
    PEER_QPN,
    HandPeer,
    Sent,
    data,
    numbers,
    peer_address,
)

from mrc.endpoint.completions import WorkStatus
from mrc.endpoint.config import QpConfig
from mrc.endpoint.memory import MemoryRegion
from mrc.endpoint.paths.states import EvState
from mrc.endpoint.qp_peer import QpPeer
from mrc.endpoint.qp_states import QpState
from mrc.endpoint.work import WriteRequest
from mrc.errors import CallerError

MTUS = (256, 512, 1024, 2048, 4096)
CONFIG = QpConfig(path_mtu=256)
ENDURE = QpConfig(path_mtu=256, timeout=20)  # a local ACK timeout of 1.07 s, out of the way of other timers


def _packets(hand: HandPeer, length: int, **others: int) -> list[Sent]:
    hand.post(length, **others)
    return data(hand.transmitted())


@pytest.mark.parametrize("mtu", MTUS)
@pytest.mark.parametrize("shape", ["0", "1", "mtu-1", "mtu", "mtu+1", "2mtu", "2mtu+1", "5mtu-1"])
def test_opcodes_lengths_addresses_of_a_message(mtu: int, shape: str) -> None:
    """First, Middle, Last or Only; one path MTU each but the end; VA a path MTU further each; DMALen the whole's.

    MRC-WIRE-23, MRC-WIRE-29, MRC-REQ-08, MRC-REQ-09, MRC-REQ-10, MRC-REQ-13, MRC-REQ-14, MRC-REQ-15.
    """
    length = {"0": 0, "1": 1, "mtu-1": mtu - 1, "mtu": mtu, "mtu+1": mtu + 1}.get(shape)
    if length is None:
        length = int(shape[0]) * mtu + (int(shape[4:]) if len(shape) > 4 else 0)
    hand = HandPeer(QpConfig(path_mtu=mtu))
    content = hand.post(length, remote_va=0x123456789ABC, rkey=0xCAFE0001)
    sent = data(hand.transmitted())
    count = max(1, (length + mtu - 1) // mtu)
    expected = [ONLY] if count == 1 else [FIRST] + [MIDDLE] * (count - 2) + [LAST]
    assert [packet.opcode for packet in sent] == expected
    assert [packet["reth"]["va"] for packet in sent] == [0x123456789ABC + at * mtu for at in range(count)]
    assert {(packet["reth"]["dmalen"], packet["reth"]["rkey"]) for packet in sent} == {(length, 0xCAFE0001)}
    assert b"".join(packet.payload for packet in sent) == content
    assert [len(packet.payload) for packet in sent[:-1]] == [mtu] * (count - 1)
    assert numbers(hand, sent) == list(range(count))
    assert {packet["bth"]["pad"] for packet in sent} <= {0, -length % 4}
    assert sent[-1]["bth"]["pad"] == -length % 4
    assert {packet["bth"]["dqp"] for packet in sent} == {PEER_QPN}
    assert all(packet["bth"]["rtx"] == 0 for packet in sent)


def test_ackreq_is_on_the_last_packet_and_on_it_alone() -> None:
    """Set on every packet after which the sender cannot go on: no more data. MRC-SEND-07."""
    hand = HandPeer(CONFIG)
    for length in (600, 256, 1):
        hand.post(length)
    assert [packet["bth"]["ackreq"] for packet in data(hand.transmitted())] == [0, 0, 0, 0, 1]


def test_ackreq_is_on_the_packet_that_fills_the_window() -> None:
    """MPR exhausted: 128 PSNs past cack_psn and not one more until something is acknowledged.

    MRC-SEND-02, MRC-SEND-07.
    """
    hand = HandPeer(QpConfig(path_mtu=256, mpr=1))
    hand.exchange(hand.ack(-1))
    hand.post(256 * 400)
    sent: list[Sent] = []
    acked = -1
    for _ in range(500):
        fresh = data(hand.transmitted())
        if fresh:
            assert fresh[-1]["bth"]["ackreq"] == 1
        sent += fresh
        if len(sent) == 400:
            break
        assert max(numbers(hand, sent)) <= acked + 128
        acked += 1
        hand.receive(hand.sack(acked))
    assert numbers(hand, sent) == list(range(400))
    full = HandPeer(QpConfig(path_mtu=256, mpr=1))
    full.post(256 * 400)
    first = data(full.transmitted())
    assert first[-1]["bth"]["ackreq"] == 1
    assert all(packet["bth"]["ackreq"] == 0 for packet in first[:-1])


def test_data_is_ect0_and_its_ev_is_in_the_headers_and_in_the_address() -> None:
    """wire.md sections 10 to 12: EV in source port and flow label, plane and uplink in the uSIDs, ECT(0).

    MRC-EV-01, MRC-EV-04, MRC-EV-08, MRC-SRV6-08, MRC-ECN-01, MRC-ECN-10.
    """
    hand = HandPeer(CONFIG)
    for packet in _packets(hand, 256 * 30):
        plane, spine = packet.ev >> 24, packet.ev & 0xFFFF
        usids = (0x5F00, 0, 0x1000 | plane << 8, 0x2000 | plane << 8 | spine, 0x1001 | plane << 8, 0x4001 + plane * 256)
        assert packet.destination == b"".join(usid.to_bytes(2, "big") for usid in (*usids, 0, 0))
        assert packet.port == plane
        assert packet.traffic_class & 3 == ECT0
        assert packet.whole[0] << 4 & 0xFF | packet.whole[1] >> 4 == packet.traffic_class


def test_psns_number_packets_in_send_order_and_wrap() -> None:
    """MRC-SEND-04."""
    hand = HandPeer(CONFIG)
    qp = hand.endpoint.create_qp(CONFIG)
    qp.first_psn = (1 << 24) - 20
    qp.to_init()
    qp.to_rtr(QpPeer(PEER_QPN, 0, hand.profile, {plane: peer_address(plane) for plane in range(2)}))
    qp.to_rts()
    hand.qp = qp
    sent = _packets(hand, 256 * 50)
    assert [packet.psn for packet in sent] == [*range((1 << 24) - 20, 1 << 24), *range(30)]
    hand.receive(hand.sack(30, above=[40]))
    hand.receive(hand.ack(49))
    assert hand.completed() == [(0, WorkStatus.SUCCESS)]


# ------------------------------------------------------------------ acknowledgements


@pytest.mark.parametrize("kind", ["ack", "sack cack", "sack bitmap", "sack trigger", "nak"])
def test_an_acknowledgement_of_what_was_never_sent_is_dropped_and_counted(kind: str) -> None:
    """MRC-SEND-09."""
    hand = HandPeer(CONFIG)
    hand.post(256 * 4)  # PSNs 0 to 3
    hand.transmitted()
    packet = {
        "ack": lambda: hand.ack(4),
        "sack cack": lambda: hand.sack(4),
        "sack bitmap": lambda: hand.sack(0, above=[2, 4]),
        "sack trigger": lambda: hand.sack(0, trigger=4),
        "nak": lambda: hand.ack(4, syndrome=0x62),
    }[kind]()
    hand.receive(packet)
    assert hand.completed() == []
    assert hand.counters["ack_for_unsent_psn"] == 1
    assert hand.qp.state == QpState.RTS
    hand.receive(hand.ack(3))
    assert hand.completed() == [(0, WorkStatus.SUCCESS)]


@pytest.mark.parametrize("kind", ["ack", "sack"])
def test_an_acknowledgement_of_what_came_before_the_first_psn_is_no_answer(kind: str) -> None:
    """MRC-SEND-09: a peer that counts from elsewhere keeps nothing alive. Of one before the first PSN nothing is taken,
    be it about paths or that the peer is there. That nothing has arrived yet is what it may say."""
    hand = HandPeer(CONFIG)
    hand.post(256)
    sent = data(hand.transmitted())
    said = {"ack": hand.ack, "sack": lambda number: hand.sack(number, ev=sent[0].ev, m=1)}[kind]
    assert hand.qp.paths is not None
    for round_trip in range(1, 100):
        hand.receive(said(-2), said(-50))
        assert hand.counters["ack_before_first_psn"] == 2 * round_trip
        hand.run(hand.now + 50 * MILLISECOND)
        if hand.qp.state == QpState.ERROR:
            break
    assert [status for _, status in hand.completed()] == [WorkStatus.RETRY_EXCEEDED]
    assert hand.qp.paths.state[hand.qp.paths.index(sent[0].ev)] != EvState.SKIP
    other = HandPeer(CONFIG)
    other.post(256)
    other.transmitted()
    other.receive(other.ack(-1), other.sack(-1))
    assert "ack_before_first_psn" not in other.counters


def test_a_late_sack_does_not_keep_a_lost_packet_from_being_sent_again() -> None:
    """cack_psn never goes back: a late SACK's bits below it are old news, whatever has been sent since.

    The window is 128 PSNs and full; the SACK names the PSN acknowledged last, 128 before the one sent last. That
    one is lost all the same, and must come again.
    """
    hand = HandPeer(QpConfig(path_mtu=256, mpr=1, timeout=20))
    hand.post(256 * 300)
    sent = numbers(hand, hand.transmitted())
    acked = -1
    while max(sent) < acked + 128:  # the congestion window opens with what SACKs acknowledge
        acked += 1
        sent += numbers(hand, hand.exchange(hand.sack(acked)))
        assert acked < 150
    last = max(sent)
    hand.receive(hand.sack(acked - 2, above=[acked]))
    # Everything but the last is acknowledged; new packets follow and are acknowledged too.
    hand.now += MILLISECOND
    later = numbers(hand, hand.exchange(hand.ack(last - 1)))
    hand.now += MILLISECOND
    assert min(later) == last + 1
    again = numbers(hand, hand.exchange(hand.sack(last - 1, above=range(last + 1, last + 40), trigger=last + 39)))
    again += numbers(hand, hand.run(hand.now + 100 * MILLISECOND))
    assert last in again


@pytest.mark.parametrize(
    ("syndrome", "status"),
    [
        (0x61, WorkStatus.REMOTE_INVALID_REQUEST),
        (0x62, WorkStatus.REMOTE_ACCESS_ERROR),
        (0x63, WorkStatus.REMOTE_OPERATION_ERROR),
    ],
)
def test_a_nak_fails_the_request_it_names_and_flushes_the_others(syndrome: int, status: WorkStatus) -> None:
    """wire.md section 5: PSN is the offending one. MRC-ACK-03, MRC-ACK-08."""
    hand = HandPeer(CONFIG)
    for length in (256, 600, 256):  # PSNs 0, 1-3, 4
        hand.post(length)
    hand.transmitted()
    hand.receive(hand.ack(2, syndrome=syndrome))
    assert hand.completed() == [(0, WorkStatus.FLUSHED), (1, status), (2, WorkStatus.FLUSHED)]
    assert hand.qp.state == QpState.ERROR
    hand.post(1)
    assert hand.completed() == [(3, WorkStatus.FLUSHED)]
    assert hand.transmitted() == []
    assert hand.run(hand.now + 10**10) == []


def test_a_nak_for_a_message_not_yet_all_sent_fails_that_message() -> None:
    """The window holds its tail back; the NAK still names it and not an older one."""
    hand = HandPeer(QpConfig(path_mtu=256, mpr=1))
    hand.post(256)
    hand.post(256 * 400)
    hand.post(1)
    assert max(numbers(hand, hand.transmitted())) < 300
    hand.receive(hand.ack(5, syndrome=0x62))
    assert hand.completed() == [(0, WorkStatus.FLUSHED), (1, WorkStatus.REMOTE_ACCESS_ERROR), (2, WorkStatus.FLUSHED)]


def _spaced(hand: HandPeer, count: int) -> None:
    """`count` packets 10 microseconds apart; the clock stands 110 after the last."""
    for _ in range(count):
        _packets(hand, 256)
        hand.now += 10 * MICROSECOND
    hand.now += 100 * MICROSECOND


# ------------------------------------------------------------------ what may be posted


def test_writes_are_posted_in_rts_only() -> None:
    """RESET, INIT and RTR refuse them; ERROR flushes them at once."""
    hand = HandPeer(CONFIG, to_rts=False)
    source = MemoryRegion(b"abc", 0, 0, remote_write=False)
    with pytest.raises(CallerError, match="RTR"):
        hand.qp.post_write(WriteRequest(0, source, 0, 3, 0, 0))
    fresh = hand.endpoint.create_qp(CONFIG)
    with pytest.raises(CallerError, match="RESET"):
        fresh.post_write(WriteRequest(0, source, 0, 3, 0, 0))
    hand.qp.to_error("enough")
    hand.qp.post_write(WriteRequest(9, source, 0, 3, 0, 0))
    assert hand.completed() == [(9, WorkStatus.FLUSHED)]


@pytest.mark.parametrize(
    "wrong",
    [
        {"length": -1},
        {"length": 4},
        {"offset": -1},
        {"offset": 3, "length": 1},
        {"length": 1 << 31},
        {"remote_va": -1},
        {"remote_va": 1 << 64},
        {"rkey": 1 << 32},
        {"rkey": -1},
    ],
)
def test_a_write_that_leaves_its_region_or_its_fields_is_refused(wrong: dict[str, int]) -> None:
    source = MemoryRegion(b"abc", 0, 0, remote_write=False)
    right = {"offset": 0, "length": 3, "remote_va": 0, "rkey": 0}
    with pytest.raises(CallerError):
        WriteRequest(wr_id=0, source=source, **{**right, **wrong})


def test_a_spurious_retransmission_is_counted() -> None:
    """The original of a packet sent again arrives after all: its SACK has no rtx."""
    hand = HandPeer(ENDURE)
    _spaced(hand, 12)
    again = data(hand.exchange(hand.sack(-1, above=range(1, 12), trigger=11)))
    assert numbers(hand, again) == [0]
    hand.receive(hand.sack(11, trigger=0))
    assert hand.counters["spurious_retransmissions"] == 1
    assert hand.completed() == [(at, WorkStatus.SUCCESS) for at in range(12)]
