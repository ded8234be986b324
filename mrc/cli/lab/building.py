# SPDX-License-Identifier: BSD-2-Clause
"""`mrc lab up`, `down`, `list` and `schema`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from mrc.cli.common import complete_files, json_option, note, print_json
from mrc.cli.lab.described import described, shape_options
from mrc.cli.lab.options import name_option

if TYPE_CHECKING:
    from mrc.lab.differences import Difference

# What endpoints use where there is room.
USUAL_PATH_MTU = 4096
# How long `down` waits for the kernel to take the cables away.
CABLES_GONE_S = 10.0
MOST_SHOWN = 12


@click.command()
@click.argument("topology_file", metavar="[TOPOLOGY.yaml]", required=False, shell_complete=complete_files)
@shape_options
@click.option(
    "--fast", is_flag=True,
    help="Let eBPF programs at the switches' ports carry uSID packets, not the kernel's seg6local: same bytes, less "
    "time. Modes srv6 and srv6-srh; needs root.",
)  # fmt: skip
@name_option
@json_option
def up(topology_file: str | None, fast: bool, name: str, as_json: bool, **options: Any) -> None:
    """Build a lab, from options or from a topology file. `mrc lab schema` prints the schema of such a file.

    If a lab of that name is up already and was built from the same description, nothing is changed. Each difference
    from the description is then reported with the command that repairs it; the exit status is 1 if there is one.

    \b
    Examples:
      mrc lab up
      mrc lab up --name wide --planes 4 --spines 8
      mrc lab up --leaves 4 --hosts-per-leaf 2 --mode ecmp --json
      mrc lab up rail.yaml
      mrc lab up --fast
    """
    from mrc.fabric.room import largest_path_mtu
    from mrc.lab import Lab
    from mrc.lab.differences import commands

    name, wanted = described(topology_file, name, options)
    started = time.monotonic()
    with closing(Lab.up(name, wanted, exist_ok=True, fast=fast)) as lab:
        seconds = time.monotonic() - started
        differences = () if lab.created else lab.differences()
        remedies = commands(name, differences)
        shape = lab.topology
        if lab.replaced_crashed:
            note(f"lab {name!r} was half-built by a command that crashed: cleared it and built anew")
        path_mtu = largest_path_mtu(shape)
        if lab.created and path_mtu < USUAL_PATH_MTU:
            note(f"an MTU of {shape.mtu} bytes has room for a path MTU of {path_mtu} in mode {shape.mode}")
        if as_json:
            print_json(
                {
                    "name": name,
                    "changed": lab.created,
                    "differences": [{"where": each.where, "what": each.what} for each in differences],
                    "remedies": remedies,
                    "seconds": round(seconds, 4),
                    "mode": shape.mode,
                    "fast": lab.fast,
                    "mtu_bytes": shape.mtu,
                    "path_mtu_bytes": path_mtu,
                    "hosts": [
                        {"name": host, "addresses": list(lab.addresses(host)), "ipv4": lab.ipv4_address(host)}
                        for host in shape.hosts
                    ],
                    "switches": list(shape.leaf_switches + shape.spine_switches),
                    "links": [link.name for link in shape.links],
                }
            )
        elif lab.created or not differences:
            switches = len(shape.leaf_switches) + len(shape.spine_switches)
            how = f"in {seconds:.2f} s" if lab.created else "already up as described, nothing changed"
            click.echo(f"lab {name}: {shape.host_count} hosts, {switches} switches, {len(shape.links)} links {how}")
            for host in shape.hosts:
                click.echo(f"  {host}  {'  '.join(filter(None, (*lab.addresses(host), lab.ipv4_address(host))))}")
    if differences:
        _tell(name, differences, remedies)
        raise click.exceptions.Exit(1)


def _tell(name: str, differences: Sequence[Difference], remedies: Sequence[str]) -> None:
    note(f"lab {name} is up, but no longer as described; nothing changed:")
    for each in differences[:MOST_SHOWN]:
        note(f"  {each.where}: {each.what}")
    if differences[MOST_SHOWN:]:
        note(f"  and {len(differences) - MOST_SHOWN} more")
    note("What puts it right:")
    for command in remedies:
        note(f"  {command}")


@click.command()
@name_option
@json_option
@click.option("--kill", is_flag=True, help="First end the programs that run in it, with SIGTERM, then SIGKILL.")
def down(name: str, as_json: bool, kill: bool) -> None:
    """Take a lab down, even one whose building crashed. Only what the lab made is removed.

    A program that still runs in the lab keeps its namespace, without a name, until it ends. Such programs are listed,
    or ended with --kill. --kill also works after the lab is gone: it ends the programs that were left.

    \b
    Examples:
      mrc lab down
      mrc lab down --name wide --kill
    """
    from mrc.errors import CallerError
    from mrc.lab import Lab, lab_names, outlived
    from mrc.lab.build import Removal

    ended, still_running = outlived.end(name) if kill else [], outlived.running(name)
    # A half-built lab has had no programs in it.
    with suppress(CallerError):
        lab = Lab.open(name)
        ended += lab.end_programs() if kill else []
        still_running += lab.programs()
    if (ended or still_running) and name not in lab_names():
        removal = Removal((), ())
    else:
        removal = Lab.remove(name, CABLES_GONE_S)
    for each in ended:
        note(f"ended process {each.pid} ({each.command}) on {each.node}")
    for each in still_running:
        note(f"process {each.pid} ({each.command}) on {each.node} still runs and keeps its namespace until it ends")
    if still_running and not kill:
        note(f"`mrc lab down --name {name} --kill` ends {'it' if len(still_running) == 1 else 'them'}, also now")
    for kept in removal.kept:
        click.echo(f"left /run/netns/{kept} alone: it is not this lab's", err=True)
    if removal.cables_left:
        left = " ".join(removal.cables_left[:MOST_SHOWN]) + (" ..." if removal.cables_left[MOST_SHOWN:] else "")
        note(f"after {CABLES_GONE_S:.0f} s the kernel still has {left}: some program holds their namespaces open")
    if as_json:
        print_json(
            {
                "name": name,
                "removed": list(removal.removed),
                "kept": list(removal.kept),
                "ended": [asdict(each) for each in ended],
                "still_running": [asdict(each) for each in still_running],
                "cables_gone_s": None if removal.cables_gone_s is None else round(removal.cables_gone_s, 4),
                "cables_left": list(removal.cables_left),
            }
        )
    else:
        gone = f", their cables gone {removal.cables_gone_s:.2f} s later" if removal.cables_gone_s is not None else ""
        click.echo(f"lab {name}: {len(removal.removed)} namespaces removed{gone}")


@click.command("schema")
def schema() -> None:
    """Print the JSON schema of topology files.

    \b
    Examples:
      mrc lab schema > topology.schema.json
    """
    from mrc.fabric.structure import schema_text

    click.echo(schema_text(), nl=False)


@click.command("list")
@json_option
def list_labs(as_json: bool) -> None:
    """Show the names and states of all labs.

    A lab is up, half-built (its builder is at work, or crashed), or broken (some of its namespaces are gone). `mrc lab
    down --name NAME` removes the rest of a half-built or broken lab.

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
            with opened:
                missing = list(opened.missing())
            hosts = opened.topology.host_count
            found.append({"name": name, "state": "broken" if missing else "up", "hosts": hosts, "missing": missing})
    if as_json:
        print_json(found)
        return
    for entry in found:
        line = f"{entry['name']}  {entry['state']}"
        if gone := entry.get("missing"):
            line += f": {len(gone)} of its namespaces are gone, `mrc lab down --name {entry['name']}` removes the rest"
        click.echo(line)
    if not found:
        click.echo("no labs: `mrc lab up` builds one", err=True)
