# SPDX-License-Identifier: BSD-2-Clause
"""Rates, marks, trims, duplicates and corruption on real links: what arrives, what tshark sees, what is counted."""

from __future__ import annotations

import hashlib
import math
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from bpf_frames import CONTROL, NO_TRIM, TRIMMABLE, TRIMMED, TRIMMED_LASTHOP
from bpf_traffic import ETHERNET_AND_OUTER, Traffic, captured, direction
from patience import PATIENCE_S

from mrc.fabric import Clos
from mrc.lab import Lab

pytestmark = pytest.mark.root

MEGABIT = 1_000_000
PAYLOAD = 4096
LINK, TOWARD = "p0l0-p0s0", "p0s0"
# A machine that stands still at the wrong moment shows nothing: once more then.
TRIES = 20
# What is left of a packet without its outer header: IPv6 40, UDP 8, BTH 12, 8 more.
TRIMMED_INNER = 68


@pytest.fixture(scope="module")
def lab(lab_name: Callable[[str], str], need_root: None) -> Iterator[Lab]:
    with Lab.up(lab_name("bpf-links"), Clos(planes=1, leaves=2, spines=2)) as built:
        yield built


@pytest.fixture
def traffic(lab: Lab) -> Iterator[Traffic]:
    """From h0 to h1 over spine 0; afterwards nothing is wrong with any link."""
    opened = Traffic(lab)
    yield opened
    opened.close()
    for link in lab.topology.links:
        lab.clear(link.name)


def test_a_link_carries_its_rate_and_what_is_too_much_is_dropped(lab: Lab, traffic: Traffic) -> None:
    rate = 40 * MEGABIT
    lab.impair(LINK, toward=TOWARD, rate_bps=rate, queue_bytes=60_000)
    inner = traffic.packet(bytes(PAYLOAD))
    before, began = direction(lab, LINK, TOWARD), time.monotonic()
    sent = traffic.paced(inner, NO_TRIM, 2 * rate, 0.6)
    after, seconds = direction(lab, LINK, TOWARD), time.monotonic() - began
    arrived = sum(traffic.lengths().values())
    final = direction(lab, LINK, TOWARD)
    burst = max(2 * (lab.topology.mtu + 14), rate / 8 * 0.001)
    assert after.bytes - before.bytes <= rate / 8 * seconds + burst + len(inner) + ETHERNET_AND_OUTER
    # A full queue lasts for 12 ms; where this process stood still for longer, the link had nothing to carry.
    carrying = sum(min(pause, 0.01) for pause in traffic.pauses)
    assert final.bytes - before.bytes > rate / 8 * carrying / 2
    assert final.queue_dropped_packets > 0
    assert arrived + final.queue_dropped_packets == sent
    assert 55_000 < (final.queue_high_water_bytes or 0) <= 60_000
    assert final.queue_waiting_bytes == 0


def test_what_waits_comes_later_at_the_links_rate(lab: Lab, traffic: Traffic) -> None:
    rate = 20 * MEGABIT
    lab.impair(LINK, toward=TOWARD, rate_bps=rate, queue_bytes=400_000)
    inner = traffic.packet(bytes(PAYLOAD))
    frame = len(inner) + ETHERNET_AND_OUTER
    least = (60 * frame - 2 * (lab.topology.mtu + 14)) * 8 / rate
    for _ in range(TRIES):
        began = time.monotonic()
        for _ in range(60):
            traffic.send(inner, NO_TRIM)
        handed_over = time.monotonic() - began
        for _ in range(60):
            traffic.next()
        took = time.monotonic() - began
        assert took >= least
        if handed_over < least:
            break
    assert handed_over < least


def test_control_packets_overtake_data(lab: Lab, traffic: Traffic) -> None:
    rate = 5 * MEGABIT
    lab.impair(LINK, toward=TOWARD, rate_bps=rate, queue_bytes=400_000)
    data, control = traffic.packet(bytes(PAYLOAD)), traffic.packet(b"control")
    for _ in range(TRIES):
        began = time.monotonic()
        for _ in range(50):
            traffic.send(data, NO_TRIM)
        traffic.send(control, CONTROL)
        meanwhile = (time.monotonic() - began) * rate / 8 / len(data)
        order = [len(each) for each in traffic.arrived()]
        assert len(order) == 51
        # Ahead of it: what left meanwhile, what the burst let through at once, the one that is being sent.
        assert order.index(len(control)) <= meanwhile + 5
        if meanwhile < 20:
            break
    assert meanwhile < 20


