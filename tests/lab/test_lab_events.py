# SPDX-License-Identifier: BSD-2-Clause
"""The event log of a lab: what was done to it is in there, whole, whoever writes, and whatever is killed meanwhile."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import socket
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from patience import PATIENCE_S, eventually

from mrc.errors import SystemRefused
from mrc.fabric.events import FabricEvent, parse_events, parse_line, wall_clock_offset_ns
from mrc.lab import Lab, state
from mrc.lab.events import EventLog

SO_TIMESTAMPNS = 35
FORK = multiprocessing.get_context("fork")
# Lines of all lengths, many of them longer than a page of memory, at whose end a write may be interrupted.
LINKS = tuple(f"p0l{leaf}-p0s{spine}" for leaf in range(16) for spine in range(64))


def event(number: int, links: int = 1) -> FabricEvent:
    return FabricEvent(number, 10**18 + number, "cut", f"event {number}", LINKS[:links], {"number": number})


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the log of the lab "made-up" is."""
    monkeypatch.setattr(state, "STATE_DIRECTORY", tmp_path)
    (tmp_path / "made-up").mkdir()
    return tmp_path / "made-up"


@pytest.fixture
def log(directory: Path) -> EventLog:
    return EventLog("made-up")


def lines_of(directory: Path) -> list[bytes]:
    return b"".join(path.read_bytes() for path in sorted(directory.glob("events.jsonl*"), reverse=True)).splitlines()


# ------------------------------------------------------------------ the file


def test_a_line_is_one_object_with_the_keys_that_were_promised(log: EventLog, directory: Path) -> None:
    log.append(event(7, links=2))
    (line,) = (directory / "events.jsonl").read_bytes().splitlines()
    assert json.loads(line) == {
        "at_monotonic_ns": 7,
        "at_unix_ns": 10**18 + 7,
        "event": "cut",
        "target": "event 7",
        "links": ["p0l0-p0s0", "p0l0-p0s1"],
        "details": {"number": 7},
    }


def write(log: EventLog, first: int, count: int) -> None:
    chance = random.Random(first)
    for number in range(first, first + count):
        log.append(event(number, links=chance.choice([1, 10, len(LINKS)])))


