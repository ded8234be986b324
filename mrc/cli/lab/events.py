# SPDX-License-Identifier: BSD-2-Clause
"""`mrc lab events`."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING

import click

from mrc.cli.common import DURATION, Parsed, interrupted, json_option, note, print_json
from mrc.cli.lab.options import name_option
from mrc.errors import CallerError

if TYPE_CHECKING:
    from mrc.fabric.events import FabricEvent

_AGO = re.compile(r"[\d.]+\s*(ms|s|m|h)?\Z")


class Moment(Parsed[int]):
    """Nanoseconds since 1970: so long ago (`30s`), or a date and time (`2026-11-21 19:30:05`, local without a zone)."""

    name = "moment"
    kind = int

    def read(self, text: str) -> int:
        if _AGO.match(text):
            return time.time_ns() - round(DURATION.read(text) * 1e9)
        try:
            return round(datetime.fromisoformat(text).timestamp() * 1e9)
        except (ValueError, OverflowError, OSError):
            known = "a duration such as 30s nor a time such as 2026-11-21T19:30:05"
            raise CallerError(f"{text!r} is neither {known}") from None


@click.command()
@name_option
@json_option
@click.option("--jsonl", "as_lines", is_flag=True, help="One JSON object a line: what `mrc analyze --events` reads.")
@click.option(
    "--follow", is_flag=True, help="Also show new events as they come, until Ctrl-C or the lab is taken down."
)
@click.option(
    "--since", type=Moment(), metavar="AGO|TIME", help="Only events since then: 30s, 5m, 2026-11-21T19:30:05."
)
def events(name: str, as_json: bool, as_lines: bool, follow: bool, since: int | None) -> None:
    """Show what was done to a lab and when: built, cut, healed, impaired, flapped.

    Times are those of the wall clock, as in a capture; --json and --jsonl also have CLOCK_MONOTONIC's, as in a trace.
    The log is removed with the lab: keep a copy with --jsonl.

    \b
    Examples:
      mrc lab events
      mrc lab events --follow
      mrc lab events --since 5m --json
      mrc lab events --jsonl > events.jsonl && mrc analyze h0.pcap --events events.jsonl --out report
    """
    from mrc.lab import Lab

    if as_json and (follow or as_lines):
        raise click.UsageError("--json prints one document: use --jsonl, one object a line")
    log = Lab.open(name).events
    if follow:
        try:
            _print(log.follow(), since, as_lines)
        except KeyboardInterrupt:
            raise interrupted() from None
        note(f"lab {name} is gone")
        return
    found, damaged = log.read()
    if damaged:
        note(f"{damaged} damaged lines of {log.path} are left out")
    if as_json:
        chosen = [each.to_json() for each in found if since is None or each.at_unix_ns >= since]
        print_json({"name": name, "damaged_lines": damaged, "events": chosen})
    else:
        _print(found, since, as_lines)


def _print(found: Iterable[FabricEvent], since: int | None, as_lines: bool) -> None:
    for event in found:
        if since is None or event.at_unix_ns >= since:
            click.echo(json.dumps(event.to_json()) if as_lines else describe(event))


def describe(event: FabricEvent) -> str:
    """One line: local date and time to the microsecond, then what was done."""
    whole, rest = divmod(event.at_unix_ns, 1_000_000_000)
    when = datetime.fromtimestamp(whole).astimezone()
    return f"{when:%Y-%m-%d %H:%M:%S}.{rest // 1000:06d}  {event.words}"
