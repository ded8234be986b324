# SPDX-License-Identifier: BSD-2-Clause
"""What one sender can take of a receiver: files, descriptors, disk; and what is left for the others."""

from __future__ import annotations

import gc
import os
import resource
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrc.errors import CallerError, MrcError, PeerError, SystemRefused
from mrc.fabric import Clos
from mrc.net.session.qps import TUNING
from mrc.net.transfer.arrivals import Arrivals
from mrc.net.transfer.bounds import FilePlaces, SenderBounds
from mrc.net.transfer.directory import Directory
from mrc.net.transfer.terms import PARTS_OPEN
from mrc.net.transfer.tree import consignment
from mrc.sim import SimFabric
from mrc.sim.device import SimDevice
from mrc.verbs import PD, Context

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
SMALL = SenderBounds(files=3, reserved_bytes=2 * MIB, files_in_all=20, name_bytes=300)


@dataclass
class Sender:
    """One session: its requests, and writes into what they opened."""

    pd: PD
    directory: Directory
    places: FilePlaces
    bounds: SenderBounds = SMALL
    placed: int = 0
    arrivals: Arrivals = field(init=False)

    def __post_init__(self) -> None:
        self.arrivals = Arrivals(self.pd, self.directory, self.bounds, self.places, lambda: self.placed)

    def announce(self, index: int, size: int, name: str | None = None) -> dict[str, Any]:
        path = [name or f"file {id(self)} {index}"]
        return self.arrivals.open({"index": index, "path": path, "size": size, "offset": 0, "length": size})

    def extend(self, index: int, offset: int, length: int, done: int = 1) -> dict[str, Any]:
        return self.arrivals.extend({"index": index, "offset": offset, "length": length, "done": done})

    def commit(self, index: int, content: bytes) -> bool:
        return self.arrivals.commit({"index": index, "sum": self.arrivals.sums.of_content(index, content)}).sums_agree

    def write(self, opened: dict[str, Any], content: bytes) -> None:
        region = self.pd.memory.find(opened["rkey"])
        assert region is not None
        assert len(content) == region.length == opened["length"]
        region.array[:] = bytearray(content)
        self.placed += len(content)

    def send(self, index: int, content: bytes, name: str | None = None) -> bool:
        """A whole file, part by part."""
        opened, at, parts = self.announce(index, len(content), name), 0, 0
        while opened["length"]:
            assert opened["va"] == at
            self.write(opened, content[at : at + opened["length"]])
            at += opened["length"]
            if at == len(content):
                break
            parts += 1
            opened = self.extend(index, at, len(content) - at, parts)
        return self.commit(index, content)

    @property
    def rkeys(self) -> int:
        return len(self.pd.mrs)


class Hall:
    """A receiver without its network: senders come in, each in a protection domain of its own."""

    def __init__(self, path: Path) -> None:
        path.mkdir()
        self.path = path
        self.directory = Directory(path, overwrite=False)
        self.places = FilePlaces()
        self._context = Context(SimDevice(SimFabric(Clos(spines=2)), "h0"), tuning=TUNING)
        self.senders: list[Sender] = []

    def sender(self, **more: Any) -> Sender:
        made = Sender(self._context.pd(), self.directory, self.places, **more)
        self.senders.append(made)
        return made

    def close(self) -> None:
        for each in self.senders:
            each.arrivals.close()
            each.arrivals.close()
            assert each.rkeys == 0
        self._context.close()
        self.directory.close()


@pytest.fixture
def hall(tmp_path: Path) -> Iterator[Hall]:
    made = Hall(tmp_path / "in")
    yield made
    made.close()


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def refused(sender: Sender, index: int, size: int) -> str:
    with pytest.raises(MrcError) as raised:
        sender.announce(index, size)
    return str(raised.value)


# ------------------------------------------------------------------ files and descriptors


