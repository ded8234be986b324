# SPDX-License-Identifier: BSD-2-Clause
"""A capture and what the endpoints say of the same transfer: both written by hand, and so is what comes of them."""

from __future__ import annotations

import io
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from analyzing import analysis_of
from click.testing import CliRunner, Result
from crafted_flows import MICROSECOND, TRIMMED, Crafted, ev_of
from crafted_traces import EPOCH_NS, CraftedTrace

from mrc.capture.analysis import Analysis
from mrc.capture.analysis.comparison import Comparison, apart, compare
from mrc.capture.analysis.figures import DirectionReported
from mrc.capture.analysis.finding import Finding
from mrc.capture.analysis.reported import read_reported
from mrc.capture.analysis.trace_findings import trace_findings
from mrc.cli import main

ROOT = Path(__file__).resolve().parents[2]
A, B = ev_of(0, 0), ev_of(1, 0)
US = MICROSECOND


def capture() -> Crafted:
    """PSNs 12 to 18 (they wrap at 16) on A and B in turn: 13 lost, 16 trimmed, 17 and 18 sent again spuriously."""
    crafted = Crafted()
    for psn in range(12, 19):
        crafted.data((psn - 12) * 10 * US, psn, (A, B)[psn % 2], msn=0)
    crafted.sack(120 * US, 12, 14, A, received=(14,))
    crafted.data(130 * US, 13, A, rtx=True)
    crafted.nack(140 * US, 16, A, TRIMMED)
    crafted.data(150 * US, 16, B, rtx=True)
    crafted.sack(230 * US, 15, 13, A, rtx=True)
    crafted.sack(250 * US, 16, 16, B, rtx=True)
    crafted.data(400 * US, 17, A, rtx=True)
    crafted.sack(410 * US, 17, 17, B)
    crafted.data(600 * US, 18, B, rtx=True)
    crafted.sack(601 * US, 18, 18, A)
    # Later than any answer came to what it is about: the fate of the others is settled.
    crafted.ack(900 * US, 18)
    return crafted


def sender_trace(offset_ns: int | None = EPOCH_NS) -> CraftedTrace:
    """The requestor noticed that 17 had arrived, of 18 it did not; PSN 40 is in no capture."""
    trace = CraftedTrace(offset_ns=offset_ns)
    trace.started([A, B])
    trace.lost(125 * US, 13, B, "hole")
    trace.state(125 * US, B, "GOOD", "ASSUMED_BAD", "LOST")
    trace.resent(125 * US, 13, A)
    trace.lost(145 * US, 16, A, "nack:TRIMMED")
    trace.resent(145 * US, 16, B)
    trace.metrics(200 * US, 50_000, 100_000)
    trace.lost(390 * US, 17, B, "path_timer")
    trace.resent(390 * US, 17, A)
    trace.spurious(415 * US, 17, B, True)
    trace.state(415 * US, B, "ASSUMED_BAD", "GOOD", "SPURIOUS")
    trace.lost(590 * US, 18, A, "path_timer")
    trace.resent(590 * US, 18, B)
    trace.metrics(700 * US, 60_000, 110_000)
    trace.lost(800 * US, 40, B, "local_ack_timeout")
    return trace


def receiver_trace() -> CraftedTrace:
    trace = CraftedTrace(qpn=0x2B0222, peer=0x1A0111)
    trace.event(0, "connectivity:qp_state", old="RTR", new="RTS", why=None)
    trace.received(500 * US, 8, 1)
    trace.received(700 * US, 1, 1)
    return trace


def compared(crafted: Crafted, *traces: CraftedTrace) -> tuple[Analysis, list[Comparison], dict[str, list[Finding]]]:
    analysis = analysis_of(crafted.pcap())
    reported = [read_reported(io.BytesIO(each.bytes()), f"t{index}") for index, each in enumerate(traces)]
    both = compare(analysis, reported)
    found: dict[str, list[Finding]] = {}
    for each in trace_findings(reported, both):
        found.setdefault(each.kind, []).append(each)
    return analysis, both, found


