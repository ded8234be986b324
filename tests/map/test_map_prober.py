# SPDX-License-Identifier: BSD-2-Clause
"""The prober in virtual time, and the bytes of a probe."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from draws import draws
from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.layers.inet import UDP
from scapy.layers.inet6 import IPv6

from mrc.errors import CallerError
from mrc.fabric.place import Place
from mrc.map.probe import INNER_LENGTH, UDP_PORT, ProbeCodec
from mrc.map.prober import SECOND, Prober, ProberConfig

MS = 1_000_000
ADDRESS = "fd4d:5243:1::3"


def codec() -> ProbeCodec:
    return ProbeCodec(ADDRESS, *ProbeCodec.new_secrets(), traffic_class=46 << 2)


def prober(rate: int = 100, start: int = 0) -> Prober:
    ports = [Place(plane, 0, 4, 4) for plane in range(2)]
    return Prober(0, ports, ProberConfig(rate=rate), random.Random(1), start)


def test_a_probe_is_udp_in_ipv6_with_a_right_checksum() -> None:
    """Scapy, which works out length and checksum itself, makes the same bytes."""
    made = codec().build(7, 123)
    assert len(made) == INNER_LENGTH
    fields = {"src": ADDRESS, "dst": ADDRESS, "hlim": 64, "tc": 46 << 2}
    expected = IPv6(**fields) / UDP(sport=UDP_PORT, dport=UDP_PORT) / made[48:]
    assert bytes(expected) == made


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1), st.data())
def test_only_the_process_that_made_a_probe_knows_it(sequence: int, sent_ns: int, data: st.DataObject) -> None:
    mine, other = codec(), codec()
    made = mine.build(sequence, sent_ns)
    assert mine.read(made) == (sequence, sent_ns)
    assert other.read(made) is None
    at = data.draw(st.integers(48, len(made) - 1))
    damaged = bytearray(made)
    damaged[at] ^= data.draw(st.integers(1, 255))
    assert mine.read(bytes(damaged)) is None
    assert mine.read(made[:-1]) is None
    assert mine.read(made + b"\0") is None


@given(st.binary(max_size=200))
def test_whatever_else_arrives_is_not_ours(packet: bytes) -> None:
    assert codec().read(packet) is None


def test_probes_are_sent_at_the_rate_and_not_made_up_for_after_a_pause() -> None:
    host = prober(rate=100)
    counts = [len(host.due(tick * 100 * MS)) for tick in range(1, 31)]
    assert sum(counts) == 300
    assert set(counts) == {10}
    # Ten seconds later not the thousand that are due: two ticks' worth.
    assert len(host.due(13 * SECOND)) == 20
    assert len(host.due(13 * SECOND + 100 * MS)) == 10


def test_a_rate_below_a_probe_a_tick_is_kept() -> None:
    host = prober(rate=3)
    assert sum(len(host.due(tick * 100 * MS)) for tick in range(1, 101)) == 30


@pytest.mark.parametrize("rate", [0, -1, 10_001])
def test_rates_out_of_range_are_refused(rate: int) -> None:
    with pytest.raises(CallerError, match="rate must be"):
        ProberConfig(rate=rate)


def test_a_tick_is_told_as_a_whole_and_only_when_its_time_is_over() -> None:
    host = prober()
    batch = host.due(100 * MS)
    for sequence, _ in batch[:7]:
        host.came_back(sequence, 25_000)
    assert host.decided(599 * MS) == []
    (report,) = host.decided(600 * MS)
    numbers = [host.loops.index(loop) for _, loop in batch]
    assert report.sent_ns == 100 * MS
    assert list(report.back) == numbers[:7]
    assert list(report.lost) == numbers[7:]
    assert set(report.rtt_us) == {25}
    assert host.decided(700 * MS) == []


def test_an_agent_that_was_kept_from_running_does_not_call_that_loss() -> None:
    """Two seconds pass; what arrived meanwhile is taken in before anything is decided."""
    host = prober()
    batch = host.due(100 * MS)
    for sequence, _ in batch:
        host.came_back(sequence, None)
    (report,) = host.decided(2100 * MS)
    assert report.lost == ()
    assert len(report.back) == 10
    assert set(report.rtt_us) == {-1}


def test_echoes_late_or_twice_are_counted_and_change_nothing() -> None:
    host = prober()
    (first, _), (second, _) = host.due(100 * MS)[:2]
    host.came_back(first, None)
    host.came_back(first, None)
    (report,) = host.decided(SECOND)
    assert len(report.lost) == 9
    host.came_back(second, None)
    host.came_back(second, None)
    host.came_back(10**9, None)
    assert (host.counters.late, host.counters.repeated) == (1, 3)
    assert host.decided(2 * SECOND) == []


def test_probes_that_this_host_dropped_itself_say_nothing() -> None:
    host = prober()
    batch = host.due(100 * MS)
    host.due(200 * MS)
    host.came_back(batch[0][0], None)
    host.echoes_dropped(150 * MS)
    first, second = host.decided(SECOND)
    assert (len(first.back), len(first.lost), first.void) == (1, 0, 9)
    assert (len(second.lost), second.void) == (10, 0)


def test_what_a_port_that_is_down_does_not_take_is_lost_and_a_full_queue_is_nothing() -> None:
    host = prober()
    batch = host.due(100 * MS)
    host.not_sent(batch[0][0], port_is_down=True)
    host.not_sent(batch[1][0], port_is_down=False)
    for sequence, _ in batch[2:]:
        host.came_back(sequence, None)
    (report,) = host.decided(SECOND)
    assert (list(report.lost), report.void, len(report.back)) == ([host.loops.index(batch[0][1])], 1, 8)


@settings(max_examples=draws(10))
@given(st.integers(0, 2**32), st.floats(0, 1))
def test_every_probe_is_told_once(seed: int, loss: float) -> None:
    chance = random.Random(seed)
    host = prober(rate=chance.choice([7, 100, 333]))
    sent: Counter[int] = Counter()
    told: Counter[int] = Counter()
    now = 0
    for _ in range(40):
        now += chance.randrange(20 * MS, 400 * MS)
        reports = host.decided(now)
        batch = host.due(now)
        sent.update(host.loops.index(loop) for _, loop in batch)
        for sequence, _ in batch:
            if chance.random() >= loss:
                host.came_back(sequence, 1)
        for report in reports:
            told.update((*report.back, *report.lost))
    for report in host.decided(now + SECOND):
        told.update((*report.back, *report.lost))
    assert told == sent
