# SPDX-License-Identifier: BSD-2-Clause
"""How a case ends."""

from __future__ import annotations

PASSED, FAILED, UNSUPPORTED, ERROR = "passed", "failed", "unsupported", "error"
VERDICTS = (PASSED, FAILED, UNSUPPORTED, ERROR)


class Failed(Exception):
    """The target did not do what a case expects: both in the words of the protocol."""

    def __init__(self, expected: str, actual: str) -> None:
        super().__init__(f"expected {expected}; {actual}")
        self.expected = expected
        self.actual = actual
