# SPDX-License-Identifier: BSD-2-Clause
"""A full disk, under standard output and under files: one line that names what could not be written, exit status 1."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import programs
import pytest
from patience import PATIENCE_S
from programs import MRC

from mrc.capture.wireshark.source import MARKER
from mrc.cli import commands
from mrc.errors import SystemRefused
from mrc.whole_files import LineFile, whole_file, write_whole

CAPTURE = str(Path(__file__).parents[2] / "pcaps" / "softroce-rc-ipv4-ipv6.pcap")
LIMIT = 200  # bytes a file may have, less than any of the outputs below
NO_ROOM = "cannot be written: No space left on device\n"


@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["", "unbuffered"])
@pytest.mark.parametrize(
    "argv",
    [
        ["--help"],
        ["lab", "--help"],
        ["conformance", "list"],
        ["wireshark", "print"],
        ["wireshark", "print", "--json"],
        ["drill", "list"],
        ["drill", "list", "--json"],
        ["craft", "sack", "--hex"],
        ["craft", "sack", "--json"],
        ["craft", "write", "--count", "100", "-o", "-"],
        ["lab", "schema"],
        ["doctor", "--json"],
    ],
    ids=" ".join,
)
def test_standard_output(argv: list[str], unbuffered: str) -> None:
    """/dev/full refuses each write with ENOSPC (full(4))."""
    with (
        open("/dev/full", "wb") as full,
        programs.start(
            [*MRC, *argv],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
        ) as process,
    ):
        _, said = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, said) == (1, f"Error: output {NO_ROOM}")


@pytest.mark.parametrize("closed", [">&-", ">&- <&-", ">&- 2>file <&-"])
@pytest.mark.parametrize("command", ["--help", "--version", "lab schema", "drill list --json", f"analyze {CAPTURE}"])
def test_a_standard_output_that_is_closed(command: str, closed: str, tmp_path: Path) -> None:
    line = f"{sys.executable} -m mrc {command} {closed}"
    ended = subprocess.run(["sh", "-c", line], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_S)
    said = ended.stderr + "".join(each.read_text() for each in tmp_path.iterdir())
    assert (ended.returncode, said) == (
        1,
        "Error: standard output is closed: print to a file (> FILE) or throw it away (> /dev/null)\n",
    )


@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["", "unbuffered"])
@pytest.mark.parametrize("stderr", ["full", "nobody reads"])
@pytest.mark.parametrize(("argv", "status"), [(["analyze", "nosuch.pcap"], 2), (["analyze", __file__], 1)])
def test_a_standard_error_that_takes_nothing(argv: list[str], status: int, stderr: str, unbuffered: str) -> None:
    """The command ends as it does; Python ends with 120 where it cannot write what is left in stderr's buffer."""
    if stderr == "full":
        refusing = os.open("/dev/full", os.O_WRONLY)
    else:
        reading, refusing = os.pipe()
        os.close(reading)
    try:
        environment = os.environ | ({"PYTHONUNBUFFERED": "1"} if unbuffered else {})
        ended = programs.run([*MRC, *argv], stderr=refusing, timeout=PATIENCE_S, env=environment)
    finally:
        os.close(refusing)
    assert ended.returncode == status


@pytest.mark.root
def test_a_receiver_whose_ticket_is_lost_does_not_wait_for_a_sender() -> None:
    with open("/dev/full", "w") as full:
        argv = [*MRC, "recv", "-", "--mode", "udp", "--bind", "127.0.0.1"]
        assert programs.run(argv, stderr=full, timeout=PATIENCE_S).returncode == 1


