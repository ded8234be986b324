"""`mrc lab cut` and `heal`."""

from __future__ import annotations

import click

from mrc.cli.common import json_option, print_json
from mrc.cli.lab.options import name_option


@click.command()
@name_option
@json_option
@click.argument("targets", metavar="LINK|NODE|plane:N ...", nargs=-1, required=True)
def cut(name: str, as_json: bool, targets: tuple[str, ...]) -> None:
    """Break cables: one link, every link of a switch or host, or a whole plane.

    The upper end is set down and the lower end loses carrier.

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
@click.argument("targets", metavar="LINK|NODE|plane:N ...", nargs=-1, required=True)
def heal(name: str, as_json: bool, targets: tuple[str, ...]) -> None:
    """Mend cables, with every address, neighbour and route that the cut took away.

    \b
    Examples:
      mrc lab heal p0l0-p0s1
      mrc lab heal plane:1
    """
    _cut_or_heal("heal", name, as_json, targets)


def _cut_or_heal(what: str, name: str, as_json: bool, targets: tuple[str, ...]) -> None:
    from mrc.lab import Lab

    opened = Lab.open(name)
    try:
        # Every target is looked up first, so that a misspelt one changes nothing.
        links = {target: [link.name for link in opened.links_of(target)] for target in targets}
        act = opened.cut if what == "cut" else opened.heal
        done = [{"target": target, "links": links[target], "at_monotonic_ns": act(target)} for target in targets]
    finally:
        opened.close()
    if as_json:
        print_json({"name": name, what: done})
    else:
        for entry in done:
            click.echo(f"{what}: {' '.join(links[str(entry['target'])])}")
