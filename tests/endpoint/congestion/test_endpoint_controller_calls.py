# SPDX-License-Identifier: BSD-2-Clause
"""Which calls a congestion controller gets and when, and what is in flight by then (behaviour.md; nscc.md)."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hand_peer import MICROSECOND, MILLISECOND, HandPeer, data, numbers
from nacking import CONFIG, NO_BITMAP, NOMINAL, PSN_OOR_WINDOW, RTT, TRIMMED, TRIMMED_LASTHOP, send
from recording_window import RecordingWindow

from mrc.endpoint.completions import WorkStatus
from mrc.endpoint.config import LossConfig, QpConfig
from mrc.endpoint.congestion import PacketSizes

NO_HOLES = QpConfig(path_mtu=256, timeout=20, loss=LossConfig(reorder_guard_packets=1000))


@dataclass(frozen=True, slots=True)
class When:
    """One call: its time, what it was, its bytes, what it said besides, and the bytes in flight at that moment."""

    now: int
    what: str
    size: int
    said: tuple[object, ...]
    inflight: int


class Watching(RecordingWindow):
    __slots__ = ("calls",)

    def __init__(self, cwnd: int) -> None:
        super().__init__(cwnd)
        self.calls: list[When] = []

    def on_ack(
        self, now: int, acked_bytes: int, marked: bool, rtt_ns: int | None, penalty: int = 0, restore: bool = False
    ) -> None:
        said = (marked, rtt_ns, penalty, restore)
        self.calls.append(When(now, "ack", acked_bytes, said, self.inflight))

    def on_loss(self, now: int, lost_bytes: int) -> None:
        self.calls.append(When(now, "loss", lost_bytes, (), self.inflight))

    def on_nack(self, now: int, nacked_bytes: int, trimmed: bool) -> None:
        self.calls.append(When(now, "nack", nacked_bytes, (trimmed,), self.inflight))


def _watched(config: QpConfig = CONFIG) -> tuple[HandPeer, Watching]:
    """Number 0 took one RTT."""
    made: list[Watching] = []

    def factory(sizes: PacketSizes) -> Watching:
        assert sizes == PacketSizes(mtu=NOMINAL, mss=256)
        made.append(Watching(1 << 30))
        return made[-1]

    hand = HandPeer(config, controller=factory)
    send(hand, 1)
    hand.now += RTT
    hand.receive(hand.sack(0))
    (controller,) = made
    assert controller.calls == [When(hand.now, "ack", NOMINAL, (False, RTT, 0, False), 0)]
    controller.calls.clear()
    return hand, controller


@pytest.mark.parametrize(("timestamps", "mtu"), [(True, NOMINAL), (False, NOMINAL - 4)])
def test_a_controller_knows_the_nominal_size_of_a_full_packet(timestamps: bool, mtu: int) -> None:
    """nscc.md: "nominal packet sizes, UDP length + 40"; TSETH is 4 bytes of it."""
    told: list[PacketSizes] = []

    def factory(sizes: PacketSizes) -> Watching:
        told.append(sizes)
        return Watching(1 << 30)

    HandPeer(QpConfig(path_mtu=256, timestamps=timestamps), controller=factory)
    assert told == [PacketSizes(mtu=mtu, mss=256)]


def test_a_sack_is_told_at_its_time_after_its_bytes_left_the_network() -> None:
    """nscc.md: "Inputs per SACK: newly acknowledged bytes, the ECN verdict `m` of the reflected EV, an RTT sample"."""
    hand, controller = _watched()
    send(hand, 3)
    hand.now += 2 * RTT
    hand.receive(hand.sack(0, above=[2], trigger=2))
    assert controller.calls == [When(hand.now, "ack", NOMINAL, (False, 2 * RTT, 0, False), 2 * NOMINAL)]


def test_a_transport_ack_is_told_without_a_mark_or_a_sample() -> None:
    """wire.md section 5: an AETH has neither EV nor timestamp."""
    hand, controller = _watched()
    send(hand, 3)
    hand.now += 2 * RTT
    hand.receive(hand.ack(2))
    assert controller.calls == [When(hand.now, "ack", 2 * NOMINAL, (False, None, 0, False), NOMINAL)]


def test_an_old_transport_ack_is_no_news() -> None:
    hand, controller = _watched()
    send(hand, 3)
    hand.receive(hand.ack(0), hand.ack(-1))
    assert controller.calls == []


@pytest.mark.parametrize(
    ("reason", "trimmed"), [(TRIMMED, True), (TRIMMED_LASTHOP, True), (NO_BITMAP, False), (PSN_OOR_WINDOW, False)]
)
def test_a_nack_is_told_at_its_time_and_whether_it_was_a_trim(reason: int, trimmed: bool) -> None:
    """nscc.md: bytes leave the network "on the first of acknowledged, lost, NACKed"."""
    hand, controller = _watched()
    sent = send(hand, 3)
    hand.now += RTT
    hand.receive(hand.nack(2, reason, ev=sent[2].ev))
    assert controller.calls == [When(hand.now, "nack", NOMINAL, (trimmed,), 2 * NOMINAL)]


def test_holes_are_told_as_one_loss_after_the_sack_that_shows_them() -> None:
    """nscc.md's inputs: the acknowledgement, and what was lost untrimmed."""
    hand, controller = _watched()
    for _ in range(8):
        send(hand, 1)
        hand.now += 10 * MICROSECOND
    hand.now += RTT
    hand.receive(hand.sack(0, above=[2, 4, 5, 6, 7, 8], trigger=8))
    rtt = RTT + 10 * MICROSECOND
    assert controller.calls == [
        When(hand.now, "ack", 6 * NOMINAL, (False, rtt, 0, False), 2 * NOMINAL),
        When(hand.now, "loss", 2 * NOMINAL, (), 0),
    ]


