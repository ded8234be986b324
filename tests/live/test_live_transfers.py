# SPDX-License-Identifier: BSD-2-Clause
"""Files from one host to another through the kernel's switches, whole and over every path."""

from __future__ import annotations

import itertools
import json
import resource
from pathlib import Path

import pytest
from live_run import FILE_KEYS, MIB, PATH_KEYS, REPORT_KEYS, Ended, Transfers, sha256, stats_lines
from patience import undisturbed
from programs import MRC

from mrc.lab import Lab

pytestmark = pytest.mark.root

SIZES = (0, 1, 4095, 4096, 4097, 8 * MIB + 3)


def check_report(ended: Ended, files: list[Path]) -> None:
    """The keys of --json, and figures that agree with the files."""
    document = ended.succeeded().document
    assert document.keys() >= REPORT_KEYS
    assert all(path.keys() >= PATH_KEYS for path in document["paths"])
    assert all(file.keys() >= FILE_KEYS for file in document["files"])
    assert document["sums_agree"] is True
    assert document["failovers"] == []
    assert [(file["name"], file["bytes"], file["sums_agree"]) for file in document["files"]] == [
        (path.name, path.stat().st_size, True) for path in files
    ]
    assert document["bytes"] == sum(path.stat().st_size for path in files)
    goodput = document["bytes"] * 8 / document["data_seconds"] / 1e9
    assert document["goodput_gbps"] == pytest.approx(goodput, rel=0.01, abs=1e-4)


