# SPDX-License-Identifier: BSD-2-Clause
"""`mrc bench serve` and its clients as processes in a lab: what they print, what crossed the wire, how they end."""

from __future__ import annotations

import re
import signal
import time
from pathlib import Path

import pytest
from live_run import Running, Transfers, eventually
from patience import PATIENCE_S
from programs import MRC

from mrc.lab import Lab

# Keys of --json that must keep their meaning.
WRITE_KEYS = {"goodput_gbps", "kpps", "message_rate_mps", "cpu_seconds", "retransmitted_packets"}
LATENCY_KEYS = {"t_min_us", "t_typical_us", "t_avg_us", "p99_us", "p999_us"}
SHORT = ("--seconds", "300ms")


@pytest.fixture
def server(transfers: Transfers) -> Running:
    return serving(transfers)


def serving(transfers: Transfers, *options: str) -> Running:
    running = transfers.start("h1", [*MRC, "bench", "serve", *options])
    assert running.process.stdout is not None
    running.ticket = running.process.stdout.readline().strip()
    assert running.ticket.startswith("mrc1:"), running.process.communicate()
    return running


def bench(transfers: Transfers, server: Running, test: str, *options: str) -> Running:
    return transfers.start("h0", [*MRC, "bench", test, server.ticket, *SHORT, *options])


def write(transfers: Transfers, server: Running, *options: str) -> Running:
    """A client that is told how much, and not how long."""
    return transfers.start("h0", [*MRC, "bench", "write", server.ticket, *options])


def measuring(transfers: Transfers, server: Running, test: str) -> Running:
    """A client that has connected and would go on for ten minutes."""
    client = bench(transfers, server, test, "--seconds", "600s")
    assert client.process.stdout is not None
    assert client.process.stdout.readline().split()[0] == "#bytes"
    before = packets_at_server(transfers)
    eventually(lambda: packets_at_server(transfers) > before + 500)
    return client


def packets_at_server(transfers: Transfers) -> int:
    """What has come to h1 in plane 0 so far, by the kernel's counter."""

    def read() -> int:
        lines = Path("/proc/thread-self/net/dev").read_text().splitlines()
        (counts,) = [line.split()[1:] for line in lines if line.split()[0] == "p0:"]
        return int(counts[1])

    return transfers.lab.inside("h1", read)


def test_one_server_serves_one_client_after_another(transfers: Transfers) -> None:
    server = serving(transfers, "--json")
    large = bench(transfers, server, "write", "--json").end().succeeded().document
    assert large.keys() >= WRITE_KEYS
    assert large["size_bytes"] == 1 << 20
    assert large["seconds"] >= 0.3
    assert large["goodput_gbps"] == pytest.approx(large["iterations"] * 2**20 * 8 / large["seconds"] / 1e9, rel=1e-3)
    # 256 packets of 4096 bytes a write.
    assert large["kpps"] == pytest.approx(large["message_rate_mps"] * 256 / 1e3, rel=1e-3)
    assert large["peak_gbps"] >= large["goodput_gbps"]

    small = bench(transfers, server, "write-imm", "--json", "--size", "64", "--qps", "3").end().succeeded().document
    assert small.keys() >= WRITE_KEYS
    assert len(small["per_qp_gbps"]) == 3
    assert min(small["per_qp_gbps"]) > 0
    assert sum(small["per_qp_gbps"]) == pytest.approx(small["goodput_gbps"], rel=1e-2, abs=1e-5)

    latency = bench(transfers, server, "latency", "--json").end().succeeded().document
    assert latency.keys() >= LATENCY_KEYS
    assert latency["size_bytes"] == 2
    assert 0 < latency["t_min_us"] <= latency["t_typical_us"] <= latency["p99_us"] <= latency["p999_us"]

    told = server.stop(signal.SIGINT).interrupted(signal.SIGINT).document["sessions"]
    assert [each["error"] for each in told] == [None, None, None]
    measured = [measurement for each in told for measurement in each["measurements"]]
    assert [each["test"] for each in measured] == ["write", "write-imm", "latency"]
    # What the client counts as completed is what the server placed.
    assert measured[0]["bytes"] == large["iterations"] << 20
    assert measured[1]["bytes"] == small["iterations"] * 64
    # The counters of a measurement are of that measurement alone.
    assert [each["counters"]["bytes_placed"] for each in measured] == [each["bytes"] for each in measured]
    # A ping more than intervals between pings, and no more than one whose time was up.
    assert measured[2]["bytes"] - 2 * latency["iterations"] in (0, 2)


