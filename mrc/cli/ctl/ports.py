# SPDX-License-Identifier: BSD-2-Clause
"""`mrc ctl ports`: the ports of running endpoints."""

from __future__ import annotations

from typing import Any

import click

from mrc.cli.commands import ErrorGroup
from mrc.cli.common import json_option
from mrc.cli.ctl.endpoints import answers, connected_or_host, endpoint_or_host_option, heading
from mrc.cli.ctl.tables import print_table

_COLUMNS = ("port_num", "plane", "address", "admin", "link_up", "up")


@click.group(cls=ErrorGroup)
def ports() -> None:
    """Show ports, and set them down or up. A port connects a host to one plane.

    \b
    Examples:
      mrc ctl ports show --endpoint h0
      mrc ctl ports down 1 --endpoint h0
      mrc ctl ports up 1 --endpoint h0
    """


@ports.command()
@endpoint_or_host_option
@json_option
def show(wanted: tuple[str, ...], as_json: bool) -> None:
    """Show every port: its setting, whether it has a link, and whether it is in use.

    \b
    Examples:
      mrc ctl ports show
      mrc ctl ports show --endpoint all --json
    """
    with connected_or_host(wanted) as clients, answers(as_json) as told:
        for found, client in clients:
            rows = client.request("ports")
            if told(found, ports=rows):
                heading(found, len(clients) > 1)
                print_table(_COLUMNS, rows)


@ports.command()
@click.argument("plane", type=click.IntRange(0, 15))
@endpoint_or_host_option
@json_option
def down(**options: Any) -> None:
    """Drain a plane: stop sending on it, and notify every peer to stop sending on it to this endpoint.

    Packets in flight still arrive. The link itself stays as it is.

    \b
    Examples:
      mrc ctl ports down 1 --endpoint h0
    """
    _set("down", **options)


@ports.command()
@click.argument("plane", type=click.IntRange(0, 15))
@endpoint_or_host_option
@json_option
def up(**options: Any) -> None:
    """Put a plane back into use after `down`.

    \b
    Examples:
      mrc ctl ports up 1 --endpoint h0
    """
    _set("up", **options)


def _set(admin: str, plane: int, wanted: tuple[str, ...], as_json: bool) -> None:
    with connected_or_host(wanted) as clients, answers(as_json) as told:
        for found, client in clients:
            port = client.request("port_set", plane=plane, admin=admin)
            if told(found, port=port):
                no_link = "" if port["link_up"] else ", which has no link"
                click.echo(f"{found}: port {port['port_num']} on plane {plane} is {admin}{no_link}")
