# SPDX-License-Identifier: BSD-2-Clause
"""What `run` and `sweep` share: `--set KEY=VALUE`, and quantities as their lines show them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from mrc.cli.common import note
from mrc.errors import CallerError, MrcError

if TYPE_CHECKING:
    from mrc.sim.experiment import Experiment, ExperimentFile
    from mrc.sim.results.estimate import Estimate

F = TypeVar("F", bound=Callable[..., Any])


def set_option(function: F) -> F:
    return click.option(
        "--set",
        "settings",
        multiple=True,
        metavar="KEY=VALUE",
        help="Another value than the file's, as policies.evs=32; may be repeated.",
    )(function)


def force_option(function: F) -> F:
    return click.option(
        "--force", is_flag=True, help="Go on where more memory is needed than there is, by the estimate."
    )(function)


def built(file: ExperimentFile) -> Experiment:
    """What the file describes. Raises FileProblems, after the traceback where Python that it names raised something."""
    try:
        return file.experiment()
    except MrcError as error:
        show_cause(error)
        raise


def show_cause(error: BaseException) -> None:
    """Print the traceback of what Python of the user's raised, of which `error` tells in one line."""
    cause = error.__cause__
    if isinstance(cause, Exception) and not isinstance(cause, MrcError | OSError):
        import traceback

        note("".join(traceback.format_exception(cause)).rstrip())


def read_experiment(path: Path, settings: tuple[str, ...], seed: int | None = None) -> ExperimentFile:
    """The experiment of a file with what options change. Raises FileProblems, CallerError."""
    from mrc.fabric.yaml_file import FileProblems
    from mrc.fabric.yaml_tree import YamlError, parse
    from mrc.sim.experiment import ExperimentFile

    file = ExperimentFile.read(path)
    changes: dict[str, Any] = {}
    for text in settings:
        key, equals, value = text.partition("=")
        if not equals:
            raise click.UsageError(f"--set {text}: write KEY=VALUE, as policies.evs=32")
        try:
            changes[key.strip()] = parse(value).value
        except YamlError as error:
            raise click.UsageError(f"--set {text}: {error}") from None
    if seed is not None:
        changes["seed"] = seed
    try:
        return file.changed(changes) if changes else file
    except FileProblems as error:
        # No line of the file has them.
        raise CallerError("; ".join(f"--set {each.key}: {each.message}" for each in error.problems)) from None


def estimate_text(found: Estimate) -> str:
    """`about 1,200,000 packet-hops: 2 s and 40.0 MiB`."""
    from mrc.report.units import plural, size_text

    return f"about {plural(found.hops, 'packet-hop')}: {span_text(found.seconds)} and {size_text(found.bytes)}"


def span_text(seconds: float) -> str:
    """`45 s`, `3 min 20 s`, `2 h 5 min`."""
    if seconds < 90:
        return f"{seconds:.0f} s" if seconds >= 1 else "a second"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"
