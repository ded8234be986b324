# SPDX-License-Identifier: BSD-2-Clause
"""Goodput of an established QP while a neighbour floods one of its ends.

In a lab of its own one host writes to another over one QP while a third, a neighbour of one of the two, sends packets
to it at a steady rate: harmless ones (UDP to another socket of the same host, over the same interface), then hostile
ones of one kind, then the next kind in the same way. Every second round goes backwards. For each kind
it prints the median over the rounds of its goodput divided by that under the harmless packets right before.

    benchmarks/hostile-load                 all kinds, 100,000 packets a second for 10 s, 3 rounds: a quarter of an hour
    benchmarks/hostile-load --kind wrong-icrc --kind probes --seconds 3
    benchmarks/hostile-load --list
    benchmarks/hostile-load --json

Needs root and a C compiler. Exit status 1 when a ratio is below --least, or the measurement fails.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from hostile.kinds import KINDS, Kind
from hostile.run import HostilePlan, Measured, document, kinds_named, run_hostile
from mrc.errors import MrcError
from mrc.report.tables import aligned


def main(argv: Sequence[str] | None = None) -> int:
    """0: every kind left its share; 1: one did not, or the measurement failed."""
    parser = argparse.ArgumentParser(
        prog="benchmarks/hostile-load", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [kind.name for kind in KINDS]
    parser.add_argument("--kind", action="append", choices=names, metavar="KIND", default=[], help="only this one")
    parser.add_argument("--rate", type=int, default=100_000, help="packets a second (100000)")
    parser.add_argument("--seconds", type=float, default=10.0, help="of each flood (10)")
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each kind (3)")
    parser.add_argument("--least", type=float, default=0.8, help="ratio that each kind must leave (0.8)")
    parser.add_argument("--list", action="store_true", help="name the kinds and end")
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")
    options = parser.parse_args(argv)
    if options.list:
        for kind in KINDS:
            print(f"{kind.name:20} to the {kind.target:9} {kind.says}")
        return 0
    plan = HostilePlan(kinds_named(options.kind), options.rate, options.seconds, options.rounds)

    def progress(number: int, kind: Kind, run: Measured) -> None:
        shown = (
            f"{run.hostile_gbps:.3f} Gbit/s under {run.hostile_kpps:.1f} kpps, {run.ratio:.2f} of what harmless leave"
        )
        print(f"round {number + 1}: {kind.name:20} {run.failed or shown}", file=sys.stderr, flush=True)

    # Asked to end it takes its lab down first.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        found = document(plan, run_hostile(plan, progress))
    except MrcError as error:
        print(json.dumps({"error": str(error)}) if options.json else f"Error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 1
    if options.json:
        print(json.dumps(found, indent=2))
    else:
        print("\n".join(_table(found["kinds"])))
    low = [name for name, each in found["kinds"].items() if each["ratio"] < options.least]
    if low:
        print(f"below {options.least}: {', '.join(low)}", file=sys.stderr)
    return 1 if low else 0


def _table(kinds: Mapping[str, Any]) -> list[str]:
    rows = [["kind", "harmless", "hostile", "ratio (least..most)"]]
    for name, each in kinds.items():
        ends = [f"{each[end + '_gbps']:.3f} at {each[end + '_kpps']:.1f}k" for end in ("harmless", "hostile")]
        least, most = each["ratio_spread"]
        rows.append([name, *ends, f"{each['ratio']:.2f} ({least:.2f}..{most:.2f})"])
    return aligned(rows, right={1, 2})


if __name__ == "__main__":
    sys.exit(main())
