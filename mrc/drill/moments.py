# SPDX-License-Identifier: BSD-2-Clause
"""What was done in a drill, marked in its plot: a line at each moment, named above the plot."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from mrc.drill.recording import BEGIN, CLEAR, CUT, END, HEAL, IMPAIR, Happening
from mrc.report.palette import BROKEN, MENDED, OTHER

_LOOKS = {CUT: BROKEN, HEAL: MENDED, IMPAIR: BROKEN, CLEAR: MENDED, BEGIN: OTHER, END: OTHER}
_WORDS = {BEGIN: "begin", END: "end"}
_TOGETHER_NS = 100_000_000
# A flow that begins with the recording, or ends with it, is no event of it.
_EDGE_NS = 400_000_000
_SIZE, _ROW_POINTS = 6.5, 8.5
# Axes beside a legend are wider, and a letter is narrower, so names placed by these do not overlap.
_AXES_POINTS, _LETTER_POINTS = 430.0, 4.3
# So often the same is done to the same before only the first time is named, with the count.
_NAMED_EACH_TIME = 2


def mark_moments(
    several: Sequence[Any], happenings: Sequence[Happening], began: int, unnamed: Collection[str] = ()
) -> None:
    """Draw a line at each moment in all axes, with its name above the first, which has the limits it is shown with.

    Broken is solid, mended dashed, a flow that begins or ends dotted. What happens within 100 ms has one line. Names
    that would overlap are in rows above each other. `unnamed`: what is a line alone.
    """
    moments = _moments(happenings)
    low, high = several[0].get_xlim()
    points = _AXES_POINTS / (high - low)
    # Where in each row the last name ends, in points.
    ends: list[float] = []
    named: dict[tuple[str, str], int] = {}
    for first, others in moments:
        at = (first.at_ns - began) / 1e9
        colour, dash = _LOOKS[first.what]
        for axes in several:
            axes.axvline(at, color=colour, linestyle=dash, linewidth=0.9)
        same = (first.what, first.target)
        count = sum((each.what, each.target) == same for each, _ in moments)
        named[same] = named.get(same, 0) + 1
        if first.what in unnamed or (count > _NAMED_EACH_TIME and named[same] > 1):
            continue
        text = f"{_WORDS.get(first.what, first.what)} {first.target}"
        text += f" and {others} more" if others else ""
        text += f", {count} times" if count > _NAMED_EACH_TIME else ""
        width = len(text) * _LETTER_POINTS
        # A name begins at its line, but for those that would end beyond the axes.
        begins = min((at - low) * points, max(0.0, _AXES_POINTS - width))
        row = next((row for row, end in enumerate(ends) if begins > end), len(ends))
        ends[row : row + 1] = [begins + width + _LETTER_POINTS]
        several[0].annotate(
            text,
            (low + begins / points, 1.0),
            xycoords=("data", "axes fraction"),
            xytext=(0, 2 + row * _ROW_POINTS),
            textcoords="offset points",
            va="bottom",
            fontsize=_SIZE,
            color=colour,
            annotation_clip=False,
        )


def _moments(happenings: Sequence[Happening]) -> list[tuple[Happening, int]]:
    """What happened first at each moment, and to how many others with it."""
    marked = [each for each in happenings if each.what in _LOOKS]
    begin, end = (
        min((each.at_ns for each in happenings), default=0),
        max((each.at_ns for each in happenings), default=0),
    )
    found: list[tuple[Happening, int]] = []
    last: Happening | None = None
    for each in marked:
        if each.what in _WORDS and not begin + _EDGE_NS < each.at_ns < end - _EDGE_NS:
            continue
        if last is not None and last.what == each.what and each.at_ns - last.at_ns < _TOGETHER_NS:
            found[-1] = found[-1][0], found[-1][1] + 1
        else:
            found.append((each, 0))
        last = each
    return found
