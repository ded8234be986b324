# SPDX-License-Identifier: BSD-2-Clause
"""What a SACK says has arrived, and which losses that takes back (behaviour.md, Requestor; wire.md section 6)."""

from __future__ import annotations

import pytest
from hand_peer import MICROSECOND, HandPeer, Sent, data, numbers
from nacking import CONFIG, NOMINAL, RTT, TRIMMED, send, state_of, trained
from recording_window import RecordingWindows

from mrc.endpoint.config import Capability, QpConfig
from mrc.endpoint.paths.states import EvState

UNIT = 128  # ns, of a timestamp
SVC = Capability.SVC_TIME


def _spaced(hand: HandPeer, count: int) -> list[Sent]:
    """`count` packets 10 microseconds apart; the clock stands one RTT after the last."""
    sent = []
    for _ in range(count):
        sent += list(send(hand, 1).values())
        hand.now += 10 * MICROSECOND
    hand.now += RTT
    return sent


def _guard(hand: HandPeer) -> int:
    return hand.qp.requestor.loss.guard()


# ------------------------------------------------------------------ what has arrived


@pytest.mark.parametrize("trigger", [1, 2, 63, 64, 65, 99])
def test_the_triggering_packet_has_arrived_whatever_the_bitmap_holds(trigger: int) -> None:
    """wire.md section 6: ack_psn "is the triggering packet"; a bitmap of 64 need not reach it."""
    windows = RecordingWindows(1 << 30)
    hand = trained(controller=windows)
    send(hand, 100)
    windows.only.calls.clear()
    hand.receive(hand.sack(0, trigger=trigger))
    assert hand.qp.outstanding == 99
    assert [call.size for call in windows.only.calls] == [NOMINAL]
    hand.receive(hand.sack(0, trigger=trigger))
    assert hand.qp.outstanding == 99


def test_sacks_that_arrive_together_name_their_packets_each() -> None:
    """Each SACK has one of its own; the same one twice has arrived once."""
    hand = trained()
    send(hand, 100)
    hand.receive(*(hand.sack(0, trigger=trigger) for trigger in (90, 70, 90, 5)), hand.sack(1, above=[5], trigger=1))
    assert hand.qp.outstanding == 100 - 4


@pytest.mark.parametrize("offset", [-70, -63, -1, 0, 1, 2, 30, 36])
def test_a_bitmap_counts_from_cack_psn_and_its_offset(offset: int) -> None:
    """wire.md section 6: "Bitmap bit i ... is PSN cack_psn + sack_offset + i"; below cack_psn it is no news."""
    hand = trained()
    send(hand, 110)
    hand.receive(hand.ack(9))
    told = {10 + offset + bit for bit in (0, 1, 5, 63)}
    hand.receive(hand.sack(10, above=told, offset=offset, trigger=10))
    arrived = {number for number in told if number > 10}
    assert hand.qp.outstanding == 110 - 10 - len(arrived)
    hand.receive(hand.sack(10, above=told, offset=offset, trigger=10))
    assert hand.qp.outstanding == 110 - 10 - len(arrived)


def test_a_probes_answer_names_no_packet() -> None:
    """wire.md section 6: "when pr=1 this is probe_id": 40 is no offset then."""
    hand = trained()
    send(hand, 100)
    hand.receive(hand.sack(0, probe_id=40))
    assert hand.qp.outstanding == 100


# ------------------------------------------------------------------ losses taken back


