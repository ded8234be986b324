# SPDX-License-Identifier: BSD-2-Clause
"""Plots of simulations from their Parquet files: completion times, goodput over time, links, and sweeps.

Each is the content of a file of the `form` asked for: svg, png or pdf.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mrc.errors import CallerError
from mrc.fabric import units
from mrc.report.plots import legend, picture
from mrc.sim.results import parquet
from mrc.sim.words import LINK_WORDS, figure_words, key_words, with_key

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LINK = re.compile(r"p([0-9]+)[ls]([0-9]+)-p[0-9]+[sc]([0-9]+)")
_MOST_LINES = 20
_MOST_POINTS = 2_000
_COLOURS = "viridis"
# The largest of the values over the least, from where an axis is logarithmic.
_FAR_APART = 4
# Up to how many powers of ten an axis has which ticks in each.
_TICKS = ((1.5, (1, 1.5, 2, 3, 5, 7)), (3, (1, 2, 5)), (np.inf, (1,)))


def completion_times(directories: Sequence[Path], job: str | None = None, *, form: str = "svg") -> bytes:
    """The distribution of flow completion times, a line for each result, or for each job of a single one."""
    lines: dict[str, np.ndarray[Any, Any]] = {}
    for name, directory in _named(directories).items():
        flows = parquet.read(directory / "flows.parquet", ["job", "fct"])
        jobs = sorted(set(flows["job"].tolist()))
        if job is not None and job not in jobs:
            raise CallerError(f"{directory}: no job {job!r}: there are {', '.join(jobs)}")
        for each in [job] if job is not None else jobs if len(directories) == 1 else [None]:
            chosen = flows["fct"] if each is None else flows["fct"][flows["job"] == each]
            lines[name if each is None or len(directories) > 1 else each] = np.sort(chosen[chosen >= 0]) / 1e3
    if not any(len(each) for each in lines.values()):
        raise CallerError("no write has completed: there are no completion times to draw")

    def draw(figure: Figure) -> None:
        axes: Any = figure.add_subplot()
        for label, fct_us in lines.items():
            share = np.arange(1, len(fct_us) + 1) / max(1, len(fct_us)) * 100
            step = max(1, len(fct_us) // _MOST_POINTS)
            # From 0: none had completed before the first did.
            at = np.append(fct_us[:1], fct_us[::-step][::-1])
            done = np.append(np.zeros(len(fct_us[:1])), share[::-step][::-1])
            axes.step(at, done, where="post", label=f"{label} ({len(fct_us):,})")
        _log_axis(axes, np.concatenate(list(lines.values())))
        axes.set_xlabel("flow completion time, us")
        axes.set_ylabel("writes that have completed, %")
        axes.set_ylim(0, 100)
        axes.grid(alpha=0.3)
        legend(axes)

    return picture("Flow completion times", draw, form)


def goodput(directories: Sequence[Path], *, form: str = "svg") -> bytes:
    """What all hosts receive over time, each byte once; a line for each result."""
    series = {}
    for name, directory in _named(directories).items():
        found = parquet.read(directory / "series.parquet", ["time_ns", "placed_bytes"])
        if len(found["time_ns"]) < 2:
            raise CallerError(f"{directory}: has no time series: set sample in the experiment, as sample: 10us")
        series[name] = found

    def draw(figure: Figure) -> None:
        axes: Any = figure.add_subplot()
        for label, found in series.items():
            length = np.diff(found["time_ns"], prepend=0)
            rate = found["placed_bytes"] * 8 / np.maximum(1, length)
            axes.plot(found["time_ns"] / 1e3, rate, label=label, linewidth=1.2)
        axes.set_xlabel("virtual time, us")
        axes.set_ylabel("goodput of all hosts, Gbit/s")
        axes.set_ylim(bottom=0)
        axes.set_xlim(left=0)
        axes.grid(alpha=0.3)
        if len(series) > 1:
            legend(axes)

    return picture("Goodput over time", draw, form)


def links(directory: Path, column: str, direction: str, *, form: str = "svg") -> bytes:
    """A heat map of the links between switches for each plane: leaves (in three tiers spines too) by what is above."""
    found = parquet.read(directory / "links.parquet", ["link", "direction", "tier", column])
    planes: dict[int, dict[tuple[int, int], int]] = {}
    chosen = (found["direction"] == direction) & (found["tier"] == "leaf")
    for name, value in zip(found["link"][chosen], found[column][chosen].tolist(), strict=True):
        match = _LINK.fullmatch(name)
        assert match is not None
        planes.setdefault(int(match[1]), {})[int(match[2]), int(match[3])] = value

    def draw(figure: Figure) -> None:
        most = max(1, max(max(cells.values()) for cells in planes.values()))
        several: Any = figure.subplots(1, len(planes), squeeze=False, sharey=True)[0]
        for axes, (plane, cells) in zip(several, sorted(planes.items()), strict=True):
            shape = tuple(1 + max(key[axis] for key in cells) for axis in (0, 1))
            grid = np.full(shape, np.nan)
            for key, value in cells.items():
                grid[key] = value
            for axis in (axes.xaxis, axes.yaxis):
                axis.get_major_locator().set_params(integer=True)
            image = axes.imshow(grid, aspect="auto", vmin=0, vmax=most, cmap=_COLOURS, interpolation="nearest")
            axes.set_title(f"plane {plane}", fontsize=8)
            axes.set_xlabel("number of the spine")
        several[0].set_ylabel("number of the leaf")
        figure.colorbar(image, ax=list(several), label=LINK_WORDS[column])

    return picture(f"Links between leaves and spines, {direction}", draw, form)


def lines(directory: Path, x: str, y: str, by: str | None = None, *, log_x: bool = False, form: str = "svg") -> bytes:
    """A figure of a sweep's cells over one key, a line for each value of another; seeds as mean, least and most."""
    rows = _summary(directory, [x, y, *([by] if by else [])])
    places, labels, measured = _axis(rows[x])
    groups = rows[by] if by else np.zeros(len(places))
    names = list(dict.fromkeys(groups.tolist()))
    if len(names) > _MOST_LINES:
        raise CallerError(f"{by} has {len(names)} values: at most {_MOST_LINES} lines can be told apart")

    def draw(figure: Figure) -> None:
        axes: Any = figure.add_subplot()
        for name in names:
            at = np.unique(places[groups == name])
            values = [rows[y][(groups == name) & (places == each)] for each in at]
            values = [each[~np.isnan(each.astype(float))].astype(float) for each in values]
            kept = [number for number, each in enumerate(values) if len(each)]
            at, values = at[kept], [values[number] for number in kept]
            means, least, most = ([function(each) for each in values] for function in (np.mean, np.min, np.max))
            # Between names there is nothing to connect.
            (line,) = axes.plot(
                at, means, marker="o", markersize=3.5, linestyle="-" if measured else "", label=_text(by, name)
            )
            if measured:
                axes.fill_between(at, least, most, color=line.get_color(), alpha=0.2)
            else:
                axes.vlines(at, least, most, color=line.get_color(), alpha=0.4)
        if log_x:
            axes.set_xscale("log", base=2)
        axes.set_xticks(*_ticks(places, labels))
        axes.minorticks_off()
        axes.set_xlabel(key_words(x))
        axes.set_ylabel(figure_words(y))
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.3)
        if by:
            legend(axes)

    return picture(_title(directory, y), draw, form)


