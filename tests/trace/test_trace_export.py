# SPDX-License-Identifier: BSD-2-Clause
"""Traces for other viewers: Perfetto's Trace Event Format and qlog, of a trace of a simulated transfer and by hand."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from mrc.endpoint.config import EndpointConfig, QpConfig
from mrc.endpoint.endpoint import Endpoint
from mrc.fabric import Clos
from mrc.sim import LinkModel, SimFabric
from mrc.trace import read_trace
from mrc.trace.records import encode
from mrc.trace.vocabulary import EVENTS, EventType

OFFSET = 1_700_000_000_000_000_000
HEADER = {
    "mrc_trace": 1,
    "title": "mrc send",
    "vantage_point": "sender",
    "generator": "mrc 9",
    "clock": {"name": "CLOCK_MONOTONIC", "realtime_offset_ns": OFFSET, "uncertainty_ns": 90},
}
# The phases of the Trace Event Format that are written here, and what each event of them has to have
# (docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU, "Event Descriptions").
PHASES = {
    "M": {"name", "pid", "tid", "args"},
    "X": {"name", "pid", "tid", "ts", "dur", "args"},
    "i": {"name", "pid", "tid", "ts", "s", "args"},
    "C": {"name", "pid", "ts", "args"},
}


class Recorder:
    """Writes what an endpoint reports as a trace."""

    def __init__(self) -> None:
        self.fabric: SimFabric | None = None
        self.events: list[dict[str, Any]] = []

    def now(self) -> int:
        return 0 if self.fabric is None else self.fabric.now

    def event(self, kind: EventType, at_ns: int, qpn: int | None, values: tuple[object, ...], /) -> None:
        self.events.append({"time_ns": at_ns, "name": kind.name, "qpn": qpn, "data": kind.named(values)})


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A transfer over eight paths, one of which loses a tenth."""
    recorder = Recorder()
    sender = Endpoint(EndpointConfig(seed=1), tracer=recorder)
    fabric = SimFabric(Clos(2, 2, 4), LinkModel(delay_ns=10_000, rate_bps=10**9), seed=1, agents={"h0": sender})
    recorder.fabric = fabric
    fabric.link("p1l0-p1s2", toward="p1s2").model = LinkModel(delay_ns=10_000, rate_bps=10**9, loss=0.1)
    qp, _ = fabric.connect("h0", "h1", QpConfig(path_mtu=1024))
    sent = fabric.write(qp, 3_000_000)
    assert fabric.run(2_000_000_000, lambda: sent.done)
    fabric.endpoints["h0"].destroy_qp(qp)
    path = tmp_path_factory.mktemp("trace") / "sender.trace"
    lines = [HEADER, *recorder.events, {"time_ns": fabric.now, "name": "trace:end", "qpn": None, "data": {"events": 1}}]
    path.write_bytes(b"".join(map(encode, lines)))
    return path


