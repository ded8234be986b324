# SPDX-License-Identifier: BSD-2-Clause
"""`mrc bench allreduce` and its siblings: collective operations in a lab of its own, with nccl-tests' table."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from mrc.cli.common import (
    Names,
    Rate,
    Size,
    interrupt_on_signals,
    interrupted,
    json_option,
    note,
    options_of,
    print_json,
    usage_errors,
)

F = TypeVar("F", bound=Callable[..., Any])

# Few imports at the top of this file: the names that options offer are written down here, and a test holds them to
# those of mrc.bench.collectives, which need numpy.
DTYPES = ("int8", "uint8", "int32", "uint32", "int64", "uint64", "half", "float", "double")
REDOPS = ("sum", "prod", "min", "max", "avg")
BASELINES = ("gloo", "gloo-mptcp", "write", "write-both-ways")
_ROOTED = ("broadcast", "reduce")
_REDUCING = ("allreduce", "reducescatter", "reduce")
# Of each command: what --help says first.
COMMANDS: Mapping[str, str] = {
    "allreduce": "Measure all-reduce: every rank gets the arrays of all ranks, reduced to one.",
    "reducescatter": "Measure reduce-scatter: each rank gets its part of the arrays of all ranks, reduced to one.",
    "allgather": "Measure all-gather: every rank gets the arrays of all ranks, one behind another.",
    "alltoall": "Measure all-to-all: each rank sends a part of its array to each other one.",
    "broadcast": "Measure broadcast: every rank gets the root's array.",
    "reduce": "Measure reduce: the root gets the arrays of all ranks, reduced to one.",
    "sendrecv": "Measure send and recv: each rank sends to the next one while it receives from the one before.",
}
_HELP = """{says}

    The table is that of nccl-tests, NVIDIA's benchmark of collectives, and so are -b, -e, -f, -n, -w, -c, -d{more}.
    algbw is the size divided by the time, busbw is {factor}; GB are 10^9 bytes. #wrong counts the values that differ
    from numpy's; if there are any, the exit status is 1.

    The ranks are processes on the hosts of a private lab, each host on leaves of its own. Each round measures MRC and
    each baseline once, in new processes; every second round runs in reverse order. Figures are medians. The speed of a
    machine drifts, so trust the ratios. It needs no root.

    \b
    Baselines:
      gloo        PyTorch's gloo over the kernel's TCP, in one plane
      gloo-mptcp  the same over the kernel's MPTCP, a subflow in every plane
      write       `mrc bench write` from h0 to h1: what a QP moves one way
      write-both-ways  two of them, one each way at the same time

    \b
    Examples:
      mrc bench {name}
      mrc bench {name} -b 8 -e 128M -f 2
      mrc bench {name} -b 64M -e 64M -n 5 --ranks 4 --hosts 4
      mrc bench {name} --baseline gloo,gloo-mptcp --link-rate 500mbit
      mrc bench {name} -e 1M --json > {name}.json
    """
_FACTORS = {
    "allreduce": "algbw x 2(n-1)/n for n ranks",
    "reducescatter": "algbw x (n-1)/n for n ranks",
    "allgather": "algbw x (n-1)/n for n ranks",
    "alltoall": "algbw x (n-1)/n for n ranks",
}


class _NcclSize(Size):
    """Bytes, also as nccl-tests takes them: `64M` is 64 MiB there."""

    def read(self, text: str) -> int:
        if re.fullmatch(r"[0-9]+[KMG]", text.strip(), re.IGNORECASE | re.ASCII):
            text = f"{text.strip()}iB"
        return super().read(text)


def _options(name: str) -> Callable[[F], F]:
    """Those of one command, the first in --help last here."""
    options: list[Callable[[F], F]] = [
        json_option,
        click.option(
            "--baseline", "baselines", type=Names(BASELINES), default="", metavar="NAME,...",
            help=f"Also measure these in each round: {', '.join(BASELINES)}.",
        ),
        click.option(
            "--rounds", type=click.IntRange(1, 1000), default=3, show_default=True,
            help="How often each subject runs.",
        ),
        click.option(
            "--link-rate", "link_rate_bps", type=Rate(10**6, 10**12), metavar="RATE",
            help="Limit every link to this rate, each way: 500mbit. [default: no limit]",
        ),
        click.option(
            "--spines", type=click.IntRange(1, 256), default=4, show_default=True, help="Spines per plane.",
        ),
        click.option(
            "--planes", type=click.IntRange(1, 16), default=2, show_default=True, help="Independent planes.",
        ),
        click.option("--hosts", type=click.IntRange(2, 64), default=2, show_default=True, help="Hosts of the lab."),
        click.option(
            "--ranks", type=click.IntRange(2, 256), metavar="N",
            help="Ranks, which are processes. With more ranks than hosts, consecutive ranks share a host. "
            "[default: one a host]",
        ),
        click.option(
            "-c", "--check", "checks", type=click.IntRange(0, 1000), default=1, show_default=True,
            help="Calls whose results are compared with numpy's.",
        ),
        click.option(
            "-w", "--warmup-iters", "warm_up", type=click.IntRange(0, 10**6), default=5, show_default=True,
            help="Calls before those that are timed.",
        ),
        click.option(
            "-n", "--iters", "iterations", type=click.IntRange(1, 10**6), default=20, show_default=True,
            help="Calls that are timed, each waited for before the next.",
        ),
        click.option(
            "-d", "--datatype", "dtype", type=click.Choice(DTYPES), default="float", show_default=True,
            help="Type of the values.",
        ),
        click.option(
            "-f", "--stepfactor", type=click.IntRange(2, 1024), default=4, show_default=True,
            help="Factor from each size to the next.",
        ),
        click.option(
            "-e", "--maxbytes", type=_NcclSize(1, 1 << 32), default="64M", show_default=True,
            help="The largest size.",
        ),
        click.option(
            "-b", "--minbytes", type=_NcclSize(1, 1 << 32), default="1K", show_default=True,
            help="The smallest size.",
        ),
    ]  # fmt: skip
    if name in _ROOTED:
        options[-4:-4] = [
            click.option("-r", "--root", type=click.IntRange(0), default=0, show_default=True, help="The root's rank.")
        ]
    if name in _REDUCING:
        options[-4:-4] = [
            click.option(
                "-o", "--op", "redop", type=click.Choice(REDOPS), default="sum", show_default=True,
                help="How values are reduced; avg is for floats.",
            )
        ]  # fmt: skip
    return options_of(options)


def _command(name: str) -> click.Command:
    @_options(name)
    def run(**given: Any) -> None:
        _measure(name, **given)

    more = (", -o" if name in _REDUCING else "") + (", -r" if name in _ROOTED else "")
    factor = _FACTORS.get(name, "algbw")
    text = _HELP.format(says=COMMANDS[name], name=name, more=more, factor=factor)
    return click.command(name, help=text)(run)


def _measure(
    name: str,
    minbytes: int,
    maxbytes: int,
    stepfactor: int,
    ranks: int | None,
    hosts: int,
    as_json: bool,
    **chosen: Any,
) -> None:
    from mrc.bench.collectives.kinds import KINDS
    from mrc.bench.collectives.plan import CollectivesPlan, swept
    from mrc.cli.isolation import isolate

    with usage_errors():
        sizes = swept(minbytes, maxbytes, stepfactor)
        plan = CollectivesPlan(KINDS[name], sizes, hosts if ranks is None else ranks, hosts, **chosen)
    isolate()
    interrupt_on_signals()
    try:
        _run(plan, as_json)
    except KeyboardInterrupt:
        raise interrupted("interrupted; the lab is taken down") from None


def _run(plan: Any, as_json: bool) -> None:
    from mrc.bench.collectives.run import document, run_collectives
    from mrc.bench.collectives.table import header, ratios, table
    from mrc.cli.bench_machine import machine_line

    telling = sys.stderr.isatty()

    def on_row(name: str, row: Mapping[str, Any]) -> None:
        if telling:
            time_us = row["time_us"]
            took = "" if time_us is None else f"{time_us:.1f} us, "
            note(f"{name}: {row['size_bytes']} bytes: {took}busbw {row['busbw_gbytes_per_s']:.3f} GB/s")

    def on_run(number: int, name: str) -> None:
        if telling:
            note(f"round {number + 1} of {plan.rounds}: {name} done")

    results = run_collectives(plan, on_row, on_run)
    if as_json:
        print_json(document(results))
    else:
        click.echo("\n".join(header(results)))
        click.echo(f"# {machine_line()}")
        for name in results.rounds.documents:
            click.echo("\n".join(table(results, name)))
        for line in ratios(results):
            click.echo(line)
    if results.faults:
        raise click.ClickException("; ".join(results.faults))


collective_commands = tuple(_command(name) for name in COMMANDS)
