# SPDX-License-Identifier: BSD-2-Clause
"""Delays by the kernel's netem: what it is asked for, what is read back, and, where the kernel has it, that they hold.

`tools/in-debian-kernel` runs the second half in a kernel that has it.
"""

from __future__ import annotations

import os
import re
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Iterator

import pytest
from patience import PATIENCE_S

from mrc import netlink
from mrc.fabric import Impairment
from mrc.lab import Lab
from mrc.lab.impairment import netem
from mrc.lab.impairment import traffic_control as tc
from mrc.lab.impairment.delay import DelayFound

LINK, SENDER, TOWARD = "h0-p0l0", "h0", "p0l0"
MS = 1_000_000
SO_RCVBUFFORCE = 33
PORT = 4243
REQUIRED = "MRC_TEST_NETEM"
PACKETS = 200


@pytest.mark.parametrize(
    ("fields", "by_kernel"),
    [
        ({}, False),
        ({"delay_ns": 1}, True),
        ({"delay_ns": 10_000 * MS, "rate_bps": 10**9, "loss": 0.1}, True),
        # Its jitter would let packets overtake others, and which ones is no share that one may name.
        ({"delay_ns": MS, "jitter_ns": 2000}, False),
        ({"delay_ns": MS, "jitter_ns": 2000, "reorder": 0.999999}, False),
        ({"delay_ns": MS, "jitter_ns": 2000, "reorder": 1.0}, True),
        ({"jitter_ns": 2000, "reorder": 1.0}, True),
        # Half of it is drawn on each side, by a number of 32 bits.
        ({"jitter_ns": 2001, "reorder": 1.0}, False),
        ({"jitter_ns": 2**31 - 2, "reorder": 1.0}, True),
        ({"jitter_ns": 2**31, "reorder": 1.0}, False),
    ],
)
def test_what_the_kernel_is_asked_to_delay(fields: dict[str, float], by_kernel: bool) -> None:
    assert netem.suits(Impairment(**fields)) is by_kernel  # type: ignore[arg-type]


def as_found(options: bytes, dropped: int) -> tc.Discipline:
    """As the kernel answers (rtnetlink.h: struct tcmsg; pkt_sched.h: struct tc_netem_qopt, gnet_stats_queue)."""
    body = struct.pack("=BxxxiIII", 0, 7, 0x4D510000, 0xFFFFFFFF, 2)
    body += netlink.attribute(1, b"netem\0") + netlink.attribute(2, options)
    body += netlink.attribute(7, netlink.attribute(3, struct.pack("=IIIII", 0, 0, dropped, 0, 0)))
    return tc.parse_discipline(netlink.message(36, 0, body))


@pytest.mark.parametrize(
    ("wanted", "latency", "jitter"),
    [(Impairment(delay_ns=5 * MS), 5 * MS, 0), (Impairment(delay_ns=MS, jitter_ns=400, reorder=1.0), MS + 200, 200)],
)
def test_what_was_asked_is_what_is_read(wanted: Impairment, latency: int, jitter: int) -> None:
    """Uniform between latency - jitter and latency + jitter (tc-netem(8)) is between the delay and its jitter above."""
    asked = netlink.attributes(netem.discipline(7, wanted, new=True).data, netlink.HEADER.size + 20)
    said = netlink.attributes(asked[2], 24)
    assert asked[1] == b"netem\0"
    assert (struct.unpack("=q", said[10]), struct.unpack("=q", said[11])) == ((latency,), (jitter,))
    assert netem.found(as_found(asked[2], 3), None) == DelayFound(
        {"delay_ns": wanted.delay_ns, "jitter_ns": wanted.jitter_ns, "reorder": wanted.reorder}, 3
    )


def test_what_the_queue_below_dropped_is_no_drop_of_the_delay() -> None:
    held = as_found(netlink.attributes(netem.discipline(7, Impairment(delay_ns=1), new=True).data, 36)[2], 5)
    below = tc.Discipline(7, 0x4D520000, netem.BELOW, "tbf", 4, 0, 10**9, 1)
    assert netem.found(held, below).dropped_packets == 1
    assert netem.found(held, None).dropped_packets == 5


# ------------------------------------------------------------------ where the kernel has it


@pytest.fixture
def held(lab: Lab) -> Iterator[Lab]:
    """The fabric, if the kernel delays packets by itself."""
    lab.impair(LINK, delay_ns=MS, toward=TOWARD)
    if "netem" not in disciplines(lab):
        lab.clear(LINK)
        # Where these tests are run for netem's sake, nothing may be skipped.
        (pytest.fail if os.environ.get(REQUIRED) else pytest.skip)(
            "this kernel has no netem: see tools/in-debian-kernel"
        )
    yield lab
    lab.clear(LINK)
    assert disciplines(lab) == []


def disciplines(lab: Lab) -> list[str]:
    """What queues what leaves the host, in the words of iproute2's tc."""
    with lab.popen(SENDER, ["tc", "qdisc", "show"], stdout=subprocess.PIPE, text=True) as program:
        said, _ = program.communicate(timeout=PATIENCE_S)
    return re.findall(r"^qdisc (netem|tbf|htb)", said, re.MULTILINE)


