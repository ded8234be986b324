# SPDX-License-Identifier: BSD-2-Clause
"""The requestor against any behaviour of network and peer (behaviour.md, Requestor; wire.md 6 and 7)."""

from __future__ import annotations

from random import Random

import pytest
from draws import draws
from hand_peer import LAST_IMMEDIATE, MICROSECOND, ONLY_IMMEDIATE, PROBE, SECOND, HandPeer, Sent, data, numbers
from hypothesis import given, settings
from hypothesis import strategies as st
from recording_window import RecordingWindows

from mrc.endpoint.completions import WorkStatus
from mrc.endpoint.config import LossConfig, QpConfig
from mrc.endpoint.qp_states import QpState

RTT = 100 * MICROSECOND
NOMINAL = 40 + 8 + 12 + 4 + 4 + 16 + 256 + 4
TRIMMED, TRIMMED_LASTHOP, NO_BITMAP, NO_RESOURCE, PSN_OOR_WINDOW = 0x01, 0x02, 0x06, 0x0A, 0x0B
REASONS = (TRIMMED, TRIMMED_LASTHOP, NO_BITMAP, NO_RESOURCE, PSN_OOR_WINDOW)
NEAR_THE_WRAP = [0, 1000, (1 << 24) - 1, (1 << 24) - 60, (1 << 24) - 200]


class Receiver:
    """A responder as the pages describe it, and a network that loses, trims and reorders as `random` says."""

    def __init__(self, hand: HandPeer, random: Random, trouble: float) -> None:
        self.hand = hand
        self.random = random
        self.trouble = trouble
        self.arrived: dict[int, Sent] = {}
        self.cack = -1
        self.sent: dict[int, Sent] = {}

    def answers(self, packets: list[Sent]) -> list[bytes]:
        """What comes back for these, in whatever order."""
        back = [answer for packet in packets for answer in self._answer(packet)]
        if self.random.random() < self.trouble:
            self.random.shuffle(back)
        return back

    def _answer(self, packet: Sent) -> list[bytes]:
        chance = self.random.random
        if packet.opcode == PROBE:
            if chance() < self.trouble:
                return []
            return [self._sack(self.cack, probe_id=packet["peth"]["probe_id"], ev=packet.ev)]
        (number,) = numbers(self.hand, [packet])
        rtx = packet["bth"]["rtx"]
        self._check(number, packet)
        if chance() < self.trouble:
            if chance() < 0.5:
                return []
            nack = self.hand.nack(number, self.random.choice(REASONS), ev=packet.ev, rtx=rtx)
            return [nack] * self.random.choice([0, 1, 1, 1, 2])
        self.arrived[number] = packet
        before = self.cack
        while self.cack + 1 in self.arrived:
            self.cack += 1
        answers = [self.hand.ack(self.cack)] if self.cack != before or number <= before else []
        highest = max(self.arrived)
        base = self.cack + 1 if rtx or highest - self.cack <= 64 else highest - 63
        if rtx or packet["bth"]["ackreq"] or chance() < 0.5:
            answers.append(self._sack(number, base=base, ev=packet.ev, rtx=rtx, m=chance() < self.trouble))
        return [answer for answer in answers if chance() >= self.trouble / 2]

    def _sack(self, trigger: int, *, base: int | None = None, **others: int) -> bytes:
        base = self.cack + 1 if base is None else base
        above = [number for number in range(base, base + 64) if number in self.arrived]
        return self.hand.sack(self.cack, above, trigger=trigger, offset=base - self.cack, **others)

    def _check(self, number: int, packet: Sent) -> None:
        """A packet sent again is what it was, and a new one is the next."""
        first = self.sent.setdefault(number, packet)
        assert number < len(self.sent)
        assert (packet is first) == (packet["bth"]["rtx"] == 0)
        assert (packet.opcode, packet["meth"], packet["reth"]) == (first.opcode, first["meth"], first["reth"])
        assert packet.payload == first.payload
        assert packet.layers.get("immdt") == first.layers.get("immdt")


