"""`mrc lab up`, `down` and `list`."""

from __future__ import annotations

import time
from typing import Any

import click

from mrc.cli.common import json_option, print_json
from mrc.cli.lab.options import name_option


@click.command()
@click.option("--planes", default=2, show_default=True, help="Independent planes, 1 to 16.")
@click.option("--leaves", default=2, show_default=True, help="Leaves in each plane, 1 to 256.")
@click.option("--spines", default=4, show_default=True, help="Spines in each plane, 1 to 256.")
@click.option("--hosts-per-leaf", default=1, show_default=True, help="Hosts on each leaf.")
@click.option("--mtu", default=4400, show_default=True, help="Bytes a link carries, outer IPv6 header included.")
@name_option
@json_option
def up(planes: int, leaves: int, spines: int, hosts_per_leaf: int, mtu: int, name: str, as_json: bool) -> None:
    """Build a lab.

    \b
    Examples:
      mrc lab up
      mrc lab up --name wide --planes 4 --spines 8
      mrc lab up --leaves 4 --hosts-per-leaf 2 --json
    """
    from mrc.lab import Lab
    from mrc.topology import Clos

    started = time.monotonic()
    built = Lab.up(name, Clos(planes, leaves, spines, hosts_per_leaf, mtu))
    seconds = time.monotonic() - started
    built.close()
    shape = built.topology
    if built.replaced_crashed:
        click.echo(f"lab {name!r} was half-built by a command that crashed: cleared it and built anew", err=True)
    if as_json:
        print_json(
            {
                "name": name,
                "seconds": round(seconds, 4),
                "mtu_bytes": shape.mtu,
                "hosts": [{"name": host, "addresses": list(built.addresses(host))} for host in shape.hosts],
                "switches": list(shape.leaf_switches + shape.spine_switches),
                "links": [link.name for link in shape.links],
            }
        )
        return
    switches = len(shape.leaf_switches) + len(shape.spine_switches)
    click.echo(
        f"lab {name}: {shape.host_count} hosts, {switches} switches, {len(shape.links)} links in {seconds:.2f} s"
    )
    for host in shape.hosts:
        click.echo(f"  {host}  {'  '.join(built.addresses(host))}")


@click.command()
@name_option
@json_option
def down(name: str, as_json: bool) -> None:
    """Take a lab down, also one whose building crashed. Removes what it made and nothing else.

    \b
    Examples:
      mrc lab down
      mrc lab down --name wide
    """
    from mrc.errors import CallerError
    from mrc.lab import Lab

    try:
        still_running = Lab.open(name).processes()
    except CallerError:
        still_running = []
    removal = Lab.remove(name)
    for process, node in still_running:
        click.echo(f"process {process} on {node} is still running and keeps its namespace until it ends", err=True)
    for kept in removal.kept:
        click.echo(f"left /run/netns/{kept} alone: it is not this lab's", err=True)
    if as_json:
        processes = [{"pid": process, "node": node} for process, node in still_running]
        print_json(
            {"name": name, "removed": list(removal.removed), "kept": list(removal.kept), "still_running": processes}
        )
    else:
        click.echo(f"lab {name}: {len(removal.removed)} namespaces removed")


@click.command("list")
@json_option
def list_labs(as_json: bool) -> None:
    """Show the names of all labs.

    \b
    Examples:
      mrc lab list
      mrc lab list --json
    """
    from mrc.errors import CallerError
    from mrc.lab import Lab, lab_names

    found: list[dict[str, Any]] = []
    for name in lab_names():
        try:
            opened = Lab.open(name)
        except CallerError:
            found.append({"name": name, "state": "half-built"})
        else:
            found.append({"name": name, "state": "up", "hosts": opened.topology.host_count})
    if as_json:
        print_json(found)
        return
    for entry in found:
        click.echo(f"{entry['name']}  {entry['state']}")
    if not found:
        click.echo("no labs: `mrc lab up` builds one", err=True)
