# SPDX-License-Identifier: BSD-2-Clause
"""A lab's event log beside a capture or a trace: right in time, what held before, marked in all that is shown."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from crafted_flows import MICROSECOND, Crafted, ev_of
from crafted_traces import EPOCH_NS, CraftedTrace
from test_analysis_report import data_of

from mrc.capture.analysis.fabric_events import FabricEvents
from mrc.cli import main
from mrc.fabric.events import FabricEvent

ROOT = Path(__file__).resolve().parents[2]
US = MICROSECOND
A, B = ev_of(0, 0), ev_of(1, 0)
# The clock of the traces counts from EPOCH_NS; that of the log's machine, by chance, from 5 s before.
MONOTONIC_AHEAD_NS = 5_000_000_000


def event(at_us: float, name: str, target: str, *links: str, **details: Any) -> FabricEvent:
    at_ns = round(at_us * US)
    return FabricEvent(at_ns + MONOTONIC_AHEAD_NS, EPOCH_NS + at_ns, name, target, links or (target,), details)


LOG = [
    event(-900, "up", "mrc", planes=2),
    event(-500, "impair", "p1l0-p1s0", toward=["p1l0", "p1s0"], loss=0.01),
    event(-400, "cut", "plane:1", "h0-p1l0", "p1l0-p1s0"),
    event(-300, "heal", "h0-p1l0"),
    event(250, "cut", "p0l0-p0s0", took_ns=224_000),
    event(650, "heal", "p0l0-p0s0", took_ns=1_803_000),
    event(651, "<b>paint</b>", "p0l0-p0s0"),
    event(5000, "clear", "p1l0-p1s0", toward=["p1s0"]),
]


def capture() -> bytes:
    """From 100 to 1100 us."""
    crafted = Crafted()
    for psn in range(20):
        crafted.data((100 + psn * 50) * US, psn, (A, B)[psn % 2])
    crafted.sack(1100 * US, 19, 19, A)
    return crafted.pcap()


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "x.pcap").write_bytes(capture())
    (tmp_path / "log").write_bytes(b"".join(each.to_line() for each in LOG))
    trace = CraftedTrace()
    trace.started([A, B])
    trace.metrics(700 * US, 60_000, 110_000)
    (tmp_path / "x.trace").write_bytes(trace.bytes())
    return tmp_path


def analyze(*argv: str | Path) -> Result:
    result = CliRunner().invoke(main, ["analyze", *map(str, argv)])
    assert result.exit_code == 0, result.output
    return result


def document(*argv: str | Path) -> dict[str, Any]:
    found = json.loads(analyze(*argv, "--json").stdout)
    assert isinstance(found, dict)
    return found


def test_times_count_from_the_first_packet(files: Path) -> None:
    """It came 100 us after EPOCH_NS."""
    found = document(files / "x.pcap", "--events", files / "log")["fabric_events"]
    assert (found["file"], found["damaged_lines"]) == (str(files / "log"), 0)
    assert [each.pop("time_ns") / 1000 for each in found["events"]] == [
        -1000, -600, -500, -400, 150, 550, 551, 4900
    ]  # fmt: skip
    assert found["events"] == [each.to_json() for each in LOG]


def test_of_a_trace_they_count_from_its_first_event(files: Path) -> None:
    """Its first event is at 0 of its clock, which the header's offset makes EPOCH_NS."""
    found = document(files / "x.trace", "--events", files / "log")["fabric_events"]
    assert [each["time_ns"] / 1000 for each in found["events"]] == [
        -900, -500, -400, -300, 250, 650, 651, 5000
    ]  # fmt: skip


def test_a_trace_and_a_capture_have_an_event_at_the_same_moment(files: Path) -> None:
    """What the trace's header says turns its clock into the capture's."""
    shifted = CraftedTrace(offset_ns=EPOCH_NS - 77_000 * US)
    shifted.event(77_250 * US, "path:port", side="local", port=0, up=False)
    (files / "x.trace").write_bytes(shifted.bytes())
    found = document(files / "x.pcap", "--events", files / "log", "--trace", files / "x.trace")
    (port,) = found["traces"][0]["ports"]
    at_ns = found["traces"][0]["start_ns"] - found["start_ns"] + port["time_ns"]
    cut = next(each for each in found["fabric_events"]["events"] if each["target"] == "p0l0-p0s0")
    assert at_ns == pytest.approx(cut["time_ns"], abs=2000)


