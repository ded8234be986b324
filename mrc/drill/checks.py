"""What a drill expects, as data: a figure, a bound, and what came out."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any


class Verdict(Enum):
    """How a drill, or one of its checks, ended. UNSUPPORTED: this system lacks what it needs; no judgement.

    DISTURBED: it failed, and measurements say that the machine was too busy for it.
    """

    PASSED = "passed"
    FAILED = "failed"
    DISTURBED = "disturbed"
    UNSUPPORTED = "unsupported"


class Bound(Enum):
    """How a figure is held against its limit."""

    AT_LEAST = "at least"
    AT_MOST = "at most"
    EXACTLY = "exactly"


@dataclass(frozen=True, slots=True)
class Expectation:
    """One row of a drill's table: `figure` (a key of its figures, unit included), its bound, and what it says."""

    figure: str
    bound: Bound
    limit: float
    meaning: str

    def check(self, figures: dict[str, Any]) -> Check:
        """Hold what was measured against it. A figure that is missing or None fails."""
        actual = figures.get(self.figure)
        if not isinstance(actual, int | float) or isinstance(actual, bool):
            return Check(self, None, Verdict.FAILED)
        holds = {
            Bound.AT_LEAST: actual >= self.limit,
            Bound.AT_MOST: actual <= self.limit,
            Bound.EXACTLY: actual == self.limit,
        }[self.bound]
        return Check(self, actual, Verdict.PASSED if holds else Verdict.FAILED)

    def __str__(self) -> str:
        return f"{self.figure} {self.bound.value} {self.limit:g}"


@dataclass(frozen=True, slots=True)
class Check:
    """An expectation and what came of it; `actual` None: the figure could not be read off."""

    expectation: Expectation
    actual: float | None
    verdict: Verdict

    def to_json(self) -> dict[str, Any]:
        expected = self.expectation
        return {
            "figure": expected.figure,
            "bound": expected.bound.value,
            "limit": expected.limit,
            "actual": self.actual,
            "verdict": self.verdict.value,
            "meaning": expected.meaning,
        }

    def __str__(self) -> str:
        actual = "nothing to read it off" if self.actual is None else f"{self.actual:g}"
        return f"{self.expectation}, got {actual}: {self.expectation.meaning}"


def at_least(figure: str, limit: float, meaning: str) -> Expectation:
    return Expectation(figure, Bound.AT_LEAST, limit, meaning)


def at_most(figure: str, limit: float, meaning: str) -> Expectation:
    return Expectation(figure, Bound.AT_MOST, limit, meaning)


def exactly(figure: str, limit: float, meaning: str) -> Expectation:
    return Expectation(figure, Bound.EXACTLY, limit, meaning)
