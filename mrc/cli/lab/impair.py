# SPDX-License-Identifier: BSD-2-Clause
"""`mrc lab impair`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from mrc.cli.common import SHARE, Parsed, Rate, Size, json_option, note, options_named, print_json
from mrc.cli.completing import complete_link_ends, complete_links
from mrc.cli.lab.amounts import impairment_text, in_units
from mrc.cli.lab.options import name_option
from mrc.errors import CallerError
from mrc.fabric.impairment import (
    LEAST_MTU_BYTES,
    LEAST_QUEUE_BYTES,
    LEAST_RATE_BPS,
    LEAST_TRIMMED_BYTES,
    MOST_DELAY_NS,
    MOST_DSCP,
    MOST_MTU_BYTES,
    MOST_QUEUE_BYTES,
    MOST_RATE_BPS,
    MOST_TRIMMED_BYTES,
)
from mrc.fabric.units import duration_ns, duration_text


class _OffOr(click.ParamType[Any]):
    """`off` is 0; anything else is for `inner`."""

    def __init__(self, inner: click.ParamType[Any]) -> None:
        self.name = inner.name
        self._inner = inner

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return 0 if value == "off" else self._inner.convert(value, param, ctx)


class _Time(Parsed[int]):
    """Nanoseconds: `200us`, `1.5ms`."""

    name = "time"
    kind = int

    def read(self, text: str) -> int:
        found = duration_ns(text)
        if found > MOST_DELAY_NS:
            raise CallerError(f"{text} is longer than {duration_text(MOST_DELAY_NS)}, the most")
        return found


_TIME = _OffOr(_Time())
_SHARE, _DSCP = _OffOr(SHARE), _OffOr(click.IntRange(0, MOST_DSCP))
_RATE = _OffOr(Rate(LEAST_RATE_BPS, MOST_RATE_BPS))
_QUEUE, _THRESHOLD = _OffOr(Size(LEAST_QUEUE_BYTES, MOST_QUEUE_BYTES)), _OffOr(Size(1, MOST_QUEUE_BYTES))
_TRIMMED = _OffOr(Size(LEAST_TRIMMED_BYTES, MOST_TRIMMED_BYTES))
_MTU = _OffOr(click.IntRange(LEAST_MTU_BYTES, MOST_MTU_BYTES))


@click.command()
@name_option
@json_option
@click.argument("link", shell_complete=complete_links)
@click.option(
    "--toward",
    metavar="NODE",
    shell_complete=complete_link_ends,
    help="Only packets that travel toward this end of the link.  [default: each way]",
)
@click.option("--loss", type=_SHARE, metavar="PERCENT", help="Lose this share of the packets at random: 1%.")
@click.option("--rate", "rate_bps", type=_RATE, metavar="RATE", help="Limit the link to this rate: 1gbit, 200mbit.")
@click.option(
    "--queue", "queue_bytes", type=_QUEUE, metavar="SIZE", help="How much may wait in the queue of the rate: 400KB."
)
@click.option(
    "--ecn-at",
    "ecn_at_bytes",
    type=_THRESHOLD,
    metavar="SIZE",
    help="Mark congestion experienced while more than this waits: 100KB. Nothing is marked toward a host.",
)
@click.option(
    "--trim-at",
    "trim_at_bytes",
    type=_THRESHOLD,
    metavar="SIZE",
    help="Trim MRC packets while more than this waits: 200KB.",
)
@click.option(
    "--trim-to",
    "trim_to_bytes",
    type=_TRIMMED,
    metavar="SIZE",
    help="What is kept of a trimmed packet, in bytes of the frame: 256. Smaller ones pass uncut.  [default: the "
    "headers through the BTH and the 8 bytes after it]",
)
@click.option(
    "--trim-dscp",
    type=_DSCP,
    metavar="0..63",
    help="The codepoint of packets trimmed here.  [default: 12]",
)
@click.option(
    "--trim-dscp-lasthop",
    type=_DSCP,
    metavar="0..63",
    help="The codepoint of packets trimmed toward a host.  [default: 16]",
)
@click.option("--duplicate", type=_SHARE, metavar="PERCENT", help="Send this share of the packets twice: 1%.")
@click.option("--corrupt", type=_SHARE, metavar="PERCENT", help="Flip one bit in this share of the MRC packets: 1%.")
@click.option("--delay", "delay_ns", type=_TIME, metavar="TIME", help="Deliver every packet so much later: 200us, 5ms.")
@click.option(
    "--jitter",
    "jitter_ns",
    type=_TIME,
    metavar="TIME",
    help="And up to so much later still, drawn for each packet: 100us. The order is kept.",
)
@click.option(
    "--reorder",
    type=_SHARE,
    metavar="PERCENT",
    help="Only this share of the packets takes the jitter, and later ones overtake them: 5%.",
)
@click.option("--mtu", "mtu_bytes", type=_MTU, metavar="BYTES", help="The largest IP packet that is sent: 1500.")
@click.option("--clear", is_flag=True, help="Remove all impairments of the link.")
def impair(name: str, as_json: bool, link: str, toward: str | None, clear: bool, **changes: float | int | None) -> None:
    """Impair a link while traffic runs: loss, a rate, marks, trims, duplicates, corruption, delay, an MTU.

    `mrc lab status` shows the counters.

    Settings that are not given stay as they are. `off` removes one impairment, --clear removes all; --rate off also
    removes the queue. Queue sizes are bytes of whole frames. Without --queue one is chosen: 5 ms of the rate, at least
    64 KiB.

    A plain --delay is the kernel's netem where there is one. Else, and for --jitter, a process of the lab holds the
    packets: some ten thousand a second, and delays from 100us up.

    Loss, rate, delay and MTU work in every lab. The rest needs eBPF, which only root outside any user namespace has;
    `mrc doctor` checks it.

    \b
    Examples:
      mrc lab impair p0l0-p0s1 --loss 1%
      mrc lab impair p0l0-p0s1 --toward p0s1 --rate 1gbit --queue 400KB --ecn-at 100KB --trim-at 200KB
      mrc lab impair p0l0-p0s1 --rate 1gbit --trim-at 200KB --trim-to 256 --trim-dscp 48
      mrc lab impair p0l0-p0s1 --duplicate 0.1% --corrupt 0.1%
      mrc lab impair p0l0-p0s1 --delay 1ms --jitter 200us --reorder 5%
      mrc lab impair p0l0-p0s1 --mtu 1500
      mrc lab impair p0l0-p0s1 --loss off
      mrc lab impair p0l0-p0s1 --clear
    """
    from mrc.fabric import Impairment
    from mrc.lab import Lab

    given = {field: value for field, value in changes.items() if value is not None}
    if clear and given:
        raise click.UsageError("--clear removes all impairments: give either --clear or what to change")
    if not clear and not given:
        raise click.UsageError("name what to change (--loss, --rate, ...), or give --clear")
    with Lab.open(name) as opened:
        if clear:
            opened.clear(link, toward)
        else:
            try:
                with options_named():
                    opened.impair(link, toward=toward, **given)  # type: ignore[arg-type]
            except CallerError as error:
                # One option without another that it needs.
                if str(error).startswith("--"):
                    raise click.UsageError(str(error)) from None
                raise
        known = opened.topology.link(link)
        ends = [toward] if toward else [known.lower, known.upper]
        now = {node: opened.impairment(link, node) for node in ends}
        hosts = set(opened.topology.hosts)
    if given.get("ecn_at_bytes") and (unmarked := [node for node in ends if node in hosts]):
        note(f"toward {unmarked[0]} nothing is marked: a mark concerns a path, not a receiver")
    if as_json:
        changed = asdict(Impairment()) if clear else given
        impairments = {node: dict(in_units(*item) for item in asdict(each).items()) for node, each in now.items()}
        document = {"name": name, "link": known.name, "toward": ends}
        print_json({**document, **dict(in_units(*item) for item in changed.items()), "impairments": impairments})
        return
    for node, each in now.items():
        click.echo(f"{known.name} toward {node}: {impairment_text(each, marks=node not in hosts)}")
