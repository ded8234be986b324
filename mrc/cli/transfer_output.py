# SPDX-License-Identifier: BSD-2-Clause
"""How `send`, `recv` and `demo` show a finished transfer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from mrc.untrusted import printable

if TYPE_CHECKING:
    from mrc.net.transfer.report import TransferReport


def retransmissions(report: TransferReport) -> str:
    """What was sent again, and how much of it was spurious: by both ends' counts, or else as the sender noticed."""
    known = "of them spurious" if report.duplicates_received is not None else "noticed as spurious by the sender"
    return f"{report.retransmitted_packets} packets retransmitted, {report.spurious_retransmissions} {known}"


def print_report(report: TransferReport, *, err: bool = False, verbose: bool = False) -> None:
    """Print what was moved, how fast, what was sent again, and whether the sums agree. With `verbose` each file too."""
    # Each of many senders pays for each module before it sends.
    from mrc.report.units import goodput_text, size_text

    for file in report.files:
        if verbose or not file.sums_agree:
            verdict = "sums agree" if file.sums_agree else "SUMS DIFFER, discarded"
            there = f"  {size_text(file.skipped_bytes)} not sent" if file.skipped_bytes else ""
            size = size_text(file.bytes)
            click.echo(f"{printable(file.name)}  {size}  {verdict}{there}", err=err)
    files = report.files
    what = printable(files[0].name) if len(files) == 1 else f"{len(files)} files"
    skipped = f" ({size_text(report.skipped_bytes)} there already, or holes)" if report.skipped_bytes else ""
    sums = "sums agree" if report.sums_agree else "SUMS DIFFER"
    if not files:
        if not report.refused:
            click.echo("no file sent: there are none but directories", err=err)
        return
    if report.bytes and report.bytes == report.skipped_bytes:
        click.echo(f"{what}: {size_text(report.bytes)}, nothing to send: there already, or holes; {sums}", err=err)
        return
    click.echo(
        f"{what}: {size_text(report.bytes)}{skipped} in {took_text(report)}, "
        f"{goodput_text(report.goodput_gbps)}, {retransmissions(report)}, {sums}",
        err=err,
    )


def took_text(report: TransferReport) -> str:
    """How long it took. What reading, asking and summing took beside the data is named where it counts."""
    beside = f" ({report.data_seconds:.3f} s of it data)" if report.data_seconds < 0.9 * report.seconds else ""
    return f"{report.seconds:.3f} s{beside}"


def print_paths(report: TransferReport) -> None:
    """A table of what each path carried."""
    from mrc.report.terminal import make_console, plain_table

    rows = [
        (
            f"{path.ev:#010x}",
            str(path.plane),
            # -1: the network chooses, by a hash.
            str(path.spine) if path.spine >= 0 else "-",
            str(path.packets),
            str(path.lost),
            path.state,
        )
        for path in report.paths
    ]
    make_console().print(plain_table(("EV", "plane", "spine", "packets", "lost", "state"), rows, left={0, 5}))
