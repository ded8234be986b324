"""`mrc conformance`: the requirements as timed scripts, and an endpoint held to them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mrc.cli.common import ErrorGroup, json_option, note, print_json, wire_profile_option
from mrc.conformance.requirements import GROUPS
from mrc.errors import CallerError

if TYPE_CHECKING:
    from mrc.conformance.case import Case
    from mrc.conformance.results import Result, Run

_STORY = 16  # packets told of a failed case
_OUT_FILE = click.Path(dir_okay=False, path_type=Path)


def _choosing(function: Any) -> Any:
    function = click.option("--group", "groups", multiple=True, type=click.Choice(GROUPS), help="Only this group.")(
        function
    )
    return click.option(
        "--id",
        "patterns",
        multiple=True,
        metavar="PATTERN",
        help="Only cases whose id matches (* and ?), or begins with these words; may be repeated.",
    )(function)


@click.group(cls=ErrorGroup)
def conformance() -> None:
    """Hold an MRC endpoint to the requirements: one case for each, a timed script of packets in and packets expected.

    \b
    Examples:
      mrc conformance list --id MRC-SACK -v
      mrc conformance run
      mrc conformance run --target my_nic.adapter:target --html report.html
    """


@conformance.command("list")
@_choosing
@click.option("--missing", "show_missing", is_flag=True, help="Instead, the requirements without a case, and why.")
@click.option("-v", "--verbose", is_flag=True, help="What each case shows, and its script.")
@json_option
def list_cases(
    patterns: tuple[str, ...], groups: tuple[str, ...], show_missing: bool, verbose: bool, as_json: bool
) -> None:
    """Print the cases: id, level (must, should, may), grade (A: three sources or more, B: one or two, C: a choice of
    this project's) and the requirement.

    \b
    Examples:
      mrc conformance list
      mrc conformance list --group responder
      mrc conformance list --id MRC-SACK-22 -v
      mrc conformance list --missing
      mrc conformance list --json | jq -r '.cases[] | "\\(.id) \\(.source)"'
    """
    if show_missing:
        if patterns or groups:
            raise click.UsageError("--missing lists all requirements without a case: leave out --id and --group")
        _list_missing(as_json)
        return
    cases = _chosen(patterns, groups)
    if as_json:
        from mrc.conformance.report.document import catalogue_document

        print_json(catalogue_document(cases))
        return
    for each in cases:
        requirement = each.requirement
        click.echo(f"{each.id:<28} {requirement.level:<6} {requirement.grade}  {requirement.text}")
        if verbose:
            click.echo(f"  group    {each.group}\n  source   {requirement.source}\n  shows    {each.about}")
            click.echo(f"  look at  {each.look_at}\n")
            click.echo("".join(f"    {line}\n" for line in each.source.splitlines()))
    note(f"{len(cases)} cases")


def _list_missing(as_json: bool) -> None:
    from mrc.conformance.catalogue import missing
    from mrc.conformance.report.document import missing_document

    without = missing()
    if as_json:
        print_json(missing_document(without))
        return
    for each in without:
        click.echo(f"{each.requirement.id:<14} {each.requirement.text}")
        click.echo(f"{'':<14} {each.reason or '(no reason given)'}")
    note(f"{len(without)} requirements without a case")


def _chosen(patterns: tuple[str, ...], groups: tuple[str, ...]) -> list[Case]:
    """Raises a usage error for a pattern that no case matches: a run of nothing must not look like a success."""
    from mrc.conformance.catalogue import catalogue, chosen

    for pattern in patterns:
        if not chosen(catalogue(), [pattern]):
            raise click.UsageError(f"no case matches --id {pattern}: mrc conformance list prints them all")
    cases = chosen(catalogue(), patterns, groups)
    if not cases:
        raise click.UsageError("no case is left by --id and --group: mrc conformance list prints them all")
    return cases


@conformance.command()
@_choosing
@click.option(
    "--target",
    "target_name",
    default="self",
    show_default=True,
    metavar="self|MODULE:FACTORY",
    help="This project's endpoint in virtual time, or an adapter of another one's.",
)
@click.option("--strict", is_flag=True, help="Shoulds and mays that fail count too.")
@click.option("--junit", "junit_file", type=_OUT_FILE, metavar="FILE", help="Write JUnit XML.")
@click.option("--html", "html_file", type=_OUT_FILE, metavar="FILE", help="Write one self-contained page.")
@click.option("--pcap-dir", type=click.Path(file_okay=False, path_type=Path), metavar="DIR", help="A pcap a case.")
@click.option("-v", "--verbose", is_flag=True, help="Every case as it ends.")
@json_option
@wire_profile_option
def run(
    patterns: tuple[str, ...],
    groups: tuple[str, ...],
    target_name: str,
    strict: bool,
    junit_file: Path | None,
    html_file: Path | None,
    pcap_dir: Path | None,
    verbose: bool,
    as_json: bool,
    wire_options: tuple[str, ...],
) -> None:
    """Run cases against an endpoint, each on a connection of its own.

    A case is passed, failed or unsupported (the target cannot do or tell what it is about). Exit status 1 if one that
    counts has failed: a must, with --strict any. Every run begins with a control case whose expectation is wrong on
    purpose; unless that one fails the run is void, which is exit status 1 too.

    MODULE:FACTORY names a function that gives a mrc.conformance.target.Target; docs/conformance.md shows how to write
    one.

    \b
    Examples:
      mrc conformance run
      mrc conformance run --id MRC-SACK --id 'MRC-ACK-0?' -v
      mrc conformance run --group wire --wire-profile eeth_op_shift=4
      mrc conformance run --target my_nic.adapter:target --strict --junit results.xml --html report.html
      mrc conformance run --pcap-dir pcaps && mrc dissect pcaps/MRC-SACK-09.pcap
      mrc conformance run --json | jq -r '.cases[] | select(.verdict == "failed").id'
      mrc conformance run --target mrc.conformance.mutants:sack_echoes_another_ev
    """
    from mrc.conformance.runner import run as run_cases
    from mrc.conformance.targets.named import named_target
    from mrc.wire.profile import WireProfile

    wire = WireProfile.from_option(wire_options)
    cases = _chosen(patterns, groups)
    try:
        target = named_target(target_name)
    except CallerError as error:
        raise click.UsageError(f"--target: {error}") from None
    if pcap_dir is not None:
        from mrc.conformance.report.pcaps import make_directory

        make_directory(pcap_dir)

    def on_result(result: Result) -> None:
        if pcap_dir is not None:
            from mrc.conformance.report.pcaps import write_case_pcap

            write_case_pcap(result, pcap_dir)
        if verbose:
            note(f"{result.verdict:<12} {result.case.id}")

    found = run_cases(cases, target, strict=strict, wire=wire, on_result=on_result)
    if junit_file is not None:
        from mrc.conformance.report.junit import write_junit

        write_junit(found, junit_file)
    if html_file is not None:
        from mrc.conformance.report.page import write_page

        write_page(found, html_file)
    if as_json:
        from mrc.conformance.report.document import run_document

        print_json(run_document(found))
    else:
        _print(found)
    sys.exit(0 if found.good else 1)


def _print(found: Run) -> None:
    from mrc.conformance.verdicts import FAILED, UNSUPPORTED, VERDICTS

    for result in found.results:
        if result.verdict == FAILED:
            _print_failed(result, result.counts(found.strict))
    for result in found.results:
        if result.verdict == UNSUPPORTED:
            click.echo(f"unsupported  {result.case.id:<28} {result.actual}")
    click.echo(f"{'group':<20}" + "".join(f"{verdict:>13}" for verdict in VERDICTS))
    for group in dict.fromkeys(result.case.group for result in found.results):
        verdicts = [result.verdict for result in found.results if result.case.group == group]
        click.echo(f"{group:<20}" + "".join(f"{verdicts.count(verdict):>13}" for verdict in VERDICTS))
    counts = (found.passed, found.failed, found.unsupported)
    click.echo(f"{'all':<20}" + "".join(f"{count:>13}" for count in counts))
    aside = found.failed - found.counted
    if aside:
        click.echo(f"{aside} of the failed ones are no musts and do not count without --strict")
    partly = sum(bool(result.unchecked) for result in found.results)
    if partly:
        click.echo(f"{partly} cases could make only some of their checks: --json has which, as not_checked")
    if found.void:
        click.echo(f"this run is void: {found.void}")
    else:
        click.echo(f"{found.target}, {found.took_s:.1f} s; the control case failed as it has to")


def _print_failed(result: Result, counts: bool) -> None:
    each, requirement = result.case, result.case.requirement
    click.echo(f"FAILED  {each.id}  {requirement.level}, grade {requirement.grade}, {requirement.source}")
    click.echo(f"  {requirement.text}")
    for name, text in (("shows", each.about), ("expected", result.expected), ("actual", result.actual)):
        click.echo(f"  {name:<9} {text}")
    click.echo(f"  {'look at':<9} {each.look_at}")
    for line in result.log.story(_STORY):
        click.echo(f"    {line}")
    click.echo("" if counts else f"  (only a {requirement.level}: it does not count without --strict)\n")
