"""`mrc ctl`: see and steer running endpoints. One module for each group of its commands."""

from __future__ import annotations

import click

from mrc.cli.commands import ErrorGroup
from mrc.cli.ctl.endpoints import list_endpoints
from mrc.cli.ctl.events import events
from mrc.cli.ctl.evs import ev
from mrc.cli.ctl.ports import ports
from mrc.cli.ctl.probes import probe
from mrc.cli.ctl.profiles import profile


@click.group(cls=ErrorGroup)
def ctl() -> None:
    """See and steer the endpoints that run on this machine: `mrc recv`, `mrc send`, `mrc bench`, your own programs.

    It finds them by itself, those inside a lab too, whose namespaces need not be entered. With several of them, say
    which with --endpoint: a PID, a name (h0, or mrc/h0), an address, or `all`. An endpoint steers the packets it sends
    itself: to take a path out of use in both directions, tell both ends. Needs root, or the endpoint's own user.

    \b
    Examples:
      mrc ctl list
      mrc ctl ev list --endpoint h0
      mrc ctl ev deny p0s1 --endpoint all
      mrc ctl ev deny --from deny.json
      mrc ctl probe h1 --endpoint h0
      mrc ctl events --json
      mrc ctl ports down 1 --endpoint h0
      mrc ctl profile load four-paths.yaml --endpoint h0
    """


for command in (list_endpoints, profile, ev, probe, events, ports):
    ctl.add_command(command)
