# SPDX-License-Identifier: BSD-2-Clause
"""Expectations held against figures, both ways."""

from __future__ import annotations

from typing import Any

import pytest

from mrc.report.expectations import Expectation, at_least, at_most, below, exactly


@pytest.mark.parametrize(
    ("expectation", "good", "bad"),
    [
        (at_least("share", 0.95, ""), [0.95, 1.2], [0.9499, 0, -1]),
        (at_most("ms", 100, ""), [100, 0.0, -3], [100.01]),
        (below("%", 2, ""), [1.99, -1], [2, 2.5]),
        (exactly("errors", 0, ""), [0, 0.0], [1, -1, 0.001]),
    ],
)
def test_a_figure_passes_within_its_bound_and_fails_beyond(
    expectation: Expectation, good: list[float], bad: list[float]
) -> None:
    for value in good:
        assert expectation.check({expectation.figure: value}).holds
    for value in bad:
        check = expectation.check({expectation.figure: value})
        assert not check.holds
        assert check.actual == value


@pytest.mark.parametrize("figures", [{}, {"share": None}, {"share": "0.99"}, {"share": True}])
def test_a_figure_that_is_missing_fails(figures: dict[str, Any]) -> None:
    check = at_most("share", 1, "of something").check(figures)
    assert not check.holds
    assert "nothing to read it off" in str(check)


def test_a_check_says_what_was_expected_and_what_came() -> None:
    check = at_least("least_share_kept", 0.95, "of what is left").check({"least_share_kept": 0.5})
    assert str(check) == "least_share_kept at least 0.95, got 0.5: of what is left"
    assert check.to_json() == {
        "figure": "least_share_kept",
        "bound": "at least",
        "limit": 0.95,
        "actual": 0.5,
        "verdict": "failed",
        "meaning": "of what is left",
    }


def test_an_expectation_is_written_in_words_and_with_a_sign() -> None:
    written = [
        (each.words, each.sign) for each in (at_least("x", 0.98), at_most("x", 3), below("x", 2), exactly("x", 0))
    ]
    assert written == [("at least 0.98", ">= 0.98"), ("at most 3", "<= 3"), ("below 2", "< 2"), ("exactly 0", "= 0")]