def test_the_table_and_its_details(transfers: Transfers, server: Running) -> None:
    ended = bench(transfers, server, "write", "--qps", "2", "-v").end().succeeded()
    heading, row = ended.out.splitlines()
    assert heading.split()[0] == "#bytes"
    assert re.fullmatch(r" 1048576 +\d+ +\d+\.\d\d +\d+\.\d\d +0\.\d{6}", row)
    assert "Gbit/s per QP: " in ended.err
    assert "at the server" in ended.err


def test_sweeps(transfers: Transfers, server: Running) -> None:
    ended = bench(transfers, server, "latency", "--sweep", "--mtu", "256", "--seconds", "50ms").end().succeeded()
    sizes = [int(line.split()[0]) for line in ended.out.splitlines()[1:]]
    assert sizes == [2, 4, 8, 16, 32, 64, 128, 256]
    ended = bench(transfers, server, "write", "--sweep", "--seconds", "20ms", "--json").end().succeeded()
    swept = [each["size_bytes"] for each in ended.document["sizes"]]
    assert swept == [1 << power for power in range(1, 24)]
    assert all(each["iterations"] for each in ended.document["sizes"])


def test_one_path_is_one_path(lab: Lab, transfers: Transfers, server: Running) -> None:
    def to_spines() -> dict[str, int]:
        return {
            link.name: link.toward[link.name.partition("-")[2]].packets
            for link in lab.status().links
            if re.fullmatch(r"p\dl0-p\ds\d", link.name)
        }

    before = to_spines()
    # So much, however long it takes: packets of the others are few beside it.
    amount = ("--paths", "1", "--bytes", "64MiB", "--json")
    one = write(transfers, server, *amount).end().succeeded().document
    used = {name: count - before[name] for name, count in to_spines().items()}
    packets = one["iterations"] * 256
    assert used.pop("p0l0-p0s0") >= packets
    # The ticket's exchange and its keepalives go over the others too.
    assert sum(used.values()) < packets / 10

    refused = bench(transfers, server, "write", "--paths", "9").end().failed()
    assert "has 8 paths" in refused.one_line


def test_idle_qps_beside(transfers: Transfers, server: Running) -> None:
    document = bench(transfers, server, "write", "--idle-qps", "70", "--json").end().succeeded().document
    # Nothing is written on the idle ones.
    assert len(document["per_qp_gbps"]) == 1


def test_a_second_client_is_refused_while_one_is_there(transfers: Transfers, server: Running) -> None:
    first = measuring(transfers, server, "write")
    second = bench(transfers, server, "write").end().failed()
    assert "another client" in second.one_line
    first.stop(signal.SIGINT).interrupted(signal.SIGINT)
    bench(transfers, server, "write").end().succeeded()


def test_a_server_that_is_stopped_ends_its_client(transfers: Transfers, server: Running) -> None:
    client = measuring(transfers, server, "write")
    server.stop(signal.SIGINT).interrupted(signal.SIGINT)
    ended = client.end()
    assert ended.code == 1
    assert "Error" in ended.one_line
    ended.no_traceback()


def test_a_client_that_is_interrupted_is_noted(transfers: Transfers) -> None:
    server = serving(transfers, "--json")
    client = measuring(transfers, server, "latency")
    client.stop(signal.SIGINT).interrupted(signal.SIGINT)
    bench(transfers, server, "latency").end().succeeded()
    told = server.stop(signal.SIGTERM).interrupted().document["sessions"]
    assert [bool(each["error"]) for each in told] == [True, False]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("test", ["write", "write-imm", "latency"])
def test_an_interrupted_client_tells_what_it_measured(transfers: Transfers, test: str, number: signal.Signals) -> None:
    client = measuring(transfers, serving(transfers), test)
    ended = client.stop(number).interrupted(number)
    # The heading is what `measuring` has read.
    (row,) = ended.out.splitlines()
    size, iterations, *figures = row.split()
    assert size == ("2" if test == "latency" else "1048576")
    assert int(iterations) > 0
    assert float(figures[0]) > 0
    assert ended.one_line.startswith("interrupted: ")


