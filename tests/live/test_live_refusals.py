# SPDX-License-Identifier: BSD-2-Clause
"""What is refused, with which exit status, and in which words."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from live_run import MIB, Transfers, sha256
from programs import MRC

from mrc.lab import Lab

pytestmark = pytest.mark.root

# Root passes over file modes; without these two capabilities it does not.
WITHOUT_OVERRIDE = ("setpriv", "--bounding-set=-dac_override,-dac_read_search")


@pytest.fixture(scope="module")
def lab(slow_lab: Lab) -> Lab:
    return slow_lab


def test_a_file_that_exists_is_kept_unless_it_may_be_overwritten(transfers: Transfers) -> None:
    (transfers.directory / "file").write_bytes(b"older")
    file = transfers.file("file", 5000)
    receiver = transfers.recv("--once")
    refused = transfers.send(receiver, [file]).end().failed()
    assert "file exists at the receiver" in refused.one_line
    assert "--overwrite" in refused.one_line
    # What the sender was told, not that it went away then.
    assert "refused: file exists at the receiver" in receiver.end().failed().err
    assert (transfers.directory / "file").read_bytes() == b"older"
    assert os.listdir(transfers.directory) == ["file"]

    receiver = transfers.recv("--once", "--overwrite")
    transfers.send(receiver, [file]).end().succeeded()
    receiver.end().succeeded()
    assert transfers.received() == {"file": sha256(file)}


def test_a_link_in_the_way_is_not_followed(transfers: Transfers) -> None:
    outside = transfers.scratch / "outside"
    (transfers.directory / "file").symlink_to(outside)
    file = transfers.file("file", 5000)
    receiver = transfers.recv("--overwrite")
    transfers.send(receiver, [file]).end().succeeded()
    assert not outside.exists()
    assert not (transfers.directory / "file").is_symlink()
    assert transfers.received() == {"file": sha256(file)}


@pytest.mark.parametrize("options", [(), ("--overwrite",)], ids=["", "overwriting"])
def test_two_files_of_one_name_are_not_sent(transfers: Transfers, options: tuple[str, ...]) -> None:
    """One would take the place of the other. The receiver hears nothing of it."""
    one, other = transfers.file("a/same", 5000), transfers.file("b/same", 6000)
    receiver = transfers.recv("--once", *options)
    refused = transfers.send(receiver, [one, other]).end().failed()
    assert f"{one} and {other} would be one file" in refused.one_line
    transfers.send(receiver, [other]).end().succeeded()
    receiver.end().succeeded()
    assert transfers.received() == {"same": sha256(other)}


@pytest.mark.parametrize(
    ("kind", "code", "says"),
    [
        ("missing", 2, "does not exist"),
        ("a FIFO", 2, "is a pipe"),
        ("unreadable", 2, "not readable"),
    ],
)
def test_what_is_no_readable_file_is_not_sent(transfers: Transfers, kind: str, code: int, says: str) -> None:
    receiver = transfers.recv("--once", "--idle-timeout", "600s")
    path = transfers.scratch / "odd"
    if kind == "a directory":
        path.mkdir()
    elif kind == "a FIFO":
        os.mkfifo(path)
    elif kind == "unreadable":
        path.write_bytes(b"secret")
        path.chmod(0)
    refused = transfers.start("h0", [*WITHOUT_OVERRIDE, *MRC, "send", path, receiver.ticket]).end().no_traceback()
    assert refused.code == code
    assert says in refused.err
    # Whoever found its files wanting did not bother the receiver.
    assert receiver.process.poll() is None


def test_a_dead_receivers_ticket(transfers: Transfers) -> None:
    receiver = transfers.recv()
    receiver.stop().interrupted()
    refused = transfers.send(receiver, [transfers.file("file", 10)]).end().failed()
    assert "nobody listens there" in refused.one_line
    assert "start the other end again" in refused.one_line


def test_a_directory_that_may_not_be_written_to(transfers: Transfers) -> None:
    transfers.directory.chmod(0o555)
    ended = transfers.start("h1", [*WITHOUT_OVERRIDE, *MRC, "recv", "--dir", transfers.directory]).end().failed()
    assert "is not writable" in ended.one_line
    assert "--dir" in ended.one_line
    assert ended.out == ""


@pytest.mark.parametrize("how", ["a small file system", "a file size limit"])
def test_a_full_disk(transfers: Transfers, need_program: Callable[[str], str], how: str) -> None:
    if how == "a small file system":
        script = 'mount -t tmpfs -o size=1m none "$0" && exec "$@"'
        prefix = [need_program("unshare"), "--mount", "sh", "-c", script, str(transfers.directory)]
        receiver = transfers.recv("--once", prefix=prefix)
    else:
        receiver = transfers.recv("--once", limits={resource.RLIMIT_FSIZE: MIB})
    refused = transfers.send(receiver, [transfers.file("file", 4 * MIB)]).end().failed()
    assert f"no room for {4 * MIB} bytes" in refused.one_line
    receiver.end().failed()
    assert os.listdir(transfers.directory) == []


def test_a_small_file_still_fits_after_a_large_one_did_not(transfers: Transfers) -> None:
    script = 'mount -t tmpfs -o size=1m none "$0" && exec "$@"'
    receiver = transfers.recv("--json", prefix=["unshare", "--mount", "sh", "-c", script, str(transfers.directory)])
    transfers.send(receiver, [transfers.file("large", 4 * MIB)]).end().failed()
    # Fills what there is but for a page or two, which only works when nothing of the large one is left.
    transfers.send(receiver, [transfers.file("small", MIB - 8192)]).end().succeeded()


@pytest.mark.parametrize("where", ["in no directory", "on a full disk"])
def test_statistics_that_cannot_be_written(transfers: Transfers, where: str) -> None:
    stats = Path("/dev/full") if where == "on a full disk" else transfers.scratch / "none" / "stats"
    receiver = transfers.recv("--idle-timeout", "1s")
    refused = transfers.send(receiver, [transfers.file("file", 5000)], "--stats", stats).end().failed()
    assert str(stats) in refused.one_line


def test_a_file_that_shrinks_while_it_is_sent(transfers: Transfers) -> None:
    file, stats = transfers.file("file", 8 * MIB), transfers.scratch / "stats"
    receiver = transfers.recv("--idle-timeout", "2s", "--once")
    sender = transfers.send(receiver, [file], "--stats", stats)
    transfers.when_acked(stats, 0.01, sender)
    os.truncate(file, 0)
    assert str(file) in sender.end().failed().one_line
    receiver.end().failed()
    assert transfers.whole() == []


def test_a_file_that_grows_while_it_is_sent(transfers: Transfers) -> None:
    """As a log does, which another program has open for writing."""
    transfers.in_time(partial(grows_while_it_is_sent, transfers), 2, 8, 32)


def grows_while_it_is_sent(transfers: Transfers, mib: int) -> None:
    file, stats = transfers.file("log", mib * MIB), transfers.scratch / f"stats of {mib} MiB"
    with file.open("ab") as writer:
        receiver = transfers.recv("--idle-timeout", "2s", "--once")
        sender = transfers.send(receiver, [file], "--stats", stats)
        transfers.when_acked(stats, 0.01, sender)
        writer.write(b"a line")
        writer.flush()
        said = sender.end().failed().one_line
    assert f"{file} grew from {mib * MIB} to {mib * MIB + 6} bytes while it was sent" in said
    receiver.end().failed()
    assert transfers.whole() == []


def test_a_host_of_another_fabric(transfers: Transfers) -> None:
    """The description of h1 does not fit h0: its addresses are not there."""
    fabric = transfers.lab.fabric_path("h1")
    ended = transfers.start("h0", [*MRC, "recv", "--fabric", fabric], cwd=transfers.scratch).end().failed()
    assert "is the fabric up?" in ended.one_line


def test_outside_any_fabric(transfers: Transfers) -> None:
    file = transfers.file("file", 10)
    receiver = transfers.recv("--once")
    srv6 = ["--mode", "srv6"]
    for command in (["send", str(file), receiver.ticket, *srv6], ["recv", "--dir", str(transfers.directory), *srv6]):
        ended = transfers.start("p0s0", [*MRC, *command]).end()
        assert ended.code in (1, 2)
        assert "no fabric" in ended.err
        assert "--fabric" in ended.err
    # Without a fabric the mode is udp, which is not that of a receiver on a fabric.
    ended = transfers.start("p0s0", [*MRC, "send", str(file), receiver.ticket]).end().failed()
    assert "--mode" in ended.one_line
