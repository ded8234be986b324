# SPDX-License-Identifier: BSD-2-Clause
"""Which endpoint is meant, and `mrc ctl list`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import click

from mrc.cli.common import json_option, note, print_json
from mrc.cli.completing import complete_endpoints
from mrc.errors import CallerError
from mrc.untrusted import printable

if TYPE_CHECKING:
    from mrc.net.control.client import ControlClient, FoundEndpoint, Search

F = TypeVar("F", bound=Callable[..., Any])


class Asked(Protocol):
    """What takes requests: an endpoint's control socket, or the host's device."""

    def request(self, op: str, /, **members: Any) -> Any:
        """Ask, and return the answer. Raises ControlError for what is refused."""


ALL, HOST = "all", "host"


_WHICH = "Which endpoint: its PID, its name (h0, or mrc/h0), one of its addresses, or `all`; may be repeated."


def endpoint_option(function: F) -> F:
    """--endpoint, passed on as `wanted`."""
    return click.option(
        "--endpoint",
        "-e",
        "wanted",
        multiple=True,
        metavar="PID|NAME",
        shell_complete=complete_endpoints,
        help=f"{_WHICH} [default: the only one]",
    )(function)


def endpoint_or_host_option(function: F) -> F:
    """--endpoint, which takes `host` too, for `connected_or_host`."""
    return click.option(
        "--endpoint",
        "-e",
        "wanted",
        multiple=True,
        metavar="PID|NAME",
        shell_complete=complete_endpoints,
        help=f"{_WHICH} `host`: this host itself, also when no endpoint runs. [default: the only one]",
    )(function)


def client_of(found: FoundEndpoint) -> ControlClient:
    """A connection to an endpoint, whose refusals say which one it was. Raises SystemRefused when it has gone."""
    from mrc.control.errors import ControlError
    from mrc.net.control.client import ControlClient

    class NamedClient(ControlClient):
        def answer(self, number: int, deadline: float) -> Any:
            try:
                return super().answer(number, deadline)
            except ControlError as error:
                raise ControlError(error.errno or 0, f"{found}: {error.reason}", error.needed) from None

    return NamedClient(found.path)


@contextmanager
def connected(wanted: Sequence[str]) -> Iterator[list[tuple[FoundEndpoint, ControlClient]]]:
    """The endpoints that are meant, and a connection to each. Raises CallerError when that is not clear."""
    with ExitStack() as stack:
        yield [(found, stack.enter_context(client_of(found))) for found in _chosen(wanted)]


@contextmanager
def connected_or_host(wanted: Sequence[str]) -> Iterator[Sequence[tuple[FoundEndpoint, Asked]]]:
    """As `connected`; `host` is the device of the host that this process runs on, which answers as an endpoint does."""
    if tuple(wanted) == (HOST,):
        from mrc.net.control.host_client import this_host

        with this_host() as host:
            yield [host]
        return
    with connected(wanted) as clients:
        yield clients


def spines_of(client: ControlClient) -> dict[int, int]:
    """The spine of each EV that a QP of this endpoint uses; none where EVs do not name one."""
    return {row["ev"]: row["spine"] for row in client.request("evs") if row["spine"] >= 0}


def check_peer(clients: Sequence[tuple[FoundEndpoint, ControlClient]], host: str) -> None:
    """Raises CallerError when no QP of any of these endpoints leads to a peer of this name or address."""
    if not any(found.labels_of(host) for found, _ in clients):
        peers = sorted({peer["peer"] for found, _ in clients for peer in found.hello["peers"]})
        who = f"{clients[0][0]} is" if len(clients) == 1 else "the endpoints here are"
        raise CallerError(f"no QP leads to {host}: {who} connected to {', '.join(map(printable, peers)) or 'nobody'}")


def _chosen(wanted: Sequence[str]) -> list[FoundEndpoint]:
    from mrc.net.control.client import endpoints

    search = endpoints()
    if not search.found:
        raise CallerError("no endpoint runs here that you may control" + _silent(search))
    shown = ", ".join(map(str, search.found))
    if not wanted:
        if len(search.found) > 1:
            raise CallerError(f"several endpoints run here, say which with --endpoint (or --endpoint all): {shown}")
        return search.found
    if ALL in wanted:
        if search.not_asked:
            note(_silent(search).removeprefix("; "))
        return search.found
    chosen: list[FoundEndpoint] = []
    for name in wanted:
        named = [found for found in search.found if found.is_called(name)]
        if not named:
            raise CallerError(f"no endpoint {name}: there are {shown}{_silent(search)}")
        if len(named) > 1:
            raise CallerError(f"{name} is several endpoints, name one by its PID: {', '.join(map(str, named))}")
        chosen += [each for each in named if each not in chosen]
    return chosen


_START = ": start `mrc recv`, `mrc send` or `mrc bench` first"


def _silent(search: Search) -> str:
    if not search.not_asked:
        return "" if search.found else _START
    return f"; not asked: {search.reasons_in_short}"


def about(found: FoundEndpoint) -> dict[str, Any]:
    """The endpoint a result is about, in JSON."""
    return {"pid": found.pid, "program": found.program, "name": found.name}


@contextmanager
def answers(as_json: bool) -> Iterator[Callable[..., bool]]:
    """What to call with each endpoint and the members of its answer; returns whether to show the answer now.

    As JSON the answers are one document, printed at the end of the block.
    """
    documents: list[dict[str, Any]] = []

    def add(found: FoundEndpoint, **answer: Any) -> bool:
        documents.append({**about(found), **answer})
        return not as_json

    yield add
    if as_json:
        print_json({"endpoints": documents})


def heading(found: FoundEndpoint, several: bool) -> None:
    if several:
        click.echo(f"{found}:")


@click.command("list")
@json_option
def list_endpoints(as_json: bool) -> None:
    """List the endpoints that run here: PID, program, name, peers.

    \b
    Examples:
      mrc ctl list
      mrc ctl list --json
    """
    from mrc.net.control.client import endpoints

    search = endpoints()
    if as_json:
        rows = [{**each.hello, "socket": str(each.path)} for each in search.found]
        print_json({"endpoints": rows, "not_asked": search.reasons})
        return
    for each in search.found:
        peers = ", ".join(f"{peer['peer']} ({peer['qps']} QPs)" for peer in each.hello["peers"]) or "nobody yet"
        line = f"{each.pid}  {each.program}  {each.name}  {', '.join(each.addresses)}  connected to {peers}"
        click.echo(printable(line))
    for why in search.reasons:
        note(why)
    if not search.found:
        note("no endpoint runs here that you may control" + ("" if search.reasons else _START))
