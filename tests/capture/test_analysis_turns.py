# SPDX-License-Identifier: BSD-2-Clause
"""At the receiver: on which path packets were lost that never came, from how many came on each."""

from __future__ import annotations

import pytest
from analyzing import analysis_of
from drawn_captures import drawn

from mrc.capture.analysis.figures import PathFigures
from mrc.capture.analysis.findings import findings
from mrc.capture.analysis.turns import came_short


@pytest.mark.parametrize(
    ("packets", "missing", "short"),
    [
        ([76, 76, 58, 76, 76, 75], 17, {2: 18}),
        ([100, 100, 80, 80], 41, {2: 20, 3: 20}),
        ([100, 70], 30, {1: 30}),
        # Nothing is missing of those that came short: they were left out of their turns.
        ([76, 76, 58, 76, 76, 75], 0, {}),
        ([76, 76, 58, 76, 76, 75], 60, {}),
        # The others differ by as much.
        ([76, 70, 58, 76, 64, 75], 18, {}),
        ([76, 76, 75, 76, 76, 75], 3, {}),
        ([10, 10, 7], 3, {}),
    ],
)
def test_a_path_that_came_short_by_what_is_missing(packets: list[int], missing: int, short: dict[int, int]) -> None:
    paths = [PathFigures(ev, "", None, packets=count) for ev, count in enumerate(packets)]
    assert came_short(paths, missing) == short


def test_the_path_that_lost_them_is_named_with_what_that_rests_on() -> None:
    """The draw has a path that loses, and is captured at the receiver, where nothing lost is seen."""
    made = drawn(9001, transport="mrc", place="receiver", harm="none", fault="path", form="plain")
    (said,) = (each for each in findings(analysis_of(made.capture)) if each.kind == "loss-before-capture")
    assert [said.ev] == made.draw.culprit
    assert said.text.endswith("all on path EV 0x00000002, if paths are taken in turn: fewer packets came there")


def test_where_all_paths_lose_none_is_named() -> None:
    made = drawn(9001, transport="mrc", place="receiver", harm="none", fault="loss", form="plain")
    said = [each for each in findings(analysis_of(made.capture)) if each.kind == "loss-before-capture"]
    assert said
    assert all(each.ev is None and "in turn" not in each.text for each in said)