def test_the_document_without_a_log(files: Path) -> None:
    assert document(files / "x.pcap")["fabric_events"] is None
    assert document(files / "x.trace")["fabric_events"] is None


def test_the_text_has_what_held_and_what_happened(files: Path) -> None:
    text = analyze(files / "x.pcap", "--events", files / "log").stdout
    table = text.partition("time s ")[2].partition("\n\n")[0].splitlines()[1:]
    assert [" ".join(line.split()) for line in table] == [
        "before impair p1l0-p1s0 toward p1l0 p1s0 loss 0.01",
        "before cut plane:1 (h0-p1l0 p1l0-p1s0)",
        "0.000150000 cut p0l0-p0s0 took 0.224 ms",
        "0.000550000 heal p0l0-p0s0 took 1.803 ms",
        "0.000551000 <b>paint</b> p0l0-p0s0",
    ]
    assert "0.000250" in analyze(files / "x.trace", "--events", files / "log").stdout


def test_the_graphs_have_a_line_for_each(files: Path) -> None:
    analyze(files / "x.pcap", "--events", files / "log", "--out", files)
    page = (files / "report.html").read_text()
    (one,) = data_of(page)
    assert [(round(each["x"] * 1e6), each["event"], each["label"]) for each in one["events"]] == [
        (150, "cut", "cut p0l0-p0s0"),
        (550, "heal", "heal p0l0-p0s0"),
        (551, "<b>paint</b>", "<b>paint</b> p0l0-p0s0"),
    ]
    assert "<b>paint" not in page
    assert "&lt;b&gt;paint" in page
    assert page.index("Findings") < page.index("<h2>Fabric</h2>") < page.index("Queue pairs")


def test_without_a_log_the_report_has_none(files: Path) -> None:
    analyze(files / "x.pcap", "--out", files)
    page = (files / "report.html").read_text()
    assert "<h2>Fabric</h2>" not in page
    assert data_of(page)[0]["events"] == []


def test_a_browser_draws_them(files: Path) -> None:
    chromium = shutil.which("chromium")
    if chromium is None and os.environ.get("CI") != "true":
        pytest.skip("needs the program chromium")
    assert chromium is not None, "install chromium"
    analyze(files / "x.pcap", "--events", files / "log", "--out", files)
    flags = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    flags += "--disable-component-update --disable-sync --window-size=1200,900"
    argv = [chromium, *flags.split(), f"--user-data-dir={files / 'profile'}"]
    page = (files / "report.html").as_uri()
    dom = subprocess.run([*argv, "--dump-dom", page], capture_output=True, text=True, check=True, timeout=120).stdout
    # The script ran to its end, and hovering over the line of the cut names it.
    assert re.search(r'data-ready="\d+"', dom)
    hover = files / "hover.html"
    # Of 1000 us the cut is at 150; the graph begins 88 pixels from the left of its canvas and ends 14 from its right.
    hover.write_text(
        (files / "report.html")
        .read_text()
        .replace(
            "</body>",
            """<script>
            const canvas = document.querySelector("canvas[role=img]"), at = canvas.getBoundingClientRect();
            const clientX = at.left + 88 + .15 * (at.width - 102), clientY = at.top + 40;
            canvas.dispatchEvent(new MouseEvent("mousemove", {clientX, clientY}));
            </script></body>""",
        )
    )
    dom = subprocess.run(
        [*argv, "--dump-dom", hover.as_uri()], capture_output=True, text=True, check=True, timeout=120
    ).stdout
    tip = re.search(r'<div id="tip"[^>]*>([^<]*)', dom)
    assert tip is not None
    assert "cut         p0l0-p0s0  took 0.224 ms" in tip[1]


# ------------------------------------------------------------------ what held before


def in_force(*events: FabricEvent) -> list[int]:
    """Which of these still held at 0, by number."""
    found = FabricEvents("log", events, 0, EPOCH_NS, 1.0).in_force
    return [events.index(each) for each in found]