def reported_of(analysis: Analysis) -> DirectionReported:
    (direction,) = analysis.directions
    assert direction.figures.reported is not None
    return direction.figures.reported


def test_inferred_and_reported_figures_of_a_direction() -> None:
    analysis, _, _ = compared(capture(), sender_trace(), receiver_trace())
    figures = analysis.directions[0].figures
    assert (figures.lost, figures.trimmed, figures.spurious_retransmissions) == (1, 1, 2)
    assert asdict(reported_of(analysis)) == {
        "requestor_trace": "t0",
        "responder_trace": "t1",
        "lost": 3,  # 13, 18 and 40: 17 was taken back, 16 was trimmed
        "lost_in_both": 1,
        "lost_inferred_only": 0,
        "lost_reported_only": 1,
        "losses_not_captured": 1,
        "losses_by_trigger": {"path_timer": 2, "hole": 1, "nack:TRIMMED": 1, "local_ack_timeout": 1},
        "trimmed": 1,
        "refused": 0,
        "retransmissions": 4,
        "spurious_retransmissions": 1,
        "requests_received": 9,
        "duplicates_received": 2,
    }


def test_paths_have_the_losses_and_states_reported() -> None:
    analysis, _, _ = compared(capture(), sender_trace())
    a, b = (path.reported for path in analysis.directions[0].figures.paths)
    assert a is not None
    assert b is not None
    assert (a.lost, a.lost_in_both, a.trimmed, a.outs, a.state) == (1, 0, 1, 0, "GOOD")
    assert (b.lost, b.lost_in_both, b.trimmed, b.outs, b.state) == (2, 1, 0, 1, "GOOD")
    assert b.out_ns == 290_000
    assert [(each["time_ns"] / 1000, each["old"], each["state"], each["trigger"]) for each in b.state_changes] == [
        (125, "GOOD", "ASSUMED_BAD", "LOST"),
        (415, "ASSUMED_BAD", "GOOD", "SPURIOUS"),
    ]


@pytest.mark.parametrize("offset_ns", [None, 0, EPOCH_NS + 3600 * 10**9])
def test_packets_and_losses_are_matched_whatever_the_clock_says(offset_ns: int | None) -> None:
    expected = asdict(reported_of(compared(capture(), sender_trace())[0]))
    analysis, both, _ = compared(capture(), sender_trace(offset_ns))
    assert asdict(reported_of(analysis)) == expected
    requests = both[0].direction.fates.requests
    matched = [None if at < 0 else int(requests["number"][at]) for at in both[0].transmission]
    # PSN 13 is packet 2, 16 is 5, 17 and 18 are 6 and 7; 40 was not captured.
    assert matched == [2, 5, 6, 7, None]
    assert [int(requests["number"][at]) for at in both[0].spurious] == [14]


def test_a_psn_lost_twice_on_one_ev_is_two_transmissions() -> None:
    crafted, trace = Crafted(), CraftedTrace()
    for time, ev, rtx in ((0, A, False), (200, B, True), (400, A, True), (600, B, True)):
        crafted.data(time * US, 12, ev, rtx=rtx)
    crafted.sack(700 * US, 12, 12, B, rtx=True)
    trace.started([A, B])
    for time, ev in ((190, A), (390, B), (590, A)):
        trace.lost(time * US, 12, ev, "path_timer")
    analysis, both, found = compared(crafted, trace)
    assert [int(both[0].direction.fates.requests["number"][at]) for at in both[0].transmission] == [1, 2, 3]
    assert reported_of(analysis).lost_in_both == reported_of(analysis).lost == 3
    assert set(found) <= {"reported-states-differ"}


def test_a_loss_taken_back_is_the_one_on_the_ev_it_arrived_on() -> None:
    trace = CraftedTrace()
    trace.started([A, B])
    trace.lost(1, 12, A, "hole")
    trace.lost(2, 12, B, "hole")
    trace.spurious(3, 12, B, False)
    (qp,) = read_reported(io.BytesIO(trace.bytes()), "t").qps
    assert dict(qp.lost()) == {(A, "lost"): 1}
    assert qp.spurious_noticed == 0