def heat(directory: Path, x: str, y: str, figure_name: str, *, form: str = "svg") -> bytes:
    """A figure of a sweep's cells as colour over two keys: the mean of all seeds."""
    rows = _summary(directory, [x, y, figure_name])
    x_places, x_labels, _ = _axis(rows[x])
    y_places, y_labels, _ = _axis(rows[y])
    columns, lines_ = np.unique(x_places), np.unique(y_places)
    grid = np.full((len(lines_), len(columns)), np.nan)
    for row, line in enumerate(lines_):
        for place, column in enumerate(columns):
            values = rows[figure_name][(y_places == line) & (x_places == column)].astype(float)
            if len(values) and not np.isnan(values).all():
                grid[row, place] = np.nanmean(values)

    def draw(figure: Figure) -> None:
        axes: Any = figure.add_subplot()
        image = axes.imshow(grid, aspect="auto", origin="lower", cmap=_COLOURS, interpolation="nearest")
        axes.set_xticks(range(len(columns)), [x_labels[each] for each in columns.tolist()])
        axes.set_yticks(range(len(lines_)), [y_labels[each] for each in lines_.tolist()])
        axes.set_xlabel(key_words(x))
        axes.set_ylabel(key_words(y))
        middle = (np.nanmin(grid) + np.nanmax(grid)) / 2
        for (row, column), value in np.ndenumerate(grid):
            colour = "white" if value < middle else "black"
            axes.text(column, row, "-" if np.isnan(value) else f"{value:.4g}", ha="center", va="center", color=colour)
        figure.colorbar(image, ax=axes, label=figure_words(figure_name))

    return picture(_title(directory, figure_name), draw, form)