def test_a_greedy_sender_leaves_descriptors_for_all_others(hall: Hall) -> None:
    """1,000 files announced by one: a handful of descriptors, and fifty others send theirs."""
    before = descriptors()
    greedy, said = hall.sender(), set()
    for index in range(1000):
        try:
            greedy.announce(index, 10)
        except PeerError as error:
            said.add(str(error))
    assert said == {"3 files of this session are on their way, the most is 3: commit one before another is announced"}
    assert descriptors() <= before + 2 * 3
    for number in range(50):
        assert hall.sender().send(0, b"x" * 5000, f"honest {number}")
    assert len(os.listdir(hall.path)) == 50


def test_greedy_senders_together_leave_a_place_for_each_session_s_first_file(hall: Hall) -> None:
    hall.places = FilePlaces(20)
    greedy = [hall.sender() for _ in range(8)]
    for index in range(100):
        for each in greedy:
            try:
                each.announce(index, 10)
            except PeerError:
                continue
    # Ten further files at most, however they are spread; of the other ten places each session has one.
    assert sum(each.arrivals.on_their_way for each in greedy) <= 18
    assert hall.sender().send(0, b"abc", "honest")
    assert hall.sender().send(0, b"abc", "honest too")


def test_places_come_back(hall: Hall) -> None:
    hall.places = FilePlaces(1)
    first, second = hall.sender(), hall.sender()
    first.announce(0, 10)
    assert "ulimit -n" in refused(second, 0, 10)
    first.arrivals.close()
    assert second.send(0, b"abc")
    # However a file ends: committed, not as its sender says, refused when it is announced.
    opened = second.announce(1, 3)
    second.write(opened, b"abc")
    assert not second.arrivals.commit({"index": 1, "sum": "0"}).sums_agree
    assert "no room" in refused(second, 2, 1 << 49)
    (hall.path / "taken").write_bytes(b"")
    with pytest.raises(CallerError, match="exists"):
        second.announce(3, 3, "taken")
    assert second.send(4, b"abc")


def test_places_follow_the_limit_of_descriptors() -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(1024, limits[1]), limits[1]))
    try:
        places = FilePlaces()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    # (1024 - 256) / 2: enough for a file of each of the exchange's 256 sessions.
    for _ in range(384):
        places.reserve(0)
    with pytest.raises(PeerError):
        places.reserve(0)


def test_a_session_has_so_many_files_and_names_so_long(hall: Hall) -> None:
    sender = hall.sender()
    with pytest.raises(PeerError, match="is no plain name"):
        sender.announce(0, 1, "d" * 301)
    for index in range(20):
        assert sender.send(index, b"")
    assert refused(sender, 20, 1) == "a session sends at most 20 files and directories: send the others in another one"


def test_r_keys_are_there_only_while_a_file_is_received(hall: Hall) -> None:
    sender = hall.sender()
    assert sender.rkeys == 0
    opened = sender.announce(0, 3 * MIB)
    assert (sender.rkeys, opened["length"]) == (1, 2 * MIB)
    sender.write(opened, b"a" * 2 * MIB)
    second = sender.extend(0, 2 * MIB, MIB)
    assert sender.rkeys == 1
    assert sender.pd.memory.find(opened["rkey"]) is None
    sender.write(second, b"b" * MIB)
    sender.arrivals.sum({"index": 0})
    assert sender.rkeys == 0
    assert sender.commit(0, b"a" * 2 * MIB + b"b" * MIB)


def test_parts_that_are_open_together_are_accepted_in_order(hall: Hall) -> None:
    """A third one has to wait for room; each is closed to writes when it is accepted, and none before."""
    content = os.urandom(4 * MIB + 100)
    sender = hall.sender(bounds=SenderBounds(reserved_bytes=3 * MIB))
    opened = sender.arrivals.open({"index": 0, "path": ["f"], "size": len(content), "offset": 0, "length": MIB})
    regions = [opened, sender.extend(0, MIB, MIB, done=0), sender.extend(0, 2 * MIB, MIB, done=0)]
    assert [each["va"] for each in regions] == [0, MIB, 2 * MIB]
    assert sender.rkeys == 3
    assert sender.extend(0, 3 * MIB, MIB + 100, done=0)["length"] == 0
    # The second comes first: what counts is what is there in all.
    for number in (1, 0):
        sender.write(regions[number], content[number * MIB : (number + 1) * MIB])
    assert sender.extend(0, 3 * MIB, MIB, done=1)["length"] == MIB
    assert sender.rkeys == 3
    with pytest.raises(PeerError, match="have not arrived"):
        sender.extend(0, 4 * MIB, 100, done=4)
    with pytest.raises(PeerError, match="done"):
        sender.extend(0, 4 * MIB, 100, done=5)
    sender.arrivals.close()
    assert sender.rkeys == 0


