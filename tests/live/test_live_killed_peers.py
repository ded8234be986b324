# SPDX-License-Identifier: BSD-2-Clause
"""A peer whose process is killed: the other end says so as soon as its connection ends, and the next attempt works."""

from __future__ import annotations

import json
import signal
import time

import pytest
from live_run import MIB, Running, Transfers, sha256
from programs import MRC

from mrc.lab import Lab

pytestmark = pytest.mark.root

# Documented is a second. A busy machine keeps processes waiting: what is told apart here are 12 s and more.
SOON_S = 6.0
LONG = 40 * MIB


@pytest.fixture(scope="module")
def lab(steady_lab: Lab) -> Lab:
    return steady_lab


def killed(running: Running) -> float:
    running.process.send_signal(signal.SIGKILL)
    running.process.wait()
    return time.monotonic()


def test_a_sender_whose_receiver_is_killed_says_so(transfers: Transfers) -> None:
    receiver = transfers.recv()
    file = transfers.file("file", LONG)
    stats = transfers.scratch / "stats"
    sender = transfers.send(receiver, [file], "--stats", stats)
    transfers.when_acked(stats, 0.02, sender)
    at = killed(receiver)
    ended = sender.end().failed()
    assert time.monotonic() - at < SOON_S
    assert "the receiver has ended" in ended.one_line


def test_the_same_send_again_works_at_once_after_a_sender_was_killed(transfers: Transfers) -> None:
    """Its names, and what it left, are free for the next attempt."""
    receiver = transfers.recv("-v")
    file = transfers.file("file", LONG)
    stats = transfers.scratch / "stats"
    sender = transfers.send(receiver, [file], "--stats", stats)
    transfers.when_acked(stats, 0.5, sender)
    at = killed(sender)
    assert receiver.process.stderr is not None
    while "the sender went away before it was done" not in (line := receiver.process.stderr.readline()):
        assert line, "the receiver has ended"
    assert time.monotonic() - at < SOON_S
    sent = transfers.send(receiver, [file], "--json").end().succeeded().document
    assert transfers.received() == {"file": sha256(file)}
    assert sent["skipped_bytes"] >= 16 * MIB, "what had arrived was kept"


@pytest.mark.parametrize(
    ("test", "least"),
    [(("write",), 4 * MIB), (("write", "--bidir"), 4 * MIB), (("write", "--reverse"), 0), (("latency",), 0)],
    ids=["forward", "both ways", "backwards", "pings"],
)
def test_a_benchmark_prints_what_it_measured_before_its_server_was_killed(
    lab: Lab, transfers: Transfers, test: tuple[str, ...], least: int
) -> None:
    server = transfers.start("h1", [*MRC, "bench", "serve"])
    assert server.process.stdout is not None
    ticket = server.process.stdout.readline().strip()
    client = transfers.start("h0", [*MRC, "bench", test[0], ticket, "--seconds", "600", "--json", *test[1:]])

    def sent() -> int:
        return int(lab.inside("h0", lambda: sum(int(line.split()[9]) for line in _devices() if "p0:" in line)))

    before = sent()
    while sent() < before + max(2 * least, MIB // 10):
        time.sleep(0.05)
    at = killed(server)
    ended = client.end()
    assert time.monotonic() - at < SOON_S
    assert ended.code == 1, ended
    assert "Traceback" not in ended.err
    found = json.loads(ended.out)
    result = found["directions"][0] if "--bidir" in test else found
    assert result["iterations"] * result["size_bytes"] > least
    assert result["interrupted"]


def _devices() -> list[str]:
    with open("/proc/thread-self/net/dev") as devices:
        return devices.read().splitlines()
