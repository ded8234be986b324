# SPDX-License-Identifier: BSD-2-Clause
"""Drawn trouble under a transfer: stops, kills, floods, limits and link events, one or two at a time.

Each draw ends in one of two ways. The sender reports success, and the bytes at the receiver are right. Or it fails with
one line within the time that it may take, and the same command again, with everything in order, brings the bytes.

MRC_SURVIVAL_DRAWS says how many are drawn (docs/contributing/testing.md), MRC_SURVIVAL_SEED with which seed.
"""

from __future__ import annotations

import os
import random
import resource
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from live_run import MIB, Running, Transfers, missing, sha256
from patience import PATIENCE_S

from mrc.fabric import Clos, Description, Impairment
from mrc.lab import Lab

pytestmark = pytest.mark.root

DRAWS = int(os.environ.get("MRC_SURVIVAL_DRAWS", "12"))
SEED = os.environ.get("MRC_SURVIVAL_SEED", "1")
RATE_BPS = 150_000_000  # of a host's port; 8 MiB take a quarter of a second over two of them
LONGEST_STOP_S = 6.0
IDLE_S = 8.0
# A peer that is silent is given up after 18 s; the rest is what a busy machine adds to stops, retries and starts.
FAILS_WITHIN_S = PATIENCE_S
UDP_IN_IPV6, MRC_PORT = 41, 4791


@pytest.fixture(scope="module")
def world() -> Iterator[Lab]:
    if os.geteuid() != 0 or shutil.which("ip") is None:
        missing("root and the program ip")
    slow = Impairment(rate_bps=RATE_BPS)
    impairments = {(f"h0-p{plane}l0", f"p{plane}l0"): slow for plane in range(2)}
    with Lab.up(f"survival-{os.getpid()}", Description(Clos(planes=2, spines=2), impairments)) as lab:
        yield lab


class Trouble:
    """What befalls one transfer. Each kind returns once it is over, so that what follows finds everything in order."""

    def __init__(
        self, lab: Lab, transfers: Transfers, sender: Running, receiver: Running, chance: random.Random
    ) -> None:
        self.lab = lab
        self.transfers = transfers
        self.sender = sender
        self.receiver = receiver
        self.chance = chance
        # One after another: a port that is gone can be neither deleted nor healed, and the lab is one hand's work.
        self.links = threading.Lock()

    def stop(self, which: Running) -> None:
        which.process.send_signal(signal.SIGSTOP)
        time.sleep(self.chance.uniform(0.05, LONGEST_STOP_S))
        which.process.send_signal(signal.SIGCONT)

    def stop_sender(self) -> None:
        self.stop(self.sender)

    def stop_receiver(self) -> None:
        self.stop(self.receiver)

    def kill_sender(self) -> None:
        self.kill(self.sender)

    def kill_receiver(self) -> None:
        self.kill(self.receiver)

    def kill(self, which: Running) -> None:
        which.process.kill()
        # A process that is killed still lives for a moment.
        which.process.wait(PATIENCE_S)

    def cut(self) -> None:
        cable = self.chance.choice(self.lab.topology.links).name
        with self.links:
            self.lab.cut(cable)
            time.sleep(self.chance.uniform(0.0, 3.0))
            self.lab.heal(cable)

    def lose_a_port(self) -> None:
        plane = self.chance.randrange(2)
        self._lose([plane], f"h0-p{plane}l0")

    def lose_both_ports(self) -> None:
        self._lose([0, 1], "h0")

    def _lose(self, planes: list[int], healed: str) -> None:
        with self.links:
            for plane in planes:
                subprocess.run(["ip", "-n", f"{self.lab.name}-h0", "link", "del", f"p{plane}"], check=True)
            time.sleep(self.chance.uniform(0.0, 2.0))
            self.lab.heal(healed)

    def flood(self) -> None:
        """Packets that are nobody's, as fast as one process sends them, to the addresses of the receiver."""
        packets = [self.chance.randbytes(self.chance.randrange(1, 200)) for _ in range(64)]

        def send() -> None:
            over = time.monotonic() + self.chance.uniform(0.2, 1.0)
            with (
                socket.socket(socket.AF_INET6, socket.SOCK_RAW, UDP_IN_IPV6) as raw,
                socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as datagrams,
            ):
                for address in self.lab.addresses("h1"):
                    while time.monotonic() < over:
                        for packet in packets:
                            try:
                                raw.sendto(packet, (address, 0))
                                datagrams.sendto(packet, (address, MRC_PORT))
                            except OSError:
                                time.sleep(0.001)  # its queue is full

        self.lab.inside("h0", send)

    def strangers(self) -> None:
        """Connections to the receiver's exchange that say nothing, or nonsense."""
        port = int(self._ticket_port())

        def connect() -> None:
            held = []
            for _ in range(self.chance.randrange(10, 100)):
                try:
                    held.append(socket.create_connection((self.lab.addresses("h1")[0], port), 1.0))
                    if self.chance.random() < 0.5:
                        held[-1].sendall(self.chance.randbytes(50))
                except OSError:
                    break
            time.sleep(self.chance.uniform(0.0, 1.0))
            for each in held:
                each.close()

        self.lab.inside("h0", connect)

    def _ticket_port(self) -> int:
        from live_run import ticket_of

        return ticket_of(self.receiver).port

    def few_descriptors(self) -> None:
        """The receiver may open no more files and connections for a while."""
        process = self.receiver.process.pid
        if self.receiver.process.poll() is not None:
            return
        before = resource.prlimit(process, resource.RLIMIT_NOFILE)
        there = len(os.listdir(f"/proc/{process}/fd"))
        resource.prlimit(process, resource.RLIMIT_NOFILE, (there, before[1]))
        time.sleep(self.chance.uniform(0.1, 2.0))
        if self.receiver.process.poll() is None:
            resource.prlimit(process, resource.RLIMIT_NOFILE, before)

    def kinds(self) -> list[Callable[[], None]]:
        return [
            self.stop_sender,
            self.stop_receiver,
            self.kill_sender,
            self.kill_receiver,
            self.cut,
            self.lose_a_port,
            self.lose_both_ports,
            self.flood,
            self.strangers,
            self.few_descriptors,
        ]


