# SPDX-License-Identifier: BSD-2-Clause
"""`mrc map show`."""

from __future__ import annotations

import json
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from mrc.cli.common import json_option, note, print_json
from mrc.cli.lab.events import Moment
from mrc.cli.lab.options import name_option
from mrc.cli.map.places import history_of, is_served, no_map_of
from mrc.errors import CallerError

# A map that is being served is written down every second.
_OLD_NS = 5_000_000_000
_SHOWN_BACK_NS = 3_600_000_000_000


@click.command()
@name_option
@json_option
@click.option(
    "--since", type=Moment(), metavar="AGO|TIME", help="Also faults that ended since then: 5m.  [default: 1h]"
)
@click.option(
    "--history",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The file that `mrc map serve --history` writes.  [default: in the lab's directory]",
)
@click.option(
    "--deny-list",
    type=click.Path(dir_okay=False, allow_dash=True, path_type=Path),
    metavar="FILE|-",
    help="Write a deny list for `mrc ctl ev deny --from` of what is faulty now.",
)
def show(name: str, as_json: bool, since: int | None, history: Path | None, deny_list: Path | None) -> None:
    """Show what is faulty now, what was faulty, and which agents report.

    Exit status 1 when no `mrc map serve` runs for that lab. What was last known is shown then, if anything.

    \b
    Examples:
      mrc map show
      mrc map show --name wide
      mrc map show --since 5m --json
      mrc map show --deny-list deny.json && mrc ctl ev deny --from deny.json
    """
    from mrc.map.history import read_history

    if as_json and deny_list == Path("-"):
        raise click.UsageError("--json and --deny-list - both want stdout")
    if history is None and not history_of(name).is_file():
        elsewhere = f"the map of lab {name} has a history of its own: name that file with --history"
        raise CallerError(elsewhere if is_served(name) else no_map_of(name))
    now = time.time_ns()
    document, past = read_history(history or history_of(name), now - _SHOWN_BACK_NS if since is None else since)
    age_ns = now - document["at_unix_ns"]
    lab = name if history is None else document["fabric"]
    is_at_work = age_ns <= _OLD_NS and is_served(lab)
    if deny_list is not None:
        _write_deny_list(document, deny_list)
    if as_json:
        print_json({**document, "age_s": round(age_ns / 1e9, 3), "is_served": is_at_work, "past": past})
    elif deny_list != Path("-"):
        _print(document, past)
        if is_at_work and not document["agents"]:
            note(f"no agent has reported yet: `mrc map agent --all --name {lab}` starts them")
    if not is_at_work:
        not_here = "`mrc map serve` is there, but is stopped or busy, or has another history: --history"
        why = not_here if is_served(lab) else no_map_of(lab)
        note(f"this is {age_ns / 1e9:.1f} s old: {why}")
        raise click.exceptions.Exit(1)


def _write_deny_list(document: dict[str, Any], path: Path) -> None:
    from mrc.fabric.shapes import shape_of
    from mrc.fabric.structure import shape_keys
    from mrc.map.deny import deny_list
    from mrc.whole_files import write_whole

    sizes = {key: document[key] for key in shape_keys() if key in document}
    odd = next((key for key, value in sizes.items() if type(value) is not (str if key == "shape" else int)), None)
    if odd is not None:
        raise CallerError(f"the history's {odd} is no size of a fabric: name another file with --history")
    shape = shape_of(sizes)
    text = json.dumps(deny_list(shape, document["faults"], document["fabric"], document["at_unix_ns"]), indent=1)
    if path == Path("-"):
        click.echo(text)
    else:
        write_whole(path, text + "\n")


def _print(document: dict[str, Any], past: list[dict[str, Any]]) -> None:
    faults, agents = document["faults"], document["agents"]
    for fault in faults:
        click.echo(fault_line(fault))
    for suspicion in document["suspicions"]:
        click.echo(f"one of {', '.join(suspicion['names'])} loses packets: not enough is known yet")
    reporting = [agent for agent in agents if not agent["silent"]]
    if not faults and not document["suspicions"]:
        click.echo("nothing is wrong" if reporting else "nothing is known")
    if past:
        click.echo("over:")
        for fault in past:
            click.echo(f"  {fault_line(fault)}")
    hosts = document["leaves"] * document["hosts_per_leaf"]
    rates = sum(agent["rate_per_s"] for agent in reporting)
    click.echo(f"{len(reporting)} of {hosts} hosts report, {rates} probes a second")
    silent = [agent["host"] for agent in agents if agent["silent"]]
    if silent:
        click.echo(f"silent: {', '.join(silent)}")
    sys.stdout.flush()


def fault_line(fault: dict[str, Any]) -> str:
    """`p0l0-p0s1 loses 2.1 % (1.2 to 3.4) toward p0s1, since 21:04:11.2, named after 9.4 s`."""
    also = f" (or {' or '.join(fault['also'])}: no loop distinguishes them)" if fault["also"] else ""
    is_over = fault["until_unix_ns"] is not None
    if fault["state"] == "down":
        switch = fault["kind"] in ("leaf", "spine", "plane")
        words = ("forwarded nothing", "forwards nothing") if switch else ("was down", "is down")
        what = words[not is_over]
    else:
        low, high = fault["loss_percent_low"], fault["loss_percent_high"]
        what = f"{'lost' if is_over else 'loses'} {fault['loss_percent']:.2g} % ({low:.2g} to {high:.2g})"
    way = f" toward {fault['toward'][0]}" if len(fault["toward"]) == 1 else ""
    named_s = (fault["named_unix_ns"] - fault["since_unix_ns"]) / 1e9
    line = f"{fault['name']}{also} {what}{way}, since {_clock(fault['since_unix_ns'])}, named after {named_s:.1f} s"
    if fault["withdrawn"]:
        return f"{line}; withdrawn at {_clock(fault['until_unix_ns'])}: it was another part"
    if fault.get("interrupted"):
        return f"{line}; not over when the map ended at {_clock(fault['until_unix_ns'])}"
    if is_over:
        return f"{line}; well again at {_clock(fault['until_unix_ns'])}"
    return line


def _clock(unix_ns: int) -> str:
    return f"{datetime.fromtimestamp(unix_ns / 1e9).astimezone():%H:%M:%S.%f}"[:-5]
