# SPDX-License-Identifier: BSD-2-Clause
"""`--line-rate`: links far slower than congestion control takes the network for (docs/lab.md, Slow links)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from live_run import MIB, Transfers, sha256
from programs import MRC

from mrc.lab import Lab

pytestmark = pytest.mark.root
LAST_HOPS = ("h1-p0l1", "h1-p1l1")
FILE_MIB = 16
PACKETS = FILE_MIB * MIB // 4096


@pytest.fixture(scope="module")
def slow(lab: Lab) -> Iterator[Lab]:
    for link in LAST_HOPS:
        lab.impair(link, rate_bps=100_000_000, queue_bytes=120_000, trim_at_bytes=90_000)
    yield lab
    for link in LAST_HOPS:
        lab.clear(link)


def test_hardly_anything_is_trimmed_where_the_line_rate_is_known(transfers: Transfers, slow: Lab) -> None:
    """The window, 1.5 BDP of 3 ms and what a SACK covers, is less than the two links take, from the first packet on.
    Where the rate has to be found out, queues are full before base_rtt is measured, and may stay so."""
    file = transfers.file("file", FILE_MIB * MIB)
    receiver = transfers.recv()
    given = transfers.send(receiver, [file], "--line-rate", "200mbit", "--json").end().succeeded()
    assert given.err == ""
    assert given.document["retransmitted_packets"] < PACKETS / 2
    other = transfers.file("other", FILE_MIB * MIB)
    transfers.send(receiver, [other], "--json").end().succeeded()
    assert transfers.received() == {"file": sha256(file), "other": sha256(other)}


def test_a_bench_takes_it_too(transfers: Transfers, slow: Lab) -> None:
    server = transfers.start("h1", [*MRC, "bench", "serve"])
    assert server.process.stdout is not None
    ticket = server.process.stdout.readline().strip()
    argv = [*MRC, "bench", "write", ticket, "--line-rate", "200mbit", "--seconds", "1s", "--json"]
    result = transfers.start("h0", argv).end().succeeded().document
    assert result["retransmitted_packets"] < result["kpps"] * 1000 * result["seconds"] / 2


@pytest.mark.parametrize(
    ("rate", "status", "says"),
    [
        ("fast", 2, "'fast'"),
        ("800kbit", 2, "--line-rate"),
    ],
)
def test_a_line_rate_that_is_none(transfers: Transfers, rate: str, status: int, says: str) -> None:
    file = transfers.file("file", 1000)
    receiver = transfers.recv()
    ended = transfers.send(receiver, [file], "--line-rate", rate).end()
    assert ended.code == status
    assert says in ended.err
    assert transfers.received() == {}


def test_a_profile_without_one(transfers: Transfers) -> None:
    profiles = transfers.scratch / "fixed.yaml"
    profiles.write_text("cc_profiles:\n  0: {algorithm: fixed}\n")
    file = transfers.file("file", 1000)
    ended = transfers.send(transfers.recv(), [file], "--profiles", profiles, "--line-rate", "1gbit").end()
    assert ended.code == 1
    assert "line rate: the algorithm fixed takes no line rate: choose nscc, or leave --line-rate out" in ended.err
