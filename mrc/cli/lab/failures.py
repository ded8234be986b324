# SPDX-License-Identifier: BSD-2-Clause
"""`mrc lab cut`, `heal` and `flap`."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from mrc.cli.common import DURATION, SHARE, interrupted, json_option, print_json
from mrc.cli.completing import complete_targets
from mrc.cli.lab.options import name_option
from mrc.cli.live_line import LiveLine

if TYPE_CHECKING:
    from mrc.lab.flap import Flapped

_TARGETS = "LINK|NODE|plane:N ..."


@click.command()
@name_option
@json_option
@click.argument("targets", metavar=_TARGETS, nargs=-1, required=True, shell_complete=complete_targets)
def cut(name: str, as_json: bool, targets: tuple[str, ...]) -> None:
    """Break cables: one link, every link of a switch or host, or a whole plane.

    The upper end is set down and the lower end loses carrier. `mrc lab events` has the times.

    \b
    Examples:
      mrc lab cut p0l0-p0s1
      mrc lab cut p0s1 h0-p1l0
      mrc lab cut plane:1
    """
    _cut_or_heal("cut", name, as_json, targets)


@click.command()
@name_option
@json_option
@click.argument("targets", metavar=_TARGETS, nargs=-1, required=True, shell_complete=complete_targets)
def heal(name: str, as_json: bool, targets: tuple[str, ...]) -> None:
    """Mend cables and restore every address, neighbour and route that the cut removed.

    \b
    Examples:
      mrc lab heal p0l0-p0s1
      mrc lab heal plane:1
    """
    _cut_or_heal("heal", name, as_json, targets)


def _cut_or_heal(what: str, name: str, as_json: bool, targets: tuple[str, ...]) -> None:
    from mrc.lab import Lab

    with Lab.open(name) as opened:
        # Every target is looked up first, so that a misspelt one changes nothing.
        links = {target: [link.name for link in opened.links_of(target)] for target in targets}
        act = opened.cut if what == "cut" else opened.heal
        done = [{"target": target, "links": links[target], "at_monotonic_ns": act(target)} for target in targets]
    if as_json:
        print_json({"name": name, what: done})
    else:
        for entry in done:
            click.echo(f"{what}: {' '.join(links[str(entry['target'])])}")


@click.command()
@name_option
@json_option
@click.option("--period", type=DURATION, default="2s", show_default=True, help="From one cut to the next: 2s, 500ms.")
@click.option(
    "--count", type=click.IntRange(min=1), default=5, show_default=True, help="How many times the targets are cut."
)
@click.option("--duty", type=SHARE, default="50%", show_default=True, help="Share of the period in which they are cut.")
@click.argument("targets", metavar=_TARGETS, nargs=-1, required=True, shell_complete=complete_targets)
def flap(name: str, as_json: bool, period: float, count: int, duty: float, targets: tuple[str, ...]) -> None:
    """Cut and heal cables in turn, COUNT times or until Ctrl-C, and leave them healed.

    All targets change at the same moments. The schedule does not drift: the k-th cut is due k periods after the first.
    `mrc lab events` has each change with its time. Exit status when interrupted: 128 plus the signal's number, so 130
    after Ctrl-C.

    \b
    Examples:
      mrc lab flap p0l0-p0s1 --period 2s --count 5
      mrc lab flap h0-p0l0 h0-p2l0 --period 500ms --duty 20%
      mrc lab flap plane:1 --count 1 --period 10s
    """
    from mrc.lab import Lab

    with Lab.open(name) as opened:
        links = [link.name for link in opened.prepare(*targets)]
        with _signals_held() as wait, _progress(period) as on_change:
            result = opened.flap(*targets, period_s=period, count=count, duty=duty, wait=wait, on_change=on_change)
    if as_json:
        plan = {"period_s": period, "count": count, "duty": duty}
        print_json({"name": name, "targets": list(targets), "links": links, **plan, **asdict(result)})
    else:
        more = f", {result.left_out} left out (this machine was too slow)" if result.left_out else ""
        latest = f"the latest change {result.latest_ns / 1e6:.1f} ms after its moment"
        click.echo(f"flap: {' '.join(links)}: {result.cycles} of {count} times{more}; {latest}")
    if result.ended != "done":
        raise interrupted("interrupted; all is healed", wait.number)


class _Held:
    """Sleeps so many seconds and returns whether one of the signals came; `number` is the first that did."""

    def __init__(self, ending: set[int]) -> None:
        self._ending = ending
        self.number: int | None = None

    def __call__(self, seconds: float) -> bool:
        came = signal.sigtimedwait(self._ending, seconds)
        if came is not None and self.number is None:
            self.number = came.si_signo
        return came is not None


@contextmanager
def _signals_held() -> Iterator[_Held]:
    """While the block runs, signals that end a command are only taken by the function it is given.

    So none comes between a cut and its heal. After one that came the command is over, and others change nothing: a user
    who presses Ctrl-C twice means it once.
    """
    ending: set[int] = {each for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP) if not _is_ignored(each)}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ending)
    wait = _Held(ending)
    try:
        yield wait
    finally:
        if wait.number is not None or wait(0):
            for number in ending:
                signal.signal(number, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _is_ignored(number: int) -> bool:
    """As `nohup` ignores SIGHUP."""
    return signal.getsignal(number) is signal.SIG_IGN


@contextmanager
def _progress(period: float) -> Iterator[Callable[[Flapped], None]]:
    """What hears of each change and shows it on stderr, if that is a terminal."""
    with LiveLine() as line:

        def on_change(change: Flapped) -> None:
            state = "down" if change.down else "up"
            left_s = (change.count - change.cycle) * period
            line.show(f"{change.cycle} of {change.count}: {state}  {left_s:.0f} s to the last cut")

        yield on_change