def test_marks_are_seen_at_the_other_end_as_counted(
    lab: Lab, traffic: Traffic, tmp_path: Path, need_program: Callable[[str], str]
) -> None:
    lab.impair(LINK, toward=TOWARD, rate_bps=40 * MEGABIT, queue_bytes=200_000, ecn_at_bytes=50_000)
    inner = traffic.packet(bytes(PAYLOAD))
    with captured(lab, need_program("tshark"), "p0s0", "p0l0", tmp_path / "marks.pcap", "udp.port == 4791") as seen:
        sent = traffic.paced(inner, TRIMMABLE, 60 * MEGABIT, 0.4)
        assert sum(traffic.lengths().values()) + direction(lab, LINK, TOWARD).queue_dropped_packets == sent
    counted = direction(lab, LINK, TOWARD)
    marked = [each["ipv6.tclass.ecn"] == 3 for each in seen]
    assert sum(marked) == counted.marked_packets > 0
    assert counted.trimmed_packets == 0
    # 50,000 bytes are eleven packets: those before the queue was that long are not marked.
    assert not any(marked[:11])


@pytest.mark.parametrize(
    ("link", "toward", "interface", "codepoint"),
    [(LINK, TOWARD, ("p0s0", "p0l0"), TRIMMED), ("h1-p0l1", "h1", ("h1", "p0"), TRIMMED_LASTHOP)],
)
def test_trims_are_seen_at_the_other_end_as_counted(
    lab: Lab,
    traffic: Traffic,
    tmp_path: Path,
    need_program: Callable[[str], str],
    link: str,
    toward: str,
    interface: tuple[str, str],
    codepoint: int,
) -> None:
    """MRC-TRIM-01, MRC-TRIM-03, MRC-ECN-04, MRC-ECN-08."""
    rate = 40 * MEGABIT
    lab.impair(link, toward=toward, rate_bps=rate, queue_bytes=200_000, ecn_at_bytes=20_000, trim_at_bytes=40_000)
    inner = traffic.packet(bytes(PAYLOAD))
    file = tmp_path / "trims.pcap"
    with captured(lab, need_program("tshark"), *interface, file, "udp.port == 4791") as seen:
        sent = traffic.paced(inner, TRIMMABLE, 2 * rate, 0.4)
        lengths = traffic.lengths()
    counted = direction(lab, link, toward)
    trimmed = [each for each in seen if each["ipv6.tclass.dscp"] == codepoint]
    assert len(trimmed) == counted.trimmed_packets == lengths[TRIMMED_INNER] > 0
    assert {each["ipv6.plen"] for each in trimmed} == {TRIMMED_INNER}
    assert {each["frame.len"] for each in trimmed} == {TRIMMED_INNER + ETHERNET_AND_OUTER}
    assert {each["ipv6.tclass.ecn"] for each in trimmed} == {2}
    # Nothing is lost: what is not trimmed arrives whole.
    assert sum(lengths.values()) == sent == len(seen)
    assert (counted.marked_packets > 0) == (codepoint == TRIMMED)
    assert counted.queue_dropped_packets == 0


def test_a_trimmed_packet_takes_up_what_it_is_long(lab: Lab, traffic: Traffic) -> None:
    """The link's rate goes to what it carries: were trimmed packets charged whole, half of it would be lost."""
    rate = 40 * MEGABIT
    lab.impair(LINK, toward=TOWARD, rate_bps=rate, queue_bytes=100_000, trim_at_bytes=40_000)
    inner = traffic.packet(bytes(PAYLOAD))
    whole = len(inner) + ETHERNET_AND_OUTER
    for _ in range(60):
        traffic.send(inner, NO_TRIM)
    waiting = direction(lab, LINK, TOWARD).queue_waiting_bytes
    for _ in range(100):
        traffic.send(inner, TRIMMABLE)
    longer = direction(lab, LINK, TOWARD).queue_waiting_bytes - waiting
    assert longer <= 100 * (TRIMMED_INNER + ETHERNET_AND_OUTER) + whole
    assert sum(traffic.lengths().values()) > 100


