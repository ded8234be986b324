# SPDX-License-Identifier: BSD-2-Clause
"""`mrc dissect`: the packets of a capture, as a table, as lines, in full, as JSON; chosen by a filter, or checked."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import click

from mrc.cli.commands import discard_output
from mrc.cli.common import note, opened_capture, wire_profile_option
from mrc.errors import MrcError, PeerError, SystemRefused
from mrc.report.tables import aligned

if TYPE_CHECKING:
    from mrc.capture.check import Violation
    from mrc.capture.columns import Columns
    from mrc.capture.filter import Filter
    from mrc.capture.frames import I64
    from mrc.wire.profile import WireProfile

# Runs of columns, and of each the rows to show.
Runs = Iterator[tuple["Columns", "I64"]]


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option("--json", "as_json", is_flag=True, help="One JSON document: a list, one object a packet.")
@click.option("--jsonl", "as_json_lines", is_flag=True, help="One JSON object a line, one line a packet.")
@click.option("--summary", "as_lines", is_flag=True, help="The lines of the table without its heading.")
@click.option("--verbose", "in_full", is_flag=True, help="Every field of every layer, as Scapy shows them.")
@click.option("--filter", "expression", metavar="EXPR", help="Only packets for which EXPR holds.")
@click.option("--check", is_flag=True, help="Print violations of the protocol instead of the packets.")
@wire_profile_option
def dissect(
    file: str,
    as_json: bool,
    as_json_lines: bool,
    as_lines: bool,
    in_full: bool,
    expression: str | None,
    check: bool,
    wire_options: tuple[str, ...],
) -> None:
    """Show the packets of FILE: pcap or pcapng, compressed or not, output of `tshark -T json -x`, or - for stdin.

    Without an option it prints a table: number, seconds since the first packet, innermost IP source and destination,
    path, and a summary of the headers. The path is the uSIDs that are still in the outer destination, by their names in
    the fabric, or the entropy value. Packets that are trimmed, malformed or have a wrong ICRC are marked. Packets in
    mirrors (ERSPAN, GRE), overlays (VXLAN, Geneve) and MPLS are shown as they are inside; IP fragments are
    reassembled. Files may be of any size.

    EXPR compares fields by their names in --json, and joins comparisons with and, or, not and parentheses. The name of
    a layer alone is true where the packet has that layer. & tests bits; `in` takes lists, ranges and networks.
    docs/dissect.md is the reference.

    --check looks for violations of the protocol: wrong ICRCs, lengths that do not fit the opcode, reserved bits that
    are set, PSNs, MSNs and RETHs that do not continue from packet to packet, and more. It prints a table with the id of
    each requirement that is not met. The exit status is 1 if there is one.

    \b
    Examples:
      mrc dissect capture.pcap
      mrc dissect capture.pcap --filter 'bth.psn > 100 and seth.m == 1'
      mrc dissect capture.pcap --filter 'reth and bth.rtx == 1' --summary | wc -l
      mrc dissect capture.pcap --filter 'ipv6[0].dst in 5f00:0:1100::/48 or malformed or icrc_ok == false'
      mrc dissect capture.pcap --check
      mrc dissect capture.pcap --json | jq '.[] | select(.icrc_ok == false).number'
      mrc dissect capture.pcapng.gz --verbose | less
      tcpdump -U -w - -i p0 | mrc dissect - --jsonl
      mrc dissect capture.pcap --wire-profile accepted_udp_ports=4791
    """
    if as_json + as_json_lines + as_lines + in_full > 1:
        raise click.UsageError("--json, --jsonl, --summary and --verbose cannot be combined: choose one")
    if check and (as_json_lines or as_lines or in_full):
        raise click.UsageError("--check prints a table, or with --json one document: leave out the other form")
    from mrc.wire.profile import WireProfile

    profile = WireProfile.from_option(wire_options)
    wanted = _parsed(expression)
    with opened_capture(file) as stream:
        from mrc.capture.columns import read_columns

        name = "standard input" if file == "-" else file
        runs = _chosen(read_columns(cast("BinaryIO", stream), name, profile), wanted)
        if check:
            _check(runs, name, as_json)
        elif as_json:
            _print_all(_json_document(runs))
        elif as_json_lines:
            _print_all("\n".join(lines) + "\n" for lines in _json_lines(runs))
        elif in_full:
            _print_all(_in_full(runs, profile))
        else:
            _print_all(_table(runs, profile, heading=not as_lines, filtered=expression is not None))


def _parsed(expression: str | None) -> Filter | None:
    if expression is None:
        return None
    from mrc.capture.filter import Filter, FilterError

    try:
        return Filter(expression)
    except FilterError as error:
        raise click.UsageError(f"--filter: {error}") from None


def _chosen(runs: Iterator[Columns], wanted: Filter | None) -> Runs:
    import numpy as np

    for columns in runs:
        yield columns, np.arange(len(columns)) if wanted is None else np.flatnonzero(wanted.chosen(columns))


def _print_all(text: Iterable[str]) -> None:
    """Write to stdout until its reader closes it, as `head` does; each part at once, for live captures."""
    try:
        for part in text:
            sys.stdout.write(part)
            sys.stdout.flush()
    except MrcError:
        raise
    except OSError as error:
        discard_output()
        if not isinstance(error, BrokenPipeError):
            raise SystemRefused(f"standard output cannot be written: {error.strerror}") from error


def _table(runs: Runs, profile: WireProfile, heading: bool, filtered: bool) -> Iterator[str]:
    from mrc.capture.columns.lines import Lines

    lines = Lines(profile)
    packets = shown = 0
    for columns, rows in runs:
        packets += len(columns)
        text = lines.lines(columns, rows)
        if text and heading and not shown:
            yield lines.heading() + "\n"
        shown += len(text)
        if text:
            yield "\n".join(text) + "\n"
    if not packets:
        note("the capture holds no packets")
    elif filtered and not shown:
        note(f"none of {packets} packets passes the filter")


def _json_lines(runs: Runs) -> Iterator[list[str]]:
    """The objects of each run that has any to show."""
    from mrc.capture.columns.documents import documents

    for columns, rows in runs:
        if len(rows):
            yield documents(columns, rows)


def _json_document(runs: Runs) -> Iterator[str]:
    """The list, a packet a line. A capture that turns out damaged still makes a whole document."""
    yield "["
    before = "\n"
    failure = None
    try:
        for lines in _json_lines(runs):
            yield before + ",\n".join(lines)
            before = ",\n"
    except MrcError as error:
        failure = error
    yield "\n]\n"
    if failure is not None:
        raise failure


def _in_full(runs: Runs, profile: WireProfile) -> Iterator[str]:
    from mrc.capture.summary import Summary
    from mrc.capture.verbose import layers_follow, shown_in_full

    summary = Summary(profile)
    with layers_follow(profile):
        for columns, rows in runs:
            summary.digits = max(summary.digits, columns.frames.digits)
            for row in rows.tolist():
                record, walked = columns.frames.record(row), columns.walked(row)
                line = summary.line(columns.first + row, record, walked)
                yield f"{line}\n{shown_in_full(record, walked, profile)}\n"


def _check(runs: Runs, name: str, as_json: bool) -> None:
    """Print what is found. Raises PeerError when a requirement is not met, or the capture is damaged."""
    import numpy as np

    from mrc.capture.check import Check

    checked = Check()
    packets = 0
    failure: MrcError | None = None
    try:
        for columns, rows in runs:
            passing = np.zeros(len(columns), np.bool_)
            passing[rows] = True
            checked.add(columns, passing)
            packets += len(rows)
    except MrcError as error:
        failure = error
    violations = checked.violations
    if as_json:
        _print_all([json.dumps(_check_document(packets, violations), indent=2) + "\n"])
    else:
        _print_all(_check_table(packets, violations))
    if failure is not None:
        raise failure
    if violations:
        broken = len({violation.requirement for violation in violations})
        raise PeerError(
            f"{name}: {broken} requirement{'s' if broken > 1 else ''} not met (docs/contributing/requirements.md)"
        )


def _check_document(packets: int, violations: list[Violation]) -> dict[str, Any]:
    found = [
        {"requirement": each.requirement, "what": each.what, "packets": each.count, "first": each.first}
        for each in violations
    ]
    return {"packets": packets, "violations": found}


def _check_table(packets: int, violations: list[Violation]) -> Iterator[str]:
    if violations:
        rows = [("requirement", "packets", "first", "what")]
        for each in violations:
            first = ", ".join(map(str, each.first)) + (", ..." if each.count > len(each.first) else "")
            rows.append((each.requirement, str(each.count), first, each.what))
        yield "\n".join([*aligned(rows, right={1}), "", ""])
    yield f"{packets} packet{'' if packets == 1 else 's'} checked\n"
