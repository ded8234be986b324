# SPDX-License-Identifier: BSD-2-Clause
"""What users of croc and rsync expect of `mrc send` and `mrc recv`: trees, pipes, holes, and going on after a break."""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
from pathlib import Path

import programs
import pytest
from live_run import MIB, Ended, Transfers, drawn, sha256
from patience import PATIENCE_S, eventually
from programs import MRC

pytestmark = pytest.mark.root

OLD_NS = 1_600_000_000_123_456_789


def tree(path: Path) -> dict[str, tuple[int, int, bytes | None]]:
    """Path below to mode, time and content (None: a directory) of everything in a directory."""
    found: dict[str, tuple[int, int, bytes | None]] = {}
    for at in [path, *sorted(path.rglob("*"))]:
        status = at.lstat()
        content = None if at.is_dir() else at.read_bytes()
        found[str(at.relative_to(path))] = (status.st_mode, status.st_mtime_ns, content)
    return found


@pytest.fixture
def results(transfers: Transfers) -> Path:
    top = transfers.scratch / "results"
    (top / "a" / "deep").mkdir(parents=True)
    (top / "empty").mkdir()
    for name, size, mode in (("a/run.sh", 700, 0o755), ("a/deep/data", 300_000, 0o640), ("note", 0, 0o444)):
        transfers.file(f"results/{name}", size)
        (top / name).chmod(mode)
        os.utime(top / name, ns=(OLD_NS, OLD_NS))
    (top / "a" / "out").symlink_to("/etc/passwd")
    (top / "empty").chmod(0o500)
    for name in ("a/deep", "a", "empty", "."):
        os.utime(top / name, ns=(OLD_NS, OLD_NS + len(name)))
    return top


def test_a_directory_arrives_as_it_was(transfers: Transfers, results: Path) -> None:
    receiver = transfers.recv("--once", "--json")
    sent = transfers.send(receiver, [f"{results}/", transfers.file("beside", 5000)], "--json").end().succeeded()
    received = receiver.end().succeeded()
    assert f"not sent: {results}/a/out, a symbolic link" in sent.err
    (results / "a" / "out").unlink()
    os.utime(results / "a", ns=(OLD_NS, OLD_NS + 1))
    assert tree(transfers.directory / "results") == tree(results)
    assert transfers.whole() == ["results", "beside"] or transfers.whole() == ["beside", "results"]
    names = ["results/a/deep/data", "results/a/run.sh", "results/note", "beside"]
    for ended in (sent, received):
        assert [file["name"] for file in ended.document["files"]] == names
        assert ended.document["sums_agree"] is True


def test_a_directory_that_exists_is_added_to_only_with_overwrite(transfers: Transfers, results: Path) -> None:
    (transfers.directory / "results").mkdir()
    (transfers.directory / "results" / "mine").write_bytes(b"mine")
    receiver = transfers.recv("--once")
    assert "results exists at the receiver" in transfers.send(receiver, [results]).end().err
    receiver.end().failed()
    assert os.listdir(transfers.directory / "results") == ["mine"]
    for expected in (0, 300_700):  # the second time all is there already
        receiver = transfers.recv("--once", "--overwrite")
        sent = transfers.send(receiver, [results], "--json").end().succeeded()
        receiver.end().succeeded()
        assert sent.document["skipped_bytes"] == expected
    assert (transfers.directory / "results" / "mine").read_bytes() == b"mine"
    assert (transfers.directory / "results/a/deep/data").read_bytes() == (results / "a/deep/data").read_bytes()


def test_the_same_file_again_is_not_sent_again(transfers: Transfers) -> None:
    file = transfers.file("file", 3 * MIB)
    for skipped in (0, 3 * MIB):
        receiver = transfers.recv("--once", "--json")
        sent = transfers.send(receiver, [file], "--json").end().succeeded()
        assert sent.document["skipped_bytes"] == receiver.end().succeeded().document["skipped_bytes"] == skipped
    assert sent.document["counters"].get("data_packets_sent", 0) == 0
    receiver = transfers.recv("--once")
    said = transfers.send(receiver, [file]).end().succeeded().out
    assert said == "file: 3.0 MiB, nothing to send: there already, or holes; sums agree\n"
    receiver.end().succeeded()
    # Of the same size, with other content: refused, and left as it is.
    other = transfers.file("other/file", 3 * MIB)
    receiver = transfers.recv("--once")
    assert "with other content" in transfers.send(receiver, [other]).end().failed().one_line
    receiver.end().failed()
    assert transfers.received() == {"file": sha256(file)}


