# SPDX-License-Identifier: BSD-2-Clause
"""`mrc analyze` as a user types it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from patience import PATIENCE_S

from mrc.cli import main
from mrc.trace.records import LF, MARK, RS, VERSION

ROOT = Path(__file__).resolve().parents[2]
SENDER = ROOT / "pcaps" / "mrc-tour-sender.pcap"
RECEIVER = ROOT / "pcaps" / "mrc-tour-receiver.pcap"
RC = ROOT / "pcaps" / "softroce-rc-ipv4-ipv6.pcap"


def invoke(*argv: str | Path, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(main, ["analyze", *map(str, argv)], input=stdin)


def document(*argv: str | Path) -> dict[str, Any]:
    result = invoke(*argv, "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert isinstance(found, dict)
    return found


def documented_keys(heading: str) -> set[str]:
    """The names in the first column of a table of docs/analyze.md."""
    text = (ROOT / "docs" / "analyze.md").read_text()
    section = text.split(f"### {heading}\n", 1)[1].split("\n#", 1)[0]
    cells = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    return {name.strip().strip("`") for cell in cells for name in cell.split(",")}


def test_findings_come_first_then_qps_then_paths() -> None:
    result = invoke(SENDER)
    assert (result.exit_code, result.stderr) == (0, "")
    text = result.stdout
    assert text.startswith(f"{SENDER}: 181 packets in 0.011261200 s, 181 of RoCEv2 or MRC\n")
    assert text.index("warning ") < text.index("info ") < text.index("requests  ") < text.index("EV  ")
    # pcaps/README.md: the path over spine 1 of plane 0 loses packets, the one over spine 0 of plane 1 marks and trims,
    # the host's port in plane 1 goes down. Of five losses four on one of four paths may be chance: no path is blamed.
    assert "5 of 117 packets (4.3 %) were lost" in text
    assert "loses" not in text
    assert "path EV 0x00000001 (p0l0>p0s1>p0l1>p0h1) was taken out of use" in text
    assert "on path EV 0x01000000 (p1l0>p1s0>p1l1>p1h1)" in text
    assert "its port 2 is down" in text
    assert "not to be known from here" in text


def test_the_two_ends_of_the_tour_tell_one_story() -> None:
    """What each end lost, trimmed and got, from both captures."""
    (sent,) = document(SENDER)["qps"]
    (received,) = document(RECEIVER)["qps"]
    (near,), (far,) = sent["directions"], received["directions"]
    assert (near["capture_point"], far["capture_point"]) == ("sender", "receiver")
    # 24,000 bytes, then 600 with an immediate.
    assert near["goodput_bytes"] == far["goodput_bytes"] == 24_600
    assert (near["messages"], near["messages_unfinished"]) == (2, 0)
    arrived = {path["ev"]: path["packets"] + path["trimmed"] for path in far["paths"]}
    for path in near["paths"]:
        # One NACK was lost while the port was down: that trimmed packet looks lost from the sender.
        missing = path["packets"] - arrived[path["ev"]]
        assert path["lost"] - missing in (0, 1), path
    assert near["spurious_retransmissions"] == far["spurious_retransmissions"]
    assert near["nacks"]["TRIMMED"] == far["trimmed"] - 1


def test_json_has_the_documented_keys() -> None:
    found = document(SENDER)
    assert set(found) == documented_keys("The document")
    (direction,) = found["qps"][0]["directions"]
    assert set(direction) == documented_keys("Directions")
    assert {key for path in direction["paths"] for key in path} == documented_keys("Paths")
    assert {key for path in direction["answer_paths"] for key in path} == documented_keys("Paths of answers")
    assert {key for plane in direction["planes"] for key in plane} == documented_keys("Planes")
    assert {key for each in direction["operations"] for key in each} == documented_keys("Operations")
    assert {key for each in found["findings"] for key in each} == documented_keys("Findings")
    assert {key for each in found["endpoint_operations"] for key in each} == documented_keys("Endpoint operations")
    assert {key for path in direction["paths"] for key in path["rtt"]} == documented_keys("Times")


def test_every_kind_of_finding_is_documented() -> None:
    # A kind stands behind its severity, or is chosen in a line of its own.
    stated = re.compile(r'(?:ERROR|WARNING|INFO|severity), "([a-z-]+)"')
    chosen = re.compile(r'^ +kind = "([a-z-]+)" if .* else "([a-z-]+)"$', re.MULTILINE)
    kinds = set()
    for source in (ROOT / "mrc" / "capture" / "analysis").glob("*.py"):
        text = source.read_text()
        kinds.update(stated.findall(text))
        kinds.update(kind for pair in chosen.findall(text) for kind in pair)
    assert len(kinds) > 20
    assert kinds == documented_keys("Kinds of findings")


def test_rc_works_as_well() -> None:
    found = document(RC)
    assert found["findings"] == []
    assert "findings: none\nLooked for: " in invoke(RC).stdout
    assert {direction["transport"] for qp in found["qps"] for direction in qp["directions"]} == {"rc"}


def test_out_writes_the_report(tmp_path: Path) -> None:
    result = invoke(SENDER, "--out", tmp_path / "a" / "b")
    assert result.exit_code == 0
    assert (tmp_path / "a" / "b" / "report.html").read_text().startswith("<!doctype html>")
    assert "report.html" in result.stderr


def test_parquet_writes_a_row_a_packet(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    result = invoke(SENDER, "--parquet", tmp_path / "x.parquet")
    assert result.exit_code == 0
    assert parquet.read_table(tmp_path / "x.parquet").num_rows == 181


def test_parquet_without_pyarrow_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    result = invoke(SENDER, "--parquet", tmp_path / "x.parquet")
    assert result.exit_code == 1
    assert "pip install 'softmrc[parquet]'" in result.stderr


def test_standard_input(tmp_path: Path) -> None:
    result = invoke("-", "--json", stdin=SENDER.read_bytes())
    assert json.loads(result.stdout)["packets"] == 181
    assert json.loads(result.stdout)["file"] == "standard input"


@pytest.mark.parametrize("name", ["-", "/dev/fd/0"])
@pytest.mark.parametrize("kind", ["capture", "trace"])
def test_a_pipe_is_read_once(kind: str, name: str) -> None:
    """As `<(zcat capture.pcap.gz)` of a shell: what it is has to be seen without taking it."""
    header = {MARK: VERSION, "title": "", "vantage_point": "sender", "clock": {"name": "CLOCK_MONOTONIC"}}
    data = SENDER.read_bytes() if kind == "capture" else RS + json.dumps(header, separators=(",", ":")).encode() + LF
    argv = [sys.executable, "-m", "mrc", "analyze", name, "--json"]
    done = subprocess.run(argv, input=data, capture_output=True, timeout=PATIENCE_S)
    assert (done.returncode, done.stderr) == (0, b"")
    document = json.loads(done.stdout)
    assert (document["packets"] if kind == "capture" else len(document["traces"])) == (181 if kind == "capture" else 1)


def test_a_capture_cut_short_is_analysed_as_far_as_it_goes(tmp_path: Path) -> None:
    path = tmp_path / "cut.pcap"
    path.write_bytes(SENDER.read_bytes()[:30_000])
    result = invoke(path, "--json", "--out", tmp_path / "out")
    assert result.exit_code == 1
    assert 0 < json.loads(result.stdout)["packets"] < 181
    assert len(result.stderr.splitlines()) == 2
    assert "cut short" in result.stderr
    assert (tmp_path / "out" / "report.html").exists()


def test_an_empty_capture_and_what_is_none(tmp_path: Path) -> None:
    empty, none = tmp_path / "empty.pcap", tmp_path / "none"
    empty.write_bytes(SENDER.read_bytes()[:24])
    none.write_bytes(b"this is no capture at all")
    assert document(empty)["findings"][0]["kind"] == "nothing-to-analyze"
    result = invoke(none)
    assert (result.exit_code, len(result.stderr.splitlines())) == (1, 1)
    assert invoke(tmp_path / "missing").exit_code == 2


def test_a_directory_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = invoke(SENDER, "--out", tmp_path / "file" / "x")
    assert result.exit_code == 1
    assert "x: cannot be made: Not a directory" in result.stderr


def test_help_has_examples_and_loads_nothing_heavy() -> None:
    script = (
        "import sys; from mrc.cli import main\n"
        "main(['analyze', '--help'], standalone_mode=False)\n"
        "sys.exit(bool({'scapy', 'numpy', 'pyarrow', 'rich'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "Examples:" in done.stdout
