# SPDX-License-Identifier: BSD-2-Clause
"""`mrc sim run`: one experiment, with its results as Parquet."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mrc.cli.common import interrupt_on_signals, interrupted, json_option, note, print_json
from mrc.cli.live_line import LiveLine
from mrc.cli.sim.settings import built, estimate_text, force_option, read_experiment, set_option, show_cause, span_text

if TYPE_CHECKING:
    from mrc.sim.cluster import Progress
    from mrc.sim.experiment import Experiment
    from mrc.sim.results.estimate import Estimate
    from mrc.sim.results.execute import Executed


@click.command()
@click.argument("file", type=click.Path(path_type=Path), metavar="FILE")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Where the Parquet files go.  [default: NAME.results, by the experiment's name]",
)
@click.option("--overwrite", is_flag=True, help="Replace results that are there.")
@click.option("--seed", type=click.IntRange(0, (1 << 32) - 1), help="Another seed than the file's.")
@click.option(
    "--threads",
    type=click.IntRange(1, 64),
    metavar="N",
    help="How many threads compute. They change no result.  [default: one for each processor; 1 where the experiment "
    "names Python]",
)
@set_option
@force_option
@click.option("--dry-run", is_flag=True, help="Check the file and estimate the cost; simulate nothing.")
@json_option
def run(
    file: Path,
    out: Path | None,
    overwrite: bool,
    seed: int | None,
    threads: int | None,
    settings: tuple[str, ...],
    force: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Simulate the experiment of FILE (YAML) and write its results as Parquet files.

    FILE says the topology, links, workloads, failures and policies: docs/experiments.md, or `mrc sim schema`. What it
    names as Python (FILE.py:FUNCTION) is executed. A sweep in FILE is for `mrc sim sweep`; here it is not looked at.
    Results need pyarrow (pip install 'softmrc[parquet]'). The same experiment and seed give the same bytes. Several
    threads have work where there are 512 hosts or more.

    The exit status is 1 where the run failed: then nothing is written. It is 1 as well where writes had failed or had
    not completed at the end: then the results are written all the same, and stderr has which writes.

    \b
    Examples:
      mrc sim run incast.yaml
      mrc sim run incast.yaml --dry-run
      mrc sim run incast.yaml --set workloads.0.senders=32 --seed 2 --out incast-32
      mrc sim run incast.yaml --json | jq .figures.fct_p99_us
    """
    from mrc.errors import MrcError, SystemRefused
    from mrc.sim.results import memory
    from mrc.sim.results.estimate import estimate
    from mrc.sim.results.execute import execute
    from mrc.sim.results.parquet import ResultsDirectory, check_pyarrow
    from mrc.sim.results.unfinished import unfinished

    experiment_file = read_experiment(file, settings, seed)
    experiment = built(experiment_file)
    threads = threads or _threads(experiment)
    expected = estimate(experiment.setup, threads)
    if dry_run:
        _print_plan(experiment, expected, as_json)
        return
    check_pyarrow()
    if not force:
        memory.check(expected.bytes, "this run", "make it smaller, or go on with --force")
    directory = out or Path(f"{experiment.name}.results")
    results = ResultsDirectory(directory, overwrite=overwrite)
    progress = _Progress(experiment.name, expected)
    try:
        interrupt_on_signals(progress.interrupt)
        note(f"{experiment.name}: {_size_text(experiment)}; {estimate_text(expected)}")
        with progress.line:
            done = execute(experiment_file, experiment, progress.show, threads)
    except KeyboardInterrupt:
        raise interrupted("interrupted; nothing is written") from None
    except MrcError as error:
        show_cause(error)
        raise
    except MemoryError:
        raise SystemRefused("the run took more memory than there is; nothing is written") from None
    results.write(done.files)
    left = unfinished(done.experiment, done.outcome)
    if as_json:
        print_json(_document(done, directory, left))
    else:
        _print(done, directory)
    for sentence in left:
        note(f"Error: {sentence}")
    if left:
        raise click.exceptions.Exit(1)


def _threads(experiment: Experiment) -> int:
    """A controller of the user's own may not be made for several threads."""
    return min(64, len(os.sched_getaffinity(0))) if isinstance(experiment.setup.policies.controller, str) else 1


def _size_text(experiment: Experiment) -> str:
    from mrc.report.units import plural

    setup = experiment.setup
    return f"{plural(setup.topology.hosts, 'host')}, {plural(len(setup.flows), 'write')}"


