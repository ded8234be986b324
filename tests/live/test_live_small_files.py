# SPDX-License-Identifier: BSD-2-Clause
"""Directories of many small files: packed, compared, refused one by one, and what does not keep a tree back."""

from __future__ import annotations

import os
import random
import stat
import subprocess
from pathlib import Path

import pytest
from live_run import Ended, Running, Transfers
from patience import eventually
from programs import MRC

pytestmark = pytest.mark.root

# Around what is packed: a file of 64 KiB is, a larger one and an empty one travel alone.
SIZES = (0, 1, 16, 4095, 4096, 4097, 65_535, 65_536, 65_537, 200_000)


def tree(root: Path, count: int = 400) -> Path:
    """Files of all those sizes, in directories, each with a mode and a time of its own."""
    chance = random.Random(f"small {count}")
    for number in range(count):
        path = root / f"d{number % 7}" / f"e{number % 3}" / f"file {number}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(chance.randbytes(SIZES[number % len(SIZES)]))
        path.chmod(chance.choice((0o600, 0o644, 0o755, 0o444)))
        os.utime(path, ns=(1, 10**18 + number * 1_000_000_007))
    return root


def described(root: Path) -> dict[str, tuple[int, int, bytes]]:
    """Mode, time and content of every file below."""
    found = {}
    for path in sorted(root.rglob("*")):
        if path.is_file():
            status = path.stat()
            found[str(path.relative_to(root))] = stat.S_IMODE(status.st_mode), status.st_mtime_ns, path.read_bytes()
    return found


def partly(ended: Ended) -> Ended:
    assert ended.code == 23, (ended.code, ended.out, ended.err)
    return ended.no_traceback()


def opened_below(directory: Path, running: Running) -> list[str]:
    """What a process has open in a directory, files without a name too."""
    opened = [os.path.realpath(each) for each in Path(f"/proc/{running.process.pid}/fd").iterdir()]
    return [each for each in opened if each.startswith(f"{directory}/")]


def test_a_tree_arrives_as_it_is_and_is_not_sent_twice(transfers: Transfers) -> None:
    root = tree(transfers.scratch / "tree")
    receiver = transfers.recv("--overwrite")
    sent = transfers.send(receiver, [root], "--json").end().succeeded().document
    assert described(transfers.directory / "tree") == described(root)
    assert sent["bytes"] == sum(len(content) for _, _, content in described(root).values())
    assert sent["data_seconds"] <= sent["seconds"]
    assert {each["name"] for each in sent["files"]} == {f"tree/{name}" for name in described(root)}
    again = transfers.send(receiver, [root], "--json").end().succeeded().document
    assert again["skipped_bytes"] == again["bytes"] == sent["bytes"]
    # One byte in one of them: that file alone.
    changed = root / "d1" / "e1" / "file 1"
    changed.chmod(0o644)
    changed.write_bytes(b"y")
    third = transfers.send(receiver, [root], "--json").end().succeeded().document
    assert third["bytes"] - third["skipped_bytes"] == 1
    assert described(transfers.directory / "tree") == described(root)


def test_what_may_not_be_replaced_is_named_and_the_rest_is_sent(transfers: Transfers) -> None:
    names = [f"file {number}" for number in range(20)]
    files = []
    for number, name in enumerate(names):
        path = transfers.file(f"from/{name}", SIZES[number % len(SIZES)])
        files.append(path)
    transfers.directory.joinpath(names[3]).write_bytes(b"another")
    transfers.directory.joinpath(names[9]).write_bytes(b"z" * 200_000)
    receiver = transfers.recv()
    ended = partly(transfers.send(receiver, files, "--json").end())
    assert {each["name"] for each in ended.document["refused"]} == {names[3], names[9]}
    assert ended.err.count("start it with --overwrite to replace it") == 2
    for name in (names[3], names[9]):
        assert f"not sent: {name}: " in ended.err
    arrived = {name: transfers.directory.joinpath(name).read_bytes() for name in names}
    assert arrived.pop(names[3]) == b"another"
    assert arrived.pop(names[9]) == b"z" * 200_000
    assert arrived == {path.name: path.read_bytes() for path in files if path.name in arrived}


def test_what_a_receiver_left_in_a_tree_does_not_keep_it_back(transfers: Transfers) -> None:
    root = tree(transfers.scratch / "tree", 10)
    (root / "d1" / ".big.iso.mrc-part").write_bytes(b"half")
    receiver = transfers.recv()
    ended = partly(transfers.send(receiver, [root]).end())
    assert "/.big.iso.mrc-part: what a receiver keeps of a transfer that broke" in ended.err
    (root / "d1" / ".big.iso.mrc-part").unlink()
    assert described(transfers.directory / "tree") == described(root)


def test_what_is_not_sent_beside_one_file_is_named(transfers: Transfers) -> None:
    """transfer.md, What arrives: "Each is named". In the document too."""
    transfers.file("tree/whole", 10)
    half = transfers.file("tree/.half.mrc-part", 10)
    receiver = transfers.recv("--overwrite")
    why = "what a receiver keeps of a transfer that broke"
    assert f"not sent: {half}: {why}" in partly(transfers.send(receiver, [half.parent]).end()).err
    document = partly(transfers.send(receiver, [half.parent], "--json").end()).document
    assert document["unread"] == [{"name": str(half), "why": why}]
    assert document["refused"] == []


def test_directories_without_a_file_are_sent_and_said(transfers: Transfers) -> None:
    (transfers.scratch / "none" / "below").mkdir(parents=True)
    receiver = transfers.recv("--once")
    sent = transfers.send(receiver, [transfers.scratch / "none"]).end().succeeded()
    assert sent.out == "no file sent: there are none but directories\n"
    receiver.end().succeeded()
    assert (transfers.directory / "none" / "below").is_dir()


def test_what_is_excluded_is_not_sent(transfers: Transfers) -> None:
    root = tree(transfers.scratch / "tree", 40)
    receiver = transfers.recv()
    transfers.send(receiver, [root], "--exclude", "d2", "--exclude", "d3/e0/*", "--exclude", "* 1").end().succeeded()
    wanted = {
        name: what
        for name, what in described(root).items()
        if not name.startswith(("d2/", "d3/e0/")) and not name.endswith(" 1")
    }
    assert described(transfers.directory / "tree") == wanted
    assert len(wanted) < 40


def test_a_file_that_is_on_its_way_from_another_sender_is_refused_by_its_name(transfers: Transfers) -> None:
    receiver = transfers.recv()
    words = [*MRC, "send", "-", receiver.ticket, "--name", "large", "--json"]
    first = transfers.start("h0", words, stdin=subprocess.PIPE)
    eventually(lambda: opened_below(transfers.directory, receiver))
    second = transfers.send(receiver, [transfers.file("large", 100_000)]).end().failed()
    assert "large is being received already: wait for it" in second.err
    first.process.stdin.close()
    first.process.stdin = None
    assert first.end().succeeded().document["bytes"] == 0
