# SPDX-License-Identifier: BSD-2-Clause
"""Delays that are really there, by relays where the kernel has no netem.

`ping` measures them, packets come in order or not, and nothing is left afterwards.
"""

from __future__ import annotations

import math
import os
import re
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import programs
import pytest
from patience import PATIENCE_S, eventually
from programs import MRC

from mrc.errors import CallerError
from mrc.fabric import Clos, Impairment
from mrc.fabric.description import Description
from mrc.lab import Lab
from mrc.lab.impairment.relay import HELD_BIT, Relay
from mrc.lab.status import DirectionStatus

LINK = "h0-p0l0"
PORT = 4242
PACKETS = 2000
TAP_FRAMES = 20_000
# What the kernel itself may send meanwhile: neighbours, multicast listeners.
OTHER_FRAMES = 20
SO_RCVBUFFORCE = 33
MAC = bytes.fromhex("020000000001")
HELD_MAC = bytes([MAC[0] ^ HELD_BIT]) + MAC[1:]
FRAME_BYTES = 1000


@pytest.fixture
def delayed(lab: Lab) -> Iterator[Lab]:
    yield lab
    lab.clear(LINK)


def toward(lab: Lab, node: str) -> DirectionStatus:
    return next(each for each in lab.status().links if each.name == LINK).toward[node]


def numbers_that_arrive(lab: Lab, count: int = PACKETS) -> list[int]:
    """Send numbered datagrams from h0 to h1, all at once; the numbers in the order in which they arrive."""
    receiver = lab.inside("h1", lambda: socket.socket(socket.AF_INET6, socket.SOCK_DGRAM))
    sender = lab.inside("h0", lambda: socket.socket(socket.AF_INET6, socket.SOCK_DGRAM))
    with receiver, sender:
        receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 24)
        receiver.bind((lab.addresses("h1")[0], PORT))
        receiver.settimeout(PATIENCE_S)
        for number in range(count):
            sender.sendto(number.to_bytes(4, "big"), (lab.addresses("h1")[0], PORT))
            if number % 50 == 49:
                time.sleep(0.001)
        return [int.from_bytes(receiver.recv(16), "big") for _ in range(count)]


