# SPDX-License-Identifier: BSD-2-Clause
"""The figures and the bars of docs/virtual-time.md, and smaller runs of the same experiments."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from behaviour import cut_cables, loss, unequal_delays
from behaviour.__main__ import EXPERIMENTS, as_markdown, main
from behaviour.figures import MILLISECOND, Figures
from behaviour.lossy_path import departure
from behaviour.marked_path import avoidance
from behaviour.unequal_delays import spurious
from click.testing import CliRunner

from mrc import CORE
from mrc.core import COMPILED


@pytest.mark.parametrize("seed", [1, 6, 8])
def test_a_path_that_loses_a_fifth_is_left_within_two_round_trips(seed: int) -> None:
    left = departure(seed)
    assert left.detected_to_last_use_ns < 2 * left.rtt_ns
    assert left.lost_to_detected_ns < 2 * left.rtt_ns


@pytest.mark.parametrize("cross_window", [37, 40])
def test_a_marked_path_is_avoided_without_a_retransmission(cross_window: int) -> None:
    quiet, busy = avoidance(1, 1, 2 * MILLISECOND), avoidance(cross_window, 1, 2 * MILLISECOND)
    assert quiet.marked == 0
    assert quiet.load > 0.95
    assert busy.marked > 10
    assert busy.load < 0.85
    assert busy.retransmitted == busy.dropped == 0


@pytest.mark.parametrize("slow_paths", [1, 2, 3])
def test_delays_that_differ_by_four_cause_no_more_than_one_needless_retransmission_in_a_thousand(
    slow_paths: int,
) -> None:
    late = spurious(slow_paths, 2, 6 * MILLISECOND)
    assert late.sent > 5000
    # All of them belong to the first round trips, in which the guard learns; over 70,000 packets they are 0.1 %.
    assert late.needless_after_half == 0
    assert late.needless < 70


AS_THEY_ARE = dict(EXPERIMENTS)


@cache
def figures_of_today(name: str) -> Figures:
    return AS_THEY_ARE[name].run(1)


def test_an_experiment_is_one_json_document_and_its_exit_code_is_the_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    once = replace(AS_THEY_ARE["marked-path"], run=lambda seed: figures_of_today("marked-path"))
    monkeypatch.setitem(EXPERIMENTS, "marked-path", once)
    result = CliRunner().invoke(main, ["marked-path", "--json"])
    document = json.loads(result.stdout)
    (experiment,) = document["experiments"]
    assert experiment["name"] == "marked-path"
    assert {bar["holds"] for bar in experiment["bars"]} == {True}
    assert experiment["verdict"] == "passed"
    assert result.exit_code == 0
    assert len({tuple(row) for row in experiment["rows"]}) == 1


PAGE = Path(__file__).resolve().parents[2] / "docs" / "virtual-time.md"
# The rows that are worked out again, of experiments that take long.
SAMPLED = {
    "loss": (loss, "LOSSES", (0.0, 0.01)),
    "unequal-delays": (unequal_delays, "SLOW_PATHS", (3,)),
    "cut-cables": (cut_cables, "CUT", (1,)),
}


@pytest.mark.skipif(CORE.kind != COMPILED, reason="interpreted it takes minutes, and the figures are the same")
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_the_page_has_the_figures_of_today(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Line by line, and they clear their bars.

    The tool writes the page: `benchmarks/virtual-time --update docs/virtual-time.md`."""
    if name in SAMPLED:
        monkeypatch.setattr(*SAMPLED[name])
    experiment = EXPERIMENTS[name]
    figures = figures_of_today(name)
    assert figures.passed
    today = as_markdown(experiment, figures).splitlines()
    (section,) = [each for each in PAGE.read_text().split("\n## ") if each.startswith(f"{experiment.title}\n")]
    there = f"## {section}".splitlines()
    assert [line for line in today if line not in there] == []
    if name not in SAMPLED:
        assert [line for line in there if line not in today] == []


def test_the_page_has_a_section_for_each_experiment_and_no_other() -> None:
    titles = [line.removeprefix("## ") for line in PAGE.read_text().splitlines() if line.startswith("## ")]
    assert titles == [each.title for each in EXPERIMENTS.values()]
