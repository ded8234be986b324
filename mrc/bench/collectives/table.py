# SPDX-License-Identifier: BSD-2-Clause
"""The table of nccl-tests, for each subject, and what MRC's bus bandwidth is beside each baseline's.

Columns, headings and footer are those of `writeBenchmarkLinePreamble` and its neighbours in nccl-tests' src/util.cu.
"""

from __future__ import annotations

from collections.abc import Sequence

from mrc.bench.collectives.kinds import IN_PLACE, OUT_OF_PLACE
from mrc.bench.collectives.run import ALGBW, BUSBW, TIME, Measured, Results
from mrc.bench.collectives.transports import MRC
from mrc.bench.rounds import Spread
from mrc.fabric.units import rate_text
from mrc.report.tables import aligned

_HEADINGS = {OUT_OF_PLACE: "out-of-place", IN_PLACE: "in-place"}
_MISSING = {
    OUT_OF_PLACE: "in place only: the operation has one array, and leaves its result there",
    IN_PLACE: "out of place only: what is sent and what is received are two arrays",
}
_GROUP = 7 + 2 + 6 + 2 + 6 + 2 + 6


def header(results: Results) -> list[str]:
    plan = results.plan
    rate = "" if plan.link_rate_bps is None else f", every link {rate_text(plan.link_rate_bps)}/s each way"
    missing = [text for place, text in _MISSING.items() if place not in plan.kind.places]
    return [
        f"# {plan.kind.name}: {plan.ranks} ranks on {plan.hosts} hosts, "
        f"{plan.planes} planes x {plan.spines} spines{rate}",
        f"# minBytes {plan.sizes[0]} maxBytes {plan.sizes[-1]} warmup iters: {plan.warm_up} iters: {plan.iterations} "
        f"validation: {plan.checks} blocking: each call is waited for; medians of {plan.rounds} rounds",
        *(f"# {text}" for text in missing),
        "# Ranks: " + ", ".join(f"{rank} on {host}" for rank, host in enumerate(plan.places)),
    ]


def table(results: Results, name: str) -> list[str]:
    """The lines of one subject."""
    plan = results.plan
    places = plan.kind.places
    lead = "# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}"
    above, heads, units = (lead.format(*cells) for cells in (
        ("", "", "", "", ""), ("size", "count", "type", "redop", "root"), ("(B)", "(elements)", "", "", ""),
    ))  # fmt: skip
    above += "".join(f"  {_HEADINGS[place]:^{_GROUP}}" for place in places)
    heads += "".join("  {:>7}  {:>6}  {:>6}  {:>6}".format("time", "algbw", "busbw", "#wrong") for _ in places)
    units += "".join("  {:>7}  {:>6}  {:>6}  {:>6}".format("(us)", "(GB/s)", "(GB/s)", "") for _ in places)
    lines = ["#", f"# {name}", above.rstrip(), heads.rstrip(), units.rstrip()]
    rows = results.rows(name)
    redop = plan.redop if plan.kind.reduces else "none"
    root = str(plan.root) if plan.kind.has_root else "-1"
    for first in range(0, len(rows), len(places)):
        row = rows[first]
        line = f"{row.size:12}  {row.count:12}  {plan.dtype:>8}  {redop:>6}  {root:>6}"
        lines.append(line + "".join(_cells(each) for each in rows[first : first + len(places)]))
    checked = [row.wrong for row in rows if row.wrong is not None]
    if checked:
        wrong = sum(checked)
        lines.append(f"# {'Out of bounds values':20} : {wrong} {'FAILED' if wrong else 'OK'}")
    lines.append(f"# {'Avg bus bandwidth':20} : {results.average_busbw(name):g}")
    return lines


def _cells(row: Measured) -> str:
    wrong = "N/A" if row.wrong is None else str(row.wrong)
    time, algbw, busbw = (row.spreads[key] for key in (TIME, ALGBW, BUSBW))
    return f"  {_time_text(time):>7}  {_bandwidth_text(algbw):>6}  {_bandwidth_text(busbw):>6}  {wrong:>6}"


def _time_text(spread: Spread | None) -> str:
    """Two to five digits, as nccl-tests writes times."""
    if spread is None:
        return "-"
    value = spread.median
    return f"{value:.2f}" if value < 99.995 else f"{value:.1f}" if value < 9999.95 else f"{value:.0f}"


def _bandwidth_text(spread: Spread | None) -> str:
    return "-" if spread is None else f"{spread.median:.2f}" if spread.median >= 0.1 else f"{spread.median:.4f}"


def ratios(results: Results) -> list[str]:
    """MRC's bus bandwidth divided by each baseline's in the same round: median (least..most). Nothing without any."""
    baselines = results.plan.baselines
    if not baselines:
        return []
    rows: list[Sequence[str]] = [["busbw", "", *(f"{MRC}/{name}" for name in baselines)]]
    for row, rounds in zip(results.rows(MRC), results.by_row, strict=True):
        cells = []
        for name in baselines:
            spread = rounds.pair_ratios(MRC, name, BUSBW)
            cells.append("-" if spread is None else f"{spread.median:.3f} ({spread.least:.3f}..{spread.most:.3f})")
        rows.append([str(row.size), _HEADINGS[row.place], *cells])
    return ["", *aligned(rows, right=(0,))]
