# SPDX-License-Identifier: BSD-2-Clause
"""`mrc lab`: fabrics of network namespaces, from the command line. One module for each group of its commands."""

from __future__ import annotations

import click

from mrc.cli.commands import ErrorGroup
from mrc.cli.lab.building import down, list_labs, schema, up
from mrc.cli.lab.events import events
from mrc.cli.lab.execute import execute
from mrc.cli.lab.failures import cut, flap, heal
from mrc.cli.lab.graph import export, graph
from mrc.cli.lab.impair import impair
from mrc.cli.lab.shell import shell
from mrc.cli.lab.status import status


@click.group(cls=ErrorGroup)
def lab() -> None:
    """Build and break a fabric of network namespaces, whose switches are the SRv6 code of the kernel.

    Hosts are h0, h1, ...; leaves p0l0 (plane 0, leaf 0); spines p0s0; links are named by their two ends: p0l0-p0s1,
    h0-p0l0. Needs root; as an ordinary user run `mrc lab shell` first.

    \b
    Examples:
      mrc lab up
      mrc lab exec h0 -- tshark -i p0
      mrc lab cut p0l0-p0s1
      mrc lab heal p0l0-p0s1
      mrc lab flap h0-p0l0 --period 2s --count 5
      mrc lab impair p1l0-p1s2 --loss 1%
      mrc lab events
      mrc lab graph --out lab.svg
      mrc lab down
    """


for command in (up, down, list_labs, schema, status, execute, cut, heal, flap, impair, events, graph, export, shell):
    lab.add_command(command)