@settings(deadline=None, max_examples=draws(20))
@given(
    seed=st.integers(0, 1 << 32),
    trouble=st.sampled_from([0.0, 0.02, 0.1, 0.3, 0.6]),
    work=st.lists(st.tuples(st.integers(0, 256 * 60), st.booleans()), min_size=1, max_size=12),
    window=st.sampled_from([1, NOMINAL, 5 * NOMINAL, 60 * NOMINAL, 1000 * NOMINAL]),
    first_psn=st.sampled_from(NEAR_THE_WRAP),
    max_wimm=st.integers(1, 3),
)
def test_all_work_completes_in_order_whatever_happens_on_the_way(
    seed: int, trouble: float, work: list[tuple[int, bool]], window: int, first_psn: int, max_wimm: int
) -> None:
    """behaviour.md, Requestor: "Work completes in post order once cack_psn covers its last PSN"; "Only what is missing
    is sent again"; "PSN <= cack_psn + window". MRC-SEND-02, MRC-SEND-05, MRC-LOSS-10, MRC-CC-21, MRC-IMM-01.

    128 PSNs of window, a budget that lasts for ever, PSNs that wrap.
    """
    windows = RecordingWindows(window)
    config = QpConfig(path_mtu=256, mpr=1, max_wimm=max_wimm, timeout=14, exponential_retries=25)
    hand = HandPeer(config, controller=windows, first_psn=first_psn, seed=seed)
    contents = [hand.post(length, immediate=at if has else None, fill=at + 1) for at, (length, has) in enumerate(work)]
    receiver = Receiver(hand, Random(seed), trouble)
    total = sum(max(1, -(-length // 256)) for length, _ in work)
    completed: list[tuple[int, WorkStatus]] = []
    for step in range(3000):
        if step == 300:
            receiver.trouble = 0.0  # even the worst network lets something through at last
        sent = hand.transmitted()
        acked = (hand.qp.requestor.sent.una - hand.qp.first_psn) - 1
        assert all(number <= acked + 128 for number in numbers(hand, sent))
        assert 0 <= windows.only.inflight < window + NOMINAL + 4
        assert (windows.only.inflight == 0) == (hand.qp.outstanding == 0)
        if not sent:
            deadline = hand.endpoint.next_deadline()
            if deadline is None:
                break
            sent = hand.run(deadline)
        back = receiver.answers(sent)
        hand.now += RTT
        hand.receive(*back)
        completed += hand.completed()
    assert completed == [(at, WorkStatus.SUCCESS) for at in range(len(work))]
    assert sorted(receiver.arrived) == list(range(total))
    assert hand.qp.state == QpState.RTS
    assert (windows.only.inflight, hand.qp.outstanding) == (0, 0)
    for msn, content in enumerate(contents):
        mine = [receiver.arrived[number] for number in range(total) if receiver.arrived[number]["meth"]["msn"] == msn]
        assert b"".join(packet.payload for packet in mine) == content
        assert (mine[-1].opcode in (LAST_IMMEDIATE, ONLY_IMMEDIATE)) == work[msn][1]
    assert data(hand.run(hand.now + 10 * SECOND)) == []


# ------------------------------------------------------------------ SACKs that arrive together


@settings(deadline=None, max_examples=draws(33))
@given(
    seed=st.integers(0, 1 << 32),
    count=st.integers(1, 100),
    sacks=st.integers(1, 8),
    in_order=st.booleans(),
    first_psn=st.sampled_from(NEAR_THE_WRAP),
)
def test_sacks_that_arrive_together_say_what_they_say_one_by_one(
    seed: int, count: int, sacks: int, in_order: bool, first_psn: int
) -> None:
    """behaviour.md, Requestor: "cack_psn never goes back"; lost is what was transmitted a guard before what has been
    acknowledged. How many packets the system hands over at once changes nothing. MRC-SEND-08, MRC-LOSS-02.

    The SACKs give no RTT sample, so the guard is 3 packets and nothing else.
    """
    random = Random(seed)
    hands = [HandPeer(QpConfig(path_mtu=256, timeout=24), first_psn=first_psn, seed=5) for _ in range(2)]
    for hand in hands:
        hand.post(256 * count)
        assert len(hand.transmitted()) == count
        hand.now += RTT
    arrived: set[int] = set()
    reported: set[int] = set()
    packets = []
    for _ in range(sacks):
        arrived |= {number for number in range(count) if random.random() < random.choice([0.1, 0.5, 0.9])}
        cack = next(number for number in range(count + 1) if number not in arrived) - 1
        base = random.choice([cack + 1, max(cack + 1, max(arrived, default=0) - 63)])
        above = [number for number in range(base, base + 64) if number in arrived]
        reported |= {*range(cack + 1), *above}
        packets.append(hands[0].sack(cack, above, offset=base - cack, rtx=1))
    if not in_order:
        random.shuffle(packets)
    together, apart = hands
    assert together.qp.qpn == apart.qp.qpn  # they have the same seed
    together.receive(*packets)
    for packet in packets:
        apart.receive(packet)
    for hand in hands:
        assert "rtt_samples" not in hand.counters
    sent = [hand.qp.requestor.sent for hand in hands]
    assert sent[0].una == sent[1].una
    assert sent[0].outstanding == sent[1].outstanding
    for psn in range(sent[0].una, sent[0].next_psn):
        assert sent[0].state[psn & sent[0].mask] == sent[1].state[psn & sent[1].mask]
    assert together.completed() == apart.completed()
    again = [numbers(hand, hand.transmitted()) for hand in hands]
    assert again[0] == again[1]
    assert set(again[0]).isdisjoint(reported)


@pytest.mark.parametrize("first_psn", NEAR_THE_WRAP)
@pytest.mark.parametrize("reason", [TRIMMED, NO_BITMAP])
def test_a_late_nack_from_before_the_wrap_names_nothing_that_is_out(first_psn: int, reason: int) -> None:
    """behaviour.md, Requestor: "A NACK for an acknowledged PSN ... counts for its EV only."

    128 PSNs of window: packet 140 lies where packet 12 lay.
    """
    hand = HandPeer(QpConfig(path_mtu=256, mpr=1, timeout=20), first_psn=first_psn)
    hand.post(256 * 100)
    late = hand.nack(12, reason, ev=data(hand.transmitted())[12].ev)
    hand.receive(hand.ack(99))
    hand.post(256 * 100)
    assert numbers(hand, hand.transmitted()) == list(range(100, 200))
    assert data(hand.exchange(late)) == []
    assert data(hand.run(hand.now + 10 * RTT)) == []
    assert "losses_by_nack" not in hand.counters


@pytest.mark.parametrize("guard", [3, 200, 600])
def test_probes_take_no_room_from_what_is_out(guard: int) -> None:
    """nscc.md: "each transmission is added once when sent ... and taken off once".

    A wide reorder guard, a small window, and many probes that nobody answers until the peer is back.
    """
    windows = RecordingWindows(1 << 30)
    config = QpConfig(
        path_mtu=256, mpr=1, timeout=16, exponential_retries=25, loss=LossConfig(reorder_guard_packets=guard)
    )
    hand = HandPeer(config, controller=windows)
    hand.post(256 * 100)
    assert len(data(hand.transmitted())) == 100
    hand.run(hand.now + SECOND // 4)
    hand.receive(hand.ack(99))
    assert hand.completed() == [(0, WorkStatus.SUCCESS)]
    assert (windows.only.inflight, hand.qp.outstanding) == (0, 0)
    hand.post(256 * 100)
    assert numbers(hand, hand.transmitted()) == list(range(100, 200))