def test_lines_of_several_writers_are_whole(log: EventLog, directory: Path) -> None:
    writers = [FORK.Process(target=write, args=(log, first, 100)) for first in range(0, 400, 100)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(PATIENCE_S)
        assert writer.exitcode == 0
    events, damaged = log.read()
    assert damaged == 0
    assert [each.at_monotonic_ns for each in events] == list(range(400))
    assert all(each == event(each.at_monotonic_ns, len(each.links)) for each in events)


def test_a_log_stays_small_and_loses_the_oldest_only(directory: Path) -> None:
    log = EventLog("made-up", most_bytes=200_000)
    writers = [FORK.Process(target=write, args=(log, first, 60)) for first in range(0, 240, 60)]
    for writer in writers:
        writer.start()

    def size(name: str) -> int:
        with suppress(FileNotFoundError):  # between its two names it has none
            return (directory / name).stat().st_size
        return 0

    most = 0
    while any(writer.is_alive() for writer in writers):
        most = max(most, sum(map(size, ("events.jsonl", "events.jsonl.1"))))
        time.sleep(0.001)
    assert all(writer.exitcode == 0 for writer in writers)
    longest = len(event(0, len(LINKS)).to_line())
    # Both files, each too long by what every writer may write while one of them begins a new file.
    assert most <= 2 * (200_000 + 2 * len(writers) * longest)
    found, damaged = parse_events(lines_of(directory))
    assert damaged == 0
    assert log.read() == (found, 0)
    # What goes is the oldest: of each writer nothing, or its last ones without a gap.
    kept = {each.at_monotonic_ns for each in found}
    assert sum(len(each.to_line()) for each in found) >= 200_000
    for first in range(0, 240, 60):
        its = sorted(kept & set(range(first, first + 60)))
        assert its == list(range(first + 60 - len(its), first + 60))
    assert sorted(path.name for path in directory.iterdir()) == ["events.jsonl", "events.jsonl.1"]


def test_a_writer_killed_at_any_moment_costs_its_own_line_at_most(directory: Path) -> None:
    log = EventLog("made-up", most_bytes=1 << 30)
    chance = random.Random(3)
    for number in range(12):
        writer = FORK.Process(target=write, args=(log, number * 1_000_000, 1_000_000))
        writer.start()
        time.sleep(chance.uniform(0.005, 0.03))
        os.kill(writer.pid or 0, signal.SIGKILL)
        writer.join()
        log.append(event(number * 1_000_000 - 1))
    events, damaged = log.read()
    assert damaged <= 12
    times = {each.at_monotonic_ns for each in events}
    assert {number * 1_000_000 - 1 for number in range(12)} <= times


def test_a_line_torn_off_is_ended_by_the_next_writer(log: EventLog, directory: Path) -> None:
    log.append(event(1))
    with open(directory / "events.jsonl", "ab") as file:
        file.write(event(2).to_line()[:40])
    log.append(event(3))
    events, damaged = log.read()
    assert [each.at_monotonic_ns for each in events] == [1, 3]
    assert damaged == 1


def test_a_crash_between_the_two_names_shows_nothing_twice(log: EventLog, directory: Path) -> None:
    log.append(event(1))
    os.link(directory / "events.jsonl", directory / "events.jsonl.1")
    assert log.read() == ([event(1)], 0)


def test_a_full_disk_is_told(log: EventLog, directory: Path) -> None:
    (directory / "events.jsonl").symlink_to("/dev/full")
    with pytest.raises(SystemRefused, match=r"cut event 1 is done, but could not be written .*No space left"):
        log.append(event(1))


def test_a_lab_that_is_gone_gets_no_log(log: EventLog, directory: Path) -> None:
    directory.rmdir()
    with pytest.raises(SystemRefused, match="taken down"):
        log.append(event(1))
    assert not directory.exists()
    assert log.read() == ([], 0)
    assert list(log.follow()) == []


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"[]",
        b"{}",
        b'{"at_monotonic_ns": 1',
        event(1).to_line().replace(b":1,", b":true,", 1),
        event(1).to_line().replace(b":1,", b':"1",', 1),
        event(1).to_line().replace(b":1,", b":1e99,", 1),
        event(1).to_line().replace(b":1,", b":99999999999999999999999,", 1),
        event(1).to_line().replace(b'"cut"', b"null"),
        event(1).to_line().replace(b'["p0l0-p0s0"]', b"[1]"),
        event(1).to_line().replace(b'["p0l0-p0s0"]', b'"p0l0-p0s0"'),
        event(1).to_line().replace(b'{"number":1}', b"[]"),
        b"[" * 100_000,
        bytes(range(256)),
    ],
)
def test_what_is_no_event_is_none(line: bytes) -> None:
    assert parse_line(line) is None


def test_an_event_of_another_release_is_one() -> None:
    line = event(1).to_line().replace(b'"cut"', b'"painted"').replace(b'{"number":1}', b'{"colour":"red"},"more":1')
    found = parse_line(line)
    assert found is not None
    assert (found.event, found.details) == ("painted", {"colour": "red"})


def test_words_do_nothing_to_a_terminal() -> None:
    said = FabricEvent(1, 1, "cut", "\x1b[31m\n", LINKS, {"took_ns": 1_500_000, "toward": ["a", "b"], "x": "\r"}).words
    assert said.isprintable()
    assert "took 1.500 ms" in said
    assert "toward a b" in said
    assert f"and {len(LINKS) - 6} more" in said


# ------------------------------------------------------------------ following


class Stopped(Exception):
    """What `wait` raises to end following."""


