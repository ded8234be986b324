# SPDX-License-Identifier: BSD-2-Clause
"""`mrc ctl metrics`."""

from __future__ import annotations

import time

import click

from mrc.cli.common import interrupted, note
from mrc.cli.listen import Listen

_TURN_S = 3600.0


@click.command()
@click.option(
    "--listen", type=Listen(), metavar="ADDRESS:PORT", help="Serve them at /metrics until Ctrl-C: 127.0.0.1:9632."
)
def metrics(listen: tuple[str, int] | None) -> None:
    """Print what all endpoints of this machine count, as metrics for Prometheus; with --listen serve them.

    Each scrape looks for endpoints anew and asks them, so nothing has to be started with them. Anyone who reaches the
    address may read. docs/control.md lists the metrics; docs/grafana/mrc.json is a dashboard for Grafana.
    Needs the extra: pip install 'softmrc[metrics]'.

    \b
    Examples:
      mrc ctl metrics
      mrc ctl metrics --listen 127.0.0.1:9632
      mrc ctl metrics > /var/lib/prometheus/node-exporter/mrc.prom
    """
    from mrc.net.control.client import endpoints
    from mrc.report.prometheus import check_prometheus_client

    check_prometheus_client()
    from mrc.top.metrics import text

    if listen is None:
        click.echo(text(endpoints), nl=False)
        return
    from mrc.report.pages import PROMETHEUS, PageServer

    host, port = listen
    server = PageServer(host, port, {"/metrics": lambda: (text(endpoints).encode(), PROMETHEUS)})
    shown = f"[{host}]" if ":" in host else host
    note(f"metrics are at http://{shown}:{server.port}/metrics")
    try:
        while True:
            time.sleep(_TURN_S)
    except KeyboardInterrupt:
        server.close()
        raise interrupted() from None
