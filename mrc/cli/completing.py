# SPDX-License-Identifier: BSD-2-Clause
"""What the Tab key offers: labs, their nodes and links, endpoints, cases, drills, words of `mrc craft`, files.

A completer gets what was typed so far and returns what may follow. It is asked at each Tab. So it imports only what it
needs and never waits long. Where something cannot be read, or does not answer, it returns nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem, ShellComplete

from mrc.cli.common import complete_files
from mrc.errors import MrcError

if TYPE_CHECKING:
    from mrc.cli.common import Items
    from mrc.fabric import Shape
    from mrc.net.control.client import FoundEndpoint

Completer = Callable[[click.Context, click.Parameter, str], "Items"]

# Names come from files and from other users' programs, and the shell puts what is chosen on the command line as it is.
_HARMLESS = re.compile(r"[\w./:%@+=-]+\Z", re.ASCII)
_ENDPOINTS_WAIT_S = 0.15


def completer(names: Callable[[click.Context, str], Iterable[str]]) -> Completer:
    """Offer those of `names(context, typed)` that go on from what was typed and were not given already."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:
        given = ctx.params.get(param.name or "")
        before = given if isinstance(given, tuple) else ()
        try:
            found = dict.fromkeys(names(ctx, incomplete))
        except (MrcError, OSError, click.ClickException):
            return []
        usable = (name for name in found if name.startswith(incomplete) and name not in before)
        return [CompletionItem(name) for name in usable if _HARMLESS.match(name)]

    return complete


# ---------------------------------------------------------------------- labs


@completer
def complete_labs(ctx: click.Context, incomplete: str) -> Iterable[str]:
    from mrc.lab.state import names

    return names()


def _shape(ctx: click.Context) -> Shape:
    """The fabric of the lab that --name or MRC_LAB names."""
    from mrc.lab import state

    found = state.load(str(ctx.params.get("name")))
    if found is None:
        raise MrcError("only its name is known so far")
    return found.topology


@completer
def complete_nodes(ctx: click.Context, incomplete: str) -> Iterable[str]:
    return _shape(ctx).nodes


@completer
def complete_links(ctx: click.Context, incomplete: str) -> Iterator[str]:
    return _links(_shape(ctx), incomplete)


def _links(shape: Shape, incomplete: str) -> Iterator[str]:
    """By their names; from the upper end, which names them too, where that is typed."""
    yield from (link.name for link in shape.links)
    if "-" in incomplete:
        yield from (f"{link.upper}-{link.lower}" for link in shape.links)


@completer
def complete_link_ends(ctx: click.Context, incomplete: str) -> Iterable[str]:
    """The two ends of the link that is named on the same line, where it is; else every node."""
    shape = _shape(ctx)
    # Behind an option without its value click takes words as they come, and gives arguments no names.
    link = ctx.params.get("link") or next(iter(ctx.args), None)
    return shape.link(str(link)).ends if link else shape.nodes


def _targets(shape: Shape, incomplete: str) -> Iterator[str]:
    """Nodes first; links once an end is typed, since there may be thousands of them."""
    yield from shape.nodes
    yield from (f"plane:{plane}" for plane in range(shape.planes))
    if incomplete:
        yield from _links(shape, incomplete)


@completer
def complete_targets(ctx: click.Context, incomplete: str) -> Iterator[str]:
    return _targets(_shape(ctx), incomplete)


@completer
def complete_status_targets(ctx: click.Context, incomplete: str) -> Iterator[str]:
    from mrc.lab.status import KINDS

    yield from KINDS
    yield from _targets(_shape(ctx), incomplete)


