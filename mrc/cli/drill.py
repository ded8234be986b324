# SPDX-License-Identifier: BSD-2-Clause
"""`mrc drill`: the experiments of the papers, each with its plot and its verdict."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mrc.cli.commands import ErrorGroup
from mrc.cli.common import SIZE, interrupted, json_option, note, print_json, usage_errors
from mrc.cli.completing import complete_drills
from mrc.cli.live_line import LiveLine

if TYPE_CHECKING:
    from mrc.drill.drill import Drill
    from mrc.drill.run import Result

DEFAULT_SEED = 1
# What building, connecting and taking down take beyond the script.
_AROUND_S = 3.0


@click.group(cls=ErrorGroup)
def drill() -> None:
    """Run the experiments of the MRC papers: build a lab, break it under load, and judge the result.

    \b
    Examples:
      mrc drill list
      mrc drill run leaf-fail
      mrc drill run all --out drills          a plot (SVG) and a result (JSON) of each in ./drills
    """


@drill.command(name="list")
@json_option
def list_drills(as_json: bool) -> None:
    """List all drills and what each expects.

    \b
    Examples:
      mrc drill list
      mrc drill list --json | jq '.drills[].name'
    """
    from mrc.drill.catalogue import DRILLS

    if as_json:
        print_json({"drills": [_described(each) for each in DRILLS.values()]})
        return
    for each in DRILLS.values():
        needs = "  (needs eBPF: root)" if each.needs_bpf else ""
        click.echo(f"{each.name:18} {each.summary}, {each.seconds:.0f} s{needs}")
        for expectation in each.own_expectations:
            click.echo(f"{'':20}{expectation}: {expectation.meaning}")


@drill.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...|all", shell_complete=complete_drills)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Write NAME.svg and NAME.json of each drill there.",
)
@click.option(
    "--seed",
    type=click.IntRange(0, 1 << 31),
    default=DEFAULT_SEED,
    show_default=True,
    help="Decides the bytes written, what a model is trained on and, where it is random, which cable breaks. It does "
    "not decide in which order an endpoint uses its EVs, nor which path the drill `lossy-path` makes lossy.",
)
@click.option(
    "--trim-to",
    type=SIZE,
    metavar="SIZE",
    help="What switches keep of a packet they trim, in bytes of the frame, for example 256. For drills that trim.  "
    "[default: the headers through the BTH and the 8 bytes after it]",
)
@click.option(
    "--hosts",
    type=int,
    metavar="N",
    help="How many hosts train in `training`, a rank on each: 2, 4, 6 or 8.  [default: 2]",
)
@click.option(
    "--torch",
    "with_torch",
    is_flag=True,
    help="Train a transformer in PyTorch in `training`, not the perceptron in numpy. Needs torch (docs/torch.md).",
)
@json_option
def run(
    names: tuple[str, ...],
    out: Path | None,
    seed: int,
    trim_to: int | None,
    hosts: int | None,
    with_torch: bool,
    as_json: bool,
) -> None:
    """Run drills in labs of their own, one after the other; `all` runs every one, in less than ten minutes.

    Only drills whose links mark or trim packets need root; without it they are "unsupported". A drill that fails while
    the machine was overloaded is repeated, up to twice. If the machine was overloaded each time, the verdict is
    "disturbed", and the load that was measured is printed. Exit status 0: at least one drill passed, and none failed or
    was disturbed. Exit status 1 otherwise. Plots need matplotlib (pip install 'softmrc[plot]').

    \b
    Examples:
      mrc drill run nic-link-fail
      mrc drill run leaf-fail spine-fail --out drills
      mrc drill run incast --trim-to 256
      mrc drill run training --hosts 4
      mrc drill run training --torch --out drills
      mrc drill run all --json > drills.json
    """
    from mrc.cli.isolation import isolate

    # Drills import numpy, which starts threads.
    isolate()
    from mrc.drill.catalogue import find
    from mrc.drill.training.plan import TRANSFORMER

    with usage_errors():
        chosen = find(names, hosts, TRANSFORMER if with_torch else None)
    if trim_to is not None:
        _check_kept(chosen, trim_to)

    results = []
    try:
        for each in chosen:
            result = _run_one(each, seed, out, trim_to if each.trims else None)
            results.append(result)
            if not as_json:
                _print(result)
    except KeyboardInterrupt:
        raise interrupted("interrupted; the lab is taken down") from None
    counts = {verdict: sum(each.verdict.value == verdict for each in results) for verdict in _VERDICTS}
    if as_json:
        print_json({"drills": [each.to_json() for each in results], **counts})
    note(", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count))
    if counts["disturbed"]:
        note("the machine was too busy for what is disturbed: it says nothing about the transport; run it again")
    if counts["failed"] or counts["disturbed"] or not counts["passed"]:
        raise click.exceptions.Exit(1)


_VERDICTS = ("passed", "failed", "disturbed", "unsupported")


def _described(each: Drill) -> dict[str, object]:
    return {
        "name": each.name,
        "summary": each.summary,
        "seconds": each.seconds,
        "needs_ebpf": each.needs_bpf,
        "expectations": [one.to_json() for one in each.all_expectations],
    }


def _check_kept(chosen: Sequence[Drill], trim_to: int) -> None:
    from mrc.drill.catalogue import DRILLS
    from mrc.fabric import Impairment

    if not any(each.trims for each in chosen):
        trim = ", ".join(each.name for each in DRILLS.values() if each.trims)
        raise click.UsageError(f"--trim-to says what switches keep of packets they trim: only these trim: {trim}")
    with usage_errors(f"--trim-to {trim_to}: "):
        Impairment(trim_to_bytes=trim_to)


def _run_one(each: Drill, seed: int, out: Path | None, trim_to: int | None) -> Result:
    from mrc.drill.run import run_drill
    from mrc.errors import SystemRefused

    if out is not None:
        try:
            out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SystemRefused(error.errno, f"cannot make {out}: {error.strerror}") from None
    with _Progress(each) as progress:
        return run_drill(each, seed, out, progress.left, progress.say, trim_to)


class _Progress:
    """One line on a terminal that counts down; elsewhere a line when a drill begins."""

    def __init__(self, each: Drill) -> None:
        self._name = each.name
        self._line = LiveLine()
        if not self._line.on_terminal:
            note(f"{each.name}: {each.summary}, about {each.seconds + _AROUND_S:.0f} s")
        else:
            self._line.show(f"{each.name}: building its lab")

    def left(self, seconds: float) -> None:
        self._line.show(f"{self._name}: {max(0.0, seconds):.0f} s left")

    def say(self, line: str) -> None:
        self._line.clear()
        note(line)

    def __enter__(self) -> _Progress:
        return self

    def __exit__(self, *error: object) -> None:
        self._line.clear()


def _print(result: Result) -> None:
    again = f", attempt {result.attempts}" if result.attempts > 1 else ""
    click.echo(f"{result.drill.name}: {result.verdict.value} ({result.seconds:.1f} s{again})")
    if result.judgement is None:
        click.echo(f"  unsupported here: {result.reason}")
        return
    if result.verdict.value == "unsupported":
        click.echo(f"  no judgement: {result.reason}")
    if result.verdict.value == "disturbed":
        click.echo(f"  the machine was too busy to judge by: {result.disturbed}")
    for check in result.judgement.checks:
        if check in result.judgement.failed:
            click.echo(f"  FAILED {check}")
        elif check.actual is not None:
            click.echo(f"  {check.expectation.figure:32} {check.actual:10.4g}   {check.expectation.words}")
    stalls = {name: value for name, value in result.judgement.figures.items() if name.endswith("_stall_ms")}
    shown = [f"{name.removesuffix('_stall_ms').upper()} {value:.0f} ms" for name, value in stalls.items() if value]
    if shown:
        click.echo(f"  longest without a byte in order: {', '.join(shown)}")
    if result.recording is not None:
        for reason in result.recording.extra.get("missing", {}).values():
            click.echo(f"  not compared with: {reason}")
    if result.plot is not None:
        click.echo(f"  {result.plot}")
