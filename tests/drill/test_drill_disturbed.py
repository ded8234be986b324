# SPDX-License-Identifier: BSD-2-Clause
"""A drill that failed is told from one that the machine disturbed: run again, and judged by what was measured."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest
from click.testing import CliRunner
from recordings import MS, at, flow, recording, whole

from mrc.cli.drill import drill as command
from mrc.drill import run as running
from mrc.drill.catalogue import DRILLS
from mrc.drill.drill import Verdict
from mrc.drill.recording import Recording

FULL = 115.0
QUIET = recording(
    flow([(2.0, FULL), (4.0, FULL * 3 / 4), (6.0, FULL)]), whole(0.0, 6.0, (2.0, "cut", "p0l1"), (4.0, "heal", "p0l1"))
)
# Half of what is left after the cut: that fails.
POOR = replace(QUIET, flows={"mrc": flow([(2.0, FULL), (4.0, FULL / 3), (6.0, FULL)])})
# Less than the links carry before anything happened.
SLOW = replace(QUIET, flows={"mrc": flow([(2.0, 80.0), (4.0, 60.0), (6.0, 80.0)])})
STOOD_STILL = ((at(3.0), 90 * MS),)


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[Recording]:
    """What each attempt records, instead of one in a lab; those not asked for stay."""
    left: list[Recording] = []
    monkeypatch.setattr(running, "_perform", lambda drill, seed, on_time, trim_to_bytes, say: left.pop(0))
    return left


def run(runs: list[Recording], *recorded: Recording) -> running.Result:
    runs += recorded
    return running.run_drill(DRILLS["leaf-fail"], 1)


def test_a_failure_on_a_quiet_machine_is_a_failure_at_once(runs: list[Recording]) -> None:
    result = run(runs, POOR, QUIET)
    assert (result.verdict, result.attempts, result.disturbed) == (Verdict.FAILED, 1, None)
    assert result.run_again_because == ()


def test_a_disturbed_run_is_repeated_and_what_passes_then_has_passed(runs: list[Recording]) -> None:
    result = run(runs, replace(POOR, standstills=STOOD_STILL), QUIET)
    assert (result.verdict, result.attempts) == (Verdict.PASSED, 2)
    assert result.run_again_because == ("the machine stood still for 90 ms",)


def test_a_failure_without_a_disturbance_after_a_disturbed_run_is_a_failure(runs: list[Recording]) -> None:
    result = run(runs, replace(POOR, socket_drops=3), POOR)
    assert (result.verdict, result.attempts) == (Verdict.FAILED, 2)


def test_what_is_disturbed_each_time_is_disturbed_with_what_was_measured(runs: list[Recording]) -> None:
    result = run(runs, *[replace(POOR, standstills=STOOD_STILL, socket_drops=3, waited=0.2)] * 3)
    assert (result.verdict, result.attempts) == (Verdict.DISTURBED, 3)
    document = json.loads(json.dumps(result.to_json()))
    assert document["verdict"] == "disturbed"
    assert document["machine"] == {
        "longest_gap_ms": 90.0,
        "slowest_action_ms": 0.0,
        "socket_drops": 3,
        "waited_for_processor": 0.2,
    }
    assert document["disturbed"].startswith("the machine stood still for 90 ms, ")
    assert len(document["run_again_because"]) == 2
    # The checks say what would have failed.
    assert {check["figure"] for check in document["checks"] if check["verdict"] == "failed"} >= {"least_share_kept"}


def test_links_that_are_not_the_limit_are_a_failure_unless_the_machine_was_seen_to_be_busy(
    runs: list[Recording],
) -> None:
    """A transport that is slow from the start must not pass for a busy machine."""
    result = run(runs, SLOW, SLOW, SLOW)
    assert (result.verdict, result.attempts) == (Verdict.FAILED, 3)
    assert result.run_again_because == ("before anything happened the flow had 69% of what the links carry",) * 2
    assert run(runs, *[replace(SLOW, waited=0.3)] * 3).verdict is Verdict.DISTURBED


def test_what_passes_has_passed_whatever_the_machine_did(runs: list[Recording]) -> None:
    result = run(runs, replace(QUIET, standstills=STOOD_STILL))
    assert (result.verdict, result.attempts) == (Verdict.PASSED, 1)
    assert result.disturbed == "the machine stood still for 90 ms"


@pytest.fixture
def isolated(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in the namespaces that a command makes for itself."""
    monkeypatch.setattr("mrc.cli.isolation.isolate", lambda: None)


@pytest.mark.parametrize(
    ("recorded", "code", "verdict", "said"),
    [
        ([QUIET], 0, "passed", "1 passed"),
        ([POOR], 1, "failed", "1 failed"),
        ([replace(POOR, standstills=STOOD_STILL)] * 3, 1, "disturbed", "the machine was too busy"),
    ],
)
def test_the_exit_status_and_the_words(
    runs: list[Recording], isolated: None, recorded: Sequence[Recording], code: int, verdict: str, said: str
) -> None:
    runs += recorded
    told = CliRunner().invoke(command, ["run", "leaf-fail", "--json"])
    assert told.exit_code == code, told.output
    document = json.loads(told.stdout)
    assert document["drills"][0]["verdict"] == verdict
    assert document[verdict] == 1
    assert sum(document[each] for each in ("passed", "failed", "disturbed", "unsupported")) == 1
    assert said in told.stderr
    runs += recorded
    shown = CliRunner().invoke(command, ["run", "leaf-fail"])
    assert shown.exit_code == code
    assert f"leaf-fail: {verdict}" in shown.stdout
