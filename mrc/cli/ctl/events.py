# SPDX-License-Identifier: BSD-2-Clause
"""`mrc ctl events`: what changes at running endpoints, as it happens."""

from __future__ import annotations

import json
import math
import select
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any

import click

from mrc.cli.common import DURATION, note
from mrc.cli.ctl.endpoints import ALL, about, client_of, connected, endpoint_option, spines_of
from mrc.errors import MrcError
from mrc.trace.vocabulary import EV_STATES
from mrc.untrusted import printable

if TYPE_CHECKING:
    from mrc.net.control.client import ControlClient, FoundEndpoint

# How often it looks for endpoints that have started, and how long they have to answer, s.
_LOOK_S, _ANSWER_S = 1.0, 0.5
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

    It never blocks an endpoint: events that are not read in time are dropped and counted. With `--endpoint all` those
    that start later are found within a second. It ends when the endpoints have ended.

    \b
    Examples:
      mrc ctl events
      mrc ctl events --endpoint h0 --json
      mrc ctl events --endpoint all --state assumed_bad --seconds 10
    """
    deadline = None if seconds is None else time.monotonic() + seconds
    asked: dict[str, Any] = {"limit": limit, **({"states": list(states)} if states else {})}
    with ExitStack() as stack:
        clients = stack.enter_context(connected(wanted))
        watched = [_Watched(found, client, asked, as_json) for found, client in clients]
        if not as_json:
            note(f"listening to {', '.join(str(each.found) for each in watched)}")
        seen = {each.found for each in watched}
        look_at = time.monotonic() + _LOOK_S if ALL in wanted else math.inf
        while watched and (deadline is None or time.monotonic() < deadline):
            if time.monotonic() >= look_at:
                for each in _newcomers(stack, seen, asked, as_json):
                    if not as_json:
                        note(f"listening to {each.found}, too")
                    watched.append(each)
                look_at = time.monotonic() + _LOOK_S
            watched = [each for each in watched if each.tell()]
            until = min(look_at, math.inf if deadline is None else deadline)
            wait = None if until == math.inf else max(0.0, until - time.monotonic())
            select.select([each.client.fileno() for each in watched], (), (), wait if watched else 0)
        if deadline is None or time.monotonic() < deadline:
            note("the endpoint has ended" if len(seen) == 1 else "all endpoints have ended")


class _Watched:
    """An endpoint whose events are shown."""

    def __init__(self, found: FoundEndpoint, client: ControlClient, asked: Mapping[str, Any], as_json: bool) -> None:
        self.found, self.client = found, client
        self._as_json = as_json
        # Events name the EV and its plane. Which spine an EV passes does not change.
        self._spines: dict[int, int | None] = {}
        client.request("subscribe", **asked)

    def tell(self) -> bool:
        """Show everything that has come. False when the endpoint has gone."""
        for event in self.client.arrived():
            if self._as_json:
                click.echo(json.dumps({**about(self.found), **event}))
            else:
                click.echo(f"{_clock(event)}  {self.found.name}  {printable(_words(event, self._spine_of(event)))}")
        if self.client.gone:
            self.client.close()
        return not self.client.gone

    def _spine_of(self, event: Mapping[str, Any]) -> int | None:
        if event["event"] != "ev":
            return None
        if event["ev"] not in self._spines:
            with suppress(MrcError):  # gone, or busy: its events come all the same
                self._spines |= spines_of(self.client)
            self._spines.setdefault(event["ev"], None)
        return self._spines[event["ev"]]


def _newcomers(
    stack: ExitStack, seen: set[FoundEndpoint], asked: Mapping[str, Any], as_json: bool
) -> Iterator[_Watched]:
    """The endpoints that have started since, which then count as seen."""
    from mrc.net.control.client import endpoints

    for found in endpoints(_ANSWER_S).found:
        if found not in seen:
            with suppress(MrcError):  # it has ended again
                watched = _Watched(found, stack.enter_context(client_of(found)), asked, as_json)
                seen.add(found)
                yield watched


def _clock(event: dict[str, Any]) -> str:
    """When it was, by the clock on the wall: events carry the time since the system started."""
    ago_s = (time.monotonic_ns() - event["at_ns"]) / 1e9 if "at_ns" in event else 0.0
    at_s = time.time() - ago_s
    return time.strftime("%H:%M:%S", time.localtime(at_s)) + f".{int(at_s % 1 * 1e6):06d}"


def _words(event: dict[str, Any], spine: int | None) -> str:
    if event["event"] == "ev":
        way = f"plane {event['plane']}" + ("" if spine is None else f", spine {spine}")
        where = f"EV {event['ev']:#010x} ({way}) to {event['peer']}"
        return f"{where}: {event['state']}  QP {event['qp_num']:#08x}"
    if event["event"] == "port":
        whose = "port" if event["side"] == "local" else "the peer's port"
        return f"{whose} on plane {event['plane']} is {'up' if event['up'] else 'down'}"
    if event["event"] == "qp":
        return f"QP {event['qp_num']:#08x} failed: {event['reason']}"
    return f"{event['dropped']} events in all found no room and are missing"