def _print_plan(experiment: Experiment, expected: Estimate, as_json: bool) -> None:
    setup = experiment.setup
    document: dict[str, Any] = {
        "name": experiment.name,
        "hosts": setup.topology.hosts,
        "planes": setup.topology.planes,
        "switches": setup.topology.switches,
        "links": setup.topology.cables,
        "jobs": list(experiment.jobs),
        "writes": len(setup.flows),
        "failures": len(setup.failures),
        "data_packets": expected.packets,
        "packet_hops": expected.hops,
        "seconds": round(expected.seconds, 1),
        "memory_bytes": expected.bytes,
        "ideal_us": round(expected.ideal_us, 3),
    }
    if as_json:
        print_json(document)
        return
    click.echo(f"{experiment.name}: {_size_text(experiment)} in {', '.join(experiment.jobs)}")
    click.echo(
        f"  {setup.topology.switches:,} switches, {setup.topology.cables:,} links, {len(setup.failures):,} failures"
    )
    click.echo(f"  {expected.packets:,} data packets; {estimate_text(expected)}")
    click.echo(f"  at the rate of the hosts' ports the writes take {expected.ideal_us:,.1f} us")


class _Progress:
    """A line on a terminal that is written anew; elsewhere a line every minute. Ends an interrupted run."""

    def __init__(self, name: str, expected: Estimate) -> None:
        self._name = name
        self._expected = expected
        self.line = LiveLine()
        self._said_s = 0.0
        self._runs = False
        self._interrupted = False

    def interrupt(self) -> bool:
        """Called from the handler of a signal. While the compiled simulator runs, `show` ends it."""
        again, self._interrupted = self._interrupted, True
        return self._runs and not again

    def show(self, now: Progress) -> None:
        # Behind it there is Python, which a signal ends by itself.
        self._runs = not now.over
        if self._interrupted:
            raise KeyboardInterrupt
        share = max(
            now.now_ns / now.end_ns,
            now.flows_done / max(1, now.flows),
            min(0.99, now.events / max(1, self._expected.hops)),
        )
        left = "" if share < 0.01 else f", {span_text(now.wall_s * (1 - share) / share)} left"
        rate = now.events / max(1e-9, now.wall_s)
        text = (
            f"{self._name}: {now.now_ns / 1e3:,.1f} us simulated, {now.flows_done:,} of {now.flows:,} writes done, "
            f"{rate:,.0f} events/s{left}"
        )
        if self.line.on_terminal:
            self.line.show(text)
        elif now.wall_s - self._said_s >= 60:
            self._said_s = now.wall_s
            note(text)


def _document(done: Executed, directory: Path, left: list[str]) -> dict[str, Any]:
    outcome = done.outcome
    return {
        "results": str(directory),
        **{key: done.about[key] for key in ("name", "model", "version", "seed", "validated", "notes", "digest")},
        "figures": done.about["figures"],
        "jobs": done.about["jobs"],
        "unfinished": left,
        "seconds": round(outcome.wall_s, 3),
        "peak_memory_bytes": outcome.peak_bytes,
    }


def _print(done: Executed, directory: Path) -> None:
    from mrc.report.tables import aligned
    from mrc.report.units import number_text, size_text

    figures, outcome = done.about["figures"], done.outcome
    headings = ["job", "writes", "done", "took, us", "FCT median, us", "99 %", "largest"]
    rows = [
        [
            each["job"],
            f"{each['flows']:,}",
            f"{each['flows_done']:,}",
            *(number_text(each[key], ",.2f") for key in ("took_us", "fct_p50_us", "fct_p99_us", "fct_max_us")),
        ]
        for each in done.about["jobs"]
    ]
    for line in aligned([headings, *rows], right=range(1, len(headings))):
        click.echo(line)
    click.echo(
        f"{figures['goodput_gbps']:,.2f} Gbit/s over all hosts; {figures['data_packets']:,} data packets, "
        f"{figures['retransmissions']:,} retransmitted, {figures['spurious']:,} of them spurious; "
        f"{figures['trimmed']:,} trimmed, {figures['dropped']:,} dropped, {figures['lost']:,} lost, "
        f"{figures['marked']:,} marked"
    )
    click.echo(
        f"{outcome.packet_hops:,} packet-hops in {span_text(outcome.wall_s)}, "
        f"{outcome.packet_hops / max(1e-9, outcome.wall_s):,.0f} a second, {size_text(outcome.peak_bytes)}"
    )
    click.echo(f"{directory}")
