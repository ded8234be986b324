"""What `mrc bench lab` prints with and without --suite: the machine, and a table."""

from __future__ import annotations

from collections.abc import Sequence

import click


def machine_line() -> str:
    from mrc.bench.lab_run import machine

    known = machine()
    return f"{known['cpu']}, {known['cpus']} CPUs, Linux {known['kernel']}, Python {known['python']}"


def print_table(rows: Sequence[Sequence[str]]) -> None:
    """Columns as wide as their widest cell."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
