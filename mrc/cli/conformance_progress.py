# SPDX-License-Identifier: BSD-2-Clause
"""How far a run of cases has come, on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mrc.conformance.results import Result


@contextmanager
def progress(total: int, *, show: bool) -> Iterator[Callable[[Result], None]]:
    """What is to be called with each result; nothing is shown without `show`."""
    if not show:
        yield lambda result: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total)
        failed = errors = 0

        def advance(result: Result) -> None:
            nonlocal failed, errors
            failed += result.verdict == "failed"
            errors += result.verdict == "error"
            bar.update(task, advance=1, description=progress_text(result.case.id, failed, errors))

        yield advance


def progress_text(case_id: str, failed: int, errors: int) -> str:
    """What is beside the bar: the last case, and how many so far failed or ended in an error."""
    counts = [f"{failed} failed"] if failed else []
    counts += [f"{errors} error{'s' if errors > 1 else ''}"] if errors else []
    return ", ".join([case_id, *counts])
