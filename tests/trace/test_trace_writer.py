# SPDX-License-Identifier: BSD-2-Clause
"""The trace file: what is in it, when it gets there, and what happens when the disk is slow, full or gone."""

from __future__ import annotations

import errno
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mrc.errors import SystemRefused
from mrc.trace import read_trace
from mrc.trace.vocabulary import PACKET_LOST, PORT, QP_STATE, SPURIOUS_LOSS
from mrc.trace.writer import TraceWriter

NEVER_S = 3600.0  # the writer's thread does nothing in a test's time


def records(data: bytes) -> list[dict[str, Any]]:
    """As RFC 7464 has it: RS before each, LF behind it, JSON between."""
    assert data.startswith(b"\x1e")
    texts = data.split(b"\x1e")[1:]
    assert all(text.endswith(b"\n") and text.count(b"\n") == 1 for text in texts)
    return [json.loads(text) for text in texts]


def opened(path: Path, **options: Any) -> TraceWriter:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT)
    named = {"title": "test", "vantage_point": "sender", "flush_interval_s": NEVER_S}
    return TraceWriter(descriptor, **(named | options))


def eventually(look: Callable[[], bool]) -> None:
    by = time.monotonic() + 120
    while not look():
        assert time.monotonic() < by, "it never happened"
        time.sleep(0.005)


def lost(writer: TraceWriter, psn: int) -> None:
    writer.event(PACKET_LOST, psn, 7, (psn, 3, 1, "hole"))


def test_what_is_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "t"
    with opened(path, clock=lambda: 1000, clock_name="virtual", realtime=lambda: 5000) as writer:
        writer.event(PACKET_LOST, 1001, 7, (5, 16777218, 900, "nack:TRIMMED"))
        writer.event(PORT, 1002, None, ("peer", 1, False))
        writer.event(SPURIOUS_LOSS, 1003, 7, (np.int64(5), None, True))
    header, first, second, third, end = records(path.read_bytes())
    assert header == {
        "mrc_trace": 1,
        "title": "test",
        "vantage_point": "sender",
        "generator": header["generator"],
        "clock": {"name": "virtual", "realtime_offset_ns": 4000, "uncertainty_ns": 0},
    }
    assert header["generator"].startswith("mrc ")
    assert first == {
        "time_ns": 1001,
        "name": "recovery:packet_lost",
        "qpn": 7,
        "data": {"psn": 5, "ev": 16777218, "sent_at_ns": 900, "trigger": "nack:TRIMMED"},
    }
    assert (second["qpn"], second["data"]) == (None, {"side": "peer", "port": 1, "up": False})
    assert third["data"] == {"psn": 5, "ev": None, "sent_again": True}
    assert (end["name"], end["data"]) == ("trace:end", {"events": 3})


@pytest.mark.skipif(shutil.which("jq") is None and os.environ.get("CI") != "true", reason="needs the program jq")
def test_another_reader_of_json_text_sequences_agrees(tmp_path: Path) -> None:
    """jq --seq, an implementation of RFC 7464 that is not ours."""
    path = tmp_path / "t"
    with opened(path) as writer:
        writer.event(QP_STATE, 1, 7, ("RTS", "ERROR", 'a "quoted" reason,\n\x1eü \u2028'))
        lost(writer, 2)
    told = subprocess.run(["jq", "--seq", "-c", "[.name, .time_ns, .data.why]", path], capture_output=True, check=True)
    texts = [json.loads(text) for text in told.stdout.split(b"\x1e")[1:]]
    assert texts[:3] == [
        [None, None, None],
        ["connectivity:qp_state", 1, 'a "quoted" reason,\n\x1eü \u2028'],
        ["recovery:packet_lost", 2, None],
    ]
    assert [name for name, _, _ in texts[3:]] == ["trace:end"]


def test_the_header_ties_the_clock_to_the_wall(tmp_path: Path) -> None:
    """A moment on CLOCK_MONOTONIC plus the offset is the same moment since 1970, within what the header says."""
    path = tmp_path / "t"
    with TraceWriter.open(path, title="x", vantage_point="receiver") as writer:
        before, now, after = time.time_ns(), writer.now(), time.time_ns()
    with open(path, "rb") as stream:
        header, _ = read_trace(stream)
    assert header.clock == "CLOCK_MONOTONIC"
    assert header.uncertainty_ns is not None
    realtime = header.realtime_ns(now)
    assert realtime is not None
    assert before - header.uncertainty_ns <= realtime <= after + header.uncertainty_ns


def test_a_wall_clock_that_is_set(tmp_path: Path) -> None:
    wall = [10**18]
    path = tmp_path / "t"
    with opened(path, clock=lambda: 1000, realtime=lambda: wall[0]) as writer:
        lost(writer, 1001)
        writer.flush()
        wall[0] += 500_000  # half a millisecond: no step
        lost(writer, 1002)
        writer.flush()
        wall[0] += 10**9
        lost(writer, 1003)
    with open(path, "rb") as stream:
        _, events = read_trace(stream)
        told = [(each.name, each.realtime_ns) for each in events]
    assert told[:2] == [("recovery:packet_lost", 10**18 + 1), ("recovery:packet_lost", 10**18 + 2)]
    assert told[2] == ("trace:clock", 10**18 + 10**9 + 500_000)
    assert told[3] == ("recovery:packet_lost", 10**18 + 10**9 + 500_003)
    assert records(path.read_bytes())[-1]["data"] == {"events": 4}


