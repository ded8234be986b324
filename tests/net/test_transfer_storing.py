# SPDX-License-Identifier: BSD-2-Clause
"""Parts of a file from the memory they arrive in to the disk: in place, summed on the way, and a few at a time."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mrc.errors import PeerError, SystemRefused
from mrc.fabric import Clos
from mrc.net.session.qps import TUNING
from mrc.net.transfer.arrivals import Arrivals
from mrc.net.transfer.bounds import FilePlaces, SenderBounds
from mrc.net.transfer.buffers import PartBuffers
from mrc.net.transfer.directory import Directory
from mrc.net.transfer.incoming import IncomingFile
from mrc.net.transfer.sums import FileSum, Sums
from mrc.net.transfer.terms import PART_BYTES, PARTS_OPEN, PARTS_STORED
from mrc.sim import SimFabric
from mrc.sim.device import SimDevice
from mrc.verbs import Context

KIB, MIB = 1 << 10, 1 << 20
SUMS = Sums(bytes(16))


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Directory]:
    (tmp_path / "in").mkdir()
    made = Directory(tmp_path / "in", overwrite=False)
    yield made
    made.close()


class Session:
    """A sender's requests, and writes into the memory they opened."""

    def __init__(self, directory: Directory) -> None:
        self.directory = directory
        self.placed = 0
        self._context = Context(SimDevice(SimFabric(Clos(spines=2)), "h0"), tuning=TUNING)
        self.pd = self._context.pd()
        self.arrivals = Arrivals(self.pd, directory, SenderBounds(), FilePlaces(), lambda: self.placed)

    def open(self, size: int, length: int) -> int:
        """Announce a file and open its first part: its R_Key."""
        opened = self.arrivals.open({"index": 0, "path": ["f"], "size": size, "offset": 0, "length": length})
        return int(opened["rkey"])

    def extend(self, offset: int, length: int, done: int) -> int:
        return int(self.arrivals.extend({"index": 0, "offset": offset, "length": length, "done": done})["rkey"])

    def write(self, rkey: int, content: bytes) -> None:
        region = self.pd.memory.find(rkey)
        assert region is not None
        region.array[: len(content)] = bytearray(content)
        self.placed += len(content)

    def commit(self, content: bytes) -> bool:
        return self.arrivals.commit({"index": 0, "sum": self.arrivals.sums.of_content(0, content)}).sums_agree

    def close(self) -> None:
        self.arrivals.close()
        self._context.close()


@pytest.fixture
def session(directory: Directory) -> Iterator[Session]:
    made = Session(directory)
    yield made
    made.close()


# ------------------------------------------------------------------ memory


def test_memory_of_a_full_part_is_used_again() -> None:
    buffers = PartBuffers()
    taken = [buffers.take(PART_BYTES) for _ in range(PARTS_OPEN + 2)]
    assert len({id(each) for each in taken}) == len(taken)
    for each in taken:
        buffers.give_back(each)
    # Those that are too many are given to the system.
    assert [each.closed for each in taken] == [False] * PARTS_OPEN + [True] * 2
    again = [buffers.take(PART_BYTES) for _ in range(PARTS_OPEN)]
    assert {id(each) for each in again} == {id(each) for each in taken[:PARTS_OPEN]}
    for each in again:
        buffers.give_back(each)
    buffers.close()
    buffers.close()
    assert all(each.closed for each in again)


@pytest.mark.parametrize("length", [1, 4096, PART_BYTES - 1])
def test_a_smaller_part_takes_no_more_memory_than_it_has_bytes(length: int) -> None:
    buffers = PartBuffers()
    taken = buffers.take(length)
    assert len(taken) == length
    buffers.give_back(taken)
    assert taken.closed


def test_no_file_finds_what_another_left_in_memory(directory: Directory) -> None:
    first, second = (IncomingFile(directory, (name,), PART_BYTES) for name in ("first", "second"))
    part = first.part(0, PART_BYTES)
    part.map[:6] = b"secret"
    part.close()
    other = second.part(0, PART_BYTES)
    assert other.map[:6] == bytes(6)
    other.close()
    first.discard()
    second.discard()


# ------------------------------------------------------------------ files and sums


@settings(deadline=None, max_examples=30)
@given(
    offset=st.integers(0, 40).map(lambda pages: pages * 64 * KIB),
    size=st.integers(1, 3 * MIB),
    behind=st.sampled_from([0, 1, 70 * KIB]),
)
def test_what_is_put_anywhere_lies_there_and_is_summed(
    tmp_path_factory: pytest.TempPathFactory, offset: int, size: int, behind: int
) -> None:
    """The sum is that of the file's content, whichever chunks were summed when they were put and which were read."""
    directory = Directory(tmp_path_factory.mktemp("in"), overwrite=False)
    content = os.urandom(size)
    file = IncomingFile(directory, ("f",), offset + size + behind)
    file_sum = FileSum(SUMS, 0)
    part = file.part(offset, size)
    part.map[:] = content
    part.store(file_sum)
    part.close()
    whole = bytes(offset) + content + bytes(behind)
    assert file.sum(file_sum) == SUMS.of_content(0, whole)
    file.commit()
    assert (directory.path / "f").read_bytes() == whole
    directory.close()


