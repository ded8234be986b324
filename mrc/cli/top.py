# SPDX-License-Identifier: BSD-2-Clause
"""`mrc top`: running endpoints as they are now."""

from __future__ import annotations

import dataclasses
import os
import time
from typing import TYPE_CHECKING, Any

import click

from mrc.cli.common import DURATION, json_option, print_json
from mrc.cli.completing import complete_one_endpoint
from mrc.errors import CallerError

if TYPE_CHECKING:
    from mrc.net.control.client import FoundEndpoint
    from mrc.top.figures import Picture
    from mrc.top.watching import Watch

_ONCE_HEIGHT = 100
# A pipe or a file has no width to fit.
_FILE_WIDTH = 200


@click.command()
@click.option(
    "--endpoint",
    "-e",
    "wanted",
    metavar="WHO",
    shell_complete=complete_one_endpoint,
    help="Only this one: its PID, its host's name (h0, or mrc/h0 with the lab's name) or one of its addresses.",
)
@click.option(
    "--interval", "interval_s", type=DURATION, default="1s", show_default=True, help="Time between two updates."
)
@click.option("--once", is_flag=True, help="Print one snapshot, of one interval, and end.")
@json_option
def top(wanted: str | None, interval_s: float, once: bool, as_json: bool) -> None:
    """Show running endpoints live: QPs with goodput, window and RTT; planes and EVs with state, losses and marks; the
    latest events. Keys deny and allow an EV.

    Endpoints on this machine are found automatically, also those inside labs. Only root sees the endpoints of other
    users. With --json, or if standard output is no terminal, one snapshot is printed.

    \b
    Keys:
      up, down, page up, page down, home, end      choose an EV
      k, j, Ctrl-B, Ctrl-F, Ctrl-U, Ctrl-D, g, G   the same as in vi
      d, a                                         deny it, allow it
      tab                                          the next endpoint
      p, q                                         pause, quit

    \b
    Examples:
      mrc top
      mrc top --endpoint h0 --interval 250ms
      mrc top --once
      mrc top --json | jq '.endpoints[].paths[] | select(.state != "good")'
    """
    import sys

    if interval_s <= 0:
        raise click.UsageError("--interval must be above 0")
    from mrc.top.watching import Watch

    watch = Watch(lambda: _found(wanted)[0])
    try:
        if as_json or once or not sys.stdout.isatty():
            _print_once(watch, wanted, interval_s, as_json)
            return
        from rich.console import Console

        from mrc.top.live import run

        run(watch, Console(), interval_s)
    finally:
        watch.close()


def _found(wanted: str | None) -> tuple[list[FoundEndpoint], str]:
    """The endpoints meant, and why others could not be asked, if any."""
    from mrc.net.control.client import endpoints

    search = endpoints()
    return [each for each in search.found if wanted is None or each.is_called(wanted)], search.reasons_in_short


def _print_once(watch: Watch, wanted: str | None, interval_s: float, as_json: bool) -> None:
    watch.search()
    watch.look()
    time.sleep(interval_s if watch.watched else 0)
    pictures = watch.look()
    if as_json:
        print_json({"interval_s": interval_s, "endpoints": [_document(each) for each in pictures]})
        return
    if not pictures:
        found, silent = _found(None)
        others = ", ".join(map(str, found)) if wanted else ""
        which = f"no endpoint {wanted} runs here" if wanted else "no endpoint runs here"
        hint = "mrc recv, mrc send and mrc bench serve are some; other users' only root can see"
        not_asked = f"; not asked: {silent}" if silent else ""
        raise CallerError((f"{which}: there are {others}" if others else f"{which}: {hint}") + not_asked)
    from rich.console import Console

    from mrc.top.screen import View, screen

    console = Console()
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _FILE_WIDTH
    for number in range(len(pictures)):
        console.print(screen([pictures[number]], 0, View(keys=False), _ONCE_HEIGHT))


def _document(each: Picture) -> dict[str, Any]:
    return dataclasses.asdict(each)
