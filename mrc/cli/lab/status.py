"""`mrc lab status`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from mrc.cli.common import json_option, print_json
from mrc.cli.lab.options import name_option

if TYPE_CHECKING:
    from mrc.lab.status import LabStatus


@click.command()
@name_option
@json_option
def status(name: str, as_json: bool) -> None:
    """Show hosts, switches and links with their counters. A counter belongs to the end its packets arrive at.

    \b
    Examples:
      mrc lab status
      mrc lab status --json
    """
    from mrc.lab import Lab

    opened = Lab.open(name)
    try:
        found = opened.status()
    finally:
        opened.close()
    if as_json:
        print_json(found.to_json())
    else:
        _print_status(found)


def _print_status(found: LabStatus) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    hosts = Table("host", "addresses, one a plane", title=f"lab {found.name}, MTU {found.mtu_bytes} bytes")
    for host in found.hosts:
        hosts.add_row(host.name, "\n".join(host.addresses))
    console.print(hosts)
    links = Table("link", "state", "toward")
    for heading in ("packets", "bytes", "dropped", "loss"):
        links.add_column(heading, justify="right")
    for link in found.links:
        colour = "green" if link.state == "up" else "red"
        first = True
        for node, way in link.toward.items():
            name, state = (link.name, f"[{colour}]{link.state}[/]") if first else ("", "")
            loss = f"{way.loss_percent:g}%" if way.loss_percent else ""
            dropped = str(way.dropped_packets) if way.loss_percent else ""
            links.add_row(name, state, node, str(way.packets), str(way.bytes), dropped, loss)
            first = False
    console.print(links)