def broken(transfers: Transfers, file: Path, *, end: str) -> None:
    """Send some of it, and break off."""
    stats = transfers.scratch / f"stats {end}"
    receiver = transfers.recv("--once", "--idle-timeout", "2s")
    sender = transfers.send(receiver, [file], "--stats", stats, "--mtu", "1024")
    transfers.when_acked(stats, 0.5, sender)
    if end == "the sender is killed":
        sender.process.kill()
    else:
        receiver.process.terminate()
    assert "kept for the next attempt: about" in receiver.end().err
    sender.kill()


@pytest.mark.parametrize("end", ["the sender is killed", "the receiver is interrupted"])
def test_a_transfer_that_broke_goes_on(transfers: Transfers, end: str) -> None:
    file = transfers.file("file", 64 * MIB)
    broken(transfers, file, end=end)
    part = transfers.directory / ".file.mrc-part"
    assert os.listdir(transfers.directory) == [part.name]
    # What is there is looked at, not believed: a block in the middle of it is not what it was.
    with part.open("r+b") as kept:
        kept.seek(20 * MIB)
        kept.write(b"something else")
    receiver = transfers.recv("--once", "--json")
    sent = transfers.send(receiver, [file], "--json").end().succeeded()
    received = receiver.end().succeeded()
    assert transfers.received() == {"file": sha256(file)}
    # Half of it arrived, but for the writes under way; one block of 16 MiB is sent again.
    assert 16 * MIB <= sent.document["skipped_bytes"] < 64 * MIB
    assert sent.document["skipped_bytes"] % (16 * MIB) == 0
    assert sent.document["skipped_bytes"] == received.document["skipped_bytes"]
    assert sent.document["counters"]["data_bytes_sent"] < 64 * MIB


def test_nothing_is_kept_where_nothing_is_to_be_kept(transfers: Transfers) -> None:
    file, stats = transfers.file("file", 64 * MIB), transfers.scratch / "stats"
    receiver = transfers.recv("--once", "--no-partial")
    sender = transfers.send(receiver, [file], "--stats", stats, "--mtu", "512")
    transfers.when_acked(stats, 0.05, sender)
    receiver.stop()
    sender.kill()
    assert os.listdir(transfers.directory) == []


def test_a_tree_that_broke_goes_on(transfers: Transfers) -> None:
    top = transfers.scratch / "top"
    small, large = transfers.file("top/1", 3 * MIB), transfers.file("top/sub/2", 64 * MIB)
    stats = transfers.scratch / "stats"
    receiver = transfers.recv("--once")
    sender = transfers.send(receiver, [top], "--stats", stats, "--mtu", "1024")
    transfers.when_acked(stats, 0.4, sender)
    receiver.stop()
    sender.kill()
    assert os.listdir(transfers.directory) == [".top.mrc-part"]
    receiver = transfers.recv("--once")
    sent = transfers.send(receiver, [top], "--json").end().succeeded()
    receiver.end().succeeded()
    assert sent.document["skipped_bytes"] >= 3 * MIB + 16 * MIB
    assert os.listdir(transfers.directory) == ["top"]
    assert sha256(transfers.directory / "top/1") == sha256(small)
    assert sha256(transfers.directory / "top/sub/2") == sha256(large)
    assert sorted(os.listdir(transfers.directory / "top/sub")) == ["2"]


def test_a_sparse_file_stays_sparse(transfers: Transfers) -> None:
    file = transfers.scratch / "image"
    with file.open("wb") as image:
        for at in (3 * MIB, 40 * MIB):
            image.seek(at)
            image.write(random.Random(at).randbytes(100_000))
        image.truncate(64 * MIB)
    receiver = transfers.recv("--once")
    sent = transfers.send(receiver, [file], "--json").end().succeeded()
    receiver.end().succeeded()
    assert transfers.received() == {"image": sha256(file)}
    assert sent.document["skipped_bytes"] > 63 * MIB
    assert sent.document["counters"]["data_bytes_sent"] < MIB
    assert (transfers.directory / "image").stat().st_blocks * 512 < MIB


