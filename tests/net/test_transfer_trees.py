# SPDX-License-Identifier: BSD-2-Clause
"""Directories to send, and the stretches of files that hold data."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
from draws import draws
from hypothesis import given, settings
from hypothesis import strategies as st

from mrc.errors import CallerError
from mrc.net.transfer.outgoing import OutgoingFile
from mrc.net.transfer.terms import STRETCH_UNIT
from mrc.net.transfer.tree import consignment, skipped_text

MIB = 1 << 20


def test_a_tree_is_listed_directories_first(tmp_path: Path) -> None:
    top = tmp_path / "top"
    (top / "b" / "empty").mkdir(parents=True)
    (top / "b").chmod(0o750)
    (top / "b" / "inner").write_bytes(b"abc")
    (top / "a").write_bytes(b"")
    found = consignment([top, tmp_path / "top" / "a"])
    assert [each.path for each in found.directories] == [("top",), ("top", "b"), ("top", "b", "empty")]
    assert [each.path for each in found.files] == [("top", "a"), ("top", "b", "inner"), ("a",)]
    assert found.directories[1].attributes == {"mode": 0o750, "mtime_ns": (top / "b").stat().st_mtime_ns}
    assert found.skipped == []


def test_what_is_no_file_is_skipped_and_named(tmp_path: Path) -> None:
    """A link could name anything: what is outside of the directory is not sent with it."""
    (tmp_path / "top").mkdir()
    (tmp_path / "top" / "link").symlink_to("/etc/passwd")
    (tmp_path / "top" / "round").symlink_to(".")
    os.mkfifo(tmp_path / "top" / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "top" / "socket"))
    found = consignment([tmp_path / "top"])
    assert found.files == []
    assert [kind for _, kind in found.skipped] == ["symbolic link", "pipe", "symbolic link", "socket"]
    assert skipped_text(found) == f"not sent: {tmp_path}/top/link, a symbolic link, and 3 more that are no files"


def test_a_directory_named_by_dots_is_sent_under_its_own_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here" / "below").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "here" / "below")
    assert consignment(["."]).directories[0].path == ("below",)
    assert consignment([".."]).directories[0].path == ("here",)
    with pytest.raises(CallerError, match="/ has no name"):
        consignment(["/"])


def test_two_of_one_name_are_refused(tmp_path: Path) -> None:
    for name in ("a/x", "b/x"):
        (tmp_path / name).mkdir(parents=True)
    with pytest.raises(CallerError, match="would be one file at the receiver"):
        consignment([tmp_path / "a/x", tmp_path / "b/x"])
    (tmp_path / "stdin").touch()
    with pytest.raises(CallerError, match="would be one file"):
        consignment(["-", tmp_path / "stdin"])


@settings(max_examples=draws(10), deadline=None)
@given(
    pieces=st.lists(st.tuples(st.integers(0, 4 * MIB), st.integers(1, 200_000)), max_size=6),
    more=st.integers(0, MIB),
)
def test_stretches_hold_all_data_and_are_cut_on_units(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[tuple[int, int]], more: int
) -> None:
    path = tmp_path_factory.mktemp("sparse") / "file"
    with path.open("wb") as file:
        for offset, length in pieces:
            file.seek(offset)
            file.write(b"x" * length)
        file.truncate(max((offset + length for offset, length in pieces), default=0) + more)
    outgoing = OutgoingFile(path)
    try:
        stretches = outgoing.stretches()
        content = path.read_bytes()
        end = 0
        for offset, length in stretches:
            assert offset >= end
            assert offset % STRETCH_UNIT == 0
            assert length > 0
            assert not content[end:offset].strip(b"\0")
            end = offset + length
            assert end % STRETCH_UNIT == 0 or end == len(content)
        assert not content[end:].strip(b"\0")
    finally:
        outgoing.close()


def test_a_file_that_cannot_be_read_does_not_keep_its_tree_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / "tree" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "tree" / name).write_text(name)
    allowed = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path).name != "b" and allowed(path, mode))
    found = consignment([tmp_path / "tree"])
    assert [file.path for file in found.files] == [("tree", "a"), ("tree", "c")]
    assert found.lacking == [(tmp_path / "tree" / "b", "Permission denied")]
    with pytest.raises(CallerError, match="Permission denied"):
        consignment([tmp_path / "tree" / "b"])
