# SPDX-License-Identifier: BSD-2-Clause
"""`mrc lab exec`."""

from __future__ import annotations

import click

from mrc.cli.completing import complete_command, complete_nodes
from mrc.cli.lab.options import name_option


@click.command("exec", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@name_option
@click.argument("node", shell_complete=complete_nodes)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, shell_complete=complete_command)
def execute(name: str, node: str, command: tuple[str, ...]) -> None:
    """Run COMMAND on a host or switch, with this terminal, and end with its exit status.

    Hosts and switches have names: `ping h1` reaches h1 in plane 0, `ping h1-p1` in plane 1. On a host MRC_FABRIC names
    the file that describes the fabric it is on; MRC_LAB is the lab's name. Options of this command come before NODE.

    \b
    Examples:
      mrc lab exec h0 -- ping h1
      mrc lab exec h0 -- iperf3 -s
      mrc lab exec h0 -- tshark -i p0 -c 10
      mrc lab exec --name wide p0s1 -- ip -6 route show table local
    """
    from mrc.lab import Lab

    # The parser leaves the `--` in when NODE comes before it.
    argv = command[1:] if command[0] == "--" else command
    if not argv:
        raise click.UsageError("no command to run: put one after the node")
    Lab.open(name).become(node, argv)
