"""`mrc lab`: fabrics of network namespaces, from the command line."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from mrc.cli.common import LOSS, ErrorGroup, json_option, print_json

if TYPE_CHECKING:
    from mrc.lab.status import LabStatus

F = TypeVar("F", bound=Callable[..., Any])


def _name_option(function: F) -> F:
    return click.option("--name", default="mrc", show_default=True, help="Which lab.")(function)


@click.group(cls=ErrorGroup)
def lab() -> None:
    """A fabric of network namespaces on this machine, with the kernel as its SRv6 switches.

    Hosts are h0, h1, ...; leaves p0l0 (plane 0, leaf 0); spines p0s0; links are named by their two ends:
    p0l0-p0s1, h0-p0l0. Needs root, or `unshare --user --map-root-user --net --mount` with a tmpfs on /run.

    \b
    Examples:
      mrc lab up
      mrc lab exec h0 -- tshark -i p0
      mrc lab cut p0l0-p0s1
      mrc lab heal p0l0-p0s1
      mrc lab impair p1l0-p1s2 --loss 1%
      mrc lab down
    """


@lab.command()
@click.option("--planes", default=2, show_default=True, help="Independent planes, 1 to 16.")
@click.option("--leaves", default=2, show_default=True, help="Leaves in each plane, 1 to 256.")
@click.option("--spines", default=4, show_default=True, help="Spines in each plane, 1 to 256.")
@click.option("--hosts-per-leaf", default=1, show_default=True, help="Hosts on each leaf.")
@click.option("--mtu", default=4400, show_default=True, help="Bytes a link carries, outer IPv6 header included.")
@_name_option
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


@lab.command()
@_name_option
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


@lab.command("list")
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


@lab.command()
@_name_option
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


@lab.command("exec", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@_name_option
@click.argument("node")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def execute(name: str, node: str, command: tuple[str, ...]) -> None:
    """Run COMMAND on a host or switch, with this terminal, and end with its exit status.

    On a host MRC_FABRIC names the file that describes the fabric it is on. Options of this command come before NODE.

    \b
    Examples:
      mrc lab exec h0 -- iperf3 -s
      mrc lab exec h0 -- tshark -i p0 -c 10
      mrc lab exec --name wide p0s1 -- ip -6 route
    """
    from mrc.lab import Lab

    # The parser leaves the `--` in when NODE comes before it.
    argv = command[1:] if command[0] == "--" else command
    if not argv:
        raise click.UsageError("what is to run? Put a command after the node")
    Lab.open(name).become(node, argv)


@lab.command()
@_name_option
@json_option
@click.argument("targets", metavar="LINK|NODE|plane:N ...", nargs=-1, required=True)
def cut(name: str, as_json: bool, targets: tuple[str, ...]) -> None:
    """Break cables: one link, every link of a switch or host, or a whole plane.

    The upper end is set down and the lower end loses carrier.

    \b
    Examples:
      mrc lab cut p0l0-p0s1
      mrc lab cut p0s1 h0-p1l0
      mrc lab cut plane:1
    """
    _cut_or_heal("cut", name, as_json, targets)


@lab.command()
@_name_option
@json_option
@click.argument("targets", metavar="LINK|NODE|plane:N ...", nargs=-1, required=True)
def heal(name: str, as_json: bool, targets: tuple[str, ...]) -> None:
    """Mend cables, with every address, neighbour and route that the cut took away.

    \b
    Examples:
      mrc lab heal p0l0-p0s1
      mrc lab heal plane:1
    """
    _cut_or_heal("heal", name, as_json, targets)


def _cut_or_heal(what: str, name: str, as_json: bool, targets: tuple[str, ...]) -> None:
    from mrc.lab import Lab

    opened = Lab.open(name)
    try:
        # Every target is looked up first, so that a misspelt one changes nothing.
        links = {target: [link.name for link in opened.links_of(target)] for target in targets}
        act = opened.cut if what == "cut" else opened.heal
        done = [{"target": target, "links": links[target], "at_monotonic_ns": act(target)} for target in targets]
    finally:
        opened.close()
    if as_json:
        print_json({"name": name, what: done})
    else:
        for entry in done:
            click.echo(f"{what}: {' '.join(links[str(entry['target'])])}")


@lab.command()
@_name_option
@json_option
@click.argument("link")
@click.option("--toward", metavar="NODE", help="Only what travels toward this end of the link.  [default: each way]")
@click.option("--loss", type=LOSS, metavar="PERCENT", help="Lose this share of the packets at random: 1%.")
@click.option("--clear", is_flag=True, help="Lose nothing any more.")
def impair(name: str, as_json: bool, link: str, toward: str | None, loss: float | None, clear: bool) -> None:
    """Make a link lose packets at random. `mrc lab status` counts them.

    \b
    Examples:
      mrc lab impair p0l0-p0s1 --loss 1%
      mrc lab impair p0l0-p0s1 --toward p0s1 --loss 0.5%
      mrc lab impair p0l0-p0s1 --clear
    """
    from mrc.lab import Lab

    if clear == (loss is not None):
        raise click.UsageError("say either --loss PERCENT or --clear")
    opened = Lab.open(name)
    try:
        if loss is not None:
            opened.impair(link, loss, toward)
        else:
            opened.clear(link, toward)
        known = opened.topology.link(link)
    finally:
        opened.close()
    ends = [toward] if toward else [known.lower, known.upper]
    percent = 0.0 if loss is None else loss * 100
    if as_json:
        print_json({"name": name, "link": known.name, "toward": ends, "loss_percent": percent})
    else:
        click.echo(f"{known.name} toward {' and '.join(ends)}: loses {percent:g}%")
