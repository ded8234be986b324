"""How `send`, `recv` and `demo` show a finished transfer."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from mrc.untrusted import printable

if TYPE_CHECKING:
    from mrc.net.transfer.report import TransferReport


def retransmissions(report: TransferReport) -> str:
    """What was sent again, and how much of it was spurious: by both ends' counts, or else as the sender noticed."""
    known = "of them spurious" if report.duplicates_received is not None else "noticed as spurious by the sender"
    return f"{report.retransmitted_packets} packets retransmitted, {report.spurious_retransmissions} {known}"


def print_report(report: TransferReport, *, err: bool = False) -> None:
    """Bytes, seconds, Gbit/s, retransmissions and sums, for people."""
    # Each of many senders pays for each module before it sends.
    from mrc.report.units import goodput_text, size_text

    for file in report.files:
        verdict = "sums agree" if file.sha256_match else "SUMS DIFFER, discarded"
        click.echo(f"{printable(file.name)}  {size_text(file.bytes)}  sha256 {file.sha256}  {verdict}", err=err)
    click.echo(
        f"{report.bytes} bytes in {report.seconds:.3f} s: {goodput_text(report.goodput_gbps)}, "
        f"{retransmissions(report)}",
        err=err,
    )


def print_paths(report: TransferReport) -> None:
    """A table of what each path carried."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=None, box=None, pad_edge=False)
    for heading, justify in (("EV", "left"), ("plane", "right"), ("spine", "right"), ("packets", "right")):
        table.add_column(heading, justify="left" if justify == "left" else "right")
    table.add_column("lost", justify="right")
    table.add_column("state")
    for path in report.paths:
        # -1: the network chooses, by a hash.
        spine = str(path.spine) if path.spine >= 0 else "-"
        table.add_row(f"{path.ev:#010x}", str(path.plane), spine, str(path.packets), str(path.lost), path.state)
    Console(file=sys.stdout, highlight=False).print(table)
