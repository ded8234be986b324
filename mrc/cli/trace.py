# SPDX-License-Identifier: BSD-2-Clause
"""`mrc trace`: traces for the viewers people have."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click

from mrc.cli.commands import ErrorGroup
from mrc.cli.common import note
from mrc.errors import CallerError, SystemRefused
from mrc.whole_files import write_whole

if TYPE_CHECKING:
    from mrc.trace.perfetto import LabEvent


@click.group(cls=ErrorGroup)
def trace() -> None:
    """Work with traces, which `mrc send`, `mrc recv` and `mrc demo` write with --trace.

    \b
    Examples:
      mrc trace export sender.trace --out sender.json
      mrc analyze sender.trace
    """


@trace.command()
@click.argument(
    "files", metavar="TRACE...", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@click.option("--perfetto", "form", flag_value="perfetto", default=True, help="For ui.perfetto.dev. [default]")
@click.option("--qlog", "form", flag_value="qlog", help="For viewers of qlog, such as qvis: one trace.")
@click.option(
    "--events", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE",
    help="Also what was done to the lab meanwhile: `mrc lab events --jsonl`. With --perfetto.",
)  # fmt: skip
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), required=True, help="Write to this file.")
def export(files: tuple[Path, ...], form: str, events: Path | None, out: Path) -> None:
    """Export traces to Perfetto's viewer or to qlog.

    --perfetto puts several traces on one time line: states of QPs and paths as bars; losses, retransmissions, probes
    and timeouts as marks; windows, rates and round trips as graphs. Open ui.perfetto.dev and drop the file on it;
    nothing is uploaded. --qlog writes one trace in qlog's schema: congestion state and losses as QUIC has them.

    \b
    Examples:
      mrc demo --trace demo.trace
      mrc trace export --perfetto demo.trace.sender demo.trace.receiver --out demo.json
      mrc trace export sender.trace --events events.jsonl --out sender.json
      mrc trace export --qlog sender.trace --out sender.sqlog
    """
    from mrc.trace import perfetto, qlog
    from mrc.trace.reader import Events, Header, read_trace

    if form == "qlog" and (len(files) > 1 or events is not None):
        raise click.UsageError("--qlog takes one trace and no --events: qlog has one vantage point a file")
    with ExitStack() as opened:
        read: list[tuple[Header, Events]] = []
        for path in files:
            stream: BinaryIO = opened.enter_context(_opened(path))
            try:
                read.append(read_trace(stream))
            except CallerError as error:
                raise CallerError(f"{path}: {error}") from None
        if form == "qlog":
            text = b"".join(qlog.records(*read[0])).decode()
        else:
            lab = _lab_events(events) if events is not None else []
            text = json.dumps(perfetto.document(read, lab), separators=(",", ":")) + "\n"
        for path, (_, found) in zip(files, read, strict=True):
            if found.skipped or found.cut or not found.ended:
                note(f"{path} is not whole: {_what_is_wrong(found)}; what is there is exported")
    write_whole(out, text)
    click.echo(out)


def _opened(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except OSError as error:
        raise SystemRefused(error.errno, f"{path}: {error.strerror}") from None


def _what_is_wrong(found: object) -> str:
    skipped, cut = getattr(found, "skipped", 0), getattr(found, "cut", False)
    said = [f"{skipped} damaged records"] if skipped else []
    return ", ".join([*said, "it ends in the middle of a record" if cut else "its end is missing"])


def _lab_events(path: Path) -> list[LabEvent]:
    from mrc.fabric.events import parse_events
    from mrc.trace.perfetto import LabEvent

    with _opened(path) as stream:
        found, damaged = parse_events(stream)
    if damaged:
        note(f"{damaged} lines of {path} are no events: `mrc lab events --jsonl` writes them")
    return [
        LabEvent(each.at_monotonic_ns, each.at_unix_ns, each.event, each.target, dict(each.details)) for each in found
    ]