@pytest.mark.parametrize(
    ("events", "holding"),
    [
        ([("cut", "a-b", ["a-b"], {})], [0]),
        ([("cut", "a-b", ["a-b"], {}), ("heal", "a", ["a-b", "a-c"], {})], []),
        ([("cut", "a", ["a-b", "a-c"], {}), ("heal", "a-b", ["a-b"], {})], [0]),
        ([("cut", "a", ["a-b"], {}), ("cut", "a", ["a-b"], {})], [1]),
        ([("impair", "a-b", ["a-b"], {"toward": ["a", "b"], "loss": 0.1})], [0]),
        (
            [("impair", "a-b", ["a-b"], {"toward": ["a"], "loss": 0.1}), ("clear", "a-b", ["a-b"], {"toward": ["b"]})],
            [0],
        ),
        (
            [
                ("impair", "a-b", ["a-b"], {"toward": ["a", "b"], "loss": 0.1}),
                ("clear", "a-b", ["a-b"], {"toward": ["a", "b"]}),
            ],
            [],
        ),
        # What is given changes, what is not stays; 0 is off.
        (
            [
                ("impair", "a-b", ["a-b"], {"toward": ["a"], "loss": 0.1, "rate_bps": 10**9}),
                ("impair", "a-b", ["a-b"], {"toward": ["a"], "rate_bps": 10**8}),
            ],
            [0, 1],
        ),
        (
            [
                ("impair", "a-b", ["a-b"], {"toward": ["a"], "loss": 0.1}),
                ("impair", "a-b", ["a-b"], {"toward": ["a"], "loss": 0}),
            ],
            [],
        ),
        ([("up", "mrc", [], {}), ("flap-start", "a-b", ["a-b"], {}), ("flap-end", "a-b", ["a-b"], {})], []),
    ],
)
def test_what_still_holds(events: list[tuple[str, str, list[str], dict[str, Any]]], holding: list[int]) -> None:
    made = [
        event(-100 + number, name, target, *links, **more) for number, (name, target, links, more) in enumerate(events)
    ]
    assert in_force(*made) == holding


def test_what_comes_later_held_not(files: Path) -> None:
    assert in_force(event(0, "cut", "a-b"), event(1, "cut", "a-c")) == []


# ------------------------------------------------------------------ what does not fit


def kinds(found: dict[str, Any]) -> list[str]:
    return [each["kind"] for each in found["findings"]]


def test_a_log_of_another_time_is_reported(files: Path) -> None:
    (files / "log").write_bytes(event(-3_000_000, "cut", "a-b").to_line() + event(9_000_000, "heal", "a-b").to_line())
    found = document(files / "x.pcap", "--events", files / "log")
    (finding,) = (each for each in found["findings"] if each["kind"] == "fabric-events-elsewhere")
    assert "none of its 2 events lies within the 0.001 s here" in finding["text"]
    assert "from -3.000 s to 9.000 s" in finding["text"]
    assert "fabric-events-elsewhere" in kinds(document(files / "x.trace", "--events", files / "log"))


def test_one_that_fits_is_no_finding(files: Path) -> None:
    assert "fabric-events-elsewhere" not in kinds(document(files / "x.pcap", "--events", files / "log"))


def test_an_empty_log_is_no_finding(files: Path) -> None:
    (files / "log").write_bytes(b"")
    found = document(files / "x.pcap", "--events", files / "log")
    assert found["fabric_events"]["events"] == []
    assert "fabric-events-elsewhere" not in kinds(found)


def test_without_a_wall_clock_there_is_no_place(files: Path) -> None:
    trace = CraftedTrace(offset_ns=None)
    trace.metrics(700 * US, 60_000, 110_000)
    (files / "x.trace").write_bytes(trace.bytes())
    found = document(files / "x.trace", "--events", files / "log")
    assert {each["time_ns"] for each in found["fabric_events"]["events"]} == {None}
    assert "fabric-events-elsewhere" in kinds(found)


def test_damaged_lines_are_counted(files: Path) -> None:
    with open(files / "log", "ab") as file:
        file.write(b'{"half a li\nnonsense\n\n')
    found = document(files / "x.pcap", "--events", files / "log")["fabric_events"]
    assert found["damaged_lines"] == 2
    assert len(found["events"]) == len(LOG)


def test_what_is_no_log_is_refused(files: Path) -> None:
    result = CliRunner().invoke(main, ["analyze", str(files / "x.pcap"), "--events", str(files / "x.pcap")])
    assert result.exit_code == 1
    assert "not an event log: `mrc lab events --jsonl" in result.stderr


def test_every_key_is_documented(files: Path) -> None:
    text = (ROOT / "docs" / "analyze.md").read_text()

    def keys(heading: str) -> set[str]:
        section = text.split(f"### {heading}\n", 1)[1].split("\n#", 1)[0]
        cells = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
        return {name.strip().strip("`") for cell in cells for name in cell.split(",")}

    found = document(files / "x.pcap", "--events", files / "log")["fabric_events"]
    assert set(found) == keys("Fabric events")
    assert set(found["events"][0]) == keys("An event of the fabric")