def test_standard_input_to_standard_output(transfers: Transfers) -> None:
    content = drawn("standard input", 40 * MIB + 17)
    receiver = transfers.start("h1", [*MRC, "recv", "-", "-v"], stdin=subprocess.DEVNULL)
    assert receiver.process.stderr is not None
    ticket = ""
    while not ticket.startswith("mrc1:"):
        ticket = receiver.process.stderr.readline().strip()
    (transfers.scratch / "in put").write_bytes(content)
    reader = transfers.lab.popen(
        "h0", ["sh", "-c", 'cat "$0" | "$@"', str(transfers.scratch / "in put"), *MRC, "send", "-", ticket],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    got = subprocess.run(["sha256sum"], stdin=receiver.process.stdout, capture_output=True, text=True, check=True)
    out, err = reader.communicate(timeout=PATIENCE_S)
    assert reader.returncode == 0, err
    assert "stdin: 40.0 MiB in" in out
    assert receiver.process.wait(PATIENCE_S) == 0
    assert got.stdout.split()[0] == hashlib.sha256(content).hexdigest()
    receiver.process.stderr.close()


def test_a_file_to_standard_output_and_no_second_one(transfers: Transfers) -> None:
    """Its holes are written as zeros."""
    file = transfers.scratch / "sparse"
    with file.open("wb") as sparse:
        sparse.seek(5 * MIB)
        sparse.write(b"end of a hole")
        sparse.truncate(6 * MIB)
    out = transfers.scratch / "out"
    with out.open("wb") as output:
        receiver = transfers.lab.popen(
            "h1", [*MRC, "recv", "-"], start=programs.start, stdout=output, stderr=subprocess.PIPE, text=True
        )
        assert receiver.stderr is not None
        ticket = receiver.stderr.readline().strip()
        two = transfers.start("h0", [*MRC, "send", file, transfers.file("second", 10), ticket])
        assert "it takes one file" in two.end().failed().one_line
        receiver.communicate(timeout=PATIENCE_S)
    assert receiver.returncode == 1
    assert out.read_bytes() == file.read_bytes()


def test_standard_input_becomes_a_named_file(transfers: Transfers) -> None:
    """A pipe that is silent for longer than the receiver waits for packets is waited for."""
    receiver = transfers.recv("--once", "--idle-timeout", "1500ms")
    script = 'exec 3>&1; { echo first; sleep 3; echo second; } | "$@"'
    sender = transfers.start("h0", ["sh", "-c", script, "sh", *MRC, "send", "-", receiver.ticket, "--name", "log"])
    sender.end().succeeded()
    receiver.end().succeeded()
    assert (transfers.directory / "log").read_bytes() == b"first\nsecond\n"


def test_one_line_or_each_file_or_nothing(transfers: Transfers) -> None:
    files = [transfers.file("one", 5000), transfers.file("two", 6000)]

    def said(*options: str) -> tuple[Ended, Ended]:
        receiver = transfers.recv("--once", "--overwrite", *options)
        sent = transfers.send(receiver, files, *options).end().succeeded()
        return sent, receiver.end().succeeded()

    for ended in said():
        (line,) = [line for line in (ended.out + ended.err).splitlines() if not line.startswith("mrc1:")]
        assert line.startswith("2 files: 10.7 KiB")
        assert line.endswith("sums agree")
    for ended in said("-v"):
        assert [
            sum(line.startswith(f"{name} ") for line in (ended.out + ended.err).splitlines()) for name in ("one", "two")
        ] == [1, 1]
    for ended in said("--quiet"):
        assert [line for line in (ended.out + ended.err).splitlines() if not line.startswith("mrc1:")] == []


def test_progress_names_the_file_the_rate_and_the_time_left(transfers: Transfers) -> None:
    file = transfers.file("large.bin", 16 * MIB)
    receiver = transfers.recv("--once")
    # A terminal of its own: script(1) makes one.
    log = transfers.scratch / "typescript"
    command = " ".join([*MRC, "send", str(file), receiver.ticket, "--mtu", "512"])
    sender = transfers.start(
        "h0", ["script", "--quiet", "--command", f"stty cols 120; {command}", str(log)], stdin=subprocess.DEVNULL
    )
    sender.end().succeeded()
    receiver.end().succeeded()
    shown = eventually(lambda: log.read_text())
    assert "large.bin" in shown
    assert "of 16.0 MiB" in shown
    assert "MiB/s" in shown
    assert "0:0" in shown
