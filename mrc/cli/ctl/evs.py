# SPDX-License-Identifier: BSD-2-Clause
"""`mrc ctl ev`: the EVs of running endpoints."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from mrc.cli.commands import ErrorGroup
from mrc.cli.common import json_option, note
from mrc.cli.completing import complete_evs, complete_peers, complete_profiles
from mrc.cli.ctl.endpoints import answers, check_peer, connected, endpoint_option, heading
from mrc.cli.ctl.tables import print_table

_profile = click.option(
    "--profile", type=int, shell_complete=complete_profiles, help="Only this EV profile. [default: all that QPs use]"
)
_peer = click.option(
    "--peer",
    metavar="HOST",
    shell_complete=complete_peers,
    help="Only towards this peer: its name or an address. [default: all]",
)


@click.group("ev", cls=ErrorGroup)
def ev() -> None:
    """List, deny, allow and replace EVs.

    An EV is a number such as 0x01000002. In SRv6 mode p1s2 names the same EV: through spine 2 of plane 1.

    \b
    Examples:
      mrc ctl ev list --endpoint h0
      mrc ctl ev deny p0s1 p1s1 --endpoint h0
      mrc ctl ev allow p0s1 --endpoint h0
      mrc ctl ev replace p0s2 p0s3 --profile 1 --endpoint h0
    """


@ev.command("list")
@endpoint_option
@_profile
@_peer
@json_option
def list_evs(wanted: tuple[str, ...], profile: int | None, peer: str | None, as_json: bool) -> None:
    """List every EV of every QP: path, state, and packets carried, lost and marked.

    \b
    Examples:
      mrc ctl ev list
      mrc ctl ev list --endpoint h0 --peer h1 --json
    """
    with connected(wanted) as clients, answers(as_json) as told:
        if peer is not None:
            check_peer(clients, peer)
        for found, client in clients:
            rows = client.request("evs", **_given(profile=profile))
            if peer is not None:
                rows = [row for row in rows if row["peer"] in found.labels_of(peer)]
            if told(found, evs=rows):
                heading(found, len(clients) > 1)
                columns = ("qp_num", "peer", "ev", "plane", "spine", "state", "packets", "lost", "marked")
                print_table(columns, [_shown(row) for row in rows])


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    spine = "" if row["spine"] < 0 else row["spine"]
    return row | {"qp_num": f"{row['qp_num']:#08x}", "ev": f"{row['ev']:#010x}", "spine": spine}


@ev.command()
@click.argument("evs", nargs=-1, metavar="[EV]...", shell_complete=complete_evs)
@click.option(
    "--from", "deny_list", type=click.Path(path_type=Path), help="Every entry of this deny list (docs/control.md)."
)
@endpoint_option
@_profile
@_peer
@json_option
def deny(**options: Any) -> None:
    """Take EVs out of use. After this command returns, no packet is sent on them until `allow`.

    Only `mrc ctl probe` still uses a denied EV, where it is named. The denial also applies to QPs created later. It
    does not apply to packets that the other end sends: deny the EV there too, or use --endpoint all.

    With --from, each endpoint of the fabric applies the entries that name it. The output counts the entries that were
    applied, those that name an EV or peer without a QP here ("not there"), and those for other endpoints.

    \b
    Examples:
      mrc ctl ev deny p0s1 --endpoint h0
      mrc ctl ev deny 0x01000002 p1s3 --peer h1 --endpoint h0
      mrc ctl ev deny --from deny.json
    """
    _change("deny", **options)


@ev.command()
@click.argument("evs", nargs=-1, metavar="[EV]...", shell_complete=complete_evs)
@click.option(
    "--from", "deny_list", type=click.Path(path_type=Path), help="Every entry of this deny list (docs/control.md)."
)
@endpoint_option
@_profile
@_peer
@json_option
def allow(**options: Any) -> None:
    """Put denied EVs back into use.

    \b
    Examples:
      mrc ctl ev allow p0s1 --endpoint h0
      mrc ctl ev allow --from deny.json
    """
    _change("allow", **options)


def _change(
    do: str,
    evs: Sequence[str],
    deny_list: Path | None,
    wanted: Sequence[str],
    profile: int | None,
    peer: str | None,
    as_json: bool,
) -> None:
    if bool(evs) == (deny_list is not None):
        raise click.UsageError(f"name the EVs to {do}, or a deny list with --from FILE")
    if deny_list is not None and peer is not None:
        raise click.UsageError("--peer does not go with --from: the list's entries name their peers")
    if deny_list is not None:
        _change_by_list(do, deny_list, wanted, profile, as_json)
        return
    from mrc.control.reading import ev_of

    batch = [{"do": do, "ev": ev_of(each), **_given(peer=peer)} for each in evs]
    _run(wanted, profile, batch, as_json, "denied" if do == "deny" else "allowed")


def _change_by_list(do: str, path: Path, wanted: Sequence[str], profile: int | None, as_json: bool) -> None:
    """Entries that are about others, or about EVs that nobody has, are no failure."""
    from mrc.control.attributes import MAX_BATCH
    from mrc.control.deny_list import read

    listed = read(path)
    with connected(wanted or ["all"]) as clients, answers(as_json) as told:
        for found, client in clients:
            mine = listed.of(found.name, found.addresses)
            mode = found.hello["mode"]
            batch = [{"do": do, "ev": entry.ev_in(mode), **_given(peer=entry.peer)} for entry in mine]
            results = [
                result
                for start in range(0, len(batch), MAX_BATCH)
                for result in client.request(
                    "ev_ops", batch=batch[start : start + MAX_BATCH], **_given(profile=profile)
                )
            ]
            absent = sum(result["errno"] is not None for result in results)
            done = {
                "applied": len(results) - absent,
                "not_there": absent,
                "for_others": len(listed.entries) - len(mine),
            }
            if told(found, **done):
                word = "denied" if do == "deny" else "allowed"
                others = f"{done['not_there']} not there, {done['for_others']} for others"
                click.echo(f"{found}: {done['applied']} EVs {word}; {others}")


@ev.command()
@click.argument("old", shell_complete=complete_evs)
@click.argument("new", required=False, shell_complete=complete_evs)
@click.option("--index", type=click.IntRange(0), help="Only the entry of this number: `replace NEW --index N`.")
@endpoint_option
@_profile
@json_option
def replace(
    old: str, new: str | None, index: int | None, wanted: tuple[str, ...], profile: int | None, as_json: bool
) -> None:
    """Replace EV OLD by NEW in an EXPLICIT profile: in every entry, or with --index in one.

    QPs use the new EV at once. Packets in flight on the old EV still arrive. `mrc ctl profile show` says which profiles
    are EXPLICIT; `mrc ctl profile load --help` has the file that the examples load.

    \b
    Examples:
      mrc ctl profile load four-paths.yaml --endpoint h0
      mrc ctl ev replace p0s2 p0s3 --profile 1 --endpoint h0
      mrc ctl ev replace p1s1 --index 3 --profile 1 --endpoint h0
    """
    from mrc.control.reading import ev_of

    if (new is None) != (index is not None):
        raise click.UsageError("give OLD and NEW, or NEW and --index N")
    if index is not None:
        batch = [{"do": "replace", "index": index, "new_ev": ev_of(old)}]
    else:
        batch = [{"do": "replace", "ev": ev_of(old), "new_ev": ev_of(new)}]
    _run(wanted, profile, batch, as_json, "replaced")


def _run(wanted: Sequence[str], profile: int | None, batch: Sequence[dict[str, Any]], as_json: bool, word: str) -> None:
    """Each operation at each endpoint. Exit status 1 when one of them failed."""
    failures = []
    with connected(wanted) as clients, answers(as_json) as told:
        for found, client in clients:
            results = client.request("ev_ops", batch=list(batch), **_given(profile=profile))
            shows = told(found, results=results)
            for operation, result in zip(batch, results, strict=True):
                what = f"EV {operation['ev']:#010x}" if "ev" in operation else f"entry {operation['index']}"
                if result["errno"] is not None:
                    failures.append(f"{found}: {what}: {result['message']}")
                elif shows:
                    of = "entries" if word == "replaced" else "QPs"
                    click.echo(f"{found}: {what} {word} ({result['count']} {of})")
    if failures:
        note(f"Error: {failures[0]}" + (f"; and {len(failures) - 1} more" if len(failures) > 1 else ""))
        raise click.exceptions.Exit(1)


def _given(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}
