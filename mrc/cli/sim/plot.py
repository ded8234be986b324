# SPDX-License-Identifier: BSD-2-Clause
"""`mrc sim plot`: pictures from the Parquet files of a run or a sweep."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from mrc.cli.commands import ErrorGroup

F = TypeVar("F", bound=Callable[..., Any])
_LINK_COLUMNS = ("bytes", "packets", "dropped", "lost", "trimmed", "marked", "largest_queue")
_results = click.Path(file_okay=False, path_type=Path)


@click.group(cls=ErrorGroup)
def plot() -> None:
    """Draw results as SVG, PNG or PDF. Needs matplotlib and pyarrow (pip install 'softmrc[plot,parquet]').

    \b
    Examples:
      mrc sim plot fct incast.results
      mrc sim plot goodput whole.results cut.results --out goodput.svg
      mrc sim plot links incast.results --column largest_queue
      mrc sim plot lines trimming.sweep --x workloads.0.senders --y fct_p99_us --by links.hosts.trim_at
      mrc sim plot heat evs.sweep --x policies.evs --y links.fabric.loss --figure fct_p99_us
    """


def _ending(_context: click.Context, _option: click.Parameter, out: Path | None) -> Path | None:
    from mrc.report.plots import FORMS

    if out is not None and out.suffix.removeprefix(".") not in FORMS:
        raise click.BadParameter(f"{out}: a plot is a .svg, .png or .pdf file")
    return out


def _out(function: F) -> F:
    return click.option(
        "--out", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", callback=_ending,
        help="Where the plot goes: .svg, .png or .pdf.  [default: RESULTS-PLOT.svg, with the names of all results]",
    )(function)  # fmt: skip


def _form(out: Path | None) -> str:
    return "svg" if out is None else out.suffix.removeprefix(".")


def _write(out: Path | None, results: tuple[Path, ...], kind: str, content: bytes) -> None:
    from mrc.whole_files import write_whole

    # A plot of several results is not that of the first.
    path = out or Path("-".join([*(each.resolve().stem for each in results), f"{kind}.svg"]))
    write_whole(path, content)
    click.echo(str(path))


@plot.command()
@click.argument("results", nargs=-1, required=True, type=_results, metavar="RESULTS...")
@click.option("--job", metavar="NAME", help="Only the writes of this job.")
@_out
def fct(results: tuple[Path, ...], job: str | None, out: Path | None) -> None:
    """Draw the distribution of flow completion times: of each job, or of each of several results.

    \b
    Examples:
      mrc sim plot fct incast.results
      mrc sim plot fct trimmed.results dropped.results --job incast-0
    """
    from mrc.sim.plots import completion_times

    _write(out, results, "fct", completion_times(results, job, form=_form(out)))


@plot.command()
@click.argument("results", nargs=-1, required=True, type=_results, metavar="RESULTS...")
@_out
def goodput(results: tuple[Path, ...], out: Path | None) -> None:
    """Draw goodput over time. The experiment needs a `sample`.

    \b
    Examples:
      mrc sim plot goodput incast.results
      mrc sim plot goodput whole.results cut.results --out cut.svg
    """
    from mrc.sim.plots import goodput as draw

    _write(out, results, "goodput", draw(results, form=_form(out)))


@plot.command()
@click.argument("results", type=_results, metavar="RESULTS")
@click.option("--column", type=click.Choice(_LINK_COLUMNS), default="bytes", show_default=True, help="What is shown.")
@click.option(
    "--direction", type=click.Choice(["up", "down"]), default="up", show_default=True, help="Up: away from the hosts."
)
@_out
def links(results: Path, column: str, direction: str, out: Path | None) -> None:
    """Draw a heat map of the links between leaves and spines, plane by plane.

    \b
    Examples:
      mrc sim plot links incast.results
      mrc sim plot links incast.results --column largest_queue --direction down
    """
    from mrc.sim.plots import links as draw

    _write(out, (results,), f"links-{column}", draw(results, column, direction, form=_form(out)))


@plot.command()
@click.argument("sweep", type=_results, metavar="SWEEP")
@click.option("--x", required=True, metavar="KEY", help="Key of the grid along the axis, or `case`.")
@click.option("--y", required=True, metavar="FIGURE", help="What is drawn: fct_p99_us, goodput_gbps, ...")
@click.option("--by", metavar="KEY", help="A line for each value of this key, or `case`.")
@click.option("--log-x", is_flag=True, help="Values that double are as far apart.")
@_out
def lines(sweep: Path, x: str, y: str, by: str | None, log_x: bool, out: Path | None) -> None:
    """Draw a figure of a sweep over one key. Seeds are one line, their mean, with least and most around it.

    \b
    Examples:
      mrc sim plot lines trimming.sweep --x workloads.0.senders --y fct_p99_us --by links.hosts.trim_at
      mrc sim plot lines planes.sweep --x case --y goodput_gbps
    """
    from mrc.sim.plots import lines as draw

    _write(out, (sweep,), y, draw(sweep, x, y, by, log_x=log_x, form=_form(out)))


@plot.command()
@click.argument("sweep", type=_results, metavar="SWEEP")
@click.option("--x", required=True, metavar="KEY", help="Key of the grid along the axis, or `case`.")
@click.option("--y", required=True, metavar="KEY", help="Key of the grid up the axis, or `case`.")
@click.option("--figure", required=True, metavar="FIGURE", help="What the colour shows: fct_p99_us, goodput_gbps, ...")
@_out
def heat(sweep: Path, x: str, y: str, figure: str, out: Path | None) -> None:
    """Draw a figure of a sweep as a heat map over two keys: the mean of all seeds.

    \b
    Examples:
      mrc sim plot heat evs.sweep --x policies.evs --y links.fabric.loss --figure fct_p99_us
    """
    from mrc.sim.plots import heat as draw

    _write(out, (sweep,), f"{figure}-heat", draw(sweep, x, y, figure, form=_form(out)))
