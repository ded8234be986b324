# SPDX-License-Identifier: BSD-2-Clause
"""`mrc demo`: a file crosses a fabric of its own while a cable is cut."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mrc.cli.common import SHARE, SIZE, interrupted, json_option, note, print_json
from mrc.report.terminal import make_console, plain_table
from mrc.report.units import goodput_text, size_text

if TYPE_CHECKING:
    from mrc.cli.demo_run import DemoResult


_NEXT = """
What to try next:
  mrc demo --cut-after 60% --loss 2% --spines 8         another fabric, a worse network
  mrc demo --pcap demo.pcap && mrc analyze demo.pcap    what happened to every packet, and what to conclude
  mrc demo --trace demo.trace                           what the endpoints decided; `mrc trace export` draws it
  mrc lab shell                                         a fabric to break by hand: `mrc lab up`, then `mrc lab --help`
  mrc drill list                                        the experiments of the MRC papers, each with a verdict"""


@click.command()
@click.option("--size", type=SIZE, default="128MiB", show_default=True, help="Bytes to send.")
@click.option("--planes", type=click.IntRange(1, 16), default=2, show_default=True, help="Independent planes, 1 to 16.")
@click.option(
    "--spines", type=click.IntRange(1, 256), default=4, show_default=True, help="Spines, and so paths, per plane."
)
@click.option(
    "--cut-after", type=SHARE, default="30%", show_default=True,
    help="Cut a leaf-spine cable when this share has arrived; 100% cuts none.",
)  # fmt: skip
@click.option("--loss", type=SHARE, default="0.5%", show_default=True, help="Random loss on every leaf-spine link.")
@click.option(
    "--pcap", type=click.Path(dir_okay=False, path_type=Path), help="Record the sender's ports into this file."
)
@click.option(
    "--trace", type=click.Path(dir_okay=False, path_type=Path),
    help="Write what the endpoints do into FILE.sender and FILE.receiver.",
)  # fmt: skip
@click.option(
    "--events", type=click.Path(dir_okay=False, path_type=Path),
    help="Write what was done to the fabric and when, for `mrc analyze --events`.",
)  # fmt: skip
@json_option
def demo(
    size: int,
    planes: int,
    spines: int,
    cut_after: float,
    loss: float,
    pcap: Path | None,
    trace: Path | None,
    events: Path | None,
    as_json: bool,
) -> None:
    """Send a file over every path of a private fabric, cut a cable on the way, and compare checksums.

    The lab is built in private namespaces, so no root is needed, and removed at the end. Exit status 0 means: the
    checksums agree; every path was used before the cut; the dead path got no data later than 100 ms after the cut;
    every other path was still in use in the last tenth of the transfer (at least the last 6 MiB and 200 ms).

    \b
    Examples:
      mrc demo
      mrc demo --loss 0% --cut-after 100%          how fast it goes undisturbed
      mrc demo --size 1GiB --planes 4 --spines 8
      mrc demo --pcap demo.pcap && mrc dissect demo.pcap | less
      mrc demo --pcap demo.pcap --trace demo.trace         what was seen, and what the endpoints made of it
      mrc demo --pcap demo.pcap --events demo.events && mrc analyze demo.pcap --events demo.events --out report
    """
    from mrc.cli.isolation import isolate

    if not cut_after:
        raise click.BadParameter("above 0%: every path is to carry data before the cut", param_hint="'--cut-after'")
    isolate()
    from mrc.cli.demo_run import DemoPlan, run_demo

    plan = DemoPlan(size, planes, spines, cut_after, loss, pcap, trace, events)
    try:
        result = run_demo(plan, note)
    except KeyboardInterrupt:
        raise interrupted("interrupted; the lab is taken down") from None
    if as_json:
        print_json(_document(result))
    else:
        _print(result)
    if result.faults:
        note("Error: " + "; ".join(result.faults))
        raise click.exceptions.Exit(1)


def _document(result: DemoResult) -> dict[str, object]:
    document = result.report.to_json()
    document["failovers"] = [asdict(failover) for failover in result.failovers]
    document["faults"] = result.faults
    return document


def _print(result: DemoResult) -> None:
    from mrc.cli.transfer_output import retransmissions, took_text

    report = result.report
    headings = ("path", "EV", "uSIDs from the host", "before cut", "after cut", "last tenth", "lost", "state")
    rows = [
        (
            f"plane {path.report.plane} spine {path.report.spine}{'  cut' if path.cut else ''}",
            f"{path.report.ev:#010x}",
            path.address,
            str(path.before_cut),
            str(path.after_cut),
            str(path.last_tenth),
            str(path.report.lost),
            path.report.state,
        )
        for path in result.paths
    ]
    make_console().print(plain_table(headings, rows, left={0, 1, 2, 7}, wrap=True))
    click.echo()
    for failover in result.failovers:
        after_ms = failover.last_use_after_s * 1e3
        # Whether the path was in use at that moment is chance: a path waits for its turn.
        last = (
            f"last data packet put on it {after_ms:.1f} ms after the cut"
            if after_ms >= 0
            else f"no data packet was put on it from then on; the last one left {-after_ms:.1f} ms before"
        )
        click.echo(f"cut {failover.link} {failover.cut_at_s * 1e3:.0f} ms after the first packet; {last}")
    click.echo(
        f"{size_text(report.bytes)} in {took_text(report)}: {goodput_text(report.goodput_gbps)} of goodput, "
        f"{retransmissions(report)}"
    )
    click.echo(f"What arrived {'is what was sent' if report.sums_agree else 'DIFFERS from what was sent'}.")
    if not result.faults:
        click.echo(_NEXT)
