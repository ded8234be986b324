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
