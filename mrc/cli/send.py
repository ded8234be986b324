# SPDX-License-Identifier: BSD-2-Clause
"""`mrc send`: send files."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mrc.cli.common import (
    MESSAGE_SIZE,
    PATH_MTUS,
    fabric_option,
    interrupted,
    json_option,
    note,
    print_json,
    wire_profile_option,
)
from mrc.cli.endpoint_options import (
    begin,
    fabric_for,
    line_rate_option,
    mode_options,
    profiles_option,
    trace_option,
    tracing,
)
from mrc.cli.starting import importing
from mrc.cli.tickets import FilesAndTicket
from mrc.errors import CallerError, PeerError
from mrc.report.units import size_text
from mrc.untrusted import printable

if TYPE_CHECKING:
    from mrc.net.ticket import Ticket
    from mrc.net.transfer.report import TransferReport
    from mrc.net.transfer.sender import Progress

_AGAIN_LEAST = 256
_SENT_IN_PART = 23  # as rsync ends
_SHOWN_NAME = 32


@click.command()
@click.argument("files_and_ticket", cls=FilesAndTicket, printed_by="mrc recv")
@click.option("--message-size", type=MESSAGE_SIZE, default="1MiB", show_default=True, help="Bytes per RDMA write.")
@click.option(
    "--mtu", type=PATH_MTUS,
    help="Path MTU of RDMA: payload bytes of a full packet, headers not counted. "
    "[default: 4096, or the largest the interfaces have room for]",
)  # fmt: skip
@click.option(
    "--qps",
    type=click.IntRange(1, 64),
    default=1,
    show_default=True,
    help="Connections (queue pairs) the writes are spread over, 1 to 64.",
)
@click.option(
    "--exclude",
    multiple=True,
    metavar="PATTERN",
    help="Leave out what is inside a directory and matches, by its name or its path there. May be repeated.",
)
@click.option("--name", default="stdin", show_default=True, help="What standard input (-) is called at the receiver.")
@click.option(
    "--stats",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write progress to this file, a JSON line every 5 ms.",
)
@trace_option
@profiles_option
@line_rate_option
@fabric_option
@mode_options
@wire_profile_option
@json_option
@click.option("-q", "--quiet", is_flag=True, help="Print nothing but errors.")
@click.option("-v", "--verbose", is_flag=True, help="Also print each file with its sum, paths and counters.")
def send(
    files_and_ticket: tuple[tuple[Path, ...], Ticket],
    message_size: int,
    mtu: str | None,
    qps: int,
    exclude: tuple[str, ...],
    name: str,
    stats: Path | None,
    trace: Path | None,
    profiles: Path | None,
    line_rate: int | None,
    fabric_file: str | None,
    mode: str | None,
    binds: tuple[str, ...],
    wire_options: tuple[str, ...],
    as_json: bool,
    quiet: bool,
    verbose: bool,
) -> None:
    """Send FILEs, directories and standard input (-) to the receiver that printed TICKET, over every path there is.

    Exit status 0 only when every file is complete at the receiver and both checksums agree. 23: some files could not be
    sent, each is named, and all others were. Modes, times and holes are kept; links inside a directory are not sent.
    After a transfer that broke, the same command goes on: what the receiver kept is compared block by block, and only
    the rest is sent. A file that changes while it is sent is an error. A file without a size, as in /proc, is read into
    memory first, 64 MiB at most. Needs root or CAP_NET_RAW. Without a fabric it runs in udp mode on ordinary addresses.

    \b
    Examples:
      mrc lab exec h0 -- mrc send big.iso mrc1:AbC...
      mrc lab exec h0 -- mrc send results/ notes.txt mrc1:AbC... -v
      mrc lab exec h0 -- mrc send project/ mrc1:AbC... --exclude '*.o' --exclude .git
      mrc lab exec h0 -- mrc send *.log mrc1:AbC... --mtu 1024 --qps 4
      tar c results | mrc lab exec h0 -- mrc send - mrc1:AbC... --name results.tar
      mrc lab exec h0 -- mrc send big.iso mrc1:AbC... --json
      mrc lab exec h0 -- mrc send big.iso mrc1:AbC... --trace sender.trace
      sudo mrc send big.iso mrc1:AbC... --line-rate 1gbit
      sudo mrc send big.iso mrc1:AbC... --mode udp --bind 10.0.0.1 --bind 10.1.0.1
    """
    with importing():
        from mrc.cli.transfer_output import print_paths, print_report
        from mrc.net.node import Node
        from mrc.net.transfer.names import plain_name
        from mrc.net.transfer.sender import SendOptions, send_files
        from mrc.net.transfer.tree import consignment, skipped_text
        from mrc.wire.profile import WireProfile

    files, ticket = files_and_ticket
    if quiet and (verbose or as_json):
        raise click.UsageError("--quiet prints nothing: leave out -v and --json")
    try:
        plain_name(name)
    except PeerError:
        raise click.UsageError(f"--name takes a plain file name, without directories, not {name!r}") from None
    goods = consignment(files, name, exclude)
    if goods.skipped and not quiet:
        note(skipped_text(goods))
    if not goods.files and goods.lacking:
        raise CallerError(f"nothing can be sent: {goods.lacking[0][0]}: {goods.lacking[0][1]}")
    fabric = fabric_for(fabric_file, mode, binds, ticket.addresses)
    wire = WireProfile.from_option(wire_options, fabric.mode)
    with (
        tracing(trace, "mrc send", "sender") as tracer,
        Node(fabric, wire=wire, path_mtu=int(mtu) if mtu else None, tracer=tracer, program="mrc send") as node,
    ):
        begin(node, profiles, line_rate, quiet=quiet, verbose=verbose)
        options = SendOptions(message_size=message_size, path_mtu=node.path_mtu, qps=qps, stats=stats, stdin_name=name)
        try:
            with _ProgressBar(show=sys.stderr.isatty() and not as_json and not quiet) as on_progress:
                report = send_files(node, goods, ticket, options, on_progress)
        except KeyboardInterrupt:
            raise interrupted("interrupted: the same command goes on with what the receiver keeps") from None
    if as_json:
        unread = [{"name": str(path), "why": why} for path, why in goods.lacking]
        print_json(report.to_json() | {"unread": unread})
    elif not quiet:
        print_report(report, verbose=verbose)
        if verbose:
            print_paths(report)
    if verbose:
        note(f"counters: {report.counters}")
    if not quiet and line_rate is None and profiles is None and _mostly_sent_again(report, node.path_mtu):
        note(
            f"{report.retransmitted_packets} packets were sent again: where the links carry far less than 10 Gbit/s,"
            " say so by --line-rate"
        )
    if not report.sums_agree:
        note("Error: the sums differ: the receiver discarded what arrived; send again")
    for path, why in goods.lacking:
        note(f"Error: not sent: {path}: {why}")
    for name, why in report.refused:
        note(f"Error: not sent: {name}: {why}" if len(goods.files) > 1 else f"Error: {why}")
    if not report.sums_agree or (report.refused and not report.files):
        raise click.exceptions.Exit(1)
    if goods.lacking or report.refused:
        raise click.exceptions.Exit(_SENT_IN_PART)


def _mostly_sent_again(report: TransferReport, path_mtu: int) -> bool:
    """More than a quarter of a transfer that is long enough to judge: random loss never causes that."""
    again = report.retransmitted_packets
    return again > _AGAIN_LEAST and again > report.bytes / path_mtu / 4


class _ProgressBar:
    """A line on stderr: the file at hand, how much of all is sent, the rate, the time left. Or nothing."""

    def __init__(self, *, show: bool) -> None:
        self._show = show

    def __enter__(self) -> Callable[[Progress], None]:
        if not self._show:
            return lambda progress: None
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=None),
            TextColumn("{task.fields[amount]}"),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(compact=True),
        )
        self._bar = Bar(*columns, console=Console(stderr=True), expand=True)
        with contextlib.suppress(RuntimeError):  # no further thread: then there is no bar
            self._bar.start()
        task = self._bar.add_task("", total=None, amount="", rate="")

        def advance(progress: Progress) -> None:
            speed = self._bar.tasks[0].speed
            self._bar.update(
                task,
                description=_what(progress),
                completed=progress.done,
                total=progress.total,
                amount=_amount(progress),
                rate=f"{size_text(speed)}/s" if speed else "",
            )

        return advance

    def __exit__(self, *exc: object) -> None:
        if self._show:
            self._bar.stop()


def _what(progress: Progress) -> str:
    """The file at hand, its end where the name is long, and which of how many it is."""
    name = printable(progress.file)
    name = name if len(name) <= _SHOWN_NAME else f"...{name[3 - _SHOWN_NAME :]}"
    return name if progress.files == 1 else f"{name} ({min(progress.files_done + 1, progress.files)}/{progress.files})"


def _amount(progress: Progress) -> str:
    done = size_text(progress.done)
    return done if progress.total is None else f"{done} of {size_text(progress.total)}"
