# SPDX-License-Identifier: BSD-2-Clause
"""`mrc map`: what is wrong with a fabric, from probes that travel in loops."""

from __future__ import annotations

import click

from mrc.cli.commands import ErrorGroup
from mrc.cli.map.agent import agent
from mrc.cli.map.serve import serve
from mrc.cli.map.show import show


@click.group("map", cls=ErrorGroup)
def map_group() -> None:
    """Find the faulty link, switch or host port of a fabric by probes.

    An agent on each host sends probes over leaves and spines back to itself. `serve` collects the agents' reports,
    names what is faulty, keeps history and serves a page. The switches only have to forward by uSIDs.

    \b
    Examples:
      mrc lab up --leaves 4
      mrc map serve &                      the picture is at http://127.0.0.1:8633/
      mrc map agent --all &
      mrc lab cut p0l0-p0s1
      mrc map show
    """


for command in (agent, serve, show):
    map_group.add_command(command)
