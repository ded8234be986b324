"""`mrc lab`: fabrics of network namespaces, from the command line. One module for each group of its commands."""

from __future__ import annotations

import click

from mrc.cli.common import ErrorGroup
from mrc.cli.lab.building import down, list_labs, up
from mrc.cli.lab.execute import execute
from mrc.cli.lab.failures import cut, heal
from mrc.cli.lab.impair import impair
from mrc.cli.lab.status import status


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


for command in (up, down, list_labs, status, execute, cut, heal, impair):
    lab.add_command(command)