def test_files_of_every_awkward_size_in_one_session(transfers: Transfers) -> None:
    files = [transfers.file(f"{size} bytes.bin", size) for size in SIZES]

    def attempt() -> tuple[Ended, Ended]:
        transfers.forget()
        receiver = transfers.recv("--once", "--json", "--overwrite")
        sent = transfers.send(receiver, files, "--json").end()
        received = receiver.end()
        check_report(sent, files)
        check_report(received, files)
        assert transfers.received() == {path.name: sha256(path) for path in files}
        return sent, received

    sent, received = undisturbed(attempt, lambda ends: ends[0].document["retransmitted_packets"])
    assert len(received.out.splitlines()) > 1
    assert json.loads(sent.out) == sent.document

    paths = sent.document["paths"]
    assert {(path["plane"], path["spine"]) for path in paths} == {(p, s) for p in (0, 1) for s in range(4)}
    assert all(path["ev"] == path["plane"] << 24 | path["spine"] for path in paths)
    assert all(path["packets"] > 0 for path in paths)
    # Every packet once, and no more: those of up to 64 KiB that are not empty lie one behind the other in a pack.
    packed = sum(size for size in SIZES if size <= 65_536)
    assert sum(path["packets"] for path in paths) == -(-packed // 4096) + -(-SIZES[-1] // 4096)
    assert sent.document["retransmitted_packets"] == 0
    assert all((path["lost"], path["state"]) == (0, "GOOD") for path in paths)
    planes = [sum(path["packets"] for path in paths if path["plane"] == plane) for plane in (0, 1)]
    assert planes[0] / sum(planes) == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize(
    ("size", "options"),
    [
        (4 * MIB, ["--mtu", "256"]),
        (4 * MIB, ["--mtu", "1024"]),
        (700, ["--message-size", "1"]),
        (700, ["--message-size", "1", "--qps", "4", "--mtu", "256"]),
        (MIB + 1, ["--message-size", "1000"]),
        (8 * MIB + 1, ["--message-size", "1MiB", "--qps", "4"]),
    ],
)
def test_every_way_of_cutting_a_file(transfers: Transfers, size: int, options: list[str]) -> None:
    file = transfers.file("file", size)
    receiver = transfers.recv("--once")
    sent = transfers.send(receiver, [file], "--json", *options).end().succeeded()
    receiver.end().succeeded()
    assert transfers.received() == {"file": sha256(file)}
    value = dict(zip(options[::2], options[1::2], strict=True))
    message = {"1": 1, "1000": 1000}.get(value.get("--message-size", ""), MIB)
    mtu = int(value.get("--mtu", 4096))
    packets = sum(-(-min(message, size - start) // mtu) for start in range(0, size, message))
    first_transmissions = sent.document["counters"]["data_packets_sent"] - sent.document["retransmitted_packets"]
    assert first_transmissions == packets


def test_files_that_tell_no_size_arrive_whole(transfers: Transfers) -> None:
    """stat says 0 bytes of what is in procfs, and a page of what is in sysfs."""
    paths = [Path("/proc/version"), Path("/sys/class/net/lo/mtu")]
    receiver = transfers.recv("--once")
    transfers.send(receiver, paths).end().succeeded()
    receiver.end().succeeded()
    assert {path.name: (transfers.directory / path.name).read_bytes() for path in paths} == {
        path.name: path.read_bytes() for path in paths
    }


def test_two_senders_at_once_each_end_whole(transfers: Transfers) -> None:
    receiver = transfers.recv("--json")
    files = [transfers.file(f"from sender {number}", 8 * MIB) for number in (0, 1)]
    senders = [transfers.send(receiver, [file], "--json") for file in files]
    for sender, file in zip(senders, files, strict=True):
        check_report(sender.end(), [file])
    # The receiver serves a third one after those.
    third = transfers.file("third", 5000)
    check_report(transfers.send(receiver, [third], "--json").end(), [third])
    assert transfers.received() == {path.name: sha256(path) for path in (*files, third)}
    document = receiver.stop().document
    assert document["bytes"] == 16 * MIB + 5000
    assert document["sums_agree"] is True
    assert len(document["files"]) == 3
    # Each session reports its own QPs, and of the node only what is new.
    assert document["counters"]["bytes_placed"] == 16 * MIB + 5000


@pytest.mark.parametrize("options", [[], ["--qps", "4", "--mtu", "1024"]])
def test_one_packet_in_a_hundred_is_lost_on_every_link(transfers: Transfers, lab: Lab, options: list[str]) -> None:
    links = [link.name for link in lab.topology.fabric_links()]
    for link in links:
        lab.impair(link, loss=0.01)
    try:
        file = transfers.file("lossy", 8 * MIB)
        receiver = transfers.recv("--once", "--json")
        sent = transfers.send(receiver, [file], "--json", *options).end()
        received = receiver.end()
    finally:
        for link in links:
            lab.clear(link)
    check_report(sent, [file])
    check_report(received, [file])
    assert transfers.received() == {"lossy": sha256(file)}
    lost = sum(path["lost"] for path in sent.document["paths"])
    assert sent.document["retransmitted_packets"] >= lost > 0
    # Both ends report what both know.
    for key in ("retransmitted_packets", "spurious_retransmissions", "duplicates_received"):
        assert sent.document[key] == received.document[key], key
    assert received.document["duplicates_received"] == received.document["counters"].get(
        "duplicates_old", 0
    ) + received.document["counters"].get("duplicates_above_epsn", 0)


def test_statistics_only_grow(transfers: Transfers) -> None:
    file, stats = transfers.file("file", 8 * MIB), transfers.scratch / "stats"
    receiver = transfers.recv("--once")
    sent = transfers.send(receiver, [file], "--json", "--stats", stats).end().succeeded()
    lines = stats_lines(stats)
    assert len(lines) > 2
    assert stats.read_text().endswith("\n")
    for line in lines:
        assert line.keys() == {"monotonic_ns", "bytes_acked", "bytes_total", "packets_per_path"}
        assert line["bytes_total"] == 8 * MIB
    for before, after in itertools.pairwise(lines):
        assert after["monotonic_ns"] > before["monotonic_ns"]
        assert after["bytes_acked"] >= before["bytes_acked"]
        assert all(b >= a for a, b in zip(before["packets_per_path"], after["packets_per_path"], strict=True))
    assert lines[-1]["bytes_acked"] == 8 * MIB
    assert lines[-1]["packets_per_path"] == [path["packets"] for path in sent.document["paths"]]


def test_the_ticket_is_alone_on_stdout(transfers: Transfers) -> None:
    file = transfers.file("file", 5000)
    receiver = transfers.recv("--once", "-v")
    transfers.send(receiver, [file]).end().succeeded()
    received = receiver.end().succeeded()
    assert received.out == receiver.ticket + "\n"
    assert "file  4.9 KiB  sums agree" in received.err


def test_for_people_both_ends_say_what_was_sent(transfers: Transfers) -> None:
    file = transfers.file("file", 5000)
    receiver = transfers.recv("--once", "-v")
    sent = transfers.send(receiver, [file], "-v").end().succeeded()
    received = receiver.end().succeeded()
    for ended in (sent, received):
        said = ended.out + ended.err
        for what in ("4.9 KiB", "Gbit/s", "retransmitted", "sums agree", "file  4.9 KiB  sums agree"):
            assert what in said
    assert "requests_received" in received.err
    assert "data_packets_sent" in sent.err


def test_more_files_than_there_are_descriptors(transfers: Transfers) -> None:
    """1,200 small files, where a process may have 300 descriptors; each file has its turn."""
    names = [f"many/{number:04d}" for number in range(1200)]
    files = [transfers.file(name, 1000 + number) for number, name in enumerate(names)]
    few = {resource.RLIMIT_NOFILE: 300}
    receiver = transfers.recv("--once", limits=few)
    sending = transfers.start("h0", [*MRC, "send", *files, receiver.ticket, "--json"], limits=few)
    sent = sending.end().succeeded()
    assert sent.document["sums_agree"] is True
    assert len(sent.document["files"]) == 1200
    receiver.end().succeeded()
    assert transfers.received() == {file.name: sha256(file) for file in files}


def test_neither_end_loads_what_a_transfer_does_not_need(transfers: Transfers) -> None:
    """Up to its end: what is imported late counts too. Sums are cryptography's."""
    told = ("env", "PYTHONPROFILEIMPORTTIME=1")
    receiver = transfers.recv(prefix=told)
    sender = transfers.start("h0", [*told, *MRC, "send", transfers.file("one", MIB), receiver.ticket, "--json"])
    heavy = {"numpy", "scapy", "pyroute2", "rich", "yaml", "jsonschema", "prometheus_client", "asyncio"}
    for ended in (sender.end().succeeded(), receiver.stop()):
        lines = [line for line in ended.err.splitlines() if line.startswith("import time:")]
        loaded = {line.rpartition("|")[2].strip().partition(".")[0] for line in lines}
        assert "mrc" in loaded
        assert loaded & heavy == set()
