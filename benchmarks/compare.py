# SPDX-License-Identifier: BSD-2-Clause
"""Run the benchmark suites and compare with the last recorded run (benchmarks/recorded.json).

    tools/bench                     run, and print what moved by more than 10 %
    tools/bench --record            the same, and make this run the recorded one
    tools/bench -k codec            anything else goes to pytest
    tools/bench lab --suite --baseline all
                                    something else: install what the baselines of `mrc bench lab` need, and run that

Times are CPU time of the process, so that others on the machine count little: the median of many repetitions, and the
median of five runs of that. The machine itself drifts, and machines differ, so what is compared is not microseconds but
multiples of a calibration: a fixed piece of work that is none of the project's, timed just before and just after each
benchmark. Where the two differ by more than 5 %, the machine changed in between and that run does not count. What moved
by little more than 10 % is worth a second run before anybody believes it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

FOLDER = Path(__file__).resolve().parent
RECORDED = FOLDER / "recorded.json"
MOVED = 0.10
# Calibrations before and after a benchmark that differ by more: the machine changed meanwhile.
STEADY = 0.05
OPTIONS = (
    "--benchmark-timer=time.process_time",
    "--benchmark-max-time=0.2",
    "--benchmark-min-rounds=20",
    "--benchmark-warmup=on",
    "--benchmark-warmup-iterations=200",
    "--benchmark-disable-gc",
)


@dataclass(frozen=True, slots=True)
class Timing:
    """Of one benchmark: microseconds, and how many times as long as the calibration around it that is."""

    us: float
    relative: float


def timings_of(documents: Sequence[dict[str, Any]]) -> dict[str, Timing]:
    """What pytest-benchmark wrote in several passes, by `suite::test`: the median of those in which the machine was the
    same before and after; of all where it never was."""
    samples: dict[str, list[tuple[bool, Timing]]] = {}
    for document in documents:
        for each in document["benchmarks"]:
            suite, _, test = each["fullname"].rpartition("/")[2].partition("::")
            name = f"{suite.removeprefix('test_benchmark_').removesuffix('.py')}::{test.removeprefix('test_')}"
            seconds, (before, after) = each["stats"]["median"], each["extra_info"]["calibration_s"]
            timing = Timing(seconds * 1e6, seconds / ((before + after) / 2))
            samples.setdefault(name, []).append((abs(before / after - 1) <= STEADY, timing))
    found = {}
    for name, all_of_it in samples.items():
        timings = [timing for steady, timing in all_of_it if steady] or [timing for _, timing in all_of_it]
        found[name] = Timing(median(each.us for each in timings), median(each.relative for each in timings))
    return found


def moved(before: dict[str, Timing], after: dict[str, Timing]) -> dict[str, float]:
    """By how much of its earlier time each benchmark of both runs changed, where that is more than 10 %."""
    changes = {name: after[name].relative / before[name].relative - 1 for name in after if name in before}
    return {name: change for name, change in changes.items() if abs(change) > MOVED}


def run(arguments: list[str], passes: int) -> dict[str, Timing]:
    """Run the suites so many times, each time in a new process. Ends the program when one fails."""
    return timings_of([_run_once(arguments) for _ in range(passes)])


def _run_once(arguments: list[str]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="mrc-benchmarks-") as scratch:
        output = Path(scratch, "benchmarks.json")
        command = [sys.executable, "-m", "pytest", str(FOLDER), "-q", "-p", "no:cacheprovider", *OPTIONS]
        done = subprocess.run(
            [*command, f"--benchmark-json={output}", *arguments],
            env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
            cwd=FOLDER.parent,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise SystemExit(f"{done.stdout}\nthe benchmarks failed")
        document: dict[str, Any] = json.loads(output.read_text())
        return document


def load() -> dict[str, Timing]:
    """The recorded run; empty when there is none."""
    if not RECORDED.exists():
        return {}
    return {name: Timing(**timing) for name, timing in json.loads(RECORDED.read_text())["benchmarks"].items()}


def record(timings: dict[str, Timing]) -> None:
    """Make this the recorded run; benchmarks that were not run keep what was recorded of them."""
    merged = load() | timings
    document = {
        "machine": {"system": platform.platform(), "processor": _processor(), "python": platform.python_version()},
        "benchmarks": {
            name: {"us": round(timing.us, 3), "relative": round(timing.relative, 5)}
            for name, timing in sorted(merged.items())
        },
    }
    RECORDED.write_text(json.dumps(document, indent=2) + "\n")


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def report(before: dict[str, Timing], after: dict[str, Timing]) -> str:
    """A line for each benchmark, and those that moved once more."""
    changes = moved(before, after)
    width = max(map(len, after), default=0)
    lines = [f"{'':{width}}  {'us':>10}  {'x calibration':>13}  recorded"]
    for name, timing in sorted(after.items()):
        recorded = f"{before[name].relative:.4f}" if name in before else "new"
        lines.append(f"{name:{width}}  {timing.us:10.2f}  {timing.relative:13.4f}  {recorded}")
    lines.append("")
    if not before:
        lines.append("no run is recorded: `tools/bench --record` keeps this one")
    elif not changes:
        lines.append(f"nothing moved by more than {MOVED:.0%}")
    for name, change in sorted(changes.items(), key=lambda item: -abs(item[1])):
        lines.append(f"{name:{width}}  {abs(change):.0%} {'slower' if change > 0 else 'faster'}")
    return "\n".join(lines)


def main(arguments: list[str]) -> None:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(
        prog="tools/bench",
        description=__doc__.partition("\n")[0],
        epilog=__doc__.partition("\n")[2],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--passes", type=int, default=5, help="runs the median is taken of (default: %(default)s)")
    parser.add_argument("--record", action="store_true", help="make this run the recorded one")
    options, rest = parser.parse_known_args(arguments)
    timings = run(rest, max(options.passes, 1))
    print(report(load(), timings))
    if options.record:
        record(timings)
        print(f"recorded in {RECORDED.relative_to(FOLDER.parent)}")


if __name__ == "__main__":
    main(sys.argv[1:])
