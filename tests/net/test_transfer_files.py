# SPDX-License-Identifier: BSD-2-Clause
"""Files that appear whole or not at all, with unnamed files and with the hidden names of lesser file systems."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrc.errors import CallerError, PeerError, SystemRefused
from mrc.net.transfer.directory import Directory
from mrc.net.transfer.incoming import IncomingFile
from mrc.net.transfer.names import file_path, plain_name, shown
from mrc.net.transfer.outgoing import OutgoingFile
from mrc.net.transfer.sums import FileSum, Sums

SUMS = Sums(bytes(16))


@pytest.fixture(params=["unnamed", "hidden name"])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where the file system knows no unnamed files, the kernel says EOPNOTSUPP to O_TMPFILE."""
    if request.param == "hidden name":
        real = os.open

        def refuse(path: Any, flags: int, *args: Any, **more: Any) -> int:
            if flags & os.O_TMPFILE == os.O_TMPFILE:
                raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
            return real(path, flags, *args, **more)

        monkeypatch.setattr(os, "open", refuse)
    return str(request.param)


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Directory]:
    (tmp_path / "in").mkdir()
    made = Directory(tmp_path / "in", overwrite=False)
    yield made
    made.close()


@pytest.fixture
def overwriting(tmp_path: Path) -> Iterator[Directory]:
    (tmp_path / "in").mkdir()
    made = Directory(tmp_path / "in", overwrite=True)
    yield made
    made.close()


def incoming(directory: Directory, name: str, content: bytes) -> IncomingFile:
    file = IncomingFile(directory, (name,), len(content))
    if content:
        part = file.part(0, len(content))
        part.map[:] = content
        part.store()
        part.close()
    return file


def names(directory: Directory) -> list[str]:
    return sorted(os.listdir(directory.path))


@pytest.mark.parametrize("content", [b"", b"abc"])
def test_a_file_has_its_name_only_once_committed(kind: str, directory: Directory, content: bytes) -> None:
    file = incoming(directory, "file", content)
    assert "file" not in names(directory)
    assert len(names(directory)) == (0 if kind == "unnamed" else 1)
    assert file.sum(FileSum(SUMS, 0)) == SUMS.of_content(0, content)
    file.commit()
    assert names(directory) == ["file"]
    assert (directory.path / "file").read_bytes() == content
    assert os.stat(directory.path / "file").st_nlink == 1


def blocks(file: IncomingFile) -> int:
    """Bytes of disk that a file takes."""
    return os.fstat(file._descriptor).st_blocks * 512


@pytest.mark.parametrize("size", [1, 4095, 4096, 4097, 1 << 20])
def test_a_part_takes_its_whole_space_at_once_and_a_file_none(kind: str, directory: Directory, size: int) -> None:
    file = IncomingFile(directory, ("file",), size + 8192)
    assert blocks(file) == 0
    file.part(0, 8192).close()
    assert 8192 <= blocks(file) < 8192 + size
    file.part(8192, size).close()
    assert os.fstat(file._descriptor).st_size == size + 8192
    assert blocks(file) >= size + 8192
    file.discard()


def test_parts_of_a_file_lie_where_they_belong(kind: str, directory: Directory) -> None:
    file = IncomingFile(directory, ("file",), 8192 + 3)
    for offset, content in ((0, b"a" * 4096), (4096, b"b" * 4096), (8192, b"end")):
        part = file.part(offset, len(content))
        part.map[:] = content
        part.store()
        part.close()
        part.close()
    file.commit()
    assert (directory.path / "file").read_bytes() == b"a" * 4096 + b"b" * 4096 + b"end"


