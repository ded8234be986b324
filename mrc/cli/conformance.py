# SPDX-License-Identifier: BSD-2-Clause
"""`mrc conformance`: the requirements as timed scripts, and an endpoint held to them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mrc.cli.commands import ErrorGroup
from mrc.cli.common import (
    DURATION,
    PATH_MTUS,
    fabric_option,
    interrupt_on_signals,
    interrupted,
    json_option,
    note,
    print_json,
    usage_errors,
    wire_profile_option,
)
from mrc.cli.completing import complete_cases, complete_target
from mrc.cli.conformance_serve import serve
from mrc.cli.conformance_suites import MRC, TRANSPORTS, suite
from mrc.cli.endpoint_options import fabric_for, mode_of, mode_options
from mrc.conformance.requirements import GROUPS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mrc.conformance.case import Case
    from mrc.conformance.results import Result
    from mrc.conformance.target import Target
    from mrc.fabric.host_view import Fabric
    from mrc.wire.profile import WireProfile

_OUT_FILE = click.Path(dir_okay=False, path_type=Path)


def _choosing(function: Any) -> Any:
    function = click.option(
        "--transport",
        type=click.Choice(TRANSPORTS),
        default=MRC,
        show_default=True,
        help="MRC, or the plain RoCEv2 RC that it is a superset of.",
    )(function)
    function = click.option("--group", "groups", multiple=True, type=click.Choice(GROUPS), help="Only this group.")(
        function
    )
    return click.option(
        "--id",
        "patterns",
        multiple=True,
        metavar="PATTERN",
        shell_complete=complete_cases,
        help="Only cases whose id begins with PATTERN (MRC-SACK, MRC-SACK-0) or matches it (*, ?, [...]); "
        "=ID is that case alone, without its variants; repeatable.",
    )(function)


@click.group(cls=ErrorGroup)
def conformance() -> None:
    """Test an MRC endpoint against the requirements. A case is a timed script of packets in and packets expected.

    \b
    Examples:
      mrc conformance list --id MRC-SACK -v
      mrc conformance run
      mrc conformance run --target my_nic.adapter:target --html report.html
    """


@conformance.command("list")
@_choosing
@click.option("--missing", "show_missing", is_flag=True, help="List the requirements without a case instead, and why.")
@click.option("-v", "--verbose", is_flag=True, help="Also print what each case shows, and its script.")
@json_option
def list_cases(
    patterns: tuple[str, ...],
    groups: tuple[str, ...],
    transport: str,
    show_missing: bool,
    verbose: bool,
    as_json: bool,
) -> None:
    """List the cases: id, level (must, should, may), grade (A: three or more sources, B: one or two, C: a choice of
    this project) and requirement.

    \b
    Examples:
      mrc conformance list
      mrc conformance list --group responder
      mrc conformance list --id MRC-SACK-22 -v
      mrc conformance list --missing
      mrc conformance list --transport rc
      mrc conformance list --json | jq -r '.cases[] | "\\(.id) \\(.source)"'
    """
    if show_missing:
        if patterns or groups:
            raise click.UsageError("--missing lists all requirements without a case: leave out --id and --group")
        _list_missing(as_json, transport)
        return
    cases = _chosen(patterns, groups, transport)
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


def _list_missing(as_json: bool, transport: str) -> None:
    from mrc.conformance.report.document import missing_document

    without = suite(transport).missing
    if as_json:
        print_json(missing_document(without))
        return
    for each in without:
        click.echo(f"{each.requirement.id:<14} {each.requirement.text}")
        click.echo(f"{'':<14} {each.reason or '(no reason given)'}")
    note(f"{len(without)} requirements without a case")


def _chosen(patterns: tuple[str, ...], groups: tuple[str, ...], transport: str) -> list[Case]:
    """Raises a usage error for a pattern that no case matches: a run of nothing must not look like a success."""
    from mrc.conformance.catalogue import chosen, near_ids

    held = suite(transport)
    every = held.cases
    command = f"mrc conformance list{'' if transport == MRC else f' --transport {transport}'}"
    for pattern in patterns:
        if chosen(every, [pattern]):
            continue
        if any(each.requirement.id == pattern for each in held.missing):
            raise click.UsageError(f"requirement {pattern} has no case: {command} --missing says why")
        near = " or ".join(near_ids(every, pattern))
        meant = f"; did you mean {near}?" if near else ""
        raise click.UsageError(f"no case matches --id {pattern}: {command} prints them all{meant}")
    cases = chosen(every, patterns, groups)
    if not cases:
        raise click.UsageError(f"no case is left by --id and --group: {command} prints them all")
    return cases


conformance.add_command(serve)


@conformance.command()
@_choosing
@click.option(
    "--target",
    "target_name",
    default="self",
    show_default=True,
    metavar="self|TICKET|FILE.yaml|MODULE:FACTORY|mutant:NAME",
    shell_complete=complete_target,
    help="What to test: this project's endpoint in virtual time (self), the live one that printed TICKET (mrc "
    "conformance serve), the one whose QPs FILE names (mrc conformance parameters), another one through an adapter, or "
    "one that is wrong on purpose (tests/mutants of a checkout; an installed package has none).",
)
@click.option(
    "--slack",
    type=DURATION,
    default="200ms",
    show_default=True,
    help="Live: added to every time limit.",
)
@click.option("--strict", is_flag=True, help="Count failed shoulds and mays too.")
@click.option("--junit", "junit_file", type=_OUT_FILE, metavar="FILE", help="Write JUnit XML.")
@click.option("--html", "html_file", type=_OUT_FILE, metavar="FILE", help="Write one self-contained page.")
@click.option(
    "--pcap-dir", type=click.Path(file_okay=False, path_type=Path), metavar="DIR", help="Write a pcap of each case."
)
@click.option("-v", "--verbose", is_flag=True, help="Also print every case as it ends, and the tracebacks of errors.")
@fabric_option
@mode_options
@json_option
@wire_profile_option
def run(
    patterns: tuple[str, ...],
    groups: tuple[str, ...],
    transport: str,
    target_name: str,
    slack: float,
    strict: bool,
    junit_file: Path | None,
    html_file: Path | None,
    pcap_dir: Path | None,
    verbose: bool,
    fabric_file: str | None,
    mode: str | None,
    binds: tuple[str, ...],
    as_json: bool,
    wire_options: tuple[str, ...],
) -> None:
    """Run cases against an endpoint, each on a connection of its own.

    A case passes, fails, is unsupported (the target lacks what it needs), or ends in an error of the suite or of the
    target's adapter, which makes it inconclusive. Exit status 1 if a must fails, with --strict if any case fails, or if
    a case ends in an error. Every run begins with a control case whose expectation is wrong on purpose. Unless that
    case fails, the run is void and the exit status is 1.

    Against a live endpoint, --fabric, --mode and --bind describe the tester's own ports, and root or CAP_NET_RAW is
    needed. MODULE:FACTORY names a function that returns a mrc.conformance.target.Target; docs/conformance.md shows how
    to write one.

    \b
    Examples:
      mrc conformance run
      mrc conformance run --id MRC-SACK --id 'MRC-ACK-0?' -v
      mrc conformance run --group wire --wire-profile eeth_op_shift=4
      mrc conformance run --target my_nic.adapter:target --strict --junit results.xml --html report.html
      mrc conformance run --pcap-dir pcaps && mrc dissect pcaps/MRC-SACK-09.pcap
      mrc conformance run --json | jq -r '.cases[] | select(.verdict == "failed").id'
      mrc conformance run --target mutant:sack_echoes_another_ev
      mrc conformance run --transport rc --strict
      mrc lab exec h0 -- mrc conformance run --target mrc1:AbC... --html report.html
    """
    from mrc.conformance.wrong_endpoints import named_mutant, run_with_mutants

    if named_mutant(target_name) is not None:
        run_with_mutants()
    from mrc.cli.conformance_progress import progress
    from mrc.cli.conformance_report import print_run
    from mrc.conformance.runner import close
    from mrc.conformance.runner import run as run_cases
    from mrc.wire.profile import WireProfile

    wire = WireProfile.from_option(wire_options, mode_of(fabric_file, mode, binds))
    held = suite(transport)
    cases = _chosen(patterns, groups, transport)
    if pcap_dir is not None:
        from mrc.conformance.report.pcaps import make_directory

        make_directory(pcap_dir)

    def on_result(result: Result) -> None:
        if pcap_dir is not None:
            from mrc.conformance.report.pcaps import write_case_pcap

            write_case_pcap(result, pcap_dir)
        if verbose:
            again = f"  (run again: {result.repeated})" if result.repeated else ""
            note(f"{result.verdict:<12} {result.case.id}{again}")
        advance(result)

    target = _target(target_name, transport, lambda peer: fabric_for(fabric_file, mode, binds, peer), slack, wire)
    try:
        with progress(len(cases), show=sys.stderr.isatty() and not verbose) as advance:
            found = run_cases(
                cases, target, strict=strict, wire=wire, control=held.control, twin=held.twin, on_result=on_result
            )
    except KeyboardInterrupt:
        raise interrupted("interrupted: this run proves nothing") from None
    finally:
        closing = close(target)
    found.closing = closing
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
        print_run(found, verbose)
    sys.exit(0 if found.good else 1)


def _target(
    name: str, transport: str, fabric_to: Callable[[Sequence[str]], Fabric], slack_s: float, wire: WireProfile
) -> Target:
    """The target that is called so; `fabric_to` gives the fabric on which other addresses are reached. Raises a usage
    error for what is no target's name."""
    from mrc.net.ticket import PREFIX, Ticket

    if name == "self":
        return suite(transport).own()
    from mrc.conformance.wrong_endpoints import named_mutant, wrong_endpoint

    if (mutant := named_mutant(name)) is not None:
        with usage_errors("--target: "):
            return wrong_endpoint(mutant, suite(transport).mutants).target()
    by_hand, slack_ns = name.endswith((".yaml", ".yml")), round(slack_s * 1e9)
    if not by_hand and not name.strip().startswith(PREFIX):
        from mrc.conformance.targets.named import named_target

        with usage_errors("--target: "):
            return named_target(name)
    if transport != MRC:
        raise click.UsageError("--target: live targets speak MRC: with --transport rc self or MODULE:FACTORY")
    interrupt_on_signals()
    if by_hand:
        from mrc.conformance.live.by_hand import ByHandTarget
        from mrc.conformance.live.qp_file import read_qp_file

        file = read_qp_file(Path(name))
        return ByHandTarget(file, fabric_to([each.plane.target for each in file.planes]), wire, slack_ns=slack_ns)
    from mrc.conformance.live.target import LiveTarget

    with usage_errors("--target: "):
        ticket = Ticket.parse(name)
    return LiveTarget(ticket, fabric_to(ticket.addresses), slack_ns=slack_ns)