def test_several_parts_are_opened_at_once_for_who_asks_for_them(hall: Hall) -> None:
    """As far as the stretch, the bounds and the number go, and none of it for a sender that knows of none."""
    content = os.urandom(18 * MIB)
    sender = hall.sender(bounds=SenderBounds())
    opened = sender.arrivals.open(
        {"index": 0, "path": ["f"], "size": len(content), "offset": 0, "length": MIB, "parts": 2}
    )
    assert (opened["length"], opened["more"]) == (MIB, [])
    body = {"index": 0, "offset": MIB, "length": 17 * MIB, "done": 0}
    second = sender.arrivals.extend(body | {"parts": 2})
    assert [(each["va"], each["length"]) for each in (second, *second["more"])] == [(MIB, 8 * MIB), (9 * MIB, 8 * MIB)]
    last = sender.extend(0, 17 * MIB, MIB, done=0)
    assert last["length"] == MIB
    assert "more" not in last
    assert sender.arrivals.extend(body | {"parts": 3}) == {"va": 0, "rkey": 0, "length": 0, "more": []}
    for each in (opened, second, *second["more"], last):
        sender.write(each, content[each["va"] : each["va"] + each["length"]])
    # What is done is said without opening any.
    assert sender.arrivals.extend({"index": 0, "done": 3, "parts": 0}) == {"va": 0, "rkey": 0, "length": 0, "more": []}
    assert sender.rkeys == 1
    for parts in (-1, PARTS_OPEN + 1, "2", None):
        with pytest.raises(PeerError, match="parts"):
            sender.arrivals.extend(body | {"parts": parts})
    assert sender.commit(0, content)


def test_a_second_part_that_is_refused_leaves_the_first_open(hall: Hall) -> None:
    sender = hall.sender()
    whole = {"index": 0, "path": ["g"], "size": 16 * MIB, "offset": 0, "length": 16 * MIB}
    opened = sender.arrivals.open(whole | {"parts": 2})
    # The session may have no more on its way than this.
    assert (opened["length"], opened["more"], sender.rkeys) == (2 * MIB, [], 1)


def test_a_session_has_so_many_parts_however_small_they_are(hall: Hall) -> None:
    """Each takes a mapping and a region of the receiver, whatever its length."""
    sender = hall.sender()
    sender.arrivals.open({"index": 0, "path": ["f"], "size": MIB, "offset": 0, "length": 1})
    granted = [sender.extend(0, 4096 * number, 1, done=0)["length"] for number in range(1, 100)]
    assert granted == [1] * (PARTS_OPEN - 1) + [0] * (100 - PARTS_OPEN)
    assert sender.rkeys == PARTS_OPEN


def test_a_part_that_is_written_again_is_summed_again(hall: Hall) -> None:
    sender = hall.sender(bounds=SenderBounds(reserved_bytes=8 * MIB))
    sender.write(sender.announce(0, 3 * MIB, "twice"), b"a" * 3 * MIB)
    again = sender.extend(0, MIB, 2 * MIB)
    sender.write(again, b"b" * 2 * MIB)
    assert sender.commit(0, b"a" * MIB + b"b" * 2 * MIB)


# ------------------------------------------------------------------ disk


def taken(hall: Hall) -> int:
    """Bytes of disk below the directory and in the process's open files there."""
    inodes = {}
    for number in os.listdir("/proc/self/fd"):
        try:
            if os.readlink(f"/proc/self/fd/{number}").startswith(str(hall.path)):
                found = os.stat(f"/proc/self/fd/{number}")
                if stat.S_ISREG(found.st_mode):
                    inodes[found.st_ino] = found.st_blocks * 512
        except OSError:
            continue
    inodes |= {found.stat().st_ino: found.stat().st_blocks * 512 for found in hall.path.iterdir()}
    return sum(inodes.values())


