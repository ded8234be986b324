# SPDX-License-Identifier: BSD-2-Clause
"""`mrc ctl probe`: reachability and round trip of EVs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

import click

from mrc.cli.common import DURATION, json_option, note
from mrc.cli.completing import complete_evs, complete_peers
from mrc.cli.ctl.endpoints import ALL, answers, check_peer, connected, endpoint_option, heading
from mrc.cli.ctl.tables import print_table

_COLUMNS = ("ev", "plane", "spine", "sent", "answered", "lost_percent", "rtt_min_us", "rtt_median_us", "rtt_max_us")
_GRACE_S = 5.0
# An endpoint lets nobody wait for longer.
_MOST_TIMEOUT_S = 60.0


@click.command()
@click.argument("host", shell_complete=complete_peers)
@click.argument("evs", nargs=-1, metavar="[EV]...", shell_complete=complete_evs)
@click.option("--count", type=click.IntRange(1, 1000), default=3, show_default=True, help="Probes on each EV.")
@click.option(
    "--timeout",
    type=DURATION,
    default="100ms",
    show_default=True,
    help="How long to wait for the answers of each round.",
)
@endpoint_option
@json_option
def probe(host: str, evs: tuple[str, ...], count: int, timeout: float, wanted: tuple[str, ...], as_json: bool) -> None:
    """Send EV probes to HOST, a peer's name or address, and show each EV's round trip.

    Without EV arguments it probes every EV that QPs use towards HOST. An EV that is named may be denied, or in no
    profile. With `--endpoint all` every endpoint that has a QP to HOST sends probes. The time the peer held a probe is
    subtracted where both ends support that. A peer that is busy with data answers between its batches, and that wait is
    part of the figures. Exit status 1 when no probe of an EV was answered, or none could be sent (its port is down, or
    there is no such path).

    A few probes find a dead EV. An EV that loses packets now and then takes some hundreds: --count 300. Probes test the
    whole path to the peer; `mrc map` finds the faulty link on it, and the direction.

    \b
    Examples:
      mrc ctl probe h1 --endpoint h0
      mrc ctl probe h1 --count 300 --endpoint h0
      mrc ctl probe h1 p0s0 p0s1 --count 20 --endpoint h0
      mrc ctl probe fd4d:5243::2 --endpoint h0 --json
    """
    from mrc.control.reading import ev_of

    if not 0 < timeout <= _MOST_TIMEOUT_S:
        raise click.UsageError(f"--timeout is above 0 and at most {_MOST_TIMEOUT_S:.0f}s")
    named = {"evs": [ev_of(each) for each in evs]} if evs else {}
    dead: list[str] = []
    with connected(wanted) as clients, answers(as_json) as told:
        if ALL in wanted:
            check_peer(clients, host)
            clients = [(found, client) for found, client in clients if found.labels_of(host)]
        for found, client in clients:
            rounds = [
                client.request("probe", timeout + _GRACE_S, peer=host, timeout_s=timeout, **named) for _ in range(count)
            ]
            rows = _summed(rounds)
            dead += [f"{found}: EV {row['ev']:#010x}: {row['message']}" for row in rows if not row["answered"]]
            if told(found, peer=host, evs=rows):
                heading(found, len(clients) > 1)
                planes = {port["port_num"]: port["plane"] for port in client.request("ports")}
                known = {row["ev"]: row for row in client.request("evs")}
                print_table(_COLUMNS, [_shown(row, planes, known.get(row["ev"], {})) for row in rows])
    if dead:
        note(f"Error: {dead[0]}" + (f"; and {len(dead) - 1} more EVs" if len(dead) > 1 else ""))
        raise click.exceptions.Exit(1)


def _shown(row: dict[str, Any], planes: Mapping[int, int], known: Mapping[str, Any]) -> dict[str, Any]:
    """`known`: what is reported of an EV that a QP uses. Of others only the plane is known, once a probe was sent."""
    spine = known.get("spine", -1)
    lost = 100 * (1 - row["answered"] / row["sent"]) if row["sent"] else None
    plane = known.get("plane", planes.get(row["port_num"]))
    more = {"plane": plane, "spine": spine if spine >= 0 else None, "lost_percent": lost}
    return row | more | {"ev": f"{row['ev']:#010x}"}


def _summed(rounds: Sequence[Sequence[dict[str, Any]]]) -> list[dict[str, Any]]:
    """A row for each EV, over all rounds."""
    rows = []
    for results in zip(*rounds, strict=False):
        # What was never sent left by no port.
        sent = [result for result in results if result["port_num"] is not None]
        times = sorted(result["rtt_us"] for result in results if result["rtt_us"] is not None)
        failed = next((result["message"] for result in results if result["errno"] is not None), "")
        rows.append(
            {
                "ev": results[0]["ev"],
                "port_num": sent[0]["port_num"] if sent else None,
                "sent": len(sent),
                "answered": len(times),
                "rtt_min_us": times[0] if times else None,
                "rtt_median_us": round(median(times), 3) if times else None,
                "rtt_max_us": times[-1] if times else None,
                "service_time_taken_off": any(result["service_time_taken_off"] for result in results),
                "message": failed,
            }
        )
    return rows
