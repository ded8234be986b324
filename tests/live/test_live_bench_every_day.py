# SPDX-License-Identifier: BSD-2-Clause
"""What users of iperf3 expect of `mrc bench write`: lines by interval, both directions, an amount and no time."""

from __future__ import annotations

import re
import signal

import pytest
from live_run import MIB, Running, Transfers, eventually
from programs import MRC

pytestmark = pytest.mark.root


@pytest.fixture
def server(transfers: Transfers) -> Running:
    running = transfers.start("h1", [*MRC, "bench", "serve", "--json"])
    assert running.process.stdout is not None
    running.ticket = running.process.stdout.readline().strip()
    return running


def write(transfers: Transfers, server: Running, *options: str, test: str = "write") -> Running:
    return transfers.start("h0", [*MRC, "bench", test, server.ticket, *options])


def packets(transfers: Transfers) -> dict[str, int]:
    """What arrived at each host so far over both planes, by the kernel's counters."""
    links = transfers.lab.status().links
    return {host: sum(link.toward[host].packets for link in links if host in link.toward) for host in ("h0", "h1")}


def test_the_server_writes(transfers: Transfers, server: Running) -> None:
    before = packets(transfers)
    document = write(transfers, server, "-R", "--bytes", "20MiB", "--json").end().succeeded().document
    after = packets(transfers)
    assert document["direction"] == "reverse"
    assert document["iterations"] == 20
    assert document["goodput_gbps"] == pytest.approx(20 * MIB * 8 / document["seconds"] / 1e9, rel=1e-3)
    # 5120 packets of 4096 bytes came to the client; the server got acknowledgements alone.
    assert after["h0"] - before["h0"] >= 5120
    assert after["h1"] - before["h1"] < 5120
    # The server says so too: nothing was placed there, and it wrote what came here.
    told = server.stop().document["sessions"][0]["measurements"][0]
    assert (told["bytes"], told["bytes_written"]) == (0, 20 * MIB)


def test_both_directions_at_once(transfers: Transfers, server: Running) -> None:
    before = packets(transfers)
    running = write(transfers, server, "--bidir", "--bytes", "8MiB", "--size", "64KiB", "--qps", "2", "--json")
    document = running.end().succeeded().document
    after = packets(transfers)
    assert [each["direction"] for each in document["directions"]] == ["forward", "reverse"]
    assert [each["iterations"] for each in document["directions"]] == [128, 128]
    assert all(len(each["per_qp_gbps"]) == 2 for each in document["directions"])
    assert all(after[host] - before[host] >= 2048 for host in ("h0", "h1"))
    # A table has a row for each, and the server serves on.
    out = write(transfers, server, "--bidir", "--seconds", "100ms").end().succeeded().out.splitlines()
    assert [line.endswith("from the server") for line in out] == [False, False, True]
    told = server.stop().document["sessions"][0]["measurements"][0]
    assert (told["bytes"], told["bytes_written"]) == (8 * MIB, 8 * MIB)


@pytest.mark.parametrize(
    ("options", "writes"),
    [
        (["--bytes", "1000000", "--size", "64KiB"], 16),  # 15.3 of them
        (["--bytes", "1"], 1),
        (["--packets", "100", "--size", "64KiB"], 7),  # of 16 packets each
        (["--packets", "7", "--size", "64", "--qps", "4"], 7),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
@pytest.mark.parametrize("test", ["write", "write-imm"])
def test_an_amount_in_place_of_a_time(
    transfers: Transfers, server: Running, test: str, options: list[str], writes: int
) -> None:
    document = write(transfers, server, *options, "--json", test=test).end().succeeded().document
    assert document["iterations"] == writes
    (told,) = server.stop().document["sessions"]
    assert told["measurements"][0]["bytes"] == writes * document["size_bytes"]
    assert told["measurements"][0]["bytes_written"] == 0


@pytest.mark.parametrize("options", [[], ["--reverse"], ["--bidir"]], ids=["forward", "reverse", "both"])
def test_lines_by_interval(transfers: Transfers, server: Running, options: list[str]) -> None:
    ended = write(transfers, server, "--seconds", "900ms", "-i", "200ms", *options).end().succeeded()
    lines = ended.out.splitlines()
    heading = next(number for number, line in enumerate(lines) if line.startswith(" #bytes"))
    found = [re.match(r" *(\d+\.\d\d)-(\d+\.\d\d) s  ", line) for line in lines[:heading]]
    assert len(found) >= 3
    assert all(found)
    assert [each[1] for each in found[1:] if each] == [each[2] for each in found[:-1] if each]
    assert ("to server" in lines[0]) == (options == ["--bidir"])
    assert ("from server" in lines[0]) == bool(options)
    assert ("retransmitted" in lines[0]) == (options != ["--reverse"])

    document = (
        write(transfers, server, "--seconds", "600ms", "-i", "200ms", *options, "--json").end().succeeded().document
    )
    for each in document.get("directions", [document])[:1]:
        amount = sum(part["reverse_bytes" if options == ["--reverse"] else "bytes"] for part in each["intervals"])
        # All that was written is in one of them, but for what was under way when the last one ended.
        assert amount == pytest.approx(each["iterations"] * each["size_bytes"], rel=0.05)


def test_an_interrupted_reverse_run_tells_what_it_got(transfers: Transfers, server: Running) -> None:
    client = write(transfers, server, "--reverse", "--seconds", "600s", "--json")
    before = packets(transfers)["h0"]
    eventually(lambda: packets(transfers)["h0"] > before + 2000)
    document = client.stop(signal.SIGINT).interrupted(signal.SIGINT).document
    assert document["interrupted"] is True
    assert document["iterations"] > 0
    # The server's writes end with their client; another one is served.
    eventually(lambda: write(transfers, server, "--bytes", "1MiB").end().code == 0)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--seconds", "1s", "--bytes", "1MiB"], "give one of --seconds, --bytes and --packets"),
        (["--bidir", "--reverse"], "leave out --reverse"),
        (["--interval", "0s"], "must be above 0"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_options_that_contradict_each_other(
    transfers: Transfers, server: Running, options: list[str], says: str
) -> None:
    ended = write(transfers, server, *options).end()
    assert ended.code == 2
    assert says in ended.err