def test_following_has_what_was_there_and_what_comes(directory: Path) -> None:
    """Also over the moment at which the file begins anew, and up to the end of the lab."""
    log = EventLog("made-up", most_bytes=1000)
    log.append(event(0))
    seen: list[int] = []
    numbers = iter(range(1, 30))

    def wait(_: float) -> None:
        number = next(numbers, None)
        if number is not None:
            log.append(event(number, links=number))
        else:
            for path in directory.iterdir():
                path.unlink()
            directory.rmdir()

    seen = [each.at_monotonic_ns for each in log.follow(wait)]
    assert seen == list(range(30))


def test_a_line_half_written_is_waited_for(log: EventLog, directory: Path) -> None:
    line = event(1).to_line()
    (directory / "events.jsonl").write_bytes(line[:30])
    rests = iter([line[30:60], line[60:]])

    def wait(_: float) -> None:
        try:
            rest = next(rests)
        except StopIteration:
            raise Stopped from None
        with open(directory / "events.jsonl", "ab") as file:
            file.write(rest)

    following = log.follow(wait)
    assert next(following) == event(1)
    with pytest.raises(Stopped):
        next(following)


# ------------------------------------------------------------------ what a lab writes


@pytest.fixture
def new_events(lab: Lab) -> Callable[[], list[dict[str, Any]]]:
    """What has been written since the test began."""
    before = len(lab.events.read()[0])
    return lambda: [each.to_json() for each in lab.events.read()[0][before:]]


@pytest.mark.root
def test_what_is_done_to_a_lab_is_in_its_log(lab: Lab, new_events: Callable[[], list[dict[str, Any]]]) -> None:
    before_ns, before_unix_ns = time.monotonic_ns(), time.time_ns()
    cut_at = lab.cut("p0s1", "h0-p0l0")
    healed_at = lab.heal("p0s1", "h0-p0l0")
    lab.impair("p0l0-p0s1", loss=0.25, toward="p0s1")
    lab.clear("p0s1-p0l0")
    after_ns, after_unix_ns = time.monotonic_ns(), time.time_ns()
    found = new_events()
    assert [each["event"] for each in found] == ["cut", "heal", "impair", "clear"]
    cut, heal, impair, clear = found
    assert cut["target"] == heal["target"] == "p0s1 h0-p0l0"
    assert cut["links"] == heal["links"] == ["p0l0-p0s1", "p0l1-p0s1", "h0-p0l0"]
    assert (cut["at_monotonic_ns"], heal["at_monotonic_ns"]) == (cut_at, healed_at)
    assert 0 < cut["details"]["took_ns"] < healed_at - cut_at
    assert 0 < heal["details"]["took_ns"] < healed_at - cut_at
    assert impair["links"] == clear["links"] == ["p0l0-p0s1"]
    assert impair["details"] == {"toward": ["p0s1"], "loss": 0.25}
    assert sorted(clear["details"]["toward"]) == ["p0l0", "p0s1"]
    # Both clocks tell the same moments; a wall clock that is set meanwhile is not for this test.
    for each in found:
        assert before_ns <= each["at_monotonic_ns"] <= after_ns
        assert before_unix_ns - 1_000_000 <= each["at_unix_ns"] <= after_unix_ns + 1_000_000
        assert abs(each["at_unix_ns"] - each["at_monotonic_ns"] - wall_clock_offset_ns()) < 1_000_000


