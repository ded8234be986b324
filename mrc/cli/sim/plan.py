# SPDX-License-Identifier: BSD-2-Clause
"""`mrc sim plan`: what a fabric for N hosts takes, on several planes and on one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from mrc.cli.common import RATE, SIZE, json_option, options_named, print_json

if TYPE_CHECKING:
    from mrc.sim.plan import Design, Plan


@click.command()
@click.argument("hosts", type=click.IntRange(2), metavar="N")
@click.option("--planes", type=click.IntRange(1, 64), default=8, show_default=True, help="Independent planes.")
@click.option("--nic", "nic_bps", type=RATE, default="800gbit", show_default=True, help="Rate of a host, all planes.")
@click.option(
    "--switch", "switch_bps", type=RATE, default="51.2tbit", show_default=True, help="Rate of a switch, one way."
)
@click.option(
    "--optic",
    "optic_bps",
    type=RATE,
    default="800gbit",
    show_default=True,
    help="Rate of an optical module; it holds as many ports as fit.",
)
@click.option(
    "--oversubscription",
    type=click.FloatRange(1),
    default=1.0,
    show_default=True,
    help="How many times as much capacity a leaf has down as up.",
)
@click.option(
    "--switch-ns", type=click.FloatRange(0), default=600.0, show_default=True, help="What a switch adds to a packet."
)
@click.option(
    "--host-cable-m", type=click.FloatRange(0), default=3.0, show_default=True, help="From a host to its leaf."
)
@click.option(
    "--fabric-cable-m", type=click.FloatRange(0), default=50.0, show_default=True, help="From a switch to another."
)
@click.option("--packet", "packet_bytes", type=SIZE, default="4KiB", show_default=True, help="Whose latency is given.")
@click.option(
    "--store-and-forward",
    is_flag=True,
    help="Switches forward whole packets.  [default: they begin before the packet has arrived]",
)
@json_option
def plan(hosts: int, planes: int, oversubscription: float, as_json: bool, **hardware: float) -> None:
    """Show the switches, links, optics, hops and latency of a fabric for N hosts.

    Compares independent planes with a single one, each on the fewest tiers that hold N hosts. Nothing is simulated.
    Latency is one way over the most switches, without queues; its assumptions are options.

    \b
    Examples:
      mrc sim plan 131072
      mrc sim plan 65536 --planes 4
      mrc sim plan 8192 --switch 25.6tbit --nic 400gbit --optic 400gbit
      mrc sim plan 131072 --oversubscription 2 --json | jq '.designs[0].switches'
    """
    from mrc.sim.plan import Hardware
    from mrc.sim.plan import plan as plan_fabric

    with options_named():
        found = plan_fabric(hosts, planes, Hardware(**hardware), oversubscription)  # type: ignore[arg-type]
    if as_json:
        print_json(found.to_json())
        return
    from mrc.report.tables import aligned

    headings = ["", *(each.name for each in found.designs)]
    rows = [[name, *(text(each) for each in found.designs)] for name, text in _ROWS.items()]
    for line in aligned([headings, *rows], right=range(1, len(headings))):
        click.echo(line)
    click.echo()
    for line in _compared(found):
        click.echo(line)


def _by_part(counts: tuple[int, ...]) -> str:
    return " + ".join(f"{count:,}" for count in counts)


_ROWS: dict[str, Callable[[Design], str]] = {
    "hosts": lambda it: f"{it.hosts:,}",
    "hosts it has room for": lambda it: f"{it.room:,}",
    "hosts so many tiers can hold": lambda it: f"{it.most_hosts:,}",
    "ports of a switch": lambda it: f"{it.switch_ports:,}",
    "hosts on a leaf": lambda it: f"{it.hosts_per_leaf:,}",
    "switches": lambda it: f"{it.switch_count:,}",
    "  by tier, leaves first": lambda it: _by_part(it.switches),
    "links": lambda it: f"{it.link_count:,}",
    "  by level, hosts first": lambda it: _by_part(it.links),
    "optical modules": lambda it: f"{it.optics:,}",
    "switches on a path, at most": lambda it: str(it.hops),
    "paths from a host to the top": lambda it: f"{it.paths:,}",
    "latency one way, us": lambda it: f"{it.latency_ns / 1e3:.2f}",
    "one port, of a host": lambda it: f"{it.port_share:.1%}",
    "one uplink, of a leaf": lambda it: "-" if it.uplink_share is None else f"{it.uplink_share:.2%}",
}


def _compared(found: Plan) -> list[str]:
    """A line for each design but the yardstick itself."""
    yardstick = found.yardstick
    held = f"three tiers of one plane ({yardstick.hosts:,} hosts)"
    return [
        f"{each.name}: a host takes {found.switch_ratio(each):.3g} of the switches and "
        f"{found.optics_ratio(each):.3g} of the optics of {held}"
        for each in found.designs
        if each is not yardstick
    ]
