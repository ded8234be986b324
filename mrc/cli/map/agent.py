# SPDX-License-Identifier: BSD-2-Clause
"""`mrc map agent`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mrc.cli.common import fabric_option, ignore_signals, interrupted, load_fabric, note
from mrc.cli.lab.options import name_option
from mrc.cli.map.places import LabIsGone, socket_of

if TYPE_CHECKING:
    from mrc.child import Child
    from mrc.lab import Lab

_LOOK_S = 0.2


@click.command()
@fabric_option
@click.option("--rate", type=click.IntRange(1, 10_000), default=100, show_default=True, help="Probes a second.")
@click.option(
    "--collector",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="SOCKET",
    help="Where `mrc map serve` listens.  [default: in the directory of the lab that the fabric file names]",
)
@click.option("--all", "on_all", is_flag=True, help="Run an agent on every host of the lab, from outside the lab.")
@name_option
def agent(fabric_file: str | None, rate: int, collector: Path | None, on_all: bool, name: str) -> None:
    """Send probes from this host in loops and report which come back, until Ctrl-C.

    It needs raw sockets, so root or `mrc lab exec`. The loops go to its own leaf, to each spine, and over a spine to
    each other leaf and back over another spine. Without a collector it waits for one and sends nothing. The exit status
    is 1 when its interfaces have been gone for a few seconds, as after `mrc lab down`.

    \b
    Examples:
      mrc lab exec h0 -- mrc map agent
      mrc lab exec h0 -- mrc map agent --rate 500
      mrc map agent --all --name mrc
    """
    if on_all:
        _run_all(name, rate, collector)
        return
    from mrc.map.agent import Agent
    from mrc.map.prober import ProberConfig

    fabric = load_fabric(fabric_file)
    path = collector or socket_of(fabric.name)
    running = Agent(fabric, ProberConfig(rate=rate), path, say=lambda line: note(f"h{fabric.host}: {line}"))
    try:
        running.run()
    except KeyboardInterrupt:
        raise interrupted() from None
    finally:
        running.close()


def _run_all(name: str, rate: int, collector: Path | None) -> None:
    from mrc.errors import SystemRefused
    from mrc.lab import Lab

    lab = Lab.open(name)
    options = ["--rate", str(rate), *(["--collector", str(collector.absolute())] if collector else [])]
    started: dict[str, Child] = {}
    try:
        for host in lab.topology.hosts:
            started[host] = _start(lab, host, options)
        is_over = LabIsGone(name)
        while not any(program.ended for program in started.values()):
            if is_over():
                note(f"lab {name} is gone")
                return
            time.sleep(_LOOK_S)
        if is_over.look():
            note(f"lab {name} is gone")
            return
        ended = {host: program.status() for host, program in started.items() if program.ended}
        raise SystemRefused(
            f"the agent of {', '.join(ended)} ended with status {next(iter(ended.values()))}; the others are ended too"
        )
    except KeyboardInterrupt:
        ignore_signals()
        raise interrupted() from None
    finally:
        _end(started)
        lab.close()


def _start(lab: Lab, host: str, options: list[str]) -> Child:
    from mrc.child import python
    from mrc.lab.children import start_on

    # A session of their own, so that Ctrl-C comes to this process alone, which then ends them.
    argv = python("mrc", "map", "agent", *options)
    return start_on(lab, host, f"the agent of {host}", argv, stdout=None, stderr=None, start_new_session=True)


def _end(started: dict[str, Child]) -> None:
    for program in started.values():
        program.hang_up()
    for program in started.values():
        program.close()
