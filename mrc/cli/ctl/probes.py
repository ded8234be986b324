"""`mrc ctl probe`: reachability and round trip of EVs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

import click

from mrc.cli.common import DURATION, json_option, note, print_json
from mrc.cli.ctl.endpoints import about, connected, endpoint_option, heading, spines_of
from mrc.cli.ctl.tables import print_table

_COLUMNS = ("ev", "plane", "spine", "sent", "answered", "lost_percent", "rtt_min_us", "rtt_median_us", "rtt_max_us")
_GRACE_S = 5.0


@click.command()
@click.argument("host")
@click.argument("evs", nargs=-1, metavar="[EV]...")
@click.option("--count", type=click.IntRange(1, 1000), default=3, show_default=True, help="Probes on each EV.")
@click.option(
    "--timeout", type=DURATION, default="1s", show_default=True, help="How long to wait for answers, each time."
)
@endpoint_option
@json_option
def probe(host: str, evs: tuple[str, ...], count: int, timeout: float, wanted: tuple[str, ...], as_json: bool) -> None:
    """Send EV probes to HOST, a peer's name or address, and show each EV's round trip.

    Without EVs every one that QPs use towards HOST; named ones may be denied, or in no profile at all. The time the
    peer held a probe is taken off where both ends can. Ends with 1 when an EV answered no probe. A loop that is busy
    with data answers between its batches: that time is in the figures.

    A few probes find an EV that is dead. One that loses now and then takes some hundreds: --count 300. They go to the
    peer and back, so they tell of an EV; which link of its way it is, and in which direction, tells `mrc map`.

    \b
    Examples:
      mrc ctl probe h1 --endpoint h0
      mrc ctl probe h1 --count 300 --endpoint h0
      mrc ctl probe h1 p0s0 p0s1 --count 20 --endpoint h0
      mrc ctl probe fd4d:5243::2 --endpoint h0 --json
    """
    from mrc.control.texts import ev_of

    named = {"evs": [ev_of(each) for each in evs]} if evs else {}
    documents, dead = [], []
    with connected(wanted) as clients:
        for found, client in clients:
            rounds = [
                client.request("probe", timeout + _GRACE_S, peer=host, timeout_s=timeout, **named) for _ in range(count)
            ]
            rows = _summed(rounds)
            documents.append({**about(found), "peer": host, "evs": rows})
            dead += [f"{found}: EV {row['ev']:#010x}: {row['message']}" for row in rows if not row["answered"]]
            if not as_json:
                heading(found, len(clients) > 1)
                spines = spines_of(client)
                print_table(_COLUMNS, [_shown(row, spines) for row in rows])
    if as_json:
        print_json({"endpoints": documents})
    if dead:
        note(f"Error: no answer: {dead[0]}" + (f"; and {len(dead) - 1} more EVs" if len(dead) > 1 else ""))
        raise click.exceptions.Exit(1)


def _shown(row: dict[str, Any], spines: Mapping[int, int]) -> dict[str, Any]:
    lost = 100 * (1 - row["answered"] / row["sent"])
    more = {"plane": row["port_num"] - 1, "spine": spines.get(row["ev"]), "lost_percent": lost}
    return row | more | {"ev": f"{row['ev']:#010x}"}


def _summed(rounds: Sequence[Sequence[dict[str, Any]]]) -> list[dict[str, Any]]:
    """A row for each EV, over all rounds."""
    rows = []
    for results in zip(*rounds, strict=False):
        times = sorted(result["rtt_us"] for result in results if result["rtt_us"] is not None)
        failed = next((result["message"] for result in results if result["errno"] is not None), "")
        rows.append(
            {
                "ev": results[0]["ev"],
                "port_num": results[0]["port_num"],
                "sent": len(results),
                "answered": len(times),
                "rtt_min_us": times[0] if times else None,
                "rtt_median_us": round(median(times), 3) if times else None,
                "rtt_max_us": times[-1] if times else None,
                "service_time_taken_off": any(result["service_time_taken_off"] for result in results),
                "message": failed,
            }
        )
    return rows