@pytest.mark.parametrize("share", [0.5, 0.05])
def test_duplicates_are_what_was_asked_and_counted(lab: Lab, traffic: Traffic, share: float) -> None:
    count = 3000
    lab.impair(LINK, toward=TOWARD, duplicate=share)
    inner = traffic.packet(b"again")
    arrived = 0
    for _ in range(count // 50):
        for _ in range(50):
            traffic.send(inner, TRIMMABLE)
        arrived += len(traffic.arrived_unless_held())
    duplicated = direction(lab, LINK, TOWARD).duplicated_packets
    # Multicast listener reports of the kernel may cross the link and be duplicated meanwhile.
    assert 0 <= duplicated - (arrived - count) <= 12
    assert abs(arrived - count - count * share) < 5 * math.sqrt(count * share * (1 - share))


def test_both_of_a_duplicated_packet_wait_for_the_rate(lab: Lab, traffic: Traffic) -> None:
    rate = MEGABIT // 2
    lab.impair(LINK, toward=TOWARD, duplicate=1.0, rate_bps=rate, queue_bytes=50_000)
    inner = traffic.packet(bytes(PAYLOAD))
    began = time.monotonic()
    for _ in range(20):
        traffic.send(inner, NO_TRIM)
    meanwhile = (time.monotonic() - began) * rate / 8 / len(inner)
    arrived = len(traffic.arrived())
    counted = direction(lab, LINK, TOWARD)
    # The queue's eleven, and what went while the others were sent or by the burst.
    assert 11 <= arrived <= 11 + 5 + meanwhile
    # Multicast listener reports of the kernel may cross the link and be duplicated meanwhile.
    others = counted.duplicated_packets - 20
    assert 0 <= others <= 12
    assert 0 <= arrived + counted.queue_dropped_packets - 40 <= 2 * others


def test_corrupted_packets_arrive_changed_and_counted(lab: Lab, traffic: Traffic) -> None:
    count, share = 2000, 0.2
    lab.impair(LINK, toward=TOWARD, corrupt=share)
    inner = traffic.packet(bytes(300))
    changed = 0
    for _ in range(count // 50):
        for _ in range(50):
            traffic.send(inner, TRIMMABLE)
        changed += sum(each != inner for each in traffic.arrived_unless_held())
    assert direction(lab, LINK, TOWARD).corrupted_packets == changed
    assert abs(changed - count * share) < 5 * math.sqrt(count * share * (1 - share))


def test_tcp_passes_a_trimming_marking_corrupting_link_unharmed(lab: Lab) -> None:
    """It comes in segment-offloaded packets of up to 64 KiB."""
    rate = 50 * MEGABIT
    for link in lab.topology.fabric_links():
        lab.impair(
            link.name, rate_bps=rate, queue_bytes=150_000, ecn_at_bytes=50_000, trim_at_bytes=60_000, corrupt=0.5
        )
    content = os.urandom(2_000_000)
    listener = lab.inside("h1", lambda: socket.create_server((lab.addresses("h1")[0], 0), family=socket.AF_INET6))
    received = hashlib.sha256()

    def receive() -> None:
        connection, _ = listener.accept()
        with connection:
            while chunk := connection.recv(1 << 16):
                received.update(chunk)

    receiver = threading.Thread(target=receive, daemon=True)
    receiver.start()
    try:
        address = (lab.addresses("h1")[0], listener.getsockname()[1])
        began = time.monotonic()
        with lab.inside("h0", lambda: socket.create_connection(address, PATIENCE_S)) as sender:
            sender.sendall(content)
        receiver.join(PATIENCE_S)
        took = time.monotonic() - began
        ways = [way for link in lab.status().links for way in link.toward.values()]
    finally:
        listener.close()
        for link in lab.topology.fabric_links():
            lab.clear(link.name)
    assert received.digest() == hashlib.sha256(content).digest()
    assert took > len(content) * 8 / rate * 0.9
    assert sum(way.trimmed_packets + way.corrupted_packets for way in ways) == 0
    assert max(way.queue_high_water_bytes or 0 for way in ways) > 20_000
