# SPDX-License-Identifier: BSD-2-Clause
"""What is expected of figures, as data: a figure, a bound, and what came out."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any


class Bound(Enum):
    """How a figure is held against its limit."""

    AT_LEAST = "at least"
    AT_MOST = "at most"
    BELOW = "below"
    EXACTLY = "exactly"


_HOLDS = {
    Bound.AT_LEAST: operator.ge,
    Bound.AT_MOST: operator.le,
    Bound.BELOW: operator.lt,
    Bound.EXACTLY: operator.eq,
}
_SIGNS = {Bound.AT_LEAST: ">=", Bound.AT_MOST: "<=", Bound.BELOW: "<", Bound.EXACTLY: "="}


@dataclass(frozen=True, slots=True)
class Expectation:
    """A figure (its name, unit included), its bound, and what the bound means."""

    figure: str
    bound: Bound
    limit: float
    meaning: str = ""

    def check(self, figures: Mapping[str, Any]) -> Check:
        """Hold what was measured against it. A figure that is missing or None fails."""
        actual = figures.get(self.figure)
        return self.of(actual if isinstance(actual, int | float) and not isinstance(actual, bool) else None)

    def of(self, actual: float | None) -> Check:
        """Hold one value against it. None fails."""
        return Check(self, actual, actual is not None and bool(_HOLDS[self.bound](actual, self.limit)))

    @property
    def words(self) -> str:
        """`at least 0.95`."""
        return f"{self.bound.value} {self.limit:g}"

    @property
    def sign(self) -> str:
        """`>= 0.95`."""
        return f"{_SIGNS[self.bound]} {self.limit:g}"

    def to_json(self) -> dict[str, Any]:
        return {"figure": self.figure, "bound": self.bound.value, "limit": self.limit, "meaning": self.meaning}

    def __str__(self) -> str:
        return f"{self.figure} {self.words}"


@dataclass(frozen=True, slots=True)
class Check:
    """An expectation and what came of it; `actual` None: the figure could not be read off."""

    expectation: Expectation
    actual: float | None
    holds: bool

    def to_json(self) -> dict[str, Any]:
        expected = self.expectation.to_json()
        meaning = expected.pop("meaning")
        return {**expected, "actual": self.actual, "verdict": "passed" if self.holds else "failed", "meaning": meaning}

    def __str__(self) -> str:
        actual = "nothing to read it off" if self.actual is None else f"{self.actual:g}"
        return f"{self.expectation}, got {actual}: {self.expectation.meaning}"


def at_least(figure: str, limit: float, meaning: str = "") -> Expectation:
    return Expectation(figure, Bound.AT_LEAST, limit, meaning)


def at_most(figure: str, limit: float, meaning: str = "") -> Expectation:
    return Expectation(figure, Bound.AT_MOST, limit, meaning)


def below(figure: str, limit: float, meaning: str = "") -> Expectation:
    return Expectation(figure, Bound.BELOW, limit, meaning)


def exactly(figure: str, limit: float, meaning: str = "") -> Expectation:
    return Expectation(figure, Bound.EXACTLY, limit, meaning)