def test_without_a_wall_clock(tmp_path: Path) -> None:
    path = tmp_path / "t"
    opened(path, clock=lambda: 7, realtime=None).close()
    assert records(path.read_bytes())[0]["clock"]["realtime_offset_ns"] is None


def test_events_reach_the_file_while_it_is_open(tmp_path: Path) -> None:
    path = tmp_path / "t"
    with opened(path, flush_interval_s=0.01) as writer:
        lost(writer, 1)
        eventually(lambda: len(records(path.read_bytes())) == 2)
        lost(writer, 2)
        eventually(lambda: len(records(path.read_bytes())) == 3)


def test_a_crash_costs_what_was_not_written_out(tmp_path: Path) -> None:
    """SIGKILL after 1000 events were written out and 10 more were told: the 1000 are there, and no end."""
    path = tmp_path / "t"
    script = f"""
import os, signal
from mrc.trace.vocabulary import PACKET_LOST
from mrc.trace.writer import TraceWriter
descriptor = os.open({str(path)!r}, os.O_WRONLY | os.O_CREAT)
writer = TraceWriter(descriptor, title="", vantage_point="", flush_interval_s=3600)
for psn in range(1010):
    if psn == 1000:
        writer.flush()
    writer.event(PACKET_LOST, psn, 7, (psn, 3, 1, "hole"))
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", script], check=False)
    assert done.returncode == -signal.SIGKILL
    with open(path, "rb") as stream:
        _, events = read_trace(stream)
        assert [each["psn"] for each in events] == list(range(1000))
    assert (events.cut, events.skipped, events.ended) == (False, 0, False)


def test_a_full_queue_drops_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "t"
    with opened(path, queue_limit=10) as writer:
        for psn in range(25):
            lost(writer, psn)
        writer.flush()
        lost(writer, 100)
    assert writer.dropped == 15
    told = [
        (each["name"], each["data"].get("psn", each["data"].get("events"))) for each in records(path.read_bytes())[1:]
    ]
    assert told[:10] == [("recovery:packet_lost", psn) for psn in range(10)]
    assert told[10:] == [("trace:dropped", 15), ("recovery:packet_lost", 100), ("trace:end", 12)]


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """(read end, write end); the writer closes its own."""
    reading, writing = os.pipe()
    yield reading, writing
    os.close(reading)


def test_a_disk_that_stands_still_holds_nobody_up(pipe: tuple[int, int]) -> None:
    """A pipe that nobody reads: the thread waits in write, whoever tells does not."""
    reading, writing = pipe
    writer = TraceWriter(writing, title="", vantage_point="", flush_interval_s=0.001, queue_limit=5000)
    for psn in range(20_000):  # far more than a pipe holds
        lost(writer, psn)
    assert writer.dropped >= 20_000 - 5000 - 65536 // 60
    got = io.BytesIO()

    def read() -> None:
        while chunk := os.read(reading, 65536):
            got.write(chunk)

    reader = threading.Thread(target=read)
    reader.start()
    writer.close()
    reader.join()
    header, events = read_trace(io.BytesIO(got.getvalue()))
    assert header.clock == "CLOCK_MONOTONIC"
    told = list(events)
    missing = sum(each["events"] for each in told if each.name == "trace:dropped")
    assert sum(each.name == "recovery:packet_lost" for each in told) + missing == 20_000
    assert events.ended


def test_a_disk_that_refuses_ends_the_trace(tmp_path: Path) -> None:
    """A pipe whose reader is gone refuses with EPIPE, after the header was written."""
    reading, writing = os.pipe()
    writer = TraceWriter(writing, title="", vantage_point="", flush_interval_s=NEVER_S)
    os.close(reading)
    lost(writer, 1)
    writer.flush()
    assert writer.failure is not None
    assert writer.failure.errno == errno.EPIPE
    lost(writer, 2)
    writer.close()
    writer.close()
    assert writer.dropped == 0


def test_a_disk_that_is_full_from_the_start() -> None:
    with pytest.raises(SystemRefused, match="/dev/full: No space left on device"):
        TraceWriter.open("/dev/full", title="", vantage_point="")


def test_a_file_that_cannot_be_made(tmp_path: Path) -> None:
    with pytest.raises(SystemRefused, match="nowhere/t: No such file or directory"):
        TraceWriter.open(tmp_path / "nowhere" / "t", title="", vantage_point="")


def test_nothing_is_left_of_an_old_file(tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.write_bytes(b"x" * 100_000)
    TraceWriter.open(path, title="", vantage_point="").close()
    assert [each.get("name") for each in records(path.read_bytes())] == [None, "trace:end"]


def test_what_comes_after_the_end_is_ignored(tmp_path: Path) -> None:
    path = tmp_path / "t"
    writer = opened(path)
    writer.close()
    lost(writer, 1)
    writer.flush()
    assert len(records(path.read_bytes())) == 2
    assert threading.active_count() == len(threading.enumerate())
    assert "mrc-trace" not in {thread.name for thread in threading.enumerate()}