def test_a_disk_that_fills_up_meanwhile_is_refused_where_it_does(
    kind: str, directory: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = IncomingFile(directory, ("file",), 8192)
    file.part(0, 4096).close()

    def full(descriptor: int, offset: int, length: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(SystemRefused, match=f"no room for 4096 bytes in {directory.path}"):
        file.part(4096, 4096)
    file.discard()
    assert names(directory) == []


def test_what_is_discarded_leaves_nothing(kind: str, directory: Directory) -> None:
    before = len(os.listdir("/proc/self/fd"))
    file = incoming(directory, "file", b"x" * 5000)
    part = file.part(0, 4096)
    view = memoryview(part.map)
    # A region may still look into it.
    part.close()
    file.discard()
    file.discard()
    view.release()
    part.map.close()
    assert names(directory) == []
    assert len(os.listdir("/proc/self/fd")) == before
    incoming(directory, "file", b"second").commit()
    assert (directory.path / "file").read_bytes() == b"second"


def test_an_existing_name_is_refused_when_announced(kind: str, directory: Directory) -> None:
    (directory.path / "file").write_bytes(b"older")
    (directory.path / "link").symlink_to("nowhere")
    (directory.path / "sub").mkdir()
    for name in ("file", "link", "sub"):
        with pytest.raises(CallerError, match=r"exists at the receiver: start it with --overwrite"):
            IncomingFile(directory, (name,), 10)
    assert names(directory) == ["file", "link", "sub"]
    assert (directory.path / "file").read_bytes() == b"older"


def test_a_name_taken_while_the_file_arrives_is_not_replaced(kind: str, directory: Directory) -> None:
    file = incoming(directory, "file", b"ours")
    (directory.path / "file").write_bytes(b"theirs")
    with pytest.raises(CallerError, match="exists at the receiver"):
        file.commit()
    assert names(directory) == ["file"]
    assert (directory.path / "file").read_bytes() == b"theirs"


def test_a_name_on_its_way_is_refused(kind: str, directory: Directory) -> None:
    first = incoming(directory, "file", b"first")
    with pytest.raises(CallerError, match="file is being received already"):
        IncomingFile(directory, ("file",), 10)
    # A refused one must not give the name of the first free.
    with pytest.raises(CallerError, match="file is being received already"):
        IncomingFile(directory, ("file",), 10)
    first.commit()
    assert (directory.path / "file").read_bytes() == b"first"


def test_overwriting_replaces_only_what_is_whole(kind: str, overwriting: Directory) -> None:
    (overwriting.path / "file").write_bytes(b"older")
    first, second = incoming(overwriting, "file", b"first"), incoming(overwriting, "file", b"second")
    assert (overwriting.path / "file").read_bytes() == b"older"
    first.discard()
    assert (overwriting.path / "file").read_bytes() == b"older"
    second.commit()
    assert (overwriting.path / "file").read_bytes() == b"second"
    assert names(overwriting) == ["file"]


def test_overwriting_does_not_follow_links_nor_replace_directories(
    kind: str, overwriting: Directory, tmp_path: Path
) -> None:
    (overwriting.path / "file").symlink_to(tmp_path / "outside")
    (overwriting.path / "sub").mkdir()
    incoming(overwriting, "file", b"inside").commit()
    assert not (tmp_path / "outside").exists()
    assert not (overwriting.path / "file").is_symlink()
    with pytest.raises(SystemRefused, match="sub"):
        incoming(overwriting, "sub", b"x").commit()
    assert names(overwriting) == ["file", "sub"]


def test_committed_files_have_the_mode_the_umask_leaves(kind: str, directory: Directory) -> None:
    before = os.umask(0o027)
    try:
        incoming(directory, "file", b"abc").commit()
    finally:
        os.umask(before)
    assert os.stat(directory.path / "file").st_mode & 0o777 == 0o640


@pytest.mark.parametrize("size", [1 << 46, (1 << 50) - 1])
def test_no_room(kind: str, directory: Directory, size: int) -> None:
    with pytest.raises(SystemRefused, match=f"no room for {size} bytes in {directory.path}"):
        IncomingFile(directory, ("file",), size)
    assert names(directory) == []
    incoming(directory, "file", b"abc").commit()


@pytest.mark.parametrize(
    "name",
    # A name that is no UTF-8 travels as os.fsdecode wrote it.
    ["plain", "...", ".hidden", "-rf", "C:\\dir", "with space\n", "n" * 255, "é" * 127, "\udcff\udc80"],
)
def test_plain_names(name: str) -> None:
    assert plain_name(name) == name


@pytest.mark.parametrize(
    "name",
    [
        *("", ".", "..", "/", "a/", "a/b", "/etc", "a\0b", "\0", "n" * 256, "é" * 128, "\ud800", "a\ud83d"),
        *(None, 7, [], True),
        ".file.mrc-part",
    ],
)
def test_names_that_are_refused(name: object) -> None:
    with pytest.raises(PeerError, match="the sender's file name"):
        plain_name(name)
    with pytest.raises(PeerError, match="the sender's file name"):
        file_path(["fine", name], 4096)


@pytest.mark.parametrize("names", [None, "a", [], {}, 7, ["a"] * 101])
def test_paths_that_are_none(names: object) -> None:
    with pytest.raises(PeerError, match=r"a list of 1\.\.100 names is expected"):
        file_path(names, 4096)


def test_a_path_has_a_bound() -> None:
    assert file_path(["a" * 50, "b" * 49], 100) == ("a" * 50, "b" * 49)
    with pytest.raises(PeerError, match="has 101 bytes, at most 100 are taken"):
        file_path(["a" * 50, "b" * 50], 100)


@given(st.lists(st.text(st.characters(exclude_categories=()), max_size=300), max_size=5))
def test_any_path_stays_below_its_directory_or_is_the_peers_error(names: list[str]) -> None:
    try:
        path = file_path(names, 4096)
    except PeerError:
        return
    assert os.path.normpath(shown(path)) == shown(path)
    assert not shown(path).startswith(("/", "../"))


def test_directories_that_will_not_do(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for path, why in ((tmp_path / "none", "No such file"), (tmp_path / "file", "Not a directory")):
        with pytest.raises(SystemRefused, match=why) as raised:
            Directory(path, overwrite=False)
        assert str(path) in str(raised.value)


def sum_of(file: OutgoingFile) -> str:
    made = FileSum(SUMS, 0)
    file.sum(made)
    return made.text(file.size)


@pytest.mark.parametrize("content", [b"", b"abc"])
def test_a_file_to_send(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "file").write_bytes(content)
    file = OutgoingFile(tmp_path / "file")
    assert (file.size, sum_of(file)) == (len(content), SUMS.of_content(0, content))
    file.close()
    file.close()


def test_what_cannot_be_sent(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "loop").symlink_to("loop")
    for name, why in (
        ("fifo", "is a pipe"),
        (".", "is a directory"),
        ("none", "No such file"),
        ("loop", "symbolic links"),
    ):
        before = len(os.listdir("/proc/self/fd"))
        with pytest.raises(CallerError, match=why):
            OutgoingFile(tmp_path / name)
        assert len(os.listdir("/proc/self/fd")) == before


def test_a_link_to_a_file_is_sent_as_the_file(tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(b"abc")
    (tmp_path / "link").symlink_to("target")
    file = OutgoingFile(tmp_path / "link")
    assert sum_of(file) == SUMS.of_content(0, b"abc")
    file.close()