def relays() -> list[int]:
    """The process ids of the relays of these tests' labs."""
    found = []
    for entry in filter(str.isdecimal, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/cmdline", "rb") as file:
                if f"test-{os.getpid()}-".encode() in (said := file.read()) and b"relay.py" in said:
                    found.append(int(entry))
        except OSError:
            continue
    return found


@pytest.mark.root
def test_ping_measures_the_delay(delayed: Lab, need_program: Callable[[str], str]) -> None:
    """20 ms each way: no echo before 40 ms, and none is lost."""
    delayed.impair(LINK, delay_ns=20_000_000)
    ping = [need_program("ping"), "-6", "-c", "10", "-i", "0.01", "-w", "30", delayed.addresses("h1")[0]]
    with delayed.popen("h0", ping, stdout=subprocess.PIPE, text=True) as program:
        said, _ = program.communicate(timeout=PATIENCE_S)
    took = [float(each) for each in re.findall(r"time=([\d.]+) ms", said)]
    assert len(took) == 10
    assert min(took) >= 40
    assert delayed.processes() == []


@pytest.mark.root
@pytest.mark.parametrize("jitter_ns", [1, 3_000_000])
def test_nothing_is_lost_and_the_order_is_kept(delayed: Lab, jitter_ns: int) -> None:
    delayed.impair(LINK, delay_ns=1_000_000, jitter_ns=jitter_ns, toward="p0l0")
    assert numbers_that_arrive(delayed) == list(range(PACKETS))


@pytest.mark.root
def test_the_share_asked_for_is_overtaken(delayed: Lab) -> None:
    """A packet is overtaken when a later one comes before it. The jitter is far longer than the packets' distances."""
    share = 0.05
    delayed.impair(LINK, delay_ns=1_000_000, jitter_ns=2_000_000_000, reorder=share, toward="p0l0")
    arrived = numbers_that_arrive(delayed)
    assert sorted(arrived) == list(range(PACKETS))
    highest, overtaken = -1, 0
    for number in arrived:
        overtaken += number < highest
        highest = max(highest, number)
    assert abs(overtaken - PACKETS * share) < 5 * math.sqrt(PACKETS * share * (1 - share)) + 5


@pytest.mark.root
def test_with_other_impairments_and_read_back(delayed: Lab) -> None:
    """A delayed packet still meets the rate, the program and the loss of its link."""
    delayed.impair(LINK, 0.25, "p0l0", delay_ns=1_000_000, rate_bps=10**9, duplicate=1.0)
    assert delayed.impairment(LINK, "p0l0") == Impairment(loss=0.25, delay_ns=1_000_000, rate_bps=10**9, duplicate=1.0)
    delayed.impair(LINK, 0.0, "p0l0", delay_ns=2_000_000)
    before = toward(delayed, "p0l0")
    numbers_that_arrive(delayed, 100)
    now = toward(delayed, "p0l0")
    assert (now.delay_ns, now.jitter_ns, now.reorder_percent) == (2_000_000, 0, 0.0)
    # The last copies may be under way still.
    eventually(lambda: toward(delayed, "p0l0").duplicated_packets - before.duplicated_packets >= 100)
    assert toward(delayed, "h0").impairment.is_off
    delayed.impair(LINK, delay_ns=0, toward="p0l0")
    assert delayed.impairment(LINK, "p0l0") == Impairment(rate_bps=10**9, duplicate=1.0)


@pytest.mark.root
def test_what_a_relay_has_no_room_for_is_counted(delayed: Lab) -> None:
    """A relay that stands still fills its tap; what finds it full is lost and counted, the rest arrives."""
    delayed.impair(LINK, delay_ns=1_000_000, jitter_ns=1, toward="p0l0")
    (relay,) = relays()
    excess = 500
    sent = TAP_FRAMES + excess
    receiver = delayed.inside("h1", lambda: socket.socket(socket.AF_INET6, socket.SOCK_DGRAM))
    sender = delayed.inside("h0", lambda: socket.socket(socket.AF_INET6, socket.SOCK_DGRAM))
    with receiver, sender:
        receiver.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 26)
        receiver.bind((delayed.addresses("h1")[0], PORT))
        receiver.settimeout(PATIENCE_S)
        os.kill(relay, signal.SIGSTOP)
        try:
            for _ in range(sent):
                sender.sendto(b"", (delayed.addresses("h1")[0], PORT))
            counted = toward(delayed, "p0l0").delay_dropped_packets
        finally:
            os.kill(relay, signal.SIGCONT)
        assert excess <= counted <= excess + OTHER_FRAMES
        for _ in range(sent - counted):
            receiver.recv(16)
    assert toward(delayed, "h0").delay_dropped_packets == 0
    argv = [*MRC, "lab", "status", "--name", delayed.name, LINK]
    said = programs.run(argv, capture_output=True, text=True, timeout=PATIENCE_S, check=True).stdout
    assert "no room" in said
    assert str(counted) in said


class Held:
    """A relay between two sockets that stand for the tap and the interface, in a thread of this process."""

    def __init__(self, lab_file: Path, most_bytes: int, delay_ns: int) -> None:
        self.tap, inner = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        outer, self.interface = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control, control = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._shell, self._end = os.pipe()
        for each in (inner, outer):
            each.setblocking(False)
        self._sockets = [self.tap, inner, outer, self.interface, self._control, control]
        relay = Relay(inner.fileno(), outer, control, MAC, "", most_bytes)
        relay.set(delay_ns, 0, 0.0)
        self._thread = threading.Thread(target=relay.run, args=(str(lab_file), self._shell))

    def __enter__(self) -> Held:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        os.write(self._end, b"x")
        self._thread.join(PATIENCE_S)
        for each in self._sockets:
            each.close()
        os.close(self._shell)
        os.close(self._end)

    def put(self, number: int) -> None:
        self.tap.send(frame(number, MAC))


