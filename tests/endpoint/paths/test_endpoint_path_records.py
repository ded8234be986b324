# SPDX-License-Identifier: BSD-2-Clause
"""What is kept of each EV for reports: packets, marks, losses, when it was first and last used."""

from __future__ import annotations

from collections import Counter

from hand_peer import MICROSECOND, HandPeer, Sent, data

from mrc.endpoint.config import PathConfig, QpConfig

RTT = 100 * MICROSECOND


def _hand() -> HandPeer:
    return HandPeer(QpConfig(path_mtu=256, timeout=20, paths=PathConfig(ev_min_active=1)))


def _sent(hand: HandPeer, count: int) -> list[Sent]:
    """So many packets, 10 us apart."""
    sent: list[Sent] = []
    for _ in range(count):
        hand.post(256)
        sent += data(hand.transmitted())
        hand.now += 10 * MICROSECOND
    return sent


def test_packets_and_times_of_use_are_those_of_what_was_sent() -> None:
    hand = _hand()
    kept = hand.qp.paths
    assert kept is not None
    sent = _sent(hand, 3)
    unused = set(range(8)) - {kept.index(packet.ev) for packet in sent}
    assert {int(kept.first_sent_at[index]) for index in unused} == {-1}
    for count in (20, 40):
        hand.receive(hand.ack(hand.posted - 1))
        sent += _sent(hand, count)
        by_ev = Counter(packet.ev for packet in sent)
        for index, path in enumerate(kept.paths):
            times = [packet.at for packet in sent if packet.ev == path.ev]
            assert kept.packets[index] == by_ev[path.ev] == len(times)
            assert (kept.first_sent_at[index], kept.last_sent_at[index]) == (min(times), max(times))


def test_marks_and_losses_are_counted_for_the_ev_they_name() -> None:
    """Two marks on one EV, one on another; of twenty packets two are lost."""
    hand = _hand()
    kept = hand.qp.paths
    assert kept is not None
    sent = _sent(hand, 20)
    hand.now += RTT
    first, second = sent[0].ev, next(packet.ev for packet in sent if packet.ev != sent[0].ev)
    hand.receive(hand.sack(0, ev=first, m=1), hand.sack(1, ev=first, m=1), hand.sack(2, ev=second, m=1))
    marked = {path.ev: int(count) for path, count in zip(kept.paths, kept.marked.tolist(), strict=True) if count}
    assert marked == {first: 2, second: 1}
    hand.exchange(hand.sack(4, above=[at for at in range(6, 20) if at != 9], trigger=19))
    lost = {path.ev: int(count) for path, count in zip(kept.paths, kept.lost.tolist(), strict=True) if count}
    assert lost == dict(Counter((sent[5].ev, sent[9].ev)))
