# SPDX-License-Identifier: BSD-2-Clause
"""`mrc ctl`: see and steer running endpoints. One module for each group of its commands."""

from __future__ import annotations

import click

from mrc.cli.commands import ErrorGroup
from mrc.cli.ctl.endpoints import list_endpoints
from mrc.cli.ctl.events import events
from mrc.cli.ctl.evs import ev
from mrc.cli.ctl.metrics import metrics
from mrc.cli.ctl.ports import ports
from mrc.cli.ctl.probes import probe
from mrc.cli.ctl.profiles import profile


@click.group(cls=ErrorGroup)
def ctl() -> None:
    """See and steer the endpoints that run on this machine: `mrc recv`, `mrc send`, `mrc bench`, your own programs.

    Endpoints are found automatically, also those inside a lab; no namespace has to be entered. If there are several,
    name one with --endpoint: by its PID, its name (h0, or mrc/h0) or an address; or name `all`. An endpoint controls
    only the packets that it sends. To take a path out of use in both directions, deny it at both ends. Root may control
    every endpoint, other users their own.

    \b
    Examples:
      mrc ctl list
      mrc ctl ev list --endpoint h0
      mrc ctl ev deny p0s1 --endpoint all
      mrc ctl ev deny --from deny.json
      mrc ctl probe h1 --endpoint h0
      mrc ctl events --json
      mrc ctl ports down 1 --endpoint h0
      mrc ctl metrics --listen 127.0.0.1:9632
      mrc ctl profile load four-paths.yaml --endpoint h0
    """


for command in (list_endpoints, profile, ev, probe, events, ports, metrics):
    ctl.add_command(command)
