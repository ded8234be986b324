# SPDX-License-Identifier: BSD-2-Clause
"""A run of conformance cases as text."""

from __future__ import annotations

import click

from mrc.conformance.results import Result, Run
from mrc.conformance.verdicts import ERROR, FAILED, UNSUPPORTED, VERDICTS

_STORY = 16  # packets shown of a failed case


def print_run(found: Run, verbose: bool) -> None:
    """Print what failed, what ended in an error, what is unsupported, and the counts. `verbose`: with tracebacks."""
    for result in found.results:
        if result.verdict == FAILED:
            _print_failed(result, result.counts(found.strict), verbose)
    for result in found.results:
        if result.verdict == ERROR and not result.lost:
            _print_error(result, verbose)
    for result in found.results:
        if result.verdict == UNSUPPORTED:
            click.echo(f"unsupported  {result.case.id:<28} {result.actual}")
    click.echo(f"{'group':<20}" + "".join(f"{verdict:>13}" for verdict in VERDICTS))
    for group in dict.fromkeys(result.case.group for result in found.results):
        verdicts = [result.verdict for result in found.results if result.case.group == group]
        click.echo(f"{group:<20}" + "".join(f"{verdicts.count(verdict):>13}" for verdict in VERDICTS))
    click.echo(f"{'all':<20}" + "".join(f"{found.count(verdict):>13}" for verdict in VERDICTS))
    aside = found.failed - found.counted
    if aside:
        click.echo(f"{aside} of the failed cases are not musts and do not count without --strict")
    partly = sum(bool(result.unchecked) for result in found.results)
    if partly:
        click.echo(f"{partly} cases could make only some of their checks: --json lists the others as not_checked")
    again = sum(bool(result.repeated) for result in found.results)
    if again:
        click.echo(f"{again} cases failed during CPU starvation of a host and were run again: -v names them")
    if found.errors:
        more = "" if verbose else "; -v and --json have the tracebacks"
        text = (
            "1 case ended in an error and says"
            if found.errors == 1
            else f"{found.errors} cases ended in errors and say"
        )
        click.echo(f"{text} nothing of the target: exit status 1{more}")
    if found.closing is not None:
        click.echo(f"the target was not closed: {found.closing.actual}")
        _print_traceback(found.closing.traceback, verbose)
    if found.void:
        click.echo(f"this run is void: {found.void}")
    else:
        click.echo(f"{found.target}, {found.took_s:.1f} s; the control case failed, as it must")


def _print_traceback(text: str, verbose: bool) -> None:
    for line in text.splitlines() if verbose else ():
        click.echo(f"    {line}")


def _print_error(result: Result, verbose: bool) -> None:
    click.echo(f"ERROR   {result.case.id}  {result.actual}")
    _print_traceback(result.traceback, verbose)
    click.echo("")


def _print_failed(result: Result, counts: bool, verbose: bool) -> None:
    each, requirement = result.case, result.case.requirement
    click.echo(f"FAILED  {each.id}  {requirement.level}, grade {requirement.grade}, {requirement.source}")
    click.echo(f"  {requirement.text}")
    for name, text in (("shows", each.about), ("expected", result.expected), ("actual", result.actual)):
        click.echo(f"  {name:<9} {text}")
    click.echo(f"  {'look at':<9} {each.look_at}")
    for line in result.log.story(_STORY):
        click.echo(f"    {line}")
    _print_traceback(result.traceback, verbose)
    click.echo("" if counts else f"  (only a {requirement.level}: it does not count without --strict)\n")