def frame(number: int, mac: bytes) -> bytes:
    return bytes(6) + mac + number.to_bytes(4, "big") + bytes(FRAME_BYTES - 16)


def test_a_relay_that_holds_all_it_may_leaves_the_rest_in_the_tap(tmp_path: Path) -> None:
    """The tap is full while the first frames are held, and every frame that it took is sent, in order."""
    (tmp_path / "lab").touch()
    with Held(tmp_path / "lab", 4 * FRAME_BYTES, 200_000_000) as held:
        held.tap.setblocking(False)
        began = time.monotonic()
        taken = 0
        with suppress(BlockingIOError):
            while time.monotonic() - began < PATIENCE_S:
                held.put(taken)
                taken += 1
        assert taken >= 12
        held.interface.settimeout(PATIENCE_S)
        for number in range(12):
            assert held.interface.recv(1 << 16) == frame(number, HELD_MAC)
        # Four by four, each four as late as asked for.
        assert time.monotonic() - began >= 3 * 0.2


def test_a_relay_waits_for_an_interface_that_takes_no_more(tmp_path: Path) -> None:
    (tmp_path / "lab").touch()
    with Held(tmp_path / "lab", 1 << 30, 0) as held:
        held.tap.settimeout(PATIENCE_S)
        count = 2000  # more than the socket that stands for the interface takes at once
        for number in range(count):
            held.put(number)
        time.sleep(0.1)
        held.interface.settimeout(PATIENCE_S)
        assert [held.interface.recv(1 << 16) for _ in range(count)] == [frame(each, HELD_MAC) for each in range(count)]


@pytest.mark.root
def test_nothing_is_left(lab_name: Callable[[str], str]) -> None:
    """Relays end with `clear` and with the lab, also where it was described with a delay and its builder is gone."""
    name = lab_name("delay-down")
    shape = Clos(planes=1, spines=1)
    described = Description(shape, {("p0l0-p0s0", "p0s0"): Impairment(delay_ns=5_000_000, jitter_ns=1)})
    with Lab.up(name, described) as lab:
        assert lab.differences() == ()
        lab.impair(LINK, delay_ns=1_000_000, jitter_ns=1)
        assert len(relays()) == 3
        lab.clear(LINK)
        deadline = time.monotonic() + PATIENCE_S
        while len(relays()) > 1 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert len(relays()) == 1
    assert relays() == []


@pytest.mark.root
def test_a_fast_fabric_leaves_delayed_ports_to_the_kernel(lab_name: Callable[[str], str]) -> None:
    with Lab.up(lab_name("delay-fast"), Clos(planes=1, spines=1), fast=True) as lab:
        lab.impair("p0l0-p0s0", delay_ns=1_000_000)
        assert numbers_that_arrive(lab, 100) == list(range(100))


@pytest.mark.root
def test_the_command(delayed: Lab) -> None:
    argv = [*MRC, "lab", "impair", "--name", delayed.name, LINK, "--toward", "p0l0"]
    options = ["--delay", "1ms", "--jitter", "200us", "--reorder", "5%"]
    said = programs.run([*argv, *options], capture_output=True, text=True, timeout=PATIENCE_S, check=True).stdout
    assert said == "h0-p0l0 toward p0l0: 1ms and up to 200us later, 5% overtaken\n"


def test_refusals() -> None:
    with pytest.raises(CallerError, match="reorder needs a jitter_ns"):
        Impairment().changed(delay_ns=1_000_000, reorder=0.05)
    with pytest.raises(CallerError, match="delay_ns must be 0"):
        Impairment(delay_ns=11 * 10**9)
    assert Impairment(jitter_ns=5, reorder=0.5).changed(jitter_ns=0).is_off