def test_a_chunk_that_is_put_in_two_parts_is_summed_once_it_is_whole(directory: Directory) -> None:
    content = os.urandom(MIB)
    file, file_sum = IncomingFile(directory, ("f",), MIB), FileSum(SUMS, 0)
    for begin, end in ((0, MIB), (64 * KIB, MIB), (0, 64 * KIB)):
        part = file.part(begin, end - begin)
        # What is put first is written over by the parts that follow.
        part.map[:] = bytes(MIB) if end - begin == MIB else content[begin:end]
        part.store(file_sum)
        part.close()
    assert file.sum(file_sum) == SUMS.of_content(0, content)
    file.discard()


def test_a_write_that_takes_less_than_it_is_given_is_gone_on_with(
    directory: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a signal or a limit of the file system has it."""
    real = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda to, content, offset: real(to, content[:1000], offset))
    content = os.urandom(5001)
    file = IncomingFile(directory, ("f",), len(content))
    part = file.part(0, len(content))
    part.map[:] = content
    part.store()
    part.close()
    file.commit()
    assert (directory.path / "f").read_bytes() == content


# ------------------------------------------------------------------ disks that are full, or slow


@pytest.mark.parametrize("taken", range(4))
def test_nothing_of_a_part_the_disk_does_not_take_is_summed(
    directory: Directory, monkeypatch: pytest.MonkeyPatch, taken: int
) -> None:
    """Chunks of it that the disk did take neither: they are read again by who wants their sum."""
    size = 4 * MIB
    real = os.pwrite

    def fills_up(descriptor: int, content: memoryview, offset: int) -> int:
        if offset >= taken * MIB:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(descriptor, content, offset)

    file, file_sum = IncomingFile(directory, ("f",), 2 * size), FileSum(SUMS, 0)
    for begin, full in ((size, False), (0, True)):
        part = file.part(begin, size)
        part.map[:] = os.urandom(size)
        with monkeypatch.context() as disk:
            if full:
                disk.setattr(os, "pwrite", fills_up)
                with pytest.raises(SystemRefused):
                    part.store(file_sum)
            else:
                part.store(file_sum)
        part.close()
    # What was put before stays summed.
    assert file_sum.missing(2 * size) == size
    file.discard()


def test_a_part_the_disk_does_not_take_is_told_with_the_next_request(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the file system promised before: quotas, network file systems, files that are copied when written."""
    size = 3 * MIB

    def full(descriptor: int, content: memoryview, offset: int) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    session.write(session.open(size, 2 * MIB), b"x" * 2 * MIB)
    why = f"no room for {size} bytes in {session.directory.path}"
    with monkeypatch.context() as disk:
        disk.setattr(os, "pwrite", full)
        second = session.extend(2 * MIB, MIB, 0)
        session.write(second, b"x" * MIB)
        with pytest.raises(SystemRefused, match=why):
            session.commit(b"x" * size)
    # It does not become whole by the disk's being emptied.
    with pytest.raises(SystemRefused, match=why):
        session.commit(b"x" * size)
    session.close()
    assert list(session.directory.path.iterdir()) == []


def test_a_slow_disk_holds_the_sender_back(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """PARTS_STORED parts wait for it in memory; who says that a further one is done waits until one is stored."""
    real, disk = os.pwrite, threading.Event()

    def slow(descriptor: int, content: memoryview, offset: int) -> int:
        disk.wait()
        return real(descriptor, content, offset)

    monkeypatch.setattr(os, "pwrite", slow)
    part = 2 * MIB
    content = os.urandom((PARTS_STORED + 3) * part)
    session.write(session.open(len(content), part), content[:part])
    for number in range(1, PARTS_STORED + 1):
        rkey = session.extend(number * part, part, number)
        session.write(rkey, content[number * part : (number + 1) * part])
    answered: list[int] = []
    number = PARTS_STORED + 1
    request = threading.Thread(target=lambda: answered.append(session.extend(number * part, part, number)))
    request.start()
    # It has to come as far as the disk lets it.
    while session.arrivals._files[0].accepted < number:
        time.sleep(0.001)
    request.join(0.05)
    assert answered == []
    disk.set()
    request.join()
    session.write(answered[0], content[number * part : (number + 1) * part])
    number += 1
    session.write(session.extend(number * part, part, number), content[number * part :])
    assert session.commit(content)
    assert (session.directory.path / "f").read_bytes() == content


def test_what_arrived_of_open_parts_is_kept_for_the_next_attempt(session: Session) -> None:
    """The rest of such a part is compared by its sum, so it may be anything."""
    content = os.urandom(3 * PART_BYTES)
    session.write(session.open(len(content), PART_BYTES), content[:PART_BYTES])
    second = session.extend(PART_BYTES, PART_BYTES, 0)
    third = session.extend(2 * PART_BYTES, PART_BYTES, 1)
    session.write(third, content[2 * PART_BYTES : 2 * PART_BYTES + 5000])
    session.write(second, content[PART_BYTES : 2 * PART_BYTES])
    session.close()
    (left,) = session.directory.path.iterdir()
    assert left.name == ".f.mrc-part"
    kept = left.read_bytes()
    assert kept[: 2 * PART_BYTES + 5000] == content[: 2 * PART_BYTES + 5000]


def test_no_more_is_said_to_be_kept_than_has_arrived(session: Session) -> None:
    """Parts are opened before those in front of them are full. Two are full, of the third half is there, of the last
    nothing."""
    content = os.urandom(5 * PART_BYTES)
    rkeys = [session.open(len(content), PART_BYTES)]
    rkeys += [session.extend(number * PART_BYTES, PART_BYTES, 0) for number in range(1, PARTS_OPEN)]
    session.write(rkeys[0], content[:PART_BYTES])
    rkeys.append(session.extend(PARTS_OPEN * PART_BYTES, PART_BYTES, 1))
    session.write(rkeys[1], content[PART_BYTES : 2 * PART_BYTES])
    session.write(rkeys[2], content[2 * PART_BYTES : 2 * PART_BYTES + PART_BYTES // 2])
    session.close()
    assert session.arrivals.kept == [f"about {5 * PART_BYTES // 2 >> 20} MiB of f"]


def test_less_than_a_block_is_not_kept_because_parts_were_opened_early(session: Session) -> None:
    """All parts are opened before a byte arrives: those of a part that is closed are none of the others."""
    rkeys = [session.open(4 * PART_BYTES, PART_BYTES)]
    rkeys += [session.extend(number * PART_BYTES, PART_BYTES, 0) for number in (1, 2)]
    session.write(rkeys[0], bytes(PART_BYTES))
    session.extend(3 * PART_BYTES, PART_BYTES, 1)
    session.write(rkeys[1], bytes(PART_BYTES - 1))
    session.close()
    assert session.arrivals.kept == []
    assert list(session.directory.path.iterdir()) == []


def test_bytes_of_a_file_that_was_not_kept_do_not_stand_in_for_those_of_the_next(session: Session) -> None:
    content = os.urandom(3 * MIB)
    session.write(session.open(len(content), len(content)), content)
    assert not session.commit(bytes(len(content)))
    session.open(len(content), len(content))
    with pytest.raises(PeerError, match="3145728 bytes of 'f' have not arrived"):
        session.commit(content)


@pytest.mark.parametrize(("accepted", "kept"), [(2, ["about 16 MiB of f"]), (1, [])])
def test_what_the_disk_did_not_take_is_not_said_to_be_kept(
    session: Session, monkeypatch: pytest.MonkeyPatch, accepted: int, kept: list[str]
) -> None:
    """Of three parts that have arrived the disk takes those that were accepted."""

    def full(descriptor: int, content: memoryview, offset: int) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    content = os.urandom(3 * PART_BYTES)
    session.write(session.open(len(content), PART_BYTES), content[:PART_BYTES])
    for number in (1, 2):
        rkey = session.extend(number * PART_BYTES, PART_BYTES, min(number, accepted))
        session.write(rkey, content[number * PART_BYTES : (number + 1) * PART_BYTES])
    session.arrivals._parts._storing.join()
    with monkeypatch.context() as disk:
        disk.setattr(os, "pwrite", full)
        session.close()
    assert session.arrivals.kept == kept
    left = list(session.directory.path.iterdir())
    assert [each.name for each in left] == [".f.mrc-part"] * len(kept)
    for each in left:
        assert each.read_bytes()[: accepted * PART_BYTES] == content[: accepted * PART_BYTES]


def test_open_parts_are_not_stored_where_nothing_is_kept(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[int] = []
    real = os.pwrite
    monkeypatch.setattr(
        os, "pwrite", lambda to, content, offset: (written.append(offset), real(to, content, offset))[1]
    )
    session.write(session.open(3 * MIB, 3 * MIB), bytes(3 * MIB))
    session.close()
    assert written == []
    assert list(session.directory.path.iterdir()) == []
