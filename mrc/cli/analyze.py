# SPDX-License-Identifier: BSD-2-Clause
"""`mrc analyze`: what a capture says about its connections, worst first; a report to look at, a table to go on with."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from typing import IO, TYPE_CHECKING, BinaryIO, cast

import click

from mrc.capture.texts import seconds_text
from mrc.cli.analyze_tables import left_out, print_findings, print_table
from mrc.cli.common import json_option, note, opened_capture, print_json, wire_profile_option
from mrc.cli.live_line import LiveLine
from mrc.errors import MrcError, SystemRefused
from mrc.report.terminal import make_console
from mrc.report.units import count_text, gbps_text, microseconds_text, number_text, size_text
from mrc.whole_files import write_whole

if TYPE_CHECKING:
    from io import BufferedReader

    from rich.console import Console

    from mrc.capture.analysis import Analysis
    from mrc.capture.analysis.comparison import Comparison
    from mrc.capture.analysis.fabric_events import FabricEvents
    from mrc.capture.analysis.figures import DirectionFigures, PathFigures
    from mrc.capture.analysis.finding import Finding
    from mrc.capture.analysis.reported import Trace
    from mrc.wire.profile import WireProfile

_PATHS_SHOWN, _QPS_SHOWN, _PLACES_SHOWN = 64, 32, 4
_LOOKED_AT = 16


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option("--out", "directory", type=click.Path(file_okay=False, path_type=Path), help="Write DIR/report.html.")
@click.option(
    "--trace",
    "traces",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False),
    metavar="TRACE",
    help="What an endpoint wrote with --trace; once for each end.",
)
@click.option(
    "--events",
    "events_file",
    type=click.Path(exists=True, dir_okay=False),
    metavar="LOG",
    help="What was done to the lab: its event log, or `mrc lab events --jsonl`.",
)
@click.option("--parquet", type=click.Path(dir_okay=False, path_type=Path), help="Write a table of all packets.")
@json_option
@wire_profile_option
def analyze(
    file: str,
    directory: Path | None,
    traces: tuple[str, ...],
    events_file: str | None,
    parquet: Path | None,
    as_json: bool,
    wire_options: tuple[str, ...],
) -> None:
    """Say what happened to the connections in FILE, MRC or RoCEv2 RC: findings first, then QPs, then paths.

    FILE is what `mrc dissect` reads: pcap or pcapng, compressed or not, tshark -T json -x, - for standard input.
    Packets in mirrors (ERSPAN, GRE), overlays (VXLAN, Geneve) and MPLS count as they are inside.
    Everything is inferred from packets. Where the capture was taken (sender, receiver, between, both ends) decides what
    can be known; the output names the place. docs/analyze.md explains each figure and the keys of --json.

    --trace TRACE adds what an endpoint wrote with `mrc send --trace` or `mrc recv --trace`. Each inferred figure is
    then shown beside the reported one, and a finding says where the two differ. FILE may also be a trace.

    --events LOG adds what was done to the lab meanwhile (`mrc lab events`): cuts, heals and impairments are listed with
    their times in the capture, and marked in the graphs.

    --out DIR writes one self-contained page, DIR/report.html: findings, then graphs (time and sequence with
    retransmissions and SACKs, goodput per plane, round trips, losses and states per path). It needs no network.

    --parquet FILE writes a row a packet for other tools; it needs the extra: pip install 'softmrc[parquet]'.

    \b
    Examples:
      mrc analyze capture.pcap
      mrc analyze capture.pcap --out report && xdg-open report/report.html
      mrc analyze capture.pcap --json | jq -r '.findings[] | "\\(.severity): \\(.text)"'
      mrc analyze capture.pcap --json | jq '.qps[0].directions[0].paths[] | {ev, loss_share}'
      mrc analyze capture.pcapng.gz --parquet packets.parquet
      mrc analyze capture.pcap --trace sender.trace --trace receiver.trace
      mrc analyze capture.pcap --events /run/mrc/mrc/events.jsonl --out report
      mrc analyze sender.trace
    """
    from mrc.wire.profile import WireProfile

    profile = WireProfile.from_option(wire_options)
    name = "standard input" if file == "-" else file
    with opened_capture(file) as stream:
        if _is_trace(stream):
            if directory is not None or parquet is not None:
                raise click.UsageError(f"{name} is a trace: --out and --parquet need a capture")
            reported = [_read_trace(cast("BinaryIO", stream), name), *map(_open_trace, traces)]
            first = reported[0]
            start_ns = first.first_ns if first.has_wall_clock and first.events else None
            _say_traces(name, reported, _events(events_file, start_ns, first.last_ns - first.first_ns), as_json)
            return
        reported = [_open_trace(each) for each in traces]
        analysis, failure = _read(cast("BinaryIO", stream), name, profile, parquet)
    _say(name, analysis, reported, _events(events_file, analysis.start_ns, analysis.duration_ns), directory, as_json)
    if failure is not None:
        raise failure


def _events(file: str | None, start_ns: int | None, duration_ns: int) -> FabricEvents | None:
    if file is None:
        return None
    from mrc.capture.analysis.fabric_events import FabricEvents, read_fabric_events

    with opened_capture(file) as stream:
        events, damaged = read_fabric_events(cast("BinaryIO", stream), file)
    return FabricEvents(file, events, damaged, start_ns, duration_ns)


def _say(
    name: str,
    analysis: Analysis,
    reported: list[Trace],
    events: FabricEvents | None,
    directory: Path | None,
    as_json: bool,
) -> None:
    from mrc.capture.analysis.causes import in_order
    from mrc.capture.analysis.comparison import compare
    from mrc.capture.analysis.findings import findings
    from mrc.capture.analysis.trace_findings import trace_findings

    compared = compare(analysis, reported)
    about_events = events.findings() if events is not None else []
    found = in_order([*findings(analysis), *trace_findings(reported, compared), *about_events])
    if directory is not None:
        _write_report(directory, name, analysis, found, compared, events)
    if as_json:
        from mrc.capture.analysis.document import document

        print_json(document(name, analysis, found, reported, events))
    else:
        _print(name, analysis, found, reported, events)


def _say_traces(name: str, reported: list[Trace], events: FabricEvents | None, as_json: bool) -> None:
    from mrc.capture.analysis.trace_findings import trace_findings

    found = [*trace_findings(reported, None), *(events.findings() if events is not None else [])]
    if as_json:
        from mrc.capture.analysis.document import traces_document

        print_json(traces_document(name, reported, found, events))
    else:
        from mrc.cli.analyze_reported import print_traces

        print_traces(make_console(), reported, found, events)


def _is_trace(stream: IO[bytes]) -> bool:
    """Looks ahead in the stream: a pipe does not give its bytes again."""
    from mrc.trace import is_trace

    try:
        if not stream.seekable():
            return is_trace(cast("BufferedReader", stream).peek())
        at = stream.tell()
        beginning = stream.read(_LOOKED_AT)
        stream.seek(at)
    except OSError:  # named when it is read
        return False
    return is_trace(beginning)


def _open_trace(path: str) -> Trace:
    with opened_capture(path) as stream:
        return _read_trace(cast("BinaryIO", stream), path)


def _read_trace(stream: BinaryIO, name: str) -> Trace:
    from mrc.capture.analysis.reported import read_reported

    return read_reported(stream, name)


def _read(stream: BinaryIO, name: str, profile: WireProfile, parquet: Path | None) -> tuple[Analysis, MrcError | None]:
    """The analysis of all that could be read, and what stopped the reading before its end."""
    from mrc.capture.analysis import Collector
    from mrc.capture.columns import read_columns

    collector = Collector()
    failure: MrcError | None = None
    runs = read_columns(stream, name, profile)
    with ExitStack() as stack:
        table = None
        if parquet is not None:
            from mrc.capture.analysis.parquet import PacketTable

            table = stack.enter_context(PacketTable(parquet, profile))
        progress = stack.enter_context(LiveLine())
        while failure is None:
            try:
                columns = next(runs, None)
            except MrcError as error:
                failure = error
                break
            if columns is None:
                break
            collector.add(columns)
            if table is not None:
                table.write(columns)
            progress.show(f"{columns.first + len(columns) - 1:,} packets")
    return collector.finish(), failure


def _write_report(
    directory: Path,
    name: str,
    analysis: Analysis,
    found: list[Finding],
    compared: list[Comparison],
    events: FabricEvents | None,
) -> None:
    from mrc.capture.analysis.report import report

    path = directory / "report.html"
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SystemRefused(error.errno, f"{directory}: cannot be made: {error.strerror}") from error
    size = write_whole(path, report(os.path.basename(name), analysis, found, compared, events))
    note(f"{path}: {size_text(size)}")


# ------------------------------------------------------------------ on the terminal


def _print(
    name: str, analysis: Analysis, found: list[Finding], reported: list[Trace], events: FabricEvents | None
) -> None:
    from mrc.capture.analysis.finding import LOOKED_FOR

    console = make_console()
    _print_summary(console, name, analysis)
    print_findings(console, found, LOOKED_FOR, analysis.digits)
    if events is not None:
        from mrc.cli.analyze_events import print_fabric_events

        print_fabric_events(console, events, analysis.digits)
    directions = [direction for qp in analysis.qps for direction in qp.directions]
    if directions:
        _print_qps(console, directions)
        _print_paths(console, directions)
        if reported:
            from mrc.cli.analyze_reported import print_comparison

            print_comparison(console, directions)
        _print_places(console, directions)


def _print_summary(console: Console, name: str, analysis: Analysis) -> None:
    took = seconds_text(analysis.duration_ns, analysis.digits)
    text = f"{name}: {analysis.packets:,} packets in {took} s, {analysis.roce_packets:,} of RoCEv2 or MRC"
    console.print(text, soft_wrap=True, markup=False)


def _print_qps(console: Console, directions: list[DirectionFigures]) -> None:
    rows = [
        (
            each.name,
            each.transport,
            each.place,
            number_text(each.packets, ","),
            size_text(each.goodput_bytes),
            gbps_text(each.goodput_gbps),
            each.lost_text,
            number_text(each.retransmissions, ","),
            number_text(each.spurious_retransmissions, ","),
            f"{each.marks + each.congestion_notifications:,}",
            f"{each.trimmed:,}",
            microseconds_text(each.round_trips.p50_ns, ".0f"),
            microseconds_text(each.round_trips.p99_ns, ".0f"),
            f"{each.messages - each.messages_unfinished:,}",
        )
        for each in directions[:_QPS_SHOWN]
    ]
    headings = (
        "requests",
        "",
        "seen at",
        "packets",
        "delivered",
        "Gbit/s",
        "lost",
        "resent",
        "spurious",
        "marks",
        "trims",
        "RTT us",
        "p99",
        "messages",
    )
    print_table(console, headings, rows, left=3)
    left_out(console, len(directions), _QPS_SHOWN)


def _print_places(console: Console, directions: list[DirectionFigures]) -> None:
    """What the heaviest directions carried; where all were captured and why that is thought, then what cannot be known
    from there."""
    from mrc.capture.analysis.traffic import traffic_text

    for each in directions[:_PLACES_SHOWN]:
        if each.operations:
            text = f"carried: {each.name}: {traffic_text(each.operations)}"
            console.print(text, style="dim", soft_wrap=True, markup=False)
    places: dict[tuple[str, str], list[str]] = {}
    for each in directions:
        places.setdefault((each.place, each.capture_point_why), []).append(each.name)
    for (place, why), names in list(places.items())[:_PLACES_SHOWN]:
        of = names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
        console.print(f"seen at {place}: {of}: {why}", style="dim", soft_wrap=True, markup=False)
    for words in directions[0].unknowable:
        text = f"not to be known from here: {directions[0].name}: {words}"
        console.print(text, style="dim", soft_wrap=True, markup=False)


def _print_paths(console: Console, directions: list[DirectionFigures]) -> None:
    rows = []
    paths = [(each, path) for each in directions if each.transport == "mrc" for path in each.paths]
    several = len({path.plane for _, path in paths}) > 1
    # How much later the packets of a path come: where two places saw them.
    both = any(path.one_way_later_ns is not None for _, path in paths)
    for direction, path in paths[:_PATHS_SHOWN]:
        # At the receiver the time to the SACK is its own, and no round trip.
        there = direction.capture_point != "receiver"
        rows.append(
            (
                "" if direction.responder_qpn is None else f"0x{direction.responder_qpn:06x}",
                f"0x{path.ev:08x}",
                path.way,
                *(["-" if path.plane is None else str(path.plane)] if several else []),
                f"{path.packets:,}",
                size_text(path.payload_bytes),
                _lost(path),
                number_text(path.resent, ","),
                number_text(path.resent_in_vain, ","),
                f"{path.marks:,}",
                f"{path.trimmed:,}",
                microseconds_text(path.rtt.p50_ns if there else None, ".0f"),
                microseconds_text(path.rtt.p99_ns if there else None, ".0f"),
                *([microseconds_text(path.one_way_later_ns, ",.1f")] if both else []),
                path.probes_text(direction.capture_point),
                number_text(path.outs, ","),
                path.state or "-",
            )
        )
    if rows:
        headings = (
            "QP",
            "EV",
            "route",
            *(["plane"] if several else []),
            "packets",
            "bytes",
            "lost",
            "of it resent",
            "in vain",
            "marks",
            "trims",
            "RTT us",
            "p99",
            *(["later us"] if both else []),
            "probes",
            "out",
            "state",
        )
        print_table(console, headings, rows, left=3)
        left_out(console, len(paths), _PATHS_SHOWN)


def _lost(path: PathFigures) -> str:
    return "?" if path.lost is None else count_text(path.lost, path.loss_share)
