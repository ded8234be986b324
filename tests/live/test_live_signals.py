# SPDX-License-Identifier: BSD-2-Clause
"""Either end interrupted, terminated or killed at any moment: both end, one line each, nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from live_run import MIB, Ended, Transfers, sha256, stats_lines
from programs import MRC

import mrc
from mrc.lab import Lab

pytestmark = pytest.mark.root

# So long that this process may be kept waiting between one step and the next; none of them comes to its end.
SIZE = 8 * MIB


@pytest.fixture(scope="module")
def lab(slow_lab: Lab) -> Lab:
    return slow_lab


def interrupted(ended: Ended, number: int = signal.SIGINT) -> None:
    """Exit status 128 + signal, one line, no traceback."""
    ended.interrupted(number)
    assert ended.err.strip()
    assert len(ended.err.strip().splitlines()) == 1, ended.err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_sender_is_interrupted_under_way(transfers: Transfers, number: signal.Signals) -> None:
    file, stats = transfers.file("file", SIZE), transfers.scratch / "stats"
    receiver = transfers.recv("--once", "--idle-timeout", "600s")
    sender = transfers.send(receiver, [file], "--stats", stats)
    transfers.when_acked(stats, 0.02, sender)
    interrupted(sender.stop(number), number)
    received = receiver.end().failed()
    # A goodbye, not a timeout, ends the receiver.
    assert "went away" in received.one_line
    assert transfers.whole() == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_receiver_is_interrupted_under_way(transfers: Transfers, number: signal.Signals) -> None:
    file, stats = transfers.file("file", SIZE), transfers.scratch / "stats"
    receiver = transfers.recv("--once")
    sender = transfers.send(receiver, [file], "--stats", stats)
    transfers.when_acked(stats, 0.02, sender)
    interrupted(receiver.stop(number), number)
    sender.end().failed()
    assert transfers.whole() == []


def test_a_receiver_that_serves_many_fails_when_interrupted_in_a_transfer(transfers: Transfers) -> None:
    file, stats = transfers.file("file", SIZE), transfers.scratch / "stats"
    receiver = transfers.recv("--json")
    sender = transfers.send(receiver, [file], "--stats", stats)
    transfers.when_acked(stats, 0.02, sender)
    received = receiver.stop(signal.SIGINT)
    interrupted(received)
    assert received.document["sums_agree"] is False
    assert transfers.whole() == []


def test_a_waiting_receiver_is_interrupted(transfers: Transfers) -> None:
    receiver = transfers.recv("--once", "--json")
    ended = receiver.stop(signal.SIGINT)
    interrupted(ended)
    assert ended.document["sessions"] == 0
    # One that serves many is ended by hand only, and its status says by which.
    interrupted(transfers.recv().stop(signal.SIGTERM), signal.SIGTERM)


def before_our_first_line(ended: Ended) -> bool:
    """Whether a KeyboardInterrupt came while CPython looked for its libraries, or for us: no line of ours had run."""
    ours = str(Path(mrc.__file__).parent)
    return ended.code == 1 and "KeyboardInterrupt" in ended.err and ours not in ended.err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_sender_is_interrupted_at_any_moment_of_its_start(transfers: Transfers, number: signal.Signals) -> None:
    file = transfers.file("file", 4 * MIB)
    receiver = transfers.recv("--idle-timeout", "1s", "--overwrite")
    for delay_s in (0.1, 0.25, 0.4, 0.55):
        # A new interpreter, whose start it is about.
        sender = transfers.start("h0", [*MRC, "send", file, receiver.ticket], start=subprocess.Popen)
        time.sleep(delay_s)
        ended = sender.stop(number)
        # 0: it was done before. Killed by a signal: the interpreter had not come as far as our first line, or was in an
        # exec() of an import; after a KeyboardInterrupt there CPython ends by SIGINT, however it was handled, and with
        # an error of its own while it has not come to us.
        if ended.code not in (0, -number, -signal.SIGINT) and not before_our_first_line(ended):
            interrupted(ended, number)
    # Interrupted after the last byte it may be there, whole; in part never.
    assert transfers.received() in ({}, {"file": sha256(file)})


def test_the_sender_is_killed(transfers: Transfers) -> None:
    file, stats = transfers.file("file", SIZE), transfers.scratch / "stats"
    receiver = transfers.recv("--once", "--idle-timeout", "2s")
    sender = transfers.send(receiver, [file], "--stats", stats)
    transfers.when_acked(stats, 0.02, sender)
    sender.process.kill()
    received = receiver.end().failed()
    assert "nothing arrived" in received.one_line or "went away" in received.one_line
    assert transfers.whole() == []


@pytest.mark.parametrize("end", ["send", "recv"])
def test_an_interrupt_that_comes_inside_a_library_is_not_lost(transfers: Transfers, end: str) -> None:
    """Libraries drop errors of Python functions they call: an exception a signal raises there never comes out."""
    program = transfers.scratch / "interrupted.py"
    program.write_text(SIGNALS_ITSELF)
    file = transfers.file("file", SIZE)
    if end == "send":
        receiver = transfers.recv("--once", "--idle-timeout", "2s")
        sender = transfers.start("h0", [sys.executable, program, "send", file, receiver.ticket])
        interrupted(sender.end())
        receiver.end().failed()
    else:
        receiver = transfers.start("h1", [sys.executable, program, "recv", "--once", "--dir", transfers.directory])
        assert receiver.process.stdout is not None
        receiver.ticket = receiver.process.stdout.readline().strip()
        sender = transfers.send(receiver, [file])
        interrupted(receiver.end())
        sender.end().failed()
    assert transfers.whole() == []


# Sends itself SIGINT in a function that compiled code calls while packets are sent, and whose errors it drops; if
# there is none within a hundred looks of the loop's, after them.
SIGNALS_ITSELF = """
import os, signal, sys
from mrc.cli import main

looks = 0
called = ("PeerNode.on_requests", "EndpointOperations.receive", "EndpointOperations.transmit")

def profile(frame, event, argument):
    global looks
    looks += event == "return" and frame.f_code.co_qualname == "Driver._look_after"
    library = event == "call" and frame.f_code.co_qualname in called
    if looks > 100 or (looks > 2 and library):
        sys.setprofile(None)
        os.kill(os.getpid(), signal.SIGINT)

sys.setprofile(profile)
main()
"""


def test_the_receiver_is_killed(transfers: Transfers) -> None:
    file, stats = transfers.file("file", SIZE), transfers.scratch / "stats"
    receiver = transfers.recv("--once")
    sender = transfers.send(receiver, [file], "--stats", stats)
    transfers.when_acked(stats, 0.02, sender)
    acked = stats_lines(stats)[-1]["bytes_acked"]
    assert 0 < acked < SIZE
    receiver.process.kill()
    sender.end().failed()
    # A file without a name is gone with its process.
    assert os.listdir(transfers.directory) == []