def complete_command(ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:
    """A command to run: what follows `mrc` is completed as on a line of its own."""
    words = [str(word) for word in ctx.params.get(param.name or "") or ()]
    words = words[1:] if words[:1] == ["--"] else words
    if not words:
        return [CompletionItem("mrc")] if "mrc".startswith(incomplete) else []
    if Path(words[0]).name != "mrc":
        return complete_files(ctx, param, incomplete)
    return ShellComplete(ctx.find_root().command, {}, "mrc", "").get_completions(words[1:], incomplete)


# ---------------------------------------------------------------------- endpoints


def _endpoints() -> list[FoundEndpoint]:
    """Those that answer at once: one that is busy or stopped is not waited for."""
    from mrc.net.control.client import endpoints

    return endpoints(_ENDPOINTS_WAIT_S).found


@completer
def complete_endpoints(ctx: click.Context, incomplete: str) -> Iterator[str]:
    found = _endpoints()
    hosts = [each.host for each in found]
    # A name that two have names neither.
    yield from (each.host if hosts.count(each.host) == 1 else each.name for each in found)
    yield from (str(each.pid) for each in found)
    yield "all"


@completer
def complete_one_endpoint(ctx: click.Context, incomplete: str) -> Iterator[str]:
    """As `complete_endpoints`, for commands that take no `all`."""
    for each in _endpoints():
        yield from (each.host, str(each.pid))


def _meant(ctx: click.Context) -> Iterator[FoundEndpoint]:
    """The endpoints that --endpoint names, all without it."""
    wanted = ctx.params.get("wanted") or ()
    for each in _endpoints():
        if not wanted or "all" in wanted or any(each.is_called(str(name)) for name in wanted):
            yield each


@completer
def complete_peers(ctx: click.Context, incomplete: str) -> Iterator[str]:
    return (peer["peer"] for each in _meant(ctx) for peer in each.hello["peers"])


def _answers(ctx: click.Context, op: str) -> Iterator[Any]:
    from mrc.net.control.client import ControlClient

    for each in _meant(ctx):
        with ControlClient(each.path, _ENDPOINTS_WAIT_S) as client:
            yield client.request(op)


@completer
def complete_evs(ctx: click.Context, incomplete: str) -> Iterator[str]:
    """EVs that QPs use: by the spine they pass, where one is named, and by number once that is begun."""
    for rows in _answers(ctx, "evs"):
        for row in rows:
            if row["spine"] >= 0 and not incomplete.startswith("0"):
                yield f"p{row['plane']}s{row['spine']}"
            else:
                yield f"{row['ev']:#010x}"


@completer
def complete_profiles(ctx: click.Context, incomplete: str) -> Iterator[str]:
    """The numbers of profiles: of the KIND on the line, of EV profiles without one."""
    kinds = {"ev-format": "ev_formats", "cc": "cc_profiles"}
    for shown in _answers(ctx, "profiles"):
        yield from map(str, shown[kinds.get(str(ctx.params.get("kind")), "ev_profiles")])


# ---------------------------------------------------------------------- names of the package


@completer
def complete_drills(ctx: click.Context, incomplete: str) -> Iterator[str]:
    from mrc.drill.catalogue import DRILLS

    yield from DRILLS
    yield "all"


@completer
def complete_cases(ctx: click.Context, incomplete: str) -> Iterable[str]:
    """Families (MRC-SACK) until one is typed, then the cases of it: all at once would fill the screen many times."""
    if ctx.params.get("transport") == "rc":
        from mrc.rc.conformance.catalogue import rc_catalogue as catalogue
    else:
        from mrc.conformance.catalogue import catalogue

    cases = catalogue()
    families = dict.fromkeys(each.requirement.id.rpartition("-")[0] for each in cases)
    begun = [family for family in families if family.startswith(incomplete)]
    return begun if len(begun) > 1 else (each.id for each in cases)


def complete_target(ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:
    """`self`, or a file; tickets and adapters have no names to offer."""
    if incomplete and not "self".startswith(incomplete):
        return complete_files(ctx, param, incomplete)
    return [CompletionItem("self")]


@completer
def complete_craft(ctx: click.Context, incomplete: str) -> Iterator[str]:
    """An opcode, then modes and the fields of its packets."""
    from mrc.cli.craft_fields import MESSAGES, MODES, OPCODE_SLUGS, fields_of, parse

    words = [str(word) for word in ctx.params.get("words") or ()]
    if not words:
        yield from (*MESSAGES, *OPCODE_SLUGS)
        return
    request = parse(words)
    if len(words) == 1:
        yield from MODES
    yield from (f"{each.full_name}=" for each in fields_of(request.opcode, request.mode))
