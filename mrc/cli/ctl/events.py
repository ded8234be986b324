# SPDX-License-Identifier: BSD-2-Clause
"""`mrc ctl events`: what changes at running endpoints, as it happens."""

from __future__ import annotations

import json
import select
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from mrc.cli.common import DURATION, note
from mrc.cli.ctl.endpoints import about, connected, endpoint_option, spines_of
from mrc.trace.vocabulary import EV_STATES
from mrc.untrusted import printable

if TYPE_CHECKING:
    from mrc.net.control.client import ControlClient, FoundEndpoint

_STATES = tuple(state.lower() for state in EV_STATES)


@click.command()
@click.option("--json", "as_json", is_flag=True, help="A JSON object a line, until the end.")
@click.option(
    "--state", "states", multiple=True, type=click.Choice(_STATES),
    help="Only changes of EVs to this state; may be repeated. [default: all but skip, which then counts as good]",
)  # fmt: skip
@click.option("--seconds", type=DURATION, help="End after this time. [default: until interrupted]")
@click.option(
    "--limit",
    type=click.IntRange(1, 65536),
    default=1024,
    show_default=True,
    help="Most events that wait at the endpoint.",
)
@endpoint_option
def events(as_json: bool, states: tuple[str, ...], seconds: float | None, limit: int, wanted: tuple[str, ...]) -> None:
    """Show events as they happen: EVs that change state, ports that go down or up, QPs that fail.

    It never blocks an endpoint: events that are not read in time are dropped and counted. It ends when the endpoints
    have ended.

    \b
    Examples:
      mrc ctl events
      mrc ctl events --endpoint h0 --json
      mrc ctl events --state assumed_bad --seconds 10
    """
    deadline = None if seconds is None else time.monotonic() + seconds
    with connected(wanted) as clients:
        # Events name the EV and its plane; which spine an EV passes does not change, so one look is enough.
        spines = {} if as_json else {number: spines_of(client) for number, (_, client) in enumerate(clients)}
        asked: dict[str, Any] = {"states": list(states)} if states else {}
        for _, client in clients:
            client.request("subscribe", limit=limit, **asked)
        if not as_json:
            note(f"listening to {', '.join(str(found) for found, _ in clients)}")
        left = dict(enumerate(clients))
        while left and (deadline is None or time.monotonic() < deadline):
            wait = None if deadline is None else max(0.0, deadline - time.monotonic())
            for number, (found, client) in list(left.items()):
                if not _tell(found, client, as_json, spines.get(number, {})):
                    del left[number]
            select.select([client.fileno() for _, client in left.values()], (), (), wait if left else 0)
        if deadline is None or time.monotonic() < deadline:
            note("the endpoint has ended" if len(clients) == 1 else "all endpoints have ended")


def _tell(found: FoundEndpoint, client: ControlClient, as_json: bool, spines: Mapping[int, int]) -> bool:
    """Everything that has come. False when the endpoint has gone."""
    for event in client.arrived():
        if as_json:
            click.echo(json.dumps({**about(found), **event}))
        else:
            click.echo(f"{_clock(event)}  {found.name}  {printable(_words(event, spines))}")
    return not client.gone


def _clock(event: dict[str, Any]) -> str:
    """When it was, by the clock on the wall: events carry the time since the system started."""
    ago_s = (time.monotonic_ns() - event["at_ns"]) / 1e9 if "at_ns" in event else 0.0
    at_s = time.time() - ago_s
    return time.strftime("%H:%M:%S", time.localtime(at_s)) + f".{int(at_s % 1 * 1e6):06d}"


def _words(event: dict[str, Any], spines: Mapping[int, int]) -> str:
    if event["event"] == "ev":
        spine = spines.get(event["ev"])
        way = f"plane {event['plane']}" + ("" if spine is None else f", spine {spine}")
        where = f"EV {event['ev']:#010x} ({way}) to {event['peer']}"
        return f"{where}: {event['state']}  QP {event['qp_num']:#08x}"
    if event["event"] == "port":
        whose = "port" if event["side"] == "local" else "the peer's port"
        return f"{whose} on plane {event['plane']} is {'up' if event['up'] else 'down'}"
    if event["event"] == "qp":
        return f"QP {event['qp_num']:#08x} failed: {event['reason']}"
    return f"{event['dropped']} events in all found no room and are missing"
