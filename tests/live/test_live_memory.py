# SPDX-License-Identifier: BSD-2-Clause
"""Memory of `mrc bench serve`: what thousands of QPs took goes back to the system when their client has gone."""

from __future__ import annotations

import contextlib
import re
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import programs
import pytest
from loopback import Inside, needs_root, own_loopback
from patience import PATIENCE_S, eventually
from programs import MRC

from mrc.net.hosts import host_fabric
from mrc.net.negotiation import PortDescription, QpDescription
from mrc.net.node import Node

pytestmark = needs_root
SERVER, CLIENT = "fd00:98::1", "fd00:98::2"
IDLE_QPS, SESSIONS = 500, 2
# A session takes some 100 KiB a QP. Of 1,000 QPs' nearly half stayed behind with one lasting object in each arena.
MOST_GROWTH = 14 << 20


@pytest.fixture
def inside() -> Iterator[Inside]:
    with own_loopback([SERVER, CLIENT]) as found:
        yield found


def found(inside: Inside, make: Callable[[], subprocess.Popen[str]]) -> subprocess.Popen[str]:
    made: list[subprocess.Popen[str]] = []
    inside(lambda: made.append(make()))
    return made[0]


@contextlib.contextmanager
def serving(inside: Inside) -> Iterator[tuple[subprocess.Popen[str], str]]:
    command = [*MRC, "bench", "serve", "--mode", "udp", "--bind", SERVER]
    process = found(inside, lambda: subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
    try:
        assert process.stdout is not None
        yield process, process.stdout.readline().strip()
    finally:
        process.kill()
        process.communicate()


def resident(pid: int) -> int:
    (memory,) = re.findall(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    return 1024 * int(memory)


def test_memory_of_idle_qps_is_given_back(inside: Inside) -> None:
    with serving(inside) as (server, ticket):
        before = resident(server.pid)
        write = [*MRC, "bench", "write", ticket, "--mode", "udp", "--bind", CLIENT]
        command = [*write, "--size", "4096", "--packets", "10", "--idle-qps", str(IDLE_QPS)]
        for _ in range(SESSIONS):
            client = found(inside, lambda: programs.start(command, stderr=subprocess.PIPE, text=True))
            said = client.communicate(timeout=3 * PATIENCE_S)[1]
            assert client.returncode == 0, said
            eventually(lambda: resident(server.pid) - before < MOST_GROWTH)


def test_qps_towards_one_node_share_its_paths(inside: Inside) -> None:
    def look() -> None:
        with Node(host_fabric([SERVER], "udp")) as node:
            there = node.description
            elsewhere = replace(there, ports=(PortDescription(0, CLIENT, 0),))
            first, second = (node.peer(there, QpDescription(qpn, 9 * qpn), 1024) for qpn in (3, 4))
            assert [(each.qpn, each.first_psn) for each in (first, second)] == [(3, 27), (4, 36)]
            assert first.paths is second.paths
            other = node.peer(elsewhere, QpDescription(3, 27), 1024)
            again = node.peer(there, QpDescription(3, 27), 1024)
            assert [path.ev for path in first.paths] == [path.ev for path in other.paths]
            assert {path.destination for path in other.paths}.isdisjoint(path.destination for path in again.paths)
            assert [path.template for path in again.paths] == [path.template for path in first.paths]

    inside(look)