def test_an_announcement_takes_no_more_disk_than_a_part(hall: Hall) -> None:
    free = hall.directory.free_bytes()
    sender = hall.sender()
    opened = sender.announce(0, free - 64 * MIB)
    assert opened["length"] <= 2 * MIB
    assert taken(hall) <= 2 * MIB + 64 * KIB
    # What it asks for after that has to have arrived first.
    with pytest.raises(PeerError, match=f"{2 * MIB} bytes of 'file .*' have not arrived"):
        sender.extend(0, 2 * MIB, MIB)
    with pytest.raises(PeerError, match=f"{2 * MIB} bytes of 'file .*' have not arrived"):
        sender.arrivals.sum({"index": 0})
    assert "2097152 bytes of this session are on their way, the most is 2097152" in refused(sender, 1, 10)
    assert hall.sender().send(0, b"abc")


def test_zeros_that_were_never_sent_are_not_committed(hall: Hall) -> None:
    """A file of zeros has a sum that is easily known, and would keep its disk under its name."""
    sender = hall.sender()
    sender.announce(0, MIB)
    with pytest.raises(PeerError, match="have not arrived: send them first"):
        sender.commit(0, bytes(MIB))
    assert list(hall.path.iterdir()) == [] or all(each.name.startswith(".mrc-") for each in hall.path.iterdir())
    sender.arrivals.close()
    assert taken(hall) == 0


def test_a_size_above_what_is_free_is_refused_without_taking_anything(
    hall: Hall, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Directory, "free_bytes", lambda self: 10 * MIB)
    with pytest.raises(SystemRefused, match=f"no room for {11 * MIB} bytes in {hall.path}"):
        hall.sender().announce(0, 11 * MIB)
    assert taken(hall) == 0
    # Nothing is set aside for who only announced: the second is not refused either.
    for _ in range(2):
        hall.sender().announce(0, 10 * MIB)


def test_a_disk_that_fills_while_a_file_arrives(hall: Hall, monkeypatch: pytest.MonkeyPatch) -> None:
    sender = hall.sender()
    sender.write(sender.announce(0, 4 * MIB), b"x" * 2 * MIB)

    def full(descriptor: int, offset: int, length: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr(os, "posix_fallocate", full)
        with pytest.raises(SystemRefused, match=f"no room for {2 * MIB} bytes in {hall.path}"):
            sender.extend(0, 2 * MIB, 2 * MIB)
    assert sender.rkeys == 0
    sender.arrivals.close()
    assert taken(hall) == 0
    assert hall.sender().send(0, b"abc")


SIZES = st.integers(1, 1 << 50)


@given(left=SIZES, reserved=st.integers(0, 1 << 31), free=SIZES, most=st.integers(1, 1 << 31))
def test_a_part_is_bounded_and_on_pages(left: int, reserved: int, free: int, most: int) -> None:
    bounds = SenderBounds(reserved_bytes=most)
    try:
        length = bounds.part(left, reserved, free)
    except PeerError:
        assert most - reserved < min(left, MIB)
        return
    assert 0 < length <= left
    assert length <= most - reserved
    # Below 1 MiB it is the disk that refuses.
    assert length <= max(free // 2, MIB)
    assert length == left or length % 4096 == 0


def test_a_full_disk_is_reached_in_few_parts() -> None:
    """A file as large as what is free: halves, down to a part that is small enough."""
    free = left = 10 * GIB
    parts = 0
    while left:
        length = SenderBounds().part(left, 0, free)
        free, left, parts = free - length, left - length, parts + 1
    assert parts < 30


# ------------------------------------------------------------------ the sending end


def test_files_to_be_sent_are_looked_at_without_being_opened(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"abc")
    os.mkfifo(tmp_path / "fifo")
    gc.collect()  # what earlier tests let go of is closed by now
    before = descriptors()
    (found,) = consignment([tmp_path / "file"]).files
    assert (found.path, found.size) == (("file",), 3)
    for name, why in (("fifo", "is a pipe"), ("none", "No such file")):
        with pytest.raises(CallerError, match=why):
            consignment([tmp_path / name])
    assert descriptors() == before