def exchanged(lab: Lab, every_s: float = 0.0, octets: int = 16) -> tuple[list[int], list[float], float]:
    """Numbered datagrams from h0 to h1: the numbers in the order in which they came, how long each took, and all."""
    receiver = lab.inside("h1", lambda: socket.socket(socket.AF_INET6, socket.SOCK_DGRAM))
    sender = lab.inside("h0", lambda: socket.socket(socket.AF_INET6, socket.SOCK_DGRAM))
    sent, numbers, took = [], [], []
    with receiver, sender:
        receiver.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 24)
        receiver.bind((lab.addresses("h1")[0], PORT))
        receiver.settimeout(PATIENCE_S)
        for number in range(PACKETS):
            sent.append(time.monotonic())
            sender.sendto(number.to_bytes(octets, "big"), (lab.addresses("h1")[0], PORT))
            time.sleep(every_s)
        for _ in range(PACKETS):
            number = int.from_bytes(receiver.recv(1 << 16), "big")
            numbers.append(number)
            took.append(time.monotonic() - sent[number])
    return numbers, took, time.monotonic() - sent[0]


@pytest.mark.root
def test_nothing_comes_before_its_time_and_nothing_is_lost(held: Lab) -> None:
    held.impair(LINK, delay_ns=30 * MS, toward=TOWARD)
    numbers, took, _ = exchanged(held)
    # On several cores the kernel may let one overtake another that was sent just before it.
    assert sorted(numbers) == list(range(PACKETS))
    assert min(took) >= 0.03
    assert held.impairment(LINK, TOWARD) == Impairment(delay_ns=30 * MS)
    assert held.impairment(LINK, SENDER).is_off
    status = next(each for each in held.status().links if each.name == LINK).toward[TOWARD]
    assert (status.delay_ns, status.delay_dropped_packets) == (30 * MS, 0)
    assert held.processes() == []


@pytest.mark.root
def test_a_jitter_that_all_may_take_lets_them_overtake(held: Lab) -> None:
    wanted = Impairment(delay_ns=10 * MS, jitter_ns=200 * MS, reorder=1.0)
    held.impair(LINK, delay_ns=10 * MS, jitter_ns=200 * MS, reorder=1.0, toward=TOWARD)
    assert held.impairment(LINK, TOWARD) == wanted
    assert disciplines(held) == ["netem"]
    numbers, took, _ = exchanged(held, every_s=0.0005)
    assert sorted(numbers) == list(range(PACKETS)) != numbers
    assert min(took) >= 0.01


@pytest.mark.root
def test_a_rate_below_a_delay_comes_and_goes(held: Lab) -> None:
    """In any order, and each is read back beside the other."""
    held.impair(LINK, rate_bps=10**8, queue_bytes=10**6, toward=TOWARD)
    assert "tbf" in disciplines(held)
    assert held.impairment(LINK, TOWARD) == Impairment(delay_ns=MS, rate_bps=10**8, queue_bytes=10**6)
    held.impair(LINK, delay_ns=0, toward=TOWARD)
    assert "netem" not in disciplines(held)
    assert held.impairment(LINK, TOWARD) == Impairment(rate_bps=10**8, queue_bytes=10**6)
    held.impair(LINK, delay_ns=20 * MS, toward=TOWARD)
    assert held.impairment(LINK, TOWARD) == Impairment(delay_ns=20 * MS, rate_bps=10**8, queue_bytes=10**6)
    # 200 frames of more than 1 KiB take 16 ms at this rate, but for a burst of one, when their time has come.
    numbers, took, lasted = exchanged(held, octets=1024)
    assert sorted(numbers) == list(range(PACKETS))
    assert min(took) >= 0.02
    assert lasted >= 0.02 + 0.016 - 0.001
    held.impair(LINK, rate_bps=0, toward=TOWARD)
    assert disciplines(held) == ["netem"]
    assert held.impairment(LINK, TOWARD) == Impairment(delay_ns=20 * MS)


@pytest.mark.root
def test_what_the_kernel_cannot_do_goes_to_the_relay_and_back(held: Lab) -> None:
    held.impair(LINK, jitter_ns=2 * MS, toward=TOWARD)
    assert disciplines(held) == []
    assert held.impairment(LINK, TOWARD) == Impairment(delay_ns=MS, jitter_ns=2 * MS)
    assert exchanged(held)[0] == list(range(PACKETS))
    held.impair(LINK, jitter_ns=0, toward=TOWARD)
    assert disciplines(held) == ["netem"]
    assert held.impairment(LINK, TOWARD) == Impairment(delay_ns=MS)


@pytest.mark.root
def test_a_lab_is_built_as_it_is_described(held: Lab, lab_name: Callable[[str], str]) -> None:
    from mrc.fabric import Clos
    from mrc.fabric.description import Description

    described = Description(Clos(planes=1, spines=1), {("h0-p0l0", "p0l0"): Impairment(delay_ns=5 * MS)})
    with Lab.up(lab_name("described"), described) as built:
        assert built.differences() == ()
        assert disciplines(built) == ["netem"]