def mrc(*argv: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mrc", "trace", "export", *map(str, argv)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def events_of(path: Path) -> list[Any]:
    with path.open("rb") as stream:
        return list(read_trace(stream)[1])


def test_perfetto_has_every_event_of_the_trace(trace: Path, tmp_path: Path) -> None:
    done = mrc(trace, "--out", tmp_path / "out.json")
    assert (done.returncode, done.stderr) == (0, "")
    drawn = json.loads((tmp_path / "out.json").read_text())["traceEvents"]
    for each in drawn:
        assert set(each) >= PHASES[each["ph"]], each
        assert each.get("ts", 0) >= 0
        assert each.get("dur", 0) >= 0
    events = events_of(trace)
    counted = Counter(event.name for event in events)
    assert counted["recovery:packet_lost"] > 1
    assert counted["path:ev_state"] > 3
    marks = Counter(f"{each['cat']}:{each['name']}" for each in drawn if each["ph"] == "i")
    bars = {"path:ev_state", "connectivity:qp_state"}
    graphs = {"recovery:metrics_updated": 3, "transport:sacks_received": 1, "transport:sacks_sent": 1}
    assert marks == Counter({name: count for name, count in counted.items() if name not in {*bars, *graphs}})
    assert sum(each["ph"] == "C" for each in drawn) == sum(count * counted[name] for name, count in graphs.items())
    # A bar for each change of state, and one for the state before the first where the trace does not begin with it.
    slices = [each for each in drawn if each["ph"] == "X"]
    tracks = {each["tid"] for each in slices}
    assert len(slices) == sum(counted[name] for name in bars) + len(tracks)


def test_bars_of_a_track_follow_each_other_and_say_the_states(trace: Path, tmp_path: Path) -> None:
    assert mrc(trace, "--out", tmp_path / "out.json").returncode == 0
    drawn = json.loads((tmp_path / "out.json").read_text())["traceEvents"]
    names = {each["tid"]: each["args"]["name"] for each in drawn if each["name"] == "thread_name"}
    events = events_of(trace)
    (lossy,) = [tid for tid, name in names.items() if name.endswith("plane 1 spine 2")]
    ev = int(names[lossy].split(" EV ")[1].split()[0], 16)
    bars = [each for each in drawn if each["ph"] == "X" and each["tid"] == lossy]
    changes = [event for event in events if event.name == "path:ev_state" and event["ev"] == ev]
    assert [bar["name"] for bar in bars] == ["GOOD", *(event["new"] for event in changes)]
    begin = min(event.time_ns for event in events)
    assert [bar["ts"] for bar in bars[1:]] == [(event.time_ns - begin) / 1000 for event in changes]
    # Perfetto leaves out a bar that overlaps another of its track, and merges tracks and graphs of one name.
    tracks = {track: [each for each in drawn if each["ph"] == "X" and each["tid"] == track] for track in names}
    for of_track in tracks.values():
        for bar, following in pairwise(of_track):
            assert bar["ts"] + bar["dur"] == pytest.approx(following["ts"])
    assert sum(map(len, tracks.values())) == sum(each["ph"] == "X" for each in drawn)
    assert len(set(names.values())) == len(names)
    graphs = Counter((each["name"], each["ts"]) for each in drawn if each["ph"] == "C")
    assert set(graphs.values()) == {1}


def test_several_traces_and_a_lab_are_on_one_time_line(trace: Path, tmp_path: Path) -> None:
    later = {**HEADER, "vantage_point": "receiver", "clock": {**HEADER["clock"], "realtime_offset_ns": OFFSET + 10**6}}  # type: ignore[dict-item]
    port = {"time_ns": 0, "name": "path:port", "qpn": None, "data": {"side": "local", "port": 1, "up": False}}
    (tmp_path / "receiver.trace").write_bytes(encode(later) + encode(port))
    cut = {
        "at_monotonic_ns": 5,
        "at_unix_ns": OFFSET + 2 * 10**6,
        "event": "cut",
        "target": "p0s1",
        "links": [],
        "details": {"took_ns": 3},
    }
    (tmp_path / "events.jsonl").write_text(json.dumps(cut) + "\n")
    done = mrc(
        trace, tmp_path / "receiver.trace", "--events", tmp_path / "events.jsonl", "--out", tmp_path / "out.json"
    )
    assert done.returncode == 0
    assert "receiver.trace is not whole: its end is missing" in done.stderr
    drawn = json.loads((tmp_path / "out.json").read_text())["traceEvents"]
    processes = {each["pid"]: each["args"]["name"] for each in drawn if each["name"] == "process_name"}
    assert processes == {1: "mrc send (sender)", 2: "mrc send (receiver)", 3: "fabric"}
    begin = OFFSET + min(event.time_ns for event in events_of(trace))
    (change,) = [each for each in drawn if each["pid"] == 2 and each["ph"] == "i"]
    assert change["ts"] == pytest.approx((OFFSET + 10**6 - begin) / 1000)
    (of_lab,) = [each for each in drawn if each["pid"] == 3 and each["ph"] == "i"]
    assert of_lab["name"] == "cut p0s1"
    assert of_lab["ts"] == pytest.approx((OFFSET + 2 * 10**6 - begin) / 1000)


def test_qlog_has_the_recovery_events_as_its_schema_names_them(trace: Path, tmp_path: Path) -> None:
    done = mrc("--qlog", trace, "--out", tmp_path / "out.sqlog")
    assert (done.returncode, done.stderr) == (0, "")
    texts = (tmp_path / "out.sqlog").read_bytes().split(b"\x1e")
    assert texts[0] == b""
    header, *records = map(json.loads, texts[1:])
    assert (header["qlog_version"], header["qlog_format"]) == ("0.3", "JSON-SEQ")
    assert header["trace"]["vantage_point"]["type"] == "client"
    assert header["trace"]["common_fields"]["reference_time"] == pytest.approx(OFFSET / 1e6)
    events = events_of(trace)
    assert [each["time"] for each in records] == [(event.time_ns - events[0].time_ns) / 1e6 for event in events]
    lost = [each["data"] for each in records if each["name"] == "recovery:packet_lost"]
    assert [each["header"]["packet_number"] for each in lost] == [
        event["psn"] for event in events if event.name == "recovery:packet_lost"
    ]
    metrics = [each["data"] for each in records if each["name"] == "recovery:metrics_updated"]
    assert [(each["congestion_window"], each["bytes_in_flight"]) for each in metrics] == [
        (event["cwnd_bytes"], event["inflight_bytes"]) for event in events if event.name == "recovery:metrics_updated"
    ]
    # Nothing is lost that qlog has no word for.
    assert len(records) == len(events)
    assert {each["name"] for each in records if each["name"].startswith("mrc_")} <= {f"mrc_{name}" for name in EVENTS}


def test_what_is_no_trace_is_named(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("{}")
    done = mrc(tmp_path / "other", "--out", tmp_path / "out.json")
    assert done.returncode == 1
    assert done.stderr.startswith(f"Error: {tmp_path}/other: not a trace")
    assert not (tmp_path / "out.json").exists()
    assert "takes one trace" in mrc("--qlog", tmp_path / "other", tmp_path / "other", "--out", tmp_path / "x").stderr
    assert read_trace(io.BytesIO(encode(HEADER)))[0].title == "mrc send"