@conformance.command("parameters")
@_choosing
@click.option(
    "--mtu",
    "path_mtu",
    type=PATH_MTUS,
    default="1024",
    show_default=True,
    help="Path MTU.",
)
@click.option(
    "--spare",
    type=click.IntRange(0, 1000),
    default=8,
    show_default=True,
    help="Further QPs, for second connections.",
)
@fabric_option
@mode_options
def print_parameters(
    patterns: tuple[str, ...],
    groups: tuple[str, ...],
    transport: str,
    path_mtu: str,
    spare: int,
    fabric_file: str | None,
    mode: str | None,
    binds: tuple[str, ...],
) -> None:
    """Print as YAML the QPs that the operator of a target without a ticket has to set up, one for each case.

    The file describes the tester's end of each QP. The operator sets up the other ends and fills in their parameters;
    then `mrc conformance run --target` takes the file. Its schema is mrc/conformance/live/qp_file.schema.json;
    docs/conformance.md shows an example.

    \b
    Examples:
      mrc lab exec h0 -- mrc conformance parameters --id MRC-SACK > qps.yaml
      mrc lab exec h1 -- mrc conformance serve --qp-file qps.yaml
      mrc lab exec h0 -- mrc conformance run --id MRC-SACK --target qps.yaml
    """
    from mrc.conformance.live.by_hand import parameters
    from mrc.conformance.live.qp_file import qp_file_text

    if transport != MRC:
        raise click.UsageError("live targets speak MRC: leave out --transport rc")
    held = suite(transport)
    fabric = fabric_for(fabric_file, mode, binds)
    cases = [held.control, held.twin, *_chosen(patterns, groups, transport)]
    file, notes = parameters(cases, fabric, path_mtu=int(path_mtu), mode=fabric.mode, spare=spare)
    click.echo(qp_file_text(file, notes), nl=False)
