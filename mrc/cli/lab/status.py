# SPDX-License-Identifier: BSD-2-Clause
"""`mrc lab status`: once, or again every second."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING

import click

from mrc.cli.common import interrupted, json_option, print_json
from mrc.cli.completing import complete_status_targets
from mrc.cli.lab.options import name_option
from mrc.cli.lab.status_tables import hosts_table, link_tables

if TYPE_CHECKING:
    from mrc.lab import Lab
    from mrc.lab.status import LabStatus

_REFRESH_S = 1.0


@click.command()
@name_option
@click.option("--watch", is_flag=True, help="Refresh every second, with rates in Gbit/s, until Ctrl-C.")
@json_option
@click.argument("targets", metavar="[NODE|LINK|plane:N|KIND]...", nargs=-1, shell_complete=complete_status_targets)
def status(name: str, watch: bool, as_json: bool, targets: tuple[str, ...]) -> None:
    """Show hosts, switches and links with their counters. Packets and bytes are counted where they arrive.

    With names only what they name: a node and its links, a link, a plane, or all of a KIND: hosts, leaves, spines,
    switches.

    For an impaired direction it also counts the packets lost at random. At its sending end it counts packets marked,
    trimmed, duplicated, corrupted and dropped at a full queue, and shows how much waits in the queue now and the most
    that ever waited.

    \b
    Examples:
      mrc lab status
      mrc lab status h0
      mrc lab status spines --watch
      mrc lab status p0l0-p0s1 --json
    """
    from mrc.lab import Lab

    if watch and as_json:
        raise click.UsageError("--watch shows tables only: leave out --json, or run --json repeatedly")
    with Lab.open(name) as opened:
        if watch:
            with suppress(KeyboardInterrupt):
                _watch(opened, targets)
            raise interrupted()
        if as_json:
            print_json(_of(opened, targets).to_json())
        else:
            _show(opened, targets)


def _of(lab: Lab, targets: Sequence[str]) -> LabStatus:
    found = lab.status()
    return found.only(targets, lab.topology) if targets else found


def _show(lab: Lab, targets: Sequence[str]) -> None:
    from rich.console import Console

    console = Console()
    found = _of(lab, targets)
    console.print(*([hosts_table(found)] if found.hosts else []), *link_tables(found))


def _watch(lab: Lab, targets: Sequence[str]) -> None:
    """Show tables until interrupted, on what is no terminal one set after another."""
    from rich.console import Console, Group
    from rich.live import Live

    console = Console()
    live = Live(console=console, auto_refresh=False, vertical_overflow="ellipsis")
    with live if console.is_terminal else nullcontext():
        before, before_s = _of(lab, targets), time.monotonic()
        due_s = before_s
        while True:
            due_s = max(due_s + _REFRESH_S, time.monotonic())
            time.sleep(max(due_s - time.monotonic(), 0))
            found, found_s = _of(lab, targets), time.monotonic()
            tables = link_tables(found, before, found_s - before_s, console.height if console.is_terminal else None)
            before, before_s = found, found_s
            if console.is_terminal:
                live.update(Group(*tables), refresh=True)
            else:
                console.print(*tables)
