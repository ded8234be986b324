# SPDX-License-Identifier: BSD-2-Clause
"""`mrc sim`: fabrics planned and simulated. One module for each of its commands."""

from __future__ import annotations

import click

from mrc.cli.commands import ErrorGroup
from mrc.cli.sim.plan import plan
from mrc.cli.sim.plot import plot
from mrc.cli.sim.run import run
from mrc.cli.sim.schema import schema
from mrc.cli.sim.sweep import sweep


@click.group(cls=ErrorGroup)
def sim() -> None:
    """Plan large fabrics, and simulate them with the endpoints of this package.

    \b
    Examples:
      mrc sim plan 131072
      mrc sim run incast.yaml
      mrc sim plot fct incast.results
      mrc sim sweep trimming.yaml
    """


for command in (plan, run, sweep, plot, schema):
    sim.add_command(command)
