"""Expectations held against figures, both ways."""

from __future__ import annotations

from typing import Any

import pytest

from mrc.drill.checks import Expectation, Verdict, at_least, at_most, exactly


@pytest.mark.parametrize(
    ("expectation", "good", "bad"),
    [
        (at_least("share", 0.95, ""), [0.95, 1.2], [0.9499, 0, -1]),
        (at_most("ms", 100, ""), [100, 0.0, -3], [100.01]),
        (exactly("errors", 0, ""), [0, 0.0], [1, -1, 0.001]),
    ],
)
def test_a_figure_passes_within_its_bound_and_fails_beyond(
    expectation: Expectation, good: list[float], bad: list[float]
) -> None:
    for value in good:
        assert expectation.check({expectation.figure: value}).verdict is Verdict.PASSED
    for value in bad:
        check = expectation.check({expectation.figure: value})
        assert check.verdict is Verdict.FAILED
        assert check.actual == value


@pytest.mark.parametrize("figures", [{}, {"share": None}, {"share": "0.99"}, {"share": True}])
def test_a_figure_that_is_missing_fails(figures: dict[str, Any]) -> None:
    check = at_most("share", 1, "of something").check(figures)
    assert check.verdict is Verdict.FAILED
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
