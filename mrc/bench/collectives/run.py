# SPDX-License-Identifier: BSD-2-Clause
"""A lab of its own, the rounds in it, and the document of what they found."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from statistics import mean
from typing import Any

from mrc.bench.collectives.plan import CollectivesPlan
from mrc.bench.collectives.subjects import OnRow, make_subjects
from mrc.bench.collectives.transports import MRC
from mrc.bench.lab_run import LAB_NAME, machine
from mrc.bench.rounds import Rounds, Spread, run_rounds
from mrc.lab import Lab

TIME, ALGBW, BUSBW = "time_us", "algbw_gbytes_per_s", "busbw_gbytes_per_s"
FIGURES = (TIME, ALGBW, BUSBW, "cpu_seconds")
# Enough to compare, less than the clock knows.
_DIGITS = 6


@dataclass(frozen=True)
class Measured:
    """One size and place of one subject, over all rounds. `wrong` is None where nothing was checked."""

    size: int
    count: int
    place: str
    spreads: Mapping[str, Spread | None]
    wrong: int | None
    identical: bool | None


@dataclass(frozen=True)
class Results:
    """What all subjects did in all rounds."""

    plan: CollectivesPlan
    rounds: Rounds

    @cached_property
    def by_row(self) -> list[Rounds]:
        """The rounds of each row of the table."""
        documents = self.rounds.documents
        count = len(documents[MRC][0]["rows"])
        return [
            Rounds({name: [run["rows"][number] for run in runs] for name, runs in documents.items()})
            for number in range(count)
        ]

    def rows(self, name: str) -> list[Measured]:
        found = []
        for rounds in self.by_row:
            runs = rounds.documents[name]
            wrong = [run["wrong"] for run in runs if run["wrong"] is not None]
            identical = [run["ranks_identical"] for run in runs if run["ranks_identical"] is not None]
            found.append(
                Measured(
                    runs[0]["size_bytes"],
                    runs[0]["count"],
                    runs[0]["place"],
                    {key: rounds.spread(name, key) for key in FIGURES},
                    sum(wrong) if wrong else None,
                    all(identical) if identical else None,
                )
            )
        return found

    def average_busbw(self, name: str) -> float:
        """The mean of the bus bandwidths of all sizes and places, as nccl-tests prints it."""
        return mean(spread.median for row in self.rows(name) if (spread := row.spreads[BUSBW]) is not None)

    @property
    def faults(self) -> list[str]:
        """What came out wrong, a sentence for each subject."""
        found = []
        for name in self.rounds.documents:
            rows = self.rows(name)
            wrong = sum(row.wrong or 0 for row in rows)
            if wrong:
                found.append(f"{name}: {wrong} values are not what numpy computes")
            if any(row.identical is False for row in rows):
                found.append(f"{name}: the ranks' results are not the same bits")
        return found


def run_collectives(plan: CollectivesPlan, on_row: OnRow, on_run: Callable[[int, str], None]) -> Results:
    """Build the lab and run the rounds. `on_row(name, row)` and `on_run(round, name)` hear of each row and run.

    Raises MrcError when the lab cannot be built, something is missing, or a rank fails.
    """
    subjects = make_subjects(plan, on_row)
    for subject in subjects:
        subject.check()
    with Lab.up(LAB_NAME, plan.shape) as lab:
        if plan.link_rate_bps is not None:
            for link in lab.topology.links:
                lab.impair(link.name, rate_bps=plan.link_rate_bps)
        rounds = run_rounds(lab, subjects, plan.rounds, lambda number, name, _: on_run(number, name))
    return Results(plan, rounds)


def document(results: Results) -> dict[str, Any]:
    """Of each subject the medians of each size and their spread, all rounds, and MRC's ratios to the baselines."""
    plan, found = results.plan, {}
    for name in results.rounds.documents:
        rows = results.rows(name)
        found[name] = {
            f"avg_{BUSBW}": round(results.average_busbw(name), _DIGITS),
            "sizes": [_row_document(row, rounds, name) for row, rounds in zip(rows, results.by_row, strict=True)],
        }
    ratios: dict[str, Any] = {}
    for baseline in plan.baselines:
        ratios[f"{MRC}/{baseline}"] = [
            {"size_bytes": row.size, "place": row.place, BUSBW: _ratio(rounds.pair_ratios(MRC, baseline, BUSBW))}
            for row, rounds in zip(results.rows(MRC), results.by_row, strict=True)
        ]
    return {
        "operation": plan.kind.name,
        "type": plan.dtype,
        "redop": plan.redop if plan.kind.reduces else None,
        "root": plan.root if plan.kind.has_root else None,
        "ranks": plan.ranks,
        "iterations": plan.iterations,
        "warm_up_iterations": plan.warm_up,
        "checks": plan.checks,
        "subjects": found,
        "pair_ratio": ratios,
        "faults": results.faults,
        "lab": {
            "hosts": plan.hosts,
            "places": list(plan.places),
            "planes": plan.planes,
            "spines": plan.spines,
            "link_rate_bps": plan.link_rate_bps,
            "rounds": plan.rounds,
        },
        "machine": machine(),
    }


def _row_document(row: Measured, rounds: Rounds, name: str) -> dict[str, Any]:
    known = {key: spread for key, spread in row.spreads.items() if spread is not None}
    return {
        "size_bytes": row.size,
        "count": row.count,
        "place": row.place,
        **{key: round(known[key].median, _DIGITS) if key in known else None for key in FIGURES},
        "wrong": row.wrong,
        "ranks_identical": row.identical,
        "spread": {key: [round(each.least, _DIGITS), round(each.most, _DIGITS)] for key, each in known.items()},
        "rounds": [{key: run[key] for key in (*FIGURES, "wrong")} for run in rounds.documents[name]],
    }


def _ratio(spread: Spread | None) -> dict[str, float] | None:
    if spread is None:
        return None
    return {"median": round(spread.median, 4), "min": round(spread.least, 4), "max": round(spread.most, 4)}
