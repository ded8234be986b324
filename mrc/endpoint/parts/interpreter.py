# SPDX-License-Identifier: BSD-2-Clause
# compiled: C beside it (docs/contributing/compiled.md)
"""The interpreter's lock, given up and taken back around what needs none.

Interpreted these functions do nothing; compiled modules call those of interpreter.h by the same names.
"""

from __future__ import annotations


def let_go() -> int:
    """Give up the interpreter's lock, which the calling thread has. Returns what `take_back` wants."""
    return 0


def take_back(state: int) -> None:
    """Have the interpreter's lock again."""