@pytest.mark.root
def test_its_times_are_those_of_packets(lab: Lab, new_events: Callable[[], list[dict[str, Any]]]) -> None:
    """What a capture would say: the kernel's stamps of packets that come in over a cable while it is cut and healed."""

    def opened(address: str) -> socket.socket:
        found = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
        found.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        found.bind((address, 4000))
        found.settimeout(0.02)
        return found

    (ours, _), (theirs, _) = lab.addresses("h0"), lab.addresses("h1")
    receiver, sender = lab.inside("h0", lambda: opened(ours)), lab.inside("h1", lambda: opened(theirs))
    over, stamps = threading.Event(), []
    sent = 0

    def send() -> None:
        nonlocal sent
        while not over.wait(0.0005):
            with suppress(OSError):
                sender.sendto(b"x", (ours, 4000))
            sent += 1

    def receive() -> None:
        while not over.is_set():
            with suppress(TimeoutError, BlockingIOError):
                ((_, _, data),) = receiver.recvmsg(16, 64)[1]
                seconds_since_1970, ns = struct.unpack_from("@ll", data)
                stamps.append(seconds_since_1970 * 10**9 + ns)

    def hundred_more(count: Callable[[], int]) -> None:
        wanted = count() + 100
        eventually(lambda: count() >= wanted)

    threads = [threading.Thread(target=each) for each in (send, receive)]
    for thread in threads:
        thread.start()
    try:
        hundred_more(lambda: len(stamps))
        lab.cut("h0-p0l0")
        hundred_more(lambda: sent)
        lab.heal("h0-p0l0")
        hundred_more(lambda: len(stamps))
        hundred_more(lambda: len(stamps))
    finally:
        over.set()
        for thread in threads:
            thread.join()
        receiver.close()
        sender.close()
    cut, heal = new_events()
    cut_at, cut_by = cut["at_unix_ns"], cut["at_unix_ns"] + cut["details"]["took_ns"]
    healing_at, healed_by = heal["at_unix_ns"] - heal["details"]["took_ns"], heal["at_unix_ns"]
    # A thousandth of a second: what the two clocks may be read apart, and no packet's way takes as long.
    slack = 1_000_000
    assert sum(stamp < cut_at for stamp in stamps) > 10
    assert not [stamp for stamp in stamps if cut_by + slack < stamp < healing_at - slack]
    assert sum(stamp > healed_by for stamp in stamps) > 10


@pytest.mark.root
def test_a_misspelt_target_is_not_in_the_log(lab: Lab, new_events: Callable[[], list[dict[str, Any]]]) -> None:
    with pytest.raises(ValueError, match="no node 'p0s9'"):
        lab.cut("p0s1", "p0s9")
    assert new_events() == []


@pytest.mark.root
def test_a_log_begins_with_the_building_and_ends_with_the_lab(lab_name: Callable[[str], str]) -> None:
    name = lab_name("log")
    with Lab.up(name) as built:
        (up,), damaged = built.events.read()
        assert damaged == 0
        assert (up.event, up.target, up.links) == ("up", name, ())
        sizes = {"planes": 2, "leaves": 2, "spines": 4, "hosts_per_leaf": 1, "mtu_bytes": 4400}
        assert up.details == {"shape": "clos", **sizes, "mode": "srv6", "fast": False}
        path = built.events.path
        assert path.stat().st_mode & 0o777 == 0o644
    assert not path.parent.exists()


@pytest.mark.root
def test_who_holds_a_lab_that_is_gone_is_told_and_writes_nothing(lab_name: Callable[[str], str]) -> None:
    """Its sockets keep the namespaces, so the kernel still does what it says."""
    name = lab_name("held")
    held = Lab.up(name)
    held.prepare("p0l0-p0s1")
    Lab.remove(name)
    with pytest.raises(SystemRefused, match="was taken down meanwhile"):
        held.cut("p0l0-p0s1")
    with Lab.up(name) as successor:
        with pytest.raises(SystemRefused, match="was taken down meanwhile"):
            held.cut("p0l0-p0s1")
        assert [each.event for each in successor.events.read()[0]] == ["up"]
    held.close()


@pytest.mark.root
def test_a_lab_goes_while_others_write_to_its_log(lab_name: Callable[[str], str]) -> None:
    name = lab_name("busy-log")
    Lab.up(name).close()

    def write_on() -> None:
        log = EventLog(name, most_bytes=2000)
        for number in range(1_000_000):
            try:
                log.append(event(number))
            except SystemRefused:
                os._exit(0)

    writers = [FORK.Process(target=write_on) for _ in range(2)]
    for writer in writers:
        writer.start()
    time.sleep(0.2)
    Lab.remove(name)
    for writer in writers:
        writer.join(PATIENCE_S)
        assert writer.exitcode == 0
    assert not state.directory(name).exists()
