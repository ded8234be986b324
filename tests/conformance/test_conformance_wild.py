# SPDX-License-Identifier: BSD-2-Clause
"""Targets that are wrong in ways no script foresees fail cases, or keep a silence that is asked for. They break no
script: a case that ends in an error over what a target does sees nothing of it."""

from __future__ import annotations

import pytest
from wild_targets import ALTERATIONS, MuteTarget, WildTarget

from mrc.conformance.catalogue import catalogue, chosen
from mrc.conformance.requirements import CONGESTION, GROUPS
from mrc.conformance.runner import run_case
from mrc.conformance.target import Target

# Flows of congestion cases take packets by PSN: two ways of being wrong are enough for these, which take longest.
WITH_FLOWS = ("far_psns", "answers_alone")
OTHER_GROUPS = [group for group in GROUPS if group != CONGESTION]
TARGETS: dict[str, Target] = {each.__name__: WildTarget(each) for each in ALTERATIONS}
TARGETS["mute"] = MuteTarget()


@pytest.mark.parametrize("name", TARGETS)
def test_no_script_breaks_over_what_a_target_does(name: str) -> None:
    """Every other case, with the next target those between: each case meets half of the targets, its neighbours the
    others. All with all takes twice as long."""
    cases = catalogue() if name in WITH_FLOWS else chosen(catalogue(), [], OTHER_GROUPS)
    cases = cases[list(TARGETS).index(name) % 2 :: 2]
    results = [run_case(each, TARGETS[name]) for each in cases]
    errors = {result.case.id: result.actual for result in results if result.verdict == "error"}
    assert errors == {}
    assert "failed" in {result.verdict for result in results}
