# SPDX-License-Identifier: BSD-2-Clause
"""`mrc lab shell`."""

from __future__ import annotations

import os
import sys

import click

from mrc.cli.common import note
from mrc.cli.completing import complete_command


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("command", nargs=-1, type=click.UNPROCESSED, shell_complete=complete_command)
def shell(command: tuple[str, ...]) -> None:
    """Run COMMAND, or a shell, where every `mrc lab` command works without root. Ends with its exit status.

    It gets its own network and its own /run. As an ordinary user it also gets a user namespace, in which it looks like
    root. Labs made inside are visible inside only. When it ends, everything started inside ends, in the background too,
    and the labs with it. Your files stay accessible.

    \b
    Examples:
      mrc lab shell
      mrc lab shell -- sh -c 'mrc lab up && mrc lab exec h0 -- ping -c 3 fd4d:5243::2'
    """
    from mrc.cli.isolation import isolate, loopback_up
    from mrc.cli.lab.household import run_household
    from mrc.lab.processes import SHELL_VARIABLE

    isolate()
    loopback_up()
    os.environ[SHELL_VARIABLE] = str(os.getpid())
    argv = command or (os.environ.get("SHELL") or "/bin/sh",)
    if not command and sys.stdin.isatty():
        note("a network and a /run of its own: `mrc lab up` works here; labs end with this shell")
    raise click.exceptions.Exit(run_household(argv))
