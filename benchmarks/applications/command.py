# SPDX-License-Identifier: BSD-2-Clause
"""What `benchmarks/busy-application` and `benchmarks/ring` share: options, rounds in a lab, a table and a document."""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from applications.ends import HERE
from mrc.bench.lab_run import machine
from mrc.bench.rounds import Rounds, Spread, run_rounds
from mrc.errors import CallerError, MrcError, PeerError
from mrc.fabric import Clos
from mrc.lab import Lab
from mrc.report.tables import aligned

SHAPE = Clos(planes=2, spines=4)
BEFORE = " (before)"
GOODPUT = "goodput_gbps"
# Of each figure its key, and how the table names and writes it.
COLUMNS = (
    (GOODPUT, "Gbit/s", "{:.2f}"),
    ("held_gbps", "Gbit/s, lock held", "{:.2f}"),
    ("held_mib", "MiB, lock held", "{:.0f}"),
    ("back_ms", "back after [ms]", "{:.0f}"),
    ("spurious_share", "spurious", "{:.2%}"),
)


@dataclass(frozen=True, slots=True)
class Application:
    """Something to measure with the code of a tree: `run` gives the document of one run.

    `beside` names the one whose goodput in the same round its own is divided by.
    """

    name: str
    run: Callable[[Lab, Path], dict[str, Any]]
    beside: str | None


class Measured:
    """An application with the code of one tree, as a subject of the rounds. One that fails has moved nothing."""

    loss = 0.0

    def __init__(self, application: Application, tree: Path, suffix: str) -> None:
        self.name = application.name + suffix
        self._application = application
        self._tree = tree

    def check(self) -> None:
        """What it needs came with this package."""

    def prepare(self, lab: Lab) -> None:
        """Nothing: it runs on the fabric as it is."""

    def run(self, lab: Lab) -> Mapping[str, Any]:
        try:
            return self._application.run(lab, self._tree)
        except PeerError as error:
            return {GOODPUT: 0.0, "lost": [str(error)]}


def parser_of(tool: str, says: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=tool, description=says, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each case (3)")
    parser.add_argument("--before", type=Path, metavar="TREE", help="another checkout, measured in the same rounds")
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")
    return parser


def measure(lab_name: str, applications: Sequence[Application], options: argparse.Namespace) -> int:
    """Run the rounds and print what they found. 1 when a QP was lost, a run failed, or the lab cannot be built."""
    # Asked to end it takes its lab down first.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        trees = [("", HERE)] + ([(BEFORE, _tree(options.before))] if options.before is not None else [])
        subjects = [Measured(each, tree, suffix) for each in applications for suffix, tree in trees]
        with Lab.up(lab_name, SHAPE) as lab:
            rounds = run_rounds(lab, subjects, options.rounds, _progress)
    except MrcError as error:
        print(json.dumps({"error": str(error)}) if options.json else f"Error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 1
    cases = document(rounds, applications, before=options.before is not None)
    if options.json:
        print(json.dumps({"cases": cases, "rounds": options.rounds, "machine": machine()}, indent=2))
    else:
        print("\n".join(table(cases)))
    return 1 if any(case["lost"] for case in cases.values()) else 0


def _tree(given: Path) -> Path:
    tree = given.resolve()
    if not (tree / "mrc" / "verbs").is_dir():
        raise CallerError(f"--before {given}: there is no mrc/verbs in it")
    return tree


def _progress(number: int, name: str, run: Mapping[str, Any]) -> None:
    shown = [f"{heading} {text.format(run[key])}" for key, heading, text in COLUMNS if run.get(key) is not None]
    shown += [f"LOST: {each}" for each in run["lost"]]
    print(f"round {number + 1}: {name:24} {', '.join(shown)}", file=sys.stderr, flush=True)


def document(rounds: Rounds, applications: Sequence[Application], *, before: bool) -> dict[str, Any]:
    """Of each case the medians, their spread, the ratios within the rounds, what was lost, and all rounds."""
    found: dict[str, Any] = {}
    for each in applications:
        for suffix in ("", BEFORE) if before else ("",):
            name = each.name + suffix
            runs = rounds.documents[name]
            spreads = {key: spread for key, _, _ in COLUMNS if (spread := rounds.spread(name, key)) is not None}
            case: dict[str, Any] = {key: round(spread.median, 5) for key, spread in spreads.items()}
            case["spread"] = {key: [spread.least, spread.most] for key, spread in spreads.items()}
            if each.beside is not None:
                case["ratio"] = _ratio(rounds.pair_ratios(name, each.beside + suffix, GOODPUT))
            if before and not suffix and GOODPUT in spreads:
                case["of_before"] = _ratio(rounds.pair_ratios(name, each.name + BEFORE, GOODPUT))
            found[name] = case | {"lost": [why for run in runs for why in run["lost"]], "rounds": list(runs)}
    return found


def _ratio(spread: Spread | None) -> dict[str, float] | None:
    if spread is None:
        return None
    return {"median": round(spread.median, 4), "min": round(spread.least, 4), "max": round(spread.most, 4)}


def table(cases: Mapping[str, Any]) -> list[str]:
    """Lines of medians with least and most; a column that no case has is left out."""
    columns = [column for column in COLUMNS if any(column[0] in case for case in cases.values())]
    rows = [["", *(heading for _, heading, _ in columns), "ratio", "lost"]]
    for name, case in cases.items():
        row = [name]
        for key, _, text in columns:
            least, most = case["spread"].get(key, (0, 0))
            row.append(f"{text} ({text}..{text})".format(case[key], least, most) if key in case else "-")
        ratio = case.get("ratio")
        row.append(f"{ratio['median']:.2f} ({ratio['min']:.2f}..{ratio['max']:.2f})" if ratio else "-")
        rows.append([*row, str(len(case["lost"]))])
    return aligned(rows)