def measuring_silently(transfers: Transfers, test: str, *options: str) -> Running:
    """Start a client with --json, which prints nothing before the end; wait until the server has received data."""
    server = serving(transfers)
    client = bench(transfers, server, test, "--seconds", "600s", "--json", *options)
    before = packets_at_server(transfers)
    eventually(lambda: packets_at_server(transfers) > before + 500)
    return client


def test_an_interrupted_client_tells_it_in_one_document(transfers: Transfers) -> None:
    ended = measuring_silently(transfers, "write", "--qps", "2").stop(signal.SIGINT).interrupted(signal.SIGINT)
    assert ended.document["interrupted"] is True
    assert ended.document.keys() >= WRITE_KEYS
    assert ended.document["iterations"] > 0
    assert 0 < ended.document["seconds"] < 600
    rate = ended.document["iterations"] * 2**20 * 8 / ended.document["seconds"] / 1e9
    assert ended.document["goodput_gbps"] == pytest.approx(rate, rel=1e-3)
    assert sum(ended.document["per_qp_gbps"]) == pytest.approx(rate, rel=1e-2)
    # Half of it is at the server, which was not asked.
    assert ended.document["cpu_seconds"] is None
    assert ended.document["receiver_cpu_seconds"] is None
    assert ended.document["sender_cpu_seconds"] > 0


def test_an_interrupted_sweep_keeps_the_sizes_it_has_done(transfers: Transfers) -> None:
    server = serving(transfers)
    client = bench(transfers, server, "latency", "--sweep", "--seconds", "50ms", "--json")
    document = client.end().succeeded().document
    assert document["interrupted"] is False
    assert not any(each["interrupted"] for each in document["sizes"])

    client = bench(transfers, server, "latency", "--sweep", "--seconds", "2s")
    assert client.process.stdout is not None
    for _heading_and_first_size in range(2):
        assert client.process.stdout.readline()
    before = packets_at_server(transfers)
    # Of the size after the first, or of a later one where this test itself stood still.
    eventually(lambda: packets_at_server(transfers) > before + 500)
    ended = client.stop(signal.SIGINT).interrupted(signal.SIGINT)
    sizes = [int(line.split()[0]) for line in ended.out.splitlines()]
    # More than one only where this test itself stood still for longer than a size takes.
    assert sizes == [4, 8, 16, 32, 64][: len(sizes)] != []


def test_a_client_that_is_interrupted_before_it_measured_anything_says_no_more(transfers: Transfers) -> None:
    server = serving(transfers)
    transfers.lab.cut("plane:0")
    transfers.lab.cut("plane:1")
    client = bench(transfers, server, "write", "--json")
    transfers.connected("h0", or_trying=True)
    ended = client.stop(signal.SIGINT).no_traceback()
    transfers.lab.heal("plane:0")
    transfers.lab.heal("plane:1")
    assert (ended.code, ended.out) == (130, "")
    assert ended.one_line == "interrupted"


def test_after_a_client_was_killed_others_are_served(transfers: Transfers, server: Running) -> None:
    client = measuring(transfers, server, "write")
    client.kill()
    # Until the exchange gives it up (linger time 10 s) the server is taken.
    by = time.monotonic() + PATIENCE_S
    while (ended := bench(transfers, server, "write").end()).code != 0:
        assert "another client" in ended.one_line
        assert time.monotonic() < by
    ended.succeeded()


def test_tickets_of_other_commands(transfers: Transfers, server: Running, tmp_path: Path) -> None:
    receiver = transfers.recv()
    said = bench(transfers, receiver, "write").end().failed().one_line
    assert "mrc bench serve" in said
    file = tmp_path / "file"
    file.write_bytes(b"abc")
    said = transfers.send(server, [file]).end().failed().one_line
    assert "mrc recv" in said


def test_udp_mode(transfers: Transfers, lab: Lab) -> None:
    theirs, ours = lab.addresses("h1")[0], lab.addresses("h0")[0]
    server = serving(transfers, "--mode", "udp", "--bind", theirs)
    document = bench(transfers, server, "write", "--mode", "udp", "--bind", ours, "--json").end().succeeded().document
    assert document["iterations"] > 0
