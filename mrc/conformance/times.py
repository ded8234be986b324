# SPDX-License-Identifier: BSD-2-Clause
"""Times of a script: integers of nanoseconds, written in the unit that reads best."""

from __future__ import annotations


def us(count: float) -> int:
    """Microseconds."""
    return round(count * 1_000)


def ms(count: float) -> int:
    """Milliseconds."""
    return round(count * 1_000_000)


def seconds(count: float) -> int:
    """Seconds."""
    return round(count * 1_000_000_000)


def time_text(duration: int) -> str:
    """A time or duration for people: `10 us`, `16.777 ms`, `1.5 s`."""
    for unit, name in ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")):
        if abs(duration) >= unit:
            return f"{round(duration / unit, 3):g} {name}"
    return f"{duration} ns" if duration else "0 us"
