"""`mrc lab impair`."""

from __future__ import annotations

import click

from mrc.cli.common import LOSS, json_option, print_json
from mrc.cli.lab.options import name_option


@click.command()
@name_option
@json_option
@click.argument("link")
@click.option("--toward", metavar="NODE", help="Only what travels toward this end of the link.  [default: each way]")
@click.option("--loss", type=LOSS, metavar="PERCENT", help="Lose this share of the packets at random: 1%.")
@click.option("--clear", is_flag=True, help="Lose nothing any more.")
def impair(name: str, as_json: bool, link: str, toward: str | None, loss: float | None, clear: bool) -> None:
    """Make a link lose packets at random. `mrc lab status` counts them.

    \b
    Examples:
      mrc lab impair p0l0-p0s1 --loss 1%
      mrc lab impair p0l0-p0s1 --toward p0s1 --loss 0.5%
      mrc lab impair p0l0-p0s1 --clear
    """
    from mrc.lab import Lab

    if clear == (loss is not None):
        raise click.UsageError("say either --loss PERCENT or --clear")
    opened = Lab.open(name)
    try:
        if loss is not None:
            opened.impair(link, loss, toward)
        else:
            opened.clear(link, toward)
        known = opened.topology.link(link)
    finally:
        opened.close()
    ends = [toward] if toward else [known.lower, known.upper]
    percent = 0.0 if loss is None else loss * 100
    if as_json:
        print_json({"name": name, "link": known.name, "toward": ends, "loss_percent": percent})
    else:
        click.echo(f"{known.name} toward {' and '.join(ends)}: loses {percent:g}%")
