# SPDX-License-Identifier: BSD-2-Clause
"""`mrc bench` as far as it goes without a fabric: usage, help, tickets. The rest: test_bench_lab, tests/live."""

from __future__ import annotations

import os
import subprocess

import programs
import pytest
from patience import PATIENCE_S
from programs import MRC

from mrc.net.ticket import Ticket

# A good one, of nobody.
TICKET = Ticket(("::1",), 9, bytes(32), bytes(16)).text


def mrc(*argv: str) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if key != "MRC_FABRIC"}
    return programs.run(
        [*MRC, *argv],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env=environment,
        check=False,
    )


@pytest.mark.parametrize("command", ["serve", "write", "write-imm", "latency", "lab"])
def test_help_has_examples(command: str) -> None:
    ended = mrc("bench", command, "--help")
    assert ended.returncode == 0
    assert f"mrc bench {command}" in ended.stdout.partition("Examples:")[2]


@pytest.mark.parametrize(
    "argv",
    [
        ["write"],
        ["read", TICKET],
        ["write", TICKET, "--size", "much"],
        ["write", TICKET, "--size", "0"],
        ["write", TICKET, "--size", "2GiB"],
        ["write", TICKET, "--seconds", "0"],
        ["write", TICKET, "--seconds", "soon"],
        ["write", TICKET, "--qps", "0"],
        ["write", TICKET, "--qps", "257"],
        ["write", TICKET, "--depth", "0"],
        ["write", TICKET, "--idle-qps", "-1"],
        ["write", TICKET, "--mtu", "1500"],
        ["latency", TICKET, "--size", "1"],
        ["latency", TICKET, "--qps", "2"],
        ["write", TICKET, "--sweep", "--size", "64"],
        ["latency", TICKET, "--sweep", "--size", "2"],
        ["serve", "--qps", "2"],
        ["lab", "--baseline", "udp,quic"],
        ["lab", "--latency", "--baseline", "tcp"],
        ["lab", "--compare", "qps"],
        ["lab", "--compare", "colour=red"],
        ["lab", "--compare", "qps=0"],
        ["lab", "--compare", "loss=1"],
        ["lab", "--latency", "--qps", "4"],
        ["lab", "--latency", "--depth", "4"],
        ["lab", "--latency", "--compare", "mtu=1024,qps=4"],
        ["lab", "--latency", "--compare", "depth=4"],
        ["lab", "--rounds", "0"],
        ["lab", "--seconds", "0"],
        ["lab", "--mtu", "9000"],
        ["lab", "--loss", "101%"],
    ],
    ids=lambda argv: " ".join(word if word != TICKET else "TICKET" for word in argv),
)
def test_usage_errors_end_with_2(argv: list[str]) -> None:
    ended = mrc("bench", *argv)
    assert ended.returncode == 2, ended
    assert ended.stdout == ""
    assert "Usage:" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_bad_ticket_is_one_line() -> None:
    ended = mrc("bench", "write", "garbage")
    assert ended.returncode == 1
    assert len(ended.stderr.splitlines()) == 1
    assert "not a ticket" in ended.stderr