def many(inferred: int, reported: int, duplicates: int | None = None) -> dict[str, list[Finding]]:
    """`inferred` packets lost on A, of which the trace reports `reported`."""
    crafted, trace = Crafted(), CraftedTrace()
    trace.started([A, B])
    for index in range(inferred):
        psn, at = 12 + 2 * index, index * 1000 * US
        crafted.data(at, psn, A)
        crafted.data(at + 10 * US, psn + 1, B)
        crafted.sack(at + 110 * US, psn - 1, psn + 1, B, received=(psn + 1,))
        crafted.data(at + 300 * US, psn, B, rtx=True)
        crafted.sack(at + 400 * US, psn + 1, psn, B, rtx=True)
        if index < reported:
            trace.lost(at, psn, A, "hole")
        trace.resent(at, psn, B)
    others = []
    if duplicates is not None:
        others = [receiver_trace()]
        others[0].received(10**9, 0, duplicates - 2)
    trace.metrics(10**9, 1, 1)
    return compared(crafted, trace, *others)[2]


def test_a_finding_where_losses_differ_by_more_than_a_little() -> None:
    (found,) = many(20, 10)["reported-losses-differ"]
    assert found.ev == A
    assert "the packets show 20 lost, the endpoint took 10 for lost; 10 are the same transmissions" in found.text
    assert "reported-losses-differ" not in many(20, 20)
    assert "reported-losses-differ" not in many(20, 18)


@pytest.mark.parametrize(("one", "other", "differ"), [(0, 2, False), (0, 3, True), (30, 33, False), (30, 34, True)])
def test_more_than_a_little_is_three_and_a_tenth(one: int, other: int, differ: bool) -> None:
    assert apart(one, other) is apart(other, one) is differ


def test_what_came_twice_is_reported_by_the_responder() -> None:
    (found,) = many(20, 20, duplicates=9)["reported-spurious-differ"]
    assert (
        found.text == "the packets show 0 spurious retransmissions, the requestor noticed 0, the responder got 9 twice"
    )
    assert "reported-spurious-differ" not in many(20, 20, duplicates=2)


def test_a_trace_of_another_qp_is_said_and_tells_nothing() -> None:
    trace = CraftedTrace(qpn=0x111111, peer=0x222222)
    trace.started([A])
    trace.lost(1, 13, A, "hole")
    analysis, both, found = compared(capture(), trace)
    assert both == []
    assert analysis.directions[0].figures.reported is None
    (other,) = found["reported-of-others"]
    assert other.text == "t0 reports on 1 QP that the capture does not have: QP 0x111111"


def test_a_trace_without_its_end_is_said() -> None:
    trace = sender_trace()
    trace.event(0, "trace:dropped", events=7)
    reported = read_reported(io.BytesIO(trace.bytes(ended=False)), "t")
    (found,) = [each for each in trace_findings([reported], []) if each.kind == "reported-incomplete"]
    assert "its end is missing, 7 events could not be written" in found.text


# ------------------------------------------------------------------ as a user types it


def invoke(*argv: str | Path) -> Result:
    return CliRunner().invoke(main, ["analyze", *map(str, argv)])


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path, Path]:
    paths = (tmp_path / "x.pcap", tmp_path / "s.trace", tmp_path / "r.trace")
    contents = (capture().pcap(), sender_trace().bytes(), receiver_trace().bytes())
    for path, content in zip(paths, contents, strict=True):
        path.write_bytes(content)
    return paths


def documented_keys(heading: str) -> set[str]:
    section = (ROOT / "docs" / "analyze.md").read_text().split(f"### {heading}\n", 1)[1].split("\n#", 1)[0]
    cells = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    return {name.strip().strip("`") for cell in cells for name in cell.split(",")}