def test_an_interrupted_line_is_written_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever in our part of a write the interrupt comes, what is printed next does not bring the line again."""

    def interrupting(frame: FrameType, event: str, _: object) -> Any:
        if frame.f_code.co_filename != commands.__file__:
            return None
        if event == "return":
            raise KeyboardInterrupt
        return interrupting

    reading, writing = os.pipe()
    with open(reading, "rb") as read, open(writing, "w", buffering=1) as stderr:
        monkeypatch.setattr(sys, "stderr", stderr)
        commands.buffer_output()
        traced = sys.gettrace()
        sys.settrace(interrupting)
        try:
            with pytest.raises(KeyboardInterrupt):
                sys.stderr.write("a line\n")
        finally:
            sys.settrace(traced)
        sys.stderr.write("interrupted\n")
        stderr.close()
        assert read.read().decode().splitlines() == ["a line", "interrupted"]


def test_no_file_takes_the_place_of_a_closed_output() -> None:
    """What is printed would go into it."""
    program = "import os, mrc.cli.commands as c; c.open_what_is_closed(); os._exit(os.open(os.devnull, 0))"
    line = f"exec >&- 2>&- <&-; exec {sys.executable} -c '{program}'"
    assert subprocess.run(["sh", "-c", line], timeout=PATIENCE_S, check=False).returncode == 3


@pytest.mark.parametrize("name", ["x.pcap", "x.pcapng"])
def test_a_capture_that_is_made(name: str, tmp_path: Path) -> None:
    (tmp_path / name).symlink_to("/dev/full")
    argv = [*MRC, "craft", "write", "--count", "3", "-o", str(tmp_path / name)]
    ended = programs.run(argv, capture_output=True, text=True, timeout=PATIENCE_S)
    assert (ended.returncode, ended.stderr) == (1, f"Error: {tmp_path / name}: {NO_ROOM}")


def limited(argv: list[str], directory: Path) -> subprocess.CompletedProcess[str]:
    """The command in a directory, where files may have LIMIT bytes: more is refused with EFBIG (setrlimit(2))."""
    return programs.run(
        [*MRC, *argv],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        limits={resource.RLIMIT_FSIZE: LIMIT},
    )


@pytest.mark.parametrize("before", [None, b"as it was"], ids=["new", "there before"])
@pytest.mark.parametrize(
    ("argv", "name"),
    [
        (["analyze", CAPTURE, "--out", "."], "report.html"),
        (["analyze", CAPTURE, "--parquet", "x.parquet"], "x.parquet"),
        (["conformance", "run", "--id", "MRC-SACK-04", "--html", "x.html"], "x.html"),
        (["conformance", "run", "--id", "MRC-SACK-04", "--junit", "x.xml"], "x.xml"),
        (["conformance", "run", "--id", "MRC-SACK-04", "--pcap-dir", "."], "MRC-SACK-04.pcap"),
        (["craft", "write", "--count", "100", "-o", "x.pcap"], "x.pcap"),
        (["craft", "write", "--count", "100", "-o", "x.pcapng"], "x.pcapng"),
        (["wireshark", "install", "--dir", "."], "mrc.lua"),
    ],
    ids=lambda value: " ".join(value[:2]) if isinstance(value, list) else value,
)
def test_a_file_is_whole_or_not_there(argv: list[str], name: str, before: bytes | None, tmp_path: Path) -> None:
    if name.endswith(".parquet"):
        pytest.importorskip("pyarrow.parquet")
    if before is not None:
        # An older script of ours may be replaced, one of somebody else's not.
        before = MARKER.encode() if name == "mrc.lua" else before
        (tmp_path / name).write_bytes(before)
    ended = limited(argv, tmp_path)
    assert ended.returncode == 1, ended
    said = ended.stderr.splitlines()[-1]
    assert name in said
    if before is None:
        assert said.endswith("cannot be written: File too large; no part of it is left"), said
        assert not list(tmp_path.iterdir())
    else:
        assert said.endswith("cannot be written: File too large; what was there is unchanged"), said
        assert [path.read_bytes() for path in tmp_path.iterdir()] == [before]


class TestWholeFiles:
    def test_it_has_its_name_only_at_the_end(self, tmp_path: Path) -> None:
        with whole_file(tmp_path / "x") as part:
            part.write_text("half")
            assert not (tmp_path / "x").exists()
        assert (tmp_path / "x").read_text() == "half"
        assert os.listdir(tmp_path) == ["x"]

    @pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
    def test_what_ends_the_work_leaves_nothing(self, tmp_path: Path, error: type[BaseException]) -> None:
        def work() -> None:
            with whole_file(tmp_path / "x") as part:
                part.write_text("half")
                raise error

        with pytest.raises(error):
            work()
        assert not os.listdir(tmp_path)

    def test_a_link_is_followed_and_permissions_are_kept(self, tmp_path: Path) -> None:
        (tmp_path / "there").mkdir()
        target = tmp_path / "there" / "x"
        target.write_text("old")
        target.chmod(0o640)
        (tmp_path / "link").symlink_to(target)
        assert write_whole(tmp_path / "link", "n\u00e9w") == 4
        assert (tmp_path / "link").is_symlink()
        assert target.read_bytes() == b"n\xc3\xa9w"
        assert target.stat().st_mode & 0o777 == 0o640

    def test_a_device_is_written_to_as_it_is(self) -> None:
        with pytest.raises(SystemRefused, match=r"^/dev/full: cannot be written: No space left on device$"):
            write_whole("/dev/full", "x")
        write_whole("/dev/null", "x")

    def test_a_name_that_is_none(self, tmp_path: Path) -> None:
        with pytest.raises(SystemRefused, match=r"no/x: cannot be written: No such file or directory"):
            write_whole(tmp_path / "no" / "x", "x")
        with pytest.raises(SystemRefused, match="cannot be written: Is a directory"):
            write_whole(tmp_path, "x")

    def test_a_line_is_whole_or_not_there(self, tmp_path: Path) -> None:
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        lines = LineFile(tmp_path / "x")
        resource.setrlimit(resource.RLIMIT_FSIZE, (10, before[1]))
        try:
            lines.write("seven 7")
            with pytest.raises(SystemRefused, match="x: cannot be written: File too large; the lines before are whole"):
                lines.write("again 7")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
            lines.close()
        assert (tmp_path / "x").read_text() == "seven 7\n"
