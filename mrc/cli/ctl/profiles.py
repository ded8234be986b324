# SPDX-License-Identifier: BSD-2-Clause
"""`mrc ctl profile`: the profiles of running endpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from mrc.cli.commands import ErrorGroup
from mrc.cli.common import json_option
from mrc.cli.completing import complete_profiles
from mrc.cli.ctl.endpoints import (
    answers,
    connected,
    connected_or_host,
    endpoint_option,
    endpoint_or_host_option,
    heading,
)
from mrc.untrusted import printable

_KINDS = {"ev-format": "ev_formats", "ev": "ev_profiles", "cc": "cc_profiles"}
_kind = click.argument("kind", type=click.Choice(list(_KINDS)))


@click.group(cls=ErrorGroup)
def profile() -> None:
    """Show and change EV formats, EV profiles and CC profiles: which EVs QPs use, and their congestion control.

    Profile 0 of each kind is the default one. `mrc ctl profile load --help` has a file to begin with, docs/control.md
    the whole format.

    \b
    Examples:
      mrc ctl profile show --endpoint h0
      mrc ctl profile load four-paths.yaml --endpoint h0
      mrc ctl profile load four-paths.yaml --endpoint host
      mrc ctl profile move 0 1 --endpoint h0
      mrc ctl profile move 1 0 --endpoint h0
      mrc ctl profile offline ev 1 --endpoint h0
    """


@profile.command()
@endpoint_or_host_option
@json_option
def show(wanted: tuple[str, ...], as_json: bool) -> None:
    """Show every profile that was ever described: state, attributes, and how many QPs use it.

    \b
    Examples:
      mrc ctl profile show
      mrc ctl profile show --endpoint h0 --json
    """
    with connected_or_host(wanted) as clients, answers(as_json) as told:
        for found, client in clients:
            shown = client.request("profiles")
            if told(found, **shown):
                heading(found, len(clients) > 1)
                for kind, key in _KINDS.items():
                    for number, attributes in shown[key].items():
                        click.echo(printable(f"{kind} {number}: {_words(attributes)}"))


def _words(attributes: dict[str, Any]) -> str:
    state = attributes["state"].upper()
    rest = [f"{name} {_value(value)}" for name, value in attributes.items() if name != "state"]
    return ", ".join([state, *rest])


def _value(value: Any) -> str:
    if isinstance(value, list):
        return " ".join("-" if each is None else str(each) for each in value) or "none"
    if isinstance(value, dict):
        return "(" + ", ".join(f"{name} {member}" for name, member in value.items()) + ")"
    return str(value)


@profile.command()
@click.argument("file", type=click.Path(path_type=Path))
@endpoint_or_host_option
@json_option
def load(file: Path, wanted: tuple[str, ...], as_json: bool) -> None:
    """Load the profiles of a YAML FILE and bring them ONLINE. QPs that use an EV profile take its new EVs at once.

    A faulty profile changes nothing; the profiles before it in the file stay loaded. A CC profile cannot change while
    QPs use it.

    The file of the examples describes EV profile 1 for a lab as `mrc lab up` builds it. QPs use it after `mrc ctl
    profile move 0 1`. If the file describes profile 0 instead, QPs use it at once; {mode: auto} is its default.

    \b
    four-paths.yaml:
      ev_profiles:
        1: {mode: explicit, evs: [p0s0, p0s2, p1s0, p1s2]}

    \b
    Examples:
      mrc ctl profile load four-paths.yaml --endpoint h0
      mrc ctl profile load four-paths.yaml --endpoint all --json
    """
    from mrc.net.profile_file import read_profile_file

    document = read_profile_file(file)
    with connected_or_host(wanted) as clients, answers(as_json) as told:
        for found, client in clients:
            loaded = client.request("profile_load", profiles=document)
            if told(found, loaded=loaded):
                click.echo(printable(f"{found}: {', '.join(loaded) or 'nothing'} ONLINE"))


@profile.command()
@_kind
@click.argument("number", type=int, shell_complete=complete_profiles)
@endpoint_or_host_option
@json_option
def online(**options: Any) -> None:
    """Bring profile NUMBER of a KIND (ev-format, ev, cc) from OFFLINE to ONLINE, so that QPs may use it.

    \b
    Examples:
      mrc ctl profile online ev 1 --endpoint h0
    """
    _go("online", **options)


@profile.command()
@_kind
@click.argument("number", type=int, shell_complete=complete_profiles)
@endpoint_or_host_option
@json_option
def offline(**options: Any) -> None:
    """Take profile NUMBER of a KIND (ev-format, ev, cc) from ONLINE to OFFLINE. Refused while something uses it.

    \b
    Examples:
      mrc ctl profile offline ev 1 --endpoint h0
    """
    _go("offline", **options)


def _go(state: str, kind: str, number: int, wanted: tuple[str, ...], as_json: bool) -> None:
    with connected_or_host(wanted) as clients, answers(as_json) as told:
        for found, client in clients:
            result = client.request("profile_state", kind=_KINDS[kind], profile=number, state=state)
            if told(found, **result):
                click.echo(f"{found}: {kind} profile {number} is {state.upper()}")


@profile.command()
@click.argument("old", type=int, shell_complete=complete_profiles)
@click.argument("new", type=int, shell_complete=complete_profiles)
@endpoint_option
@json_option
def move(old: int, new: int, wanted: tuple[str, ...], as_json: bool) -> None:
    """Move QPs from EV profile OLD to NEW, without losing a byte. Both have to be ONLINE.

    \b
    Examples:
      mrc ctl profile move 0 1 --endpoint h0
    """
    with connected(wanted) as clients, answers(as_json) as told:
        for found, client in clients:
            result = client.request("profile_move", **{"from": old, "to": new})
            if told(found, **result):
                click.echo(f"{found}: {result['qps']} QPs use EV profile {new} now")