@pytest.mark.parametrize(("later", "spurious"), [(-1, 1), (0, 0), (1, 0)])
def test_an_arrival_sooner_than_three_quarters_of_the_shortest_round_trip_is_the_originals(
    later: int, spurious: int
) -> None:
    """behaviour.md, Requestor: a retransmission "proves spurious". A transport ACK does not say which of the two
    arrived, but 75 us after it left, with round trips of 100 at least, it cannot be the retransmission."""
    hand = trained()
    _spaced(hand, 8)
    assert numbers(hand, hand.exchange(hand.sack(0, above=range(2, 9), trigger=8))) == [1]
    hand.now += 3 * RTT // 4 + later
    hand.receive(hand.ack(8))
    assert hand.counters.get("spurious_retransmissions", 0) == spurious
    assert (_guard(hand) > RTT // 2) == bool(spurious)


def test_the_ev_that_proved_good_is_the_one_that_is_restored() -> None:
    """behaviour.md, Paths: "ASSUMED_BAD | the loss that condemned it proves spurious | GOOD".

    Packet 1 is taken for lost on one EV, and again, sent anew, on another. The SACK without rtx names the first.
    """
    hand = trained()
    first = _spaced(hand, 8)[0]
    (second,) = data(hand.exchange(hand.sack(0, above=range(2, 9), trigger=8)))
    hand.now += 10 * MICROSECOND
    _spaced(hand, 8)
    (third,) = [
        packet
        for packet in data(hand.exchange(hand.sack(0, above=range(2, 17), trigger=16)))
        if packet.psn == first.psn
    ]
    assert [state_of(hand, each.ev) for each in (first, second)] == [EvState.ASSUMED_BAD] * 2
    assert third.ev != second.ev
    hand.now += 10 * MICROSECOND
    hand.receive(hand.sack(16, trigger=1, ev=first.ev))
    assert [state_of(hand, each.ev) for each in (first, second)] == [EvState.GOOD, EvState.ASSUMED_BAD]
    assert hand.counters["spurious_retransmissions"] == 1


def test_each_of_several_originals_restores_its_own_ev() -> None:
    """Two SACKs that arrive together restore the EVs of two original packets."""
    hand = trained()
    sent = _spaced(hand, 40)
    arrived = [number for number in range(1, 41) if number not in (1, 2)]
    again = data(hand.exchange(hand.sack(0, above=arrived, trigger=40)))
    assert numbers(hand, again) == [1, 2]
    bad = {packet.ev for packet in sent[:2]}
    assert {state_of(hand, ev) for ev in bad} == {EvState.ASSUMED_BAD}
    hand.receive(hand.sack(40, trigger=1, ev=sent[0].ev), hand.sack(40, trigger=2, ev=sent[1].ev))
    assert {state_of(hand, ev) for ev in bad} == {EvState.GOOD}
    assert hand.counters["spurious_retransmissions"] == 2


def test_a_loss_is_taken_back_once() -> None:
    """One retransmission, one time that it was not needed, however often the original's SACK comes."""
    hand = trained()
    first = _spaced(hand, 8)[0]
    hand.exchange(hand.sack(0, above=range(2, 9), trigger=8))
    late = hand.sack(8, trigger=1, ev=first.ev)
    hand.receive(late, late)
    guard = _guard(hand)
    hand.now += 10 * RTT
    hand.receive(late)
    assert hand.counters["spurious_retransmissions"] == 1
    assert _guard(hand) == guard


def test_what_was_lost_and_arrived_above_a_hole_is_not_sent_again() -> None:
    """behaviour.md, Loss: "Only what is missing is sent again". Packets 1 and 2 wait for the window; 2 was late."""
    windows = RecordingWindows(1 << 30)
    hand = trained(controller=windows)
    _spaced(hand, 12)
    windows.only.become(0)
    assert data(hand.exchange(hand.sack(0, above=range(3, 13), trigger=12))) == []
    hand.receive(hand.sack(0, above=range(2, 13), trigger=2))
    windows.only.become(1 << 30)
    hand.endpoint.wake(hand.qp)
    assert numbers(hand, hand.transmitted()) == [1]


# ------------------------------------------------------------------ the time a packet was held


@pytest.mark.parametrize(
    ("sent_at", "reflected", "taken"),
    [
        pytest.param(0x4000, 0x4000 + 999, 999, id="nearly all of it"),
        pytest.param(0x4000, 0x4000 + 1000, 0, id="all of it: no round trip takes no time"),
        pytest.param(0x4000, 0x4000 + 1001, 0, id="more than it"),
        pytest.param(0xFFF0, 0x0000, 0, id="0 is no timestamp, though it would be 16 units later"),
        pytest.param(0xFFF0, 0x0001, 17, id="1 is one"),
    ],
)
def test_the_time_held_is_less_than_the_round_trip_it_is_part_of(sent_at: int, reflected: int, taken: int) -> None:
    """behaviour.md, Responder: "the reflected timestamp is tx_timestamp plus the time the packet was held, in its unit;
    0 when the request had no TSETH." """
    hand = HandPeer(QpConfig(path_mtu=256, timeout=20, capabilities=SVC), capabilities=SVC)
    hand.now = (5 * 0x10000 + sent_at) * UNIT
    hand.post(256)
    hand.transmitted()
    hand.now += 1000 * UNIT
    hand.receive(hand.sack(0, timestamp=reflected))
    assert hand.qp.requestor.rtt.srtt == (1000 - taken) * UNIT


def test_held_times_told_together_are_each_packets_own() -> None:
    """Two packets a microsecond apart, held 100 and 300 units."""
    windows = RecordingWindows(1 << 30)
    config = QpConfig(path_mtu=256, timeout=20, capabilities=SVC)
    hand = HandPeer(config, controller=windows, capabilities=SVC)
    hand.now = 0x4000 * UNIT
    sent = list(send(hand, 1).values())
    hand.now += 10 * UNIT
    sent += list(send(hand, 1).values())
    hand.now = (0x4000 + 1000) * UNIT
    hand.receive(
        hand.sack(0, timestamp=sent[0]["tseth"]["tx_timestamp"] + 100, ev=sent[0].ev),
        hand.sack(1, timestamp=sent[1]["tseth"]["tx_timestamp"] + 300, ev=sent[1].ev, m=1),
    )
    assert [(call.marked, call.rtt_ns) for call in windows.only.of("ack")] == [(False, 900 * UNIT), (True, 690 * UNIT)]


def test_each_sample_is_told_with_its_own_mark() -> None:
    """nscc.md: "Inputs per SACK", however many arrive together."""
    windows = RecordingWindows(1 << 30)
    hand = trained(controller=windows)
    windows.only.calls.clear()
    sent = []
    for _ in range(4):
        sent += list(send(hand, 1).values())
        hand.now += 10 * MICROSECOND
    hand.now += 60 * MICROSECOND
    marks = (0, 1, 1, 0)
    hand.receive(*(hand.sack(at + 1, ev=sent[at].ev, m=marks[at]) for at in range(4)))
    told = [(each.marked, each.rtt_ns) for each in windows.only.of("ack")]
    assert told == [(bool(mark), (100 - 10 * at) * MICROSECOND) for at, mark in enumerate(marks)]


def test_a_trim_is_no_loss_to_take_back() -> None:
    """behaviour.md, Paths: only "a packet lost untrimmed" condemns an EV; the guard is for what is reordered."""
    hand = trained()
    (packet,) = send(hand, 1).values()
    hand.now += 10 * MICROSECOND
    hand.exchange(hand.nack(1, TRIMMED, ev=packet.ev))
    guard = _guard(hand)
    hand.now += 10 * MICROSECOND
    hand.receive(hand.ack(1))
    assert "spurious_retransmissions" not in hand.counters
    assert _guard(hand) == guard


def test_every_ev_of_the_profile_may_be_marked() -> None:
    """behaviour.md, Paths: "SACK m=1 for this EV" is SKIP, the profile's first as well as its last; m=2 is worse."""
    hand = trained(CONFIG)
    for path in hand.profile:
        hand.receive(hand.sack(0, ev=path.ev, m=1))
    assert {state_of(hand, path.ev) for path in hand.profile} == {EvState.SKIP}
    assert "unknown_ev" not in hand.counters
    first, last = hand.profile[0], hand.profile[-1]
    hand.receive(hand.sack(0, ev=first.ev, m=2), hand.sack(0, ev=last.ev, m=2))
    assert {state_of(hand, path.ev) for path in (first, last)} == {EvState.ASSUMED_BAD}


def test_marks_told_together_are_each_sacks_own() -> None:
    """wire.md section 6: m is the verdict on the EV this SACK names, whatever those before and after it say."""
    hand = trained(CONFIG)
    evs = [path.ev for path in hand.profile[:5]]
    hand.receive(*(hand.sack(0, ev=ev, m=m) for ev, m in zip(evs, (0, 1, 3, 2, 1), strict=True)))
    states = [state_of(hand, ev) for ev in evs]
    assert states == [EvState.GOOD, EvState.SKIP, EvState.GOOD, EvState.ASSUMED_BAD, EvState.SKIP]


@pytest.mark.parametrize("index", [0, 1, 3])
def test_answers_leave_on_an_ev_that_data_was_acknowledged_on(index: int) -> None:
    """behaviour.md, Paths: "Reverse EVs carry control packets: at least one known good EV per plane, ... learned from
    data SACKs", be it the first EV of the profile or another. One plane, and one EV that is known."""
    hand = HandPeer(CONFIG, planes=1, spines=6)
    known = hand.profile[index].ev
    hand.post(256 * 12)
    sent = data(hand.transmitted())
    number = numbers(hand, [next(packet for packet in sent if packet.ev == known)])[0]
    hand.now += RTT
    hand.receive(hand.sack(-1, above=[number], trigger=number, ev=known))
    hand.now += RTT
    answers = [hand.exchange(hand.request(at, b"x", bth={"ackreq": 1})) for at in range(6)]
    assert {packet.ev for each in answers for packet in each if not packet.is_data} == {known}
