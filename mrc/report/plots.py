# SPDX-License-Identifier: BSD-2-Clause
"""Plots as SVG, PNG or PDF, drawn with matplotlib (extra `plot`), which is imported with the first of them."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mrc.errors import SystemRefused
from mrc.report.palette import DASHES, LINES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SIZE_INCHES = (9.0, 4.2)
_PNG_DOTS_PER_INCH = 150
# What would make two plots of the same data differ.
_FORMS: dict[str, dict[str, None]] = {"svg": {"Date": None}, "png": {"Software": None}, "pdf": {"CreationDate": None}}
FORMS = tuple(_FORMS)


class NoPlots(SystemRefused):
    """matplotlib is not installed."""

    def __init__(self) -> None:
        super().__init__("matplotlib is missing (pip install 'softmrc[plot]')")


def svg(title: str, draw: Callable[[Figure], None]) -> bytes:
    """Make an SVG file; `draw` fills the figure. The same data gives the same bytes. Raises NoPlots."""
    return picture(title, draw, "svg")


def picture(title: str, draw: Callable[[Figure], None], form: str) -> bytes:
    """Make a file of a form out of FORMS; `draw` fills the figure.

    The same data gives the same bytes. Raises NoPlots.
    """
    try:
        import matplotlib as mpl
        from cycler import cycler
        from matplotlib.figure import Figure as NewFigure
    except ImportError:
        raise NoPlots from None
    content = io.BytesIO()
    looks = cycler(linestyle=DASHES) * cycler(color=LINES)
    with mpl.rc_context({"svg.hashsalt": "mrc", "font.size": 9.0, "svg.fonttype": "none", "axes.prop_cycle": looks}):
        figure = NewFigure(figsize=_SIZE_INCHES, layout="constrained")
        draw(figure)
        figure.suptitle(title, fontsize=10)
        figure.savefig(content, format=form, dpi=_PNG_DOTS_PER_INCH, metadata=_FORMS[form])
    return content.getvalue()


def legend(axes: Any, handles: list[Any] | None = None, *, size: float = 8) -> None:
    """Name the lines to the right of the axes, or these handles."""
    chosen = {} if handles is None else {"handles": handles}
    axes.legend(**chosen, loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=size, frameon=False)