def test_what_a_path_timer_finds_is_told_when_it_runs_out() -> None:
    """The peer is heard, but acknowledges nothing new; 1 ms is the least path timer."""
    hand, controller = _watched(NO_HOLES)
    send(hand, 2)
    started = hand.now
    while hand.now < started + MILLISECOND:
        hand.now += 50 * MICROSECOND
        hand.receive(hand.ack(0))
        hand.endpoint.on_timer(hand.now)
    assert controller.calls == [When(started + MILLISECOND, "loss", 2 * NOMINAL, (), 0)]


def test_what_the_local_ack_timeout_gives_up_is_told_then() -> None:
    """1.024 us x 2^10. Of two packets out it takes the oldest for lost, and sends it again."""
    hand, controller = _watched(QpConfig(path_mtu=256, timeout=10))
    send(hand, 2)
    started = hand.now
    again = data(hand.run(started + (1024 << 10)))
    assert numbers(hand, again) == [1]
    assert controller.calls == [When(started + (1024 << 10), "loss", NOMINAL, (), NOMINAL)]


def test_each_sack_is_told_with_its_own_bytes_mark_and_penalty() -> None:
    """nscc.md: "Inputs per SACK". Three that arrive together, for a packet each, the second marked."""
    hand, controller = _watched()
    sent = send(hand, 3)
    hand.now += RTT
    hand.receive(
        hand.sack(1, ev=sent[1].ev, penalty=9),
        hand.sack(2, ev=sent[2].ev, m=1, penalty=8),
        hand.sack(3, ev=sent[3].ev, penalty=127, restore=1),
    )
    assert controller.calls == [
        When(hand.now, "ack", NOMINAL, (False, RTT, 9, False), 2 * NOMINAL),
        When(hand.now, "ack", NOMINAL, (True, RTT, 8, False), NOMINAL),
        When(hand.now, "ack", NOMINAL, (False, RTT, 127, True), 0),
    ]


def test_bytes_are_told_once_by_the_sack_that_brought_the_news() -> None:
    """nscc.md: "newly acknowledged bytes". The second SACK covers both packets, the third neither; m is each one's."""
    hand, controller = _watched()
    sent = send(hand, 3)
    hand.now += RTT
    hand.receive(hand.sack(1, ev=sent[1].ev), hand.sack(3, ev=sent[3].ev, m=1), hand.sack(2, ev=sent[2].ev, rtx=1, m=1))
    told = [(call.said[0], call.size) for call in controller.calls]
    assert told == [(False, NOMINAL), (True, 2 * NOMINAL), (True, 0)]
    assert [type(size) for _, size in told] == [int, int, int]


def test_a_sack_without_news_has_no_sample() -> None:
    """nscc.md: an acknowledgement without a valid sample; the packet it names is known to have arrived."""
    hand, controller = _watched()
    sent = send(hand, 2)
    hand.now += RTT
    hand.receive(hand.sack(2, ev=sent[2].ev), hand.sack(2, trigger=1, ev=sent[1].ev))
    assert [(call.said[1], call.size) for call in controller.calls] == [(RTT, 2 * NOMINAL), (None, 0)]


def test_always_skip_is_no_congestion() -> None:
    """wire.md section 6: m=2 is "always skip"; only m=1 says that "the packet arrived ECN-CE"."""
    hand, controller = _watched()
    sent = send(hand, 1)
    hand.now += RTT
    hand.receive(hand.sack(1, ev=sent[1].ev, m=2))
    assert controller.calls == [When(hand.now, "ack", NOMINAL, (False, RTT, 0, False), 0)]


def test_a_qp_that_ends_gives_back_what_it_had_in_flight_and_tells_nothing() -> None:
    """nscc.md: inflight counts what is in the network; nobody waits for it any more."""
    hand, controller = _watched()
    send(hand, 5)
    hand.receive(hand.ack(2))
    controller.calls.clear()
    hand.qp.to_error("enough")
    assert (controller.inflight, controller.calls) == (0, [])
    assert hand.completed() == [(0, WorkStatus.SUCCESS), (1, WorkStatus.FLUSHED)]
