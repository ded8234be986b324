# SPDX-License-Identifier: BSD-2-Clause
"""Writes of 1 MiB between two processes on `mrc.verbs` while these do something else.

In a lab of its own a process on h0 writes to one on h1, new processes each time:

    idle            the application waits for completions and does nothing else
    computing       at each end another thread computes in Python without rest
    computing-held  the same, and once a call into C holds the interpreter's lock at both ends
    receiver-held   nobody computes; a call holds the lock of the receiver alone, while the sender goes on writing
    posted-held     the sender posts many writes at once, then a call holds its lock

What is printed for each: goodput without the time in which a lock was held, its ratio to that of `idle` in the same
round, what arrived while a lock was held, how long after that the next bytes arrived, packets sent again without
need as a share of all, and QPs that were lost. Bytes count when they are in the receiver's memory. Every second round
goes backwards.

    benchmarks/busy-application                         five cases of 3 s, locks held for 10 s, three rounds: 4 minutes
    benchmarks/busy-application --case idle --case computing --seconds 5 --rounds 7
    benchmarks/busy-application --before ../older       beside another checkout's code, in the same rounds
    benchmarks/busy-application --json > busy.json

Needs root. Exit status 1 when a QP was lost or a run failed.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from applications.command import Application, measure, parser_of
from applications.end import Plan
from applications.ends import lost, resent, run_ends
from applications.timeline import Span, Timeline
from mrc.bench.subject import PATIENCE_S, RECEIVER, SENDER
from mrc.lab import Lab

LAB_NAME = "busy"
SIZE, DEPTH = 1 << 20, 8
IDLE = "idle"
_SETTLE_S = 0.3  # of the writes before they count
_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Case:
    """What the two ends do beside writing. `held`: whose locks are held. `posts`: nothing else is posted."""

    name: str
    computes: bool = False
    held: tuple[str, ...] = ()
    posts: bool = False


CASES = (
    Case(IDLE),
    Case("computing", computes=True),
    Case("computing-held", computes=True, held=(SENDER, RECEIVER)),
    Case("receiver-held", held=(RECEIVER,)),
    Case("posted-held", held=(SENDER,), posts=True),
)


@dataclass(frozen=True, slots=True)
class Times:
    """`seconds` of writing that count, `hold_s` of a lock held, `first` writes posted where a case does just that."""

    seconds: float
    hold_s: float
    first: int


def plan_of(case: Case, host: str, times: Times) -> Plan:
    """What one end does."""
    sends = host == SENDER
    return Plan(
        SIZE,
        seconds=_SETTLE_S + times.seconds + (times.hold_s if case.held else 0.0),
        depth=DEPTH,
        first=times.first if case.posts and sends else 0,
        sends=sends,
        receives=not sends,
        computes=case.computes,
        hold_at=_SETTLE_S + times.seconds / 2,
        hold_s=times.hold_s if host in case.held else 0.0,
    )


def run_case(case: Case, times: Times, lab: Lab, tree: Path) -> dict[str, Any]:
    """One run with the code of a tree. Raises PeerError when a process fails."""
    plans = [(host, plan_of(case, host, times)) for host in (SENDER, RECEIVER)]
    return figures(run_ends(lab, tree, plans, [(0, 1)], PATIENCE_S + plans[0][1].seconds), case, times)


def figures(saw: Sequence[dict[str, Any]], case: Case, times: Times) -> dict[str, Any]:
    """The document of a run, from what the sender and the receiver saw."""
    sender, receiver = saw
    placed = Timeline(receiver["placed"])
    span: Span = (sender["began"] + int(_SETTLE_S * 1e9), sender["ended"])
    holds = [each["hold"] for each in saw if each["hold"]]
    held: Span | None = (min(each[0] for each in holds), max(each[1] for each in holds)) if holds else None
    found: dict[str, Any] = {"goodput_gbps": None if case.posts else round(placed.gbps(span, held), 4)}
    if held is not None:
        back_ms = placed.back_after_ms(held[1])
        found["held_gbps"] = round(placed.gbps(held), 4)
        found["held_mib"] = round(placed.during(held) / _MIB, 1)
        found["held_share"] = round(placed.during(held) / (times.first * SIZE), 4) if case.posts else None
        found["back_ms"] = None if back_ms is None else round(back_ms, 1)
        found["lost_after_s"] = round((sender["ended"] - held[0]) / 1e9, 2) if sender["lost"] else None
    return found | resent(saw) | {"lost": lost(saw)}


def main(argv: Sequence[str] | None = None) -> int:
    """0: no QP was lost; 1: one was, or a run failed."""
    parser = parser_of("benchmarks/busy-application", __doc__)
    names = [case.name for case in CASES]
    parser.add_argument("--case", action="append", choices=names, metavar="CASE", default=[], help="only this one")
    parser.add_argument("--seconds", type=float, default=3.0, help="of writing that count (3)")
    parser.add_argument("--hold", type=float, default=10.0, help="seconds a lock is held (10)")
    parser.add_argument("--first", type=int, default=256, help="writes posted before a lock is held (256)")
    options = parser.parse_args(argv)
    times = Times(options.seconds, options.hold, options.first)
    chosen = [case for case in CASES if not options.case or case.name in options.case]
    compared = {case.name for case in chosen if case.name != IDLE and not case.posts} if CASES[0] in chosen else set()
    applications = [
        Application(case.name, partial(run_case, case, times), IDLE if case.name in compared else None)
        for case in chosen
    ]
    return measure(LAB_NAME, applications, options)


if __name__ == "__main__":
    sys.exit(main())
