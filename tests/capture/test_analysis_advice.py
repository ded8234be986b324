# SPDX-License-Identifier: BSD-2-Clause
"""Of each finding: where it happened, seen from the place of capture, and what to look at next."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from analyzing import analysis_of, found_in
from click.testing import CliRunner
from drawn_captures import drawn

from mrc.capture.analysis import advice
from mrc.capture.analysis.advice import BEFORE, BEHIND, BETWEEN, IN_THE_FILE, advised
from mrc.capture.analysis.finding import INFO, WARNING, Finding
from mrc.capture.analysis.findings import findings
from mrc.cli import main

ROOT = Path(__file__).parents[2]


def documented_kinds() -> set[str]:
    """The first column of the table, which another test holds against the code."""
    section = (ROOT / "docs" / "analyze.md").read_text().partition("### Kinds of findings")[2].partition("\n### ")[0]
    return {
        kind
        for line in section.splitlines()
        if line.startswith("| `")
        for kind in re.findall(r"`([a-z-]+)`", line.split(" | ")[0])
    }


def test_every_kind_has_a_place_and_every_warning_a_next_step() -> None:
    kinds = documented_kinds()
    assert len(kinds) > 40
    for kind in sorted(kinds):
        (said,) = advised([Finding(WARNING, kind, "")]) if kind in advice._LOOK_NEXT else [None]
        assert said is None or said.look_next
    # What is about a direction has its place by that of the capture.
    of_directions = {*advice._ON_THE_WAY_KINDS, "slow-answers", "congestion", "never-acknowledged", "no-answers"}
    of_directions |= {"unanswered-probes"}
    assert kinds == of_directions | set(advice._PLACES)


@pytest.mark.parametrize(
    ("place", "kind", "said"),
    [
        ("sender", "lossy-path", BEHIND),
        ("ends", "lossy-path", BETWEEN),
        ("middle", "loss-before-capture", BEFORE),
        ("receiver", "loss-before-capture", BEFORE),
    ],
)
def test_a_loss_was_before_the_place_of_capture_or_behind_it(place: str, kind: str, said: str) -> None:
    made = drawn(9002, transport="mrc", place=place, harm="none", fault="path", form="plain", hosts=1)
    (found,) = found_in(made.capture)[kind]
    assert found.place == said
    assert found.look_next


def test_what_a_queue_did_was_before_the_place_of_capture_and_behind_it() -> None:
    """In the middle the drawn fabric marks and trims on both sides."""
    places = set()
    for seed in range(9000, 9010):
        made = drawn(seed, transport="mrc", place="middle", harm="none", fault="congested", form="plain", hosts=1)
        places |= {each.place for each in found_in(made.capture).get("congestion", [])}
    assert any(each.startswith(f"{BEFORE} and behind it: ") for each in places)
    assert all(each in (BEFORE, BEHIND) or each.startswith(f"{BEFORE} and") for each in places)


def test_every_warning_of_many_drawn_captures_has_the_number_of_a_packet() -> None:
    for seed in range(40):
        made = drawn(seed)
        analysis = analysis_of(made.capture)
        for each in findings(analysis):
            assert each.place, each
            if each.severity != INFO:
                assert each.packet is not None, (made.draw.words, each)
                assert 1 <= each.packet <= analysis.packets
                assert each.look_next, each


def test_the_terminal_says_both_below_the_finding() -> None:
    made = drawn(9002, transport="mrc", place="ends", harm="none", fault="path", form="plain", hosts=1)
    text = CliRunner().invoke(main, ["analyze", "-"], input=made.capture).stdout
    assert f"\n        {BETWEEN}; look next at the drop and error counters of the switch ports on this path" in text
    assert f"\n        {IN_THE_FILE}\n" in text