def test_json_with_traces_has_the_documented_keys(files: tuple[Path, Path, Path]) -> None:
    pcap, sender, receiver = files
    result = invoke(pcap, "--trace", sender, "--trace", receiver, "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    found = json.loads(result.stdout)
    assert set(found) == documented_keys("The document")
    (direction,) = found["qps"][0]["directions"]
    assert set(direction["reported"]) == documented_keys("Reported of a direction")
    assert {key for path in direction["paths"] for key in path["reported"]} == documented_keys("Reported of a path")
    assert [each["file"] for each in found["traces"]] == [str(sender), str(receiver)]
    for trace in found["traces"]:
        assert set(trace) == documented_keys("Traces")
        for qp in trace["qps"]:
            assert set(qp) == documented_keys("QPs of a trace")
            assert {key for path in qp["paths"] for key in path} in (documented_keys("Paths of a trace"), set())


def test_tables_put_reported_beside_inferred(files: tuple[Path, Path, Path]) -> None:
    pcap, sender, receiver = files
    result = invoke(pcap, "--trace", sender, "--trace", receiver)
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    at = next(index for index, line in enumerate(lines) if line.startswith("inferred from packets, reported by"))
    reported = "1 3 1 path_timer 2 hole 1 nack:TRIMMED 1 local_ack_timeout 1 4 4 2 1 2"
    assert " ".join(lines[at + 1].split()).endswith(reported)
    row = next(line for line in lines[at + 2 :] if f"0x{B:08x}" in line)
    assert row.split()[:5] == ["0x2b0222", f"0x{B:08x}", "1", "2", "1"]


def test_a_trace_alone(files: tuple[Path, Path, Path]) -> None:
    _, sender, receiver = files
    found: dict[str, Any] = json.loads(invoke(sender, "--trace", receiver, "--json").stdout)
    assert set(found) == {"file", "findings", "traces", "fabric_events"}
    of_sender, of_receiver = (trace["qps"][0] for trace in found["traces"])
    assert (of_sender["lost"], of_sender["trimmed"], of_sender["losses_taken_back"]) == (3, 1, 1)
    assert (of_sender["data_packets"], of_sender["data_bytes"], of_sender["sacks_received"]) == (8, 8192, 4)
    assert of_sender["cwnd_bytes"] == {"samples": 2, "min": 50_000, "p50": 50_000, "max": 60_000, "last": 60_000}
    assert [point["srtt_ns"] for point in of_sender["metrics"]] == [100_000, 110_000]
    assert (of_receiver["requests_received"], of_receiver["duplicates_received"]) == (9, 2)
    text = invoke(sender).stdout
    assert "taken for lost: path_timer 2, hole 1, nack:TRIMMED 1, local_ack_timeout 1; 1 taken back" in text
    assert "0.000415000  0x01000000  ASSUMED_BAD  GOOD         SPURIOUS" in text


def test_a_trace_without_findings_claims_nothing_of_packets(tmp_path: Path) -> None:
    trace = CraftedTrace()
    trace.started([A, B])
    (tmp_path / "quiet.trace").write_bytes(trace.bytes())
    text = invoke(tmp_path / "quiet.trace").stdout
    assert "findings: none\nLooked for what the traces report: " in text
    assert "clocks that step" not in text


def test_what_is_no_trace_is_said_in_one_line(files: tuple[Path, Path, Path], tmp_path: Path) -> None:
    pcap, sender, _ = files
    for content in (b"", b"junk", pcap.read_bytes(), b"\x1e{}\n", sender.read_bytes()[40:]):
        (tmp_path / "junk").write_bytes(content)
        result = invoke(pcap, "--trace", tmp_path / "junk")
        assert result.exit_code == 1
        assert len(result.stderr.splitlines()) == 1
        assert f"{tmp_path / 'junk'}: not a trace" in result.stderr
    assert invoke(sender, "--out", tmp_path / "out").exit_code == 2


def test_help_shows_it() -> None:
    assert "--trace sender.trace --trace receiver.trace" in invoke("--help").stdout
