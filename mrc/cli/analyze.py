"""`mrc analyze`: what a capture says about its connections, worst first; a report to look at, a table to go on with."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, BinaryIO, cast

import click

from mrc.cli.common import human_bytes, json_option, note, print_json, wire_profile_option
from mrc.errors import MrcError, SystemRefused

if TYPE_CHECKING:
    from rich.console import Console

    from mrc.capture.analysis import Analysis
    from mrc.capture.analysis.figures import DirectionFigures, PathFigures
    from mrc.capture.analysis.finding import Finding
    from mrc.wire.profile import WireProfile

_SEVERITY_STYLES = {"error": "bold red", "warning": "yellow", "info": "dim"}
_FINDINGS_SHOWN, _PATHS_SHOWN, _QPS_SHOWN = 40, 64, 32


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option("--out", "directory", type=click.Path(file_okay=False, path_type=Path), help="Write DIR/report.html.")
@click.option("--parquet", type=click.Path(dir_okay=False, path_type=Path), help="Write a table of all packets.")
@json_option
@wire_profile_option
def analyze(
    file: str, directory: Path | None, parquet: Path | None, as_json: bool, wire_options: tuple[str, ...]
) -> None:
    """Say what happened to the connections in FILE, MRC or RoCEv2 RC: findings first, then QPs, then paths.

    FILE is what `mrc dissect` reads: pcap, pcapng, gzip of either, tshark -T json -x, - for standard input. All that is
    said is inferred from packets: where the capture was taken (sender, receiver, between) decides what can be known,
    and is said too. docs/analyze.md has how each figure is come by, and the keys of --json.

    --out DIR writes one self-contained page, DIR/report.html: findings, then graphs (time and sequence with
    retransmissions and SACKs, goodput per plane, round trips, losses and states per path). It needs no network.

    --parquet FILE writes a row a packet for other tools; it needs the extra: pip install 'mrc[parquet]'.

    \b
    Examples:
      mrc analyze capture.pcap
      mrc analyze capture.pcap --out report && xdg-open report/report.html
      mrc analyze capture.pcap --json | jq -r '.findings[] | "\\(.severity): \\(.text)"'
      mrc analyze capture.pcap --json | jq '.qps[0].directions[0].paths[] | {ev, loss_share}'
      mrc analyze capture.pcapng.gz --parquet packets.parquet
    """
    from mrc.capture.analysis.findings import findings
    from mrc.wire.profile import WireProfile

    profile = WireProfile.from_option(wire_options)
    name = "standard input" if file == "-" else file
    failure: MrcError | None = None
    with _opened(file) as stream:
        analysis, failure = _read(cast("BinaryIO", stream), name, profile, parquet)
    found = findings(analysis)
    if directory is not None:
        _write_report(directory, name, analysis, found)
    if as_json:
        from mrc.capture.analysis.document import document

        print_json(document(name, analysis, found))
    else:
        _print(name, analysis, found)
    if failure is not None:
        raise failure


def _opened(file: str) -> IO[bytes]:
    try:
        return click.open_file(file, "rb")
    except OSError as error:
        raise SystemRefused(f"{file}: cannot be opened: {error.strerror}") from error


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
        progress = stack.enter_context(_Progress(stream))
        while failure is None:
            try:
                columns = next(runs, None)
            except MrcError as error:
                failure = error
                break
            if columns is None:
                break
            collector.take(columns)
            if table is not None:
                table.write(columns)
            progress.show(columns.first + len(columns) - 1)
    return collector.finish(), failure


class _Progress:
    """How many packets have been read, on a terminal."""

    def __init__(self, stream: BinaryIO) -> None:
        self._shown = sys.stderr is not None and sys.stderr.isatty()

    def __enter__(self) -> _Progress:
        return self

    def show(self, packets: int) -> None:
        if self._shown:
            click.echo(f"\r{packets:,} packets", nl=False, err=True)

    def __exit__(self, *error: object) -> None:
        if self._shown:
            click.echo("\r\033[K", nl=False, err=True)


def _write_report(directory: Path, name: str, analysis: Analysis, found: list[Finding]) -> None:
    from mrc.capture.analysis.report import report

    path = directory / "report.html"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        size = path.write_text(report(os.path.basename(name), analysis, found), encoding="utf-8")
    except OSError as error:
        raise SystemRefused(f"{path}: cannot be written: {error.strerror}") from error
    note(f"{path}: {human_bytes(size)}")


# ------------------------------------------------------------------ on the terminal


def _print(name: str, analysis: Analysis, found: list[Finding]) -> None:
    from rich.console import Console

    console = Console(file=sys.stdout, highlight=False, width=None if sys.stdout.isatty() else 200)
    _print_summary(console, name, analysis)
    _print_findings(console, found)
    directions = [direction for qp in analysis.qps for direction in qp.directions]
    if directions:
        _print_qps(console, directions)
        _print_paths(console, directions)
        for sentence in dict.fromkeys(f"{each.name}: {words}" for each in directions[:1] for words in each.unknowable):
            console.print(f"not to be known from here: {sentence}", style="dim", soft_wrap=True)


def _print_summary(console: Console, name: str, analysis: Analysis) -> None:
    text = (
        f"{name}: {analysis.packets:,} packets in {analysis.seconds:.3f} s, {analysis.roce_packets:,} of RoCEv2 or MRC"
    )
    console.print(text, soft_wrap=True, markup=False)


def _print_findings(console: Console, found: list[Finding]) -> None:
    console.print()
    if not found:
        console.print("findings: none")
    for each in found[:_FINDINGS_SHOWN]:
        where = f" (packet {each.packet}" if each.packet else ""
        where += f" at {each.time_s:.6f} s" if where and each.time_s is not None else ""
        where += ")" if where else ""
        console.print(f"{each.severity:<8}", style=_SEVERITY_STYLES[each.severity], end="")
        console.print(f"{each.text}{where}", soft_wrap=True, markup=False)
    if len(found) > _FINDINGS_SHOWN:
        console.print(f"... and {len(found) - _FINDINGS_SHOWN} more: see --json")
    console.print()


def _print_qps(console: Console, directions: list[DirectionFigures]) -> None:
    rows = []
    for each in directions[:_QPS_SHOWN]:
        lost = (
            _count_share(each.lost, each.loss_share)
            if each.lost is not None
            else f"{each.missing_before_capture} before"
        )
        rows.append(
            (
                each.name,
                each.transport,
                each.capture_point,
                f"{each.packets:,}",
                human_bytes(each.goodput_bytes),
                _number(each.goodput_gbps, ".3g"),
                lost,
                f"{each.retransmissions:,}",
                f"{each.spurious_retransmissions:,}",
                f"{each.marks + each.congestion_notifications:,}",
                f"{each.trimmed:,}",
                _number(each.rtt.p50_us, ".0f"),
                _number(each.rtt.p99_us, ".0f"),
                f"{each.messages - each.messages_unfinished:,}",
            )
        )
    headings = (
        "requests",
        "",
        "seen at",
        "packets",
        "delivered",
        "Gbit/s",
        "lost",
        "resent",
        "for nothing",
        "marks",
        "trims",
        "RTT us",
        "p99",
        "messages",
    )
    _table(console, headings, rows, left=3)
    _left_out(console, len(directions), _QPS_SHOWN)


def _print_paths(console: Console, directions: list[DirectionFigures]) -> None:
    rows = []
    paths = [(each, path) for each in directions if each.transport == "mrc" for path in each.paths]
    for direction, path in paths[:_PATHS_SHOWN]:
        rows.append(
            (
                "" if direction.responder_qpn is None else f"0x{direction.responder_qpn:06x}",
                f"0x{path.ev:08x}",
                path.route,
                f"{path.packets:,}",
                human_bytes(path.payload_bytes),
                _lost(path),
                f"{path.retransmissions:,}",
                f"{path.marks:,}",
                f"{path.trimmed:,}",
                _number(path.rtt.p50_us, ".0f"),
                _number(path.rtt.p99_us, ".0f"),
                f"{path.probes_answered}/{path.probes}",
                f"{path.outs}",
                path.state if direction.capture_point != "receiver" else "",
            )
        )
    if rows:
        headings = (
            "QP",
            "EV",
            "route",
            "packets",
            "bytes",
            "lost",
            "resent on it",
            "marks",
            "trims",
            "RTT us",
            "p99",
            "probes",
            "out",
            "state",
        )
        _table(console, headings, rows, left=3)
        _left_out(console, len(paths), _PATHS_SHOWN)


def _table(console: Console, headings: tuple[str, ...], rows: Sequence[tuple[str, ...]], left: int) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for index, heading in enumerate(headings):
        table.add_column(heading, justify="left" if index < left or heading == "state" else "right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    console.print(table)


def _left_out(console: Console, there: int, shown: int) -> None:
    if there > shown:
        console.print(f"... and {there - shown} more: see --json")
    console.print()


def _lost(path: PathFigures) -> str:
    return "?" if path.lost is None else _count_share(path.lost, path.loss_share)


def _count_share(count: int | None, share: float | None) -> str:
    from mrc.capture.analysis.finding import percent

    return f"{count:,} ({percent(share)})" if count and share is not None else f"{count or 0}"


def _number(value: Any, form: str) -> str:
    return "-" if value is None else format(value, form)
