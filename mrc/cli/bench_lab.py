# SPDX-License-Identifier: BSD-2-Clause
"""`mrc bench lab`: MRC beside other transports, in a lab of its own."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from mrc.bench.baselines import BASELINES, LATENCY_BASELINES
from mrc.cli.bench_machine import machine_line
from mrc.cli.common import DURATION, PATH_MTUS, SHARE, SIZE, Names, Size, interrupted, json_option, note, print_json
from mrc.report.tables import aligned

if TYPE_CHECKING:
    from mrc.bench.lab_run import LabPlan
    from mrc.bench.rounds import Rounds
    from mrc.fabric import Clos

# What --compare may change: name of the setting, and how its value is read.
_COMPARED: dict[str, tuple[str, click.ParamType[Any]]] = {
    "size": ("size", Size(1)),
    "qps": ("qps", click.IntRange(1)),
    "idle-qps": ("idle_qps", click.IntRange(0)),
    "paths": ("paths", click.IntRange(1)),
    "loss": ("loss", SHARE),
    "mtu": ("mtu", PATH_MTUS),
    "depth": ("depth", click.IntRange(1)),
}


class _Comparison(click.ParamType[dict[str, Any]]):
    """`qps=8` or `qps=8,mtu=1024`: settings to change."""

    name = "comparison"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> dict[str, Any]:
        if isinstance(value, dict):
            return value
        changes: dict[str, Any] = {}
        for part in str(value).split(","):
            name, equals, text = part.strip().partition("=")
            if name not in _COMPARED or not equals:
                self.fail(f"{part!r} is not NAME=VALUE with a name of {', '.join(_COMPARED)}", param, ctx)
            setting, kind = _COMPARED[name]
            changed = kind.convert(text, param, ctx)
            changes[setting] = int(changed) if setting == "mtu" else changed
        return {"label": f"mrc({value})", "changes": changes}


@click.command()
@click.option("--planes", type=click.IntRange(1, 16), default=2, show_default=True, help="Independent planes, 1 to 16.")
@click.option(
    "--spines", type=click.IntRange(1, 256), default=4, show_default=True, help="Spines, and so paths, per plane."
)
@click.option("--size", type=SIZE, help="Bytes per RDMA write. [default: 1MiB; with --latency 2]")
@click.option("--seconds", type=DURATION, default="3s", show_default=True, help="How long each run takes.")
@click.option("--qps", type=click.IntRange(1, 256), default=1, show_default=True, help="Queue pairs that write.")
@click.option(
    "--idle-qps",
    type=click.IntRange(0, 16384),
    default=0,
    show_default=True,
    help="Further queue pairs, connected but idle.",
)
@click.option(
    "--depth", type=click.IntRange(1, 4096), help="Writes outstanding on a QP. [default: 8 MiB of them, 4 to 128]"
)
@click.option("--paths", type=click.IntRange(1), metavar="N", help="Only the first N paths. [default: all there are]")
@click.option(
    "--loss", type=SHARE, default="0%", show_default=True, metavar="PERCENT",
    help="Random loss from end to end on every path, each way; baselines suffer it too.",
)  # fmt: skip
@click.option("--mtu", type=PATH_MTUS, default="4096", show_default=True, help="Path MTU, payload bytes.")
@click.option(
    "--rounds", type=click.IntRange(1, 1000), default=5, show_default=True, help="How often each subject runs."
)
@click.option(
    "--baseline", "baselines", type=Names(BASELINES, every="all"), default="", metavar="NAME,...",
    help="Also measure these in each round: bare (the same packets over the same paths from a C program, without a "
    "transport), udp (iperf3 -u -b 0 -l MTU), tcp (iperf3), tcp-no-offload (iperf3 without segmentation and receive "
    "offload), mptcp (iperf3 over the kernel's MPTCP, every plane), aioquic (a stream over QUIC in Python), ngtcp2 (a "
    "download over QUIC in C), ucx (ucx_perftest over TCP); or all. With --latency: udp (a ping-pong in C), ucx.",
)  # fmt: skip
@click.option(
    "--compare", "comparisons", type=_Comparison(), multiple=True, metavar="NAME=VALUE[,...]",
    help=f"Also measure MRC with this changed ({', '.join(_COMPARED)}); may be repeated.",
)  # fmt: skip
@click.option("--fast", is_flag=True, help="Measure in a lab built with `mrc lab up --fast`; needs root.")
@click.option("--latency", is_flag=True, help="Measure half round trips of small writes instead of goodput.")
@click.option(
    "--suite", is_flag=True,
    help="Measure all of these in each round: goodput and its CPU time, half a round trip of 2 bytes, 64-byte messages "
    "a second, goodput at 1% loss, and how long no data arrives after a cable of plane 0 is cut.",
)  # fmt: skip
@json_option
def lab(
    planes: int,
    spines: int,
    size: int | None,
    seconds: float,
    qps: int,
    idle_qps: int,
    depth: int | None,
    paths: int | None,
    loss: float,
    mtu: str,
    rounds: int,
    baselines: tuple[str, ...],
    comparisons: tuple[dict[str, Any], ...],
    fast: bool,
    latency: bool,
    suite: bool,
    as_json: bool,
) -> None:
    """Measure MRC in a private lab, beside other transports and beside MRC with other settings.

    The lab is in srv6 mode. Each round runs every subject once, one right after another, in new processes; every second
    round runs in reverse order. The table shows medians with their spread, ratios of medians, and the median of the
    ratios within the rounds. The speed of a machine drifts, so trust the ratios. Only --fast needs root.

    \b
    Examples:
      mrc bench lab --baseline udp,bare
      mrc bench lab --baseline udp --mtu 1024 --seconds 5s --rounds 9
      mrc bench lab --baseline udp,tcp,mptcp,aioquic --json > bench.json
      mrc bench lab --compare qps=8 --compare idle-qps=1000 --compare loss=1%
      mrc bench lab --spines 8 --compare paths=1
      mrc bench lab --size 64 --depth 128
      mrc bench lab --latency --baseline udp,ucx
      mrc bench lab --suite --baseline tcp,ngtcp2,ucx
      mrc bench lab --suite --baseline all --seconds 2s --json > suite.json
      mrc bench lab --fast --baseline bare
    """
    from mrc.cli.isolation import isolate
    from mrc.fabric import Clos

    if not seconds:
        raise click.UsageError("--seconds must be above 0")
    if suite and (latency or comparisons or loss or size is not None):
        raise click.UsageError("--suite chooses sizes and loss itself: leave out --latency, --compare, --loss, --size")
    if latency and set(baselines) - set(LATENCY_BASELINES):
        raise click.UsageError(f"--latency has the baselines {', '.join(LATENCY_BASELINES)}")
    changed = {setting for each in comparisons for setting in each["changes"]}
    if latency and (qps != 1 or depth is not None or changed & {"qps", "depth"}):
        raise click.UsageError("--latency is a ping-pong on one QP: leave out --qps and --depth, in --compare too")
    isolate()
    chosen = {
        "size": size if size is not None else (2 if latency else 1 << 20),
        "seconds": seconds,
        "qps": qps,
        "idle_qps": idle_qps,
        "paths": paths,
        "loss": loss,
        "mtu": int(mtu),
        "depth": depth,
        "latency": latency,
    }
    try:
        _measure(chosen, comparisons, Clos(planes=planes, spines=spines), baselines, rounds, fast, suite, as_json)
    except KeyboardInterrupt:
        raise interrupted("interrupted; the lab is taken down") from None


def _measure(
    chosen: dict[str, Any],
    comparisons: tuple[dict[str, Any], ...],
    shape: Clos,
    baselines: tuple[str, ...],
    rounds: int,
    fast: bool,
    suite: bool,
    as_json: bool,
) -> None:
    from mrc.bench.lab_run import LabPlan, document, run_lab
    from mrc.bench.settings import Settings, Variant

    settings = Settings(**chosen)
    variants = tuple(Variant(each["label"], settings.changed(**each["changes"])) for each in comparisons)
    plan = LabPlan(shape, settings, variants, baselines, rounds, fast)
    if suite:
        from mrc.cli.bench_suite import measure_suite

        measure_suite(plan, as_json)
        return

    def tell(number: int, name: str, figures: Mapping[str, Any]) -> None:
        if sys.stderr.isatty():
            key, unit = ("t_typical_us", "us") if settings.latency else ("goodput_gbps", "Gbit/s")
            note(f"round {number + 1} of {rounds}: {name} {figures[key]:.3f} {unit}")

    found = run_lab(plan, tell)
    if as_json:
        print_json(document(plan, found))
    else:
        _print(plan, found)


def _print(plan: LabPlan, rounds: Rounds) -> None:
    from mrc.bench.lab_run import compared_keys, comparisons

    latency, shape, settings = plan.settings.latency, plan.shape, plan.settings
    headings = (
        (("t_min[us]", "t_min_us"), ("t_typical[us]", "t_typical_us"), ("99%[us]", "p99_us"), ("99.9%[us]", "p999_us"))
        if latency
        else (
            ("Gbit/s", "goodput_gbps"),
            ("kpps", "kpps"),
            ("messages/s", "message_rate_mps"),
            ("CPU s", "cpu_seconds"),
            ("CPU s/GB", "cpu_seconds_per_gb"),
            ("retransmitted", "retransmitted_packets"),
        )
    )
    fabric = ", fast fabric" if plan.fast else ""
    click.echo(
        f"{shape.planes} planes x {shape.spines} spines{fabric}, writes of {settings.size} bytes in packets of "
        f"{settings.mtu}, {plan.rounds} rounds of {settings.seconds:g} s; medians, (least..most)"
    )
    click.echo(machine_line())
    rows = [["", *(heading for heading, _ in headings)]]
    rows += [[name, *(_cell(rounds, name, key) for _, key in headings)] for name in rounds.documents]
    click.echo("\n".join(aligned(rows)))
    for name in rounds.documents:
        spread = rounds.spread(name, "per_qp_spread")
        if spread is not None and len(rounds.documents[name][0]["per_qp_gbps"]) > 1:
            click.echo(f"{name}: the smallest share of a QP is {spread.median:.1%} below the largest")
    ratios = [["ratio", "of medians", "median of pairs", ""]]
    for above, below in comparisons(plan):
        for key, suffix in compared_keys(plan):
            of_medians, pairs = rounds.ratio_of_medians(above, below, key), rounds.pair_ratios(above, below, key)
            if of_medians is None or pairs is None:
                ratios.append([f"{above}/{below}{suffix}", "-", "-", ""])
            else:
                range_text = f"({pairs.least:.3f}..{pairs.most:.3f})"
                ratios.append([f"{above}/{below}{suffix}", f"{of_medians:.3f}", f"{pairs.median:.3f}", range_text])
    if len(ratios) > 1:
        click.echo()
        click.echo("\n".join(aligned(ratios)))


def _cell(rounds: Rounds, name: str, key: str) -> str:
    spread = rounds.spread(name, key)
    if spread is None:
        return "-"
    digits = {"retransmitted_packets": 0, "message_rate_mps": 0, "kpps": 1, "goodput_gbps": 3}.get(key, 2)
    return f"{spread.median:.{digits}f} ({spread.least:.{digits}f}..{spread.most:.{digits}f})"
