# SPDX-License-Identifier: BSD-2-Clause
"""One line on a terminal that says how far a long command has come, and is gone when it ends; drawn with rich."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.live import Live


class LiveLine:
    """A line on stderr that is written anew with each `show`. Where stderr is no terminal, `on_terminal` is False and
    nothing is shown.

    What is printed meanwhile goes above a line that is cleared first. rich is imported with the first line.
    """

    def __init__(self) -> None:
        self.on_terminal = sys.stderr is not None and sys.stderr.isatty()
        self._live: Live | None = None

    def __enter__(self) -> LiveLine:
        return self

    def __exit__(self, *error: object) -> None:
        self.clear()

    def show(self, text: str) -> None:
        """Write the line anew. It is cut where the terminal ends."""
        if not self.on_terminal:
            return
        from rich.text import Text

        if self._live is None:
            self._live = self._started()
        self._live.update(Text(text, no_wrap=True, overflow="ellipsis"), refresh=True)

    def clear(self) -> None:
        """Take the line away; the next `show` begins another."""
        live, self._live = self._live, None
        if live is not None:
            live.stop()

    @staticmethod
    def _started() -> Live:
        from rich.console import Console
        from rich.live import Live

        live = Live(
            console=Console(file=sys.stderr),
            auto_refresh=False,  # no thread of its own
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        live.start()
        return live
