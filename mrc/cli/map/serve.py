# SPDX-License-Identifier: BSD-2-Clause
"""`mrc map serve`."""

from __future__ import annotations

import re
from pathlib import Path

import click

from mrc.cli.common import Duration, ignore_signals, interrupted, note
from mrc.cli.lab.options import name_option
from mrc.cli.listen import Listen
from mrc.cli.map.places import LabIsGone, OnHost, history_of, socket_of
from mrc.cli.map.show import fault_line

_DAY_S = 86400.0


class Days(Duration):
    """A duration, in days too: `7d`."""

    def read(self, text: str) -> float:
        match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*d", text)
        return float(match[1]) * _DAY_S if match else super().read(text)


@click.command()
@name_option
@click.option(
    "--listen",
    type=Listen(),
    default="127.0.0.1:8633",
    show_default=True,
    metavar="ADDRESS:PORT",
    help="Address of the page.",
)
@click.option(
    "--history",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Where to keep history. [default: in the lab's directory, removed with the lab]",
)
@click.option("--keep", type=Days(), default="7d", show_default=True, help="How long history is kept: 12h, 7d.")
@click.option(
    "--deny-list",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Keep a deny list for `mrc ctl ev deny --from` in this file: the EVs that pass a faulty part.",
)
def serve(name: str, listen: tuple[str, int], history: Path | None, keep: float, deny_list: Path | None) -> None:
    """Collect the agents' reports, name what is faulty, keep history and serve a page, until Ctrl-C or the lab is gone.

    The page is at /, the same as JSON at /map.json, metrics for Prometheus at /metrics. Anyone who reaches the
    address may read them; nothing can be changed there.

    \b
    Examples:
      mrc map serve
      mrc map serve --name wide --listen 127.0.0.1:9000 --history map.sqlite
      mrc map serve --deny-list deny.json
    """
    from mrc.errors import CallerError
    from mrc.lab import Lab
    from mrc.map.service import MapService

    with Lab.open(name) as lab:
        topology = lab.topology
    if topology.mode not in ("srv6", "srv6-srh"):
        raise CallerError(f"lab {name} is in {topology.mode} mode: probes find their way by uSIDs alone")
    over = LabIsGone(name)
    service = MapService(
        name,
        topology,
        socket_of(name),
        history or history_of(name),
        listen,
        deny_path=deny_list,
        keep_s=keep,
        is_on_host=OnHost(name),
        on_change=lambda fault: note(fault_line(fault)),
    )
    host = f"[{service.http.host}]" if ":" in service.http.host else service.http.host
    note(f"the map of {name} is at http://{host}:{service.http.port}/; agents: mrc map agent --all --name {name}")
    try:
        service.run(over)
        note(f"lab {name} is gone")
    except KeyboardInterrupt:
        ignore_signals()
        raise interrupted() from None
    finally:
        service.close()