@pytest.mark.parametrize("number", range(DRAWS))
def test_the_bytes_are_right_or_the_failure_is_said_in_time(world: Lab, tmp_path: Path, number: int) -> None:
    chance = random.Random(f"{SEED} {number}")
    transfers = Transfers(world, tmp_path)
    try:
        _one(world, transfers, chance, number)
    finally:
        transfers.close()
        world.heal("h0", "h1", *(link.name for link in world.topology.links))
    assert world.differences() == ()
    assert not world.processes()


def _one(world: Lab, transfers: Transfers, chance: random.Random, number: int) -> None:
    file = transfers.file("file", chance.choice((1, 100_000, 8 * MIB, 24 * MIB, 48 * MIB)))
    receiver = transfers.recv("--idle-timeout", f"{IDLE_S:.0f}s")
    sender = transfers.send(receiver, [file], "--json")
    trouble = Trouble(world, transfers, sender, receiver, chance)
    kinds = trouble.kinds()
    # Every kind in turn, with another drawn one in half of the draws.
    drawn = [kinds[number % len(kinds)], *([chance.choice(kinds)] if chance.random() < 0.5 else [])]
    print("drawn:", file.stat().st_size, [each.__name__ for each in drawn])
    threads = []
    for each in drawn:
        # From the very beginning on: the process starts, finds its ports, connects, sends.
        threads.append(threading.Timer(chance.uniform(0.0, 1.2), each))
        threads[-1].start()
    for thread in threads:
        thread.join(PATIENCE_S)
        assert not thread.is_alive()
    ended = sender.end(FAILS_WITHIN_S)
    ended.no_traceback()
    if ended.code == 0:
        assert ended.document["sums_agree"] is True
        assert transfers.received()["file"] == sha256(file)
        return
    if trouble.kill_sender not in drawn:
        ended.failed()
        # A receiver that is killed may have named the file, and not have said so.
        assert "file" not in transfers.whole() or trouble.kill_receiver in drawn
    if receiver.process.poll() is not None:
        assert trouble.kill_receiver in drawn, receiver.end()
        receiver = transfers.recv("--idle-timeout", f"{IDLE_S:.0f}s")
    _again(transfers, receiver, file)


def _again(transfers: Transfers, receiver: Running, file: Path) -> None:
    """The same command again, at the latest once the receiver has given up on the one before."""
    by = time.monotonic() + PATIENCE_S
    while True:
        ended = transfers.send(receiver, [file], "--json").end(FAILS_WITHIN_S)
        if ended.code == 0:
            break
        ended.failed()
        assert "is being received already" in ended.err, ended.err
        assert time.monotonic() < by, ended.err
        time.sleep(1)
    assert transfers.received()["file"] == sha256(file)
