# SPDX-License-Identifier: BSD-2-Clause
"""Files whose size says little, files that change under way, and what is no file at all."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from mrc.errors import CallerError
from mrc.net.transfer import outgoing
from mrc.net.transfer.outgoing import OutgoingFile
from mrc.net.transfer.sums import FileSum, Sums

SUMS = Sums()


def whole(path: str | Path) -> bytes:
    """What a file to send holds, as it is mapped; its sum has to be the same."""
    file = OutgoingFile(path)
    try:
        held = bytes(file.map) if file.map is not None else b""
        assert len(held) == file.size
        made = FileSum(SUMS, 0)
        file.sum(made)
        assert made.text(file.size) == SUMS.of_content(0, held)
        return held
    finally:
        file.close()


@pytest.mark.parametrize("path", ["/proc/version", "/proc/self/cmdline", "/proc/filesystems"])
def test_a_file_without_a_size_is_sent_whole(path: str) -> None:
    """stat says 0 bytes of each file in procfs that has something to say (proc(5))."""
    assert os.stat(path).st_size == 0
    assert whole(path) == Path(path).read_bytes() != b""


@pytest.mark.parametrize("path", ["/sys/class/net/lo/mtu", "/sys/class/net/lo/address"])
def test_a_file_that_holds_less_than_its_size_is_sent_as_it_reads(path: str) -> None:
    """stat says a page, 4096 bytes, of each attribute in sysfs, however short it is (sysfs.rst)."""
    assert os.stat(path).st_size == 4096
    assert whole(path) == Path(path).read_bytes() != b""


def test_an_empty_file_is_empty(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    assert whole(tmp_path / "empty") == b""


def test_a_file_without_a_size_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    length = len(Path("/proc/filesystems").read_bytes())
    monkeypatch.setattr(outgoing, "MOST_READ_FIRST", length - 1)
    with pytest.raises(CallerError, match=r"/proc/filesystems reports no size.*copy it to a disk"):
        OutgoingFile("/proc/filesystems")
    monkeypatch.setattr(outgoing, "MOST_READ_FIRST", length)
    OutgoingFile("/proc/filesystems").close()


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("directory", "is a directory, not a file"),
        ("fifo", r"is a pipe.*mrc send - TICKET"),
        ("socket", r"is a socket"),
        ("device", r"is a device.*into a file first"),
    ],
)
def test_what_is_no_file_is_refused_with_what_to_do(tmp_path: Path, kind: str, says: str) -> None:
    path = tmp_path / "it"
    if kind == "directory":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(str(path))
    else:
        path = Path("/dev/null")
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(CallerError, match=f"^{path} {says}"):
        OutgoingFile(path)
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """A file that another program has open for writing, as a log is: the system grants no lease on it (fcntl(2))."""
    path = tmp_path / "log"
    path.write_bytes(b"x" * 10_000)
    return path


@pytest.mark.parametrize(
    ("length", "says"), [(10_001, "grew from 10000 to 10001 bytes"), (9_999, "shrank from 10000 to 9999 bytes")]
)
def test_a_file_that_changes_its_size_is_refused_while_it_is_sent(written: Path, length: int, says: str) -> None:
    with written.open("r+b") as writer:
        file = OutgoingFile(written)
        file.check()
        writer.truncate(length)
        with pytest.raises(CallerError, match=f"{says} while it was sent.*send a copy"):
            file.check()
        with pytest.raises(CallerError, match=says):
            file.check_unchanged()
        file.close()


def test_a_file_that_changes_in_place_is_refused_at_its_end(written: Path) -> None:
    with written.open("r+b") as writer:
        file = OutgoingFile(written)
        file.check_unchanged()
        os.utime(written, ns=(1, 1))  # long ago, so that no clock is too coarse to tell
        file.close()
        file = OutgoingFile(written)
        writer.write(b"y")
        writer.flush()
        with pytest.raises(CallerError, match=r"was written to while it was sent.*send a copy"):
            file.check_unchanged()
        file.close()
