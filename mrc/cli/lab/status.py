"""`mrc lab status`: once, or again every second."""

from __future__ import annotations

import time
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING

import click

from mrc.cli.common import interrupted, json_option, print_json
from mrc.cli.lab.options import name_option
from mrc.cli.lab.status_tables import hosts_table, link_tables

if TYPE_CHECKING:
    from mrc.lab import Lab

_REFRESH_S = 1.0


@click.command()
@name_option
@click.option("--watch", is_flag=True, help="Refresh every second, with rates in Gbit/s, until Ctrl-C.")
@json_option
def status(name: str, watch: bool, as_json: bool) -> None:
    """Show hosts, switches and links with their counters. Packets and bytes are counted where they arrive.

    For an impaired direction it also counts the packets lost at random. At its sending end it counts packets marked,
    trimmed, duplicated, corrupted and dropped at a full queue, and shows how much waits in the queue now and the most
    that ever waited.

    \b
    Examples:
      mrc lab status
      mrc lab status --watch
      mrc lab status --json
    """
    from mrc.lab import Lab

    if watch and as_json:
        raise click.UsageError("--watch shows tables only: leave out --json, or run --json repeatedly")
    opened = Lab.open(name)
    try:
        if watch:
            with suppress(KeyboardInterrupt):
                _watch(opened)
            raise interrupted()
        if as_json:
            print_json(opened.status().to_json())
        else:
            _show(opened)
    finally:
        opened.close()


def _show(lab: Lab) -> None:
    from rich.console import Console

    console = Console()
    found = lab.status()
    console.print(hosts_table(found), *link_tables(found))


def _watch(lab: Lab) -> None:
    """Show tables until interrupted, on what is no terminal one set after another."""
    from rich.console import Console, Group
    from rich.live import Live

    console = Console()
    live = Live(console=console, auto_refresh=False, vertical_overflow="ellipsis")
    with live if console.is_terminal else nullcontext():
        before, before_s = lab.status(), time.monotonic()
        due_s = before_s
        while True:
            due_s = max(due_s + _REFRESH_S, time.monotonic())
            time.sleep(max(due_s - time.monotonic(), 0))
            found, found_s = lab.status(), time.monotonic()
            tables = link_tables(found, before, found_s - before_s, console.height if console.is_terminal else None)
            before, before_s = found, found_s
            if console.is_terminal:
                live.update(Group(*tables), refresh=True)
            else:
                console.print(*tables)
