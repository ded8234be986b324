# SPDX-License-Identifier: BSD-2-Clause
"""Both ends at one address of one machine: every counter is of what its own end did."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import programs
import pytest
from loopback import Inside, needs_root, own_loopback
from patience import PATIENCE_S
from programs import MRC

pytestmark = needs_root
SIZE = 3_000_000


@pytest.fixture
def inside() -> Iterator[Inside]:
    with own_loopback([]) as found:
        yield found


def both(inside: Inside, receive: list[str], send: list[str]) -> list[dict[str, Any]]:
    """What each end prints as JSON. In `send` the ticket takes the place of TICKET."""
    ends: list[subprocess.Popen[str]] = []

    def start(command: list[str]) -> subprocess.Popen[str]:
        options = ["--mode", "udp", "--bind", "127.0.0.1", "--json"]
        inside(lambda: ends.append(programs.start([*MRC, *command, *options], stdout=subprocess.PIPE, text=True)))
        return ends[-1]

    try:
        receiver = start(receive)
        assert receiver.stdout is not None
        ticket = receiver.stdout.readline().strip()
        sent = start([ticket if word == "TICKET" else word for word in send]).communicate(timeout=PATIENCE_S)[0]
        receiver.send_signal(signal.SIGINT)
        return [json.loads(sent), json.loads(receiver.communicate(timeout=PATIENCE_S)[0])]
    finally:
        for each in ends:
            each.kill()
            each.communicate()


def check(sent: dict[str, int], received: dict[str, int]) -> None:
    for ours, theirs in ((sent, received), (received, sent)):
        assert "unexpected_endpoint_response" not in ours
        assert ours.get("ev_probes_answered", 0) <= theirs["ev_probes_sent"]
    assert sent["data_bytes_sent"] >= received["bytes_placed"] == SIZE


def test_of_a_transfer(inside: Inside, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(os.urandom(SIZE))
    arrived = tmp_path / "arrived"
    arrived.mkdir()
    ends = both(inside, ["recv", "--dir", str(arrived)], ["send", str(tmp_path / "file"), "TICKET"])
    sent, received = (each["counters"] for each in ends)
    assert sent["ev_probes_sent"] > 0
    check(sent, received)


def test_of_a_measurement(inside: Inside) -> None:
    write = ["bench", "write", "TICKET", "--size", str(SIZE), "--packets", "1"]
    client, server = both(inside, ["bench", "serve"], write)
    (session,) = server["sessions"]
    (measured,) = session["measurements"]
    assert client["counters"]["data_bytes_sent"] >= measured["counters"]["bytes_placed"] == measured["bytes"] == SIZE
    for each in (client["counters"], measured["counters"]):
        assert "unexpected_endpoint_response" not in each