# ------------------------------------------------------------------ reading


def _named(directories: Sequence[Path]) -> dict[str, Path]:
    """Results by the name a line gets; a sweep stands for all its cells."""
    found: dict[str, Path] = {}
    for directory in directories:
        if not (directory / "flows.parquet").is_file():
            raise CallerError(f"{directory}: no results of mrc sim run are there")
        name = directory.name.removesuffix(".results")
        found[name if name not in found else str(directory)] = directory
    if len(found) > _MOST_LINES:
        raise CallerError(f"{len(found)} results: at most {_MOST_LINES} lines can be told apart")
    return found


def _summary(directory: Path, wanted: Sequence[str]) -> dict[str, np.ndarray[Any, Any]]:
    path = directory / "summary.parquet"
    if not path.is_file():
        raise CallerError(f"{directory}: has no summary.parquet: it is there when `mrc sim sweep` has all cells")
    rows = parquet.read(path)
    for name in wanted:
        if name not in rows:
            raise CallerError(f"{directory}: no {name!r} in this sweep: there are {', '.join(rows)}")
    return rows


def _axis(values: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], dict[float, str], bool]:
    """Where the values of a key stand on an axis, their labels, and whether they are quantities: names stand in their
    order."""
    for read in _READERS:
        try:
            places = np.array([read(value) for value in values.tolist()], float)
        except (CallerError, ValueError, TypeError):
            continue
        return places, dict(zip(places.tolist(), map(str, values.tolist()), strict=True)), True
    order = {value: float(number) for number, value in enumerate(dict.fromkeys(values.tolist()))}
    labels = {place: str(value) for value, place in order.items()}
    return np.array([order[value] for value in values.tolist()]), labels, False


_READERS: tuple[Callable[[Any], float], ...] = (
    float,
    units.size_bytes,
    units.rate_bps,
    units.duration_ns,
    units.share,
)


def _ticks(places: np.ndarray[Any, Any], labels: Mapping[float, str]) -> tuple[list[float], list[str]]:
    at = sorted(set(places.tolist()))
    return at, [labels[each] for each in at]


def _text(by: str | None, value: Any) -> str:
    return "" if by is None else with_key(by, value)


def _title(directory: Path, figure: str) -> str:
    return f"{directory.name.removesuffix('.sweep')}: {figure_words(figure)}"


def _log_axis(axes: Any, values: np.ndarray[Any, Any]) -> None:
    """Make x logarithmic where the values are far apart, with a few ticks in each power of ten, written out."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

    if values.min() <= 0 or values.max() < _FAR_APART * values.min():
        axes.xaxis.set_major_formatter(FuncFormatter(_plain))
        return
    axes.set_xscale("log")
    decades = np.log10(values.max() / values.min())
    axes.xaxis.set_major_locator(LogLocator(subs=next(subs for most, subs in _TICKS if decades <= most)))
    axes.xaxis.set_major_formatter(FuncFormatter(_plain))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_minor_formatter(NullFormatter())


def _plain(value: float, _: int) -> str:
    return f"{value:,.10g}"
