# SPDX-License-Identifier: BSD-2-Clause
"""Four processes in a ring, each sending to its right while it receives from its left, beside one sender.

In a lab of its own two processes on h0 and two on h1 exchange blocks, every second one on the other host, so that all
bytes cross the fabric. Each writes a block with an immediate, and the next one when that is complete and the block of
its left has come: the steps of a ring all-reduce, without the sums. Beside it in each round one process on h0 writes as
many bytes to one on h1 in the same way. What is printed are the goodput of all four together, its ratio to that of the
one, packets sent again without need as a share of all, and QPs that were lost. Every second round goes backwards.

    benchmarks/ring                                          blocks of 64 MiB, eight steps, three rounds
    benchmarks/ring --size 16 --steps 32 --rounds 7
    benchmarks/ring --before ../older                        beside another checkout's code, in the same rounds
    benchmarks/ring --json > ring.json

Needs root. Exit status 1 when a QP was lost or a run failed.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from applications.command import Application, measure, parser_of
from applications.end import Plan
from applications.ends import lost, resent, run_ends
from mrc.bench.subject import PATIENCE_S, RECEIVER, SENDER
from mrc.lab import Lab

LAB_NAME = "ring"
HOSTS = (SENDER, RECEIVER, SENDER, RECEIVER)
_MIB = 1 << 20
_LEAST_BYTES_A_SECOND = 16 << 20  # what moves slower than this has stopped


def run_ring(size: int, steps: int, lab: Lab, tree: Path) -> dict[str, Any]:
    """`steps` blocks from each of four processes to the next. Raises PeerError when a process fails."""
    links = [(place, (place + 1) % len(HOSTS)) for place in range(len(HOSTS))]
    patience_s = _patience_s(size * steps * len(HOSTS))
    plan = Plan(size, seconds=patience_s, blocks=steps, sends=True, receives=True)
    saw = run_ends(lab, tree, [(host, plan) for host in HOSTS], links, 2 * patience_s)
    return figures(saw, size)


def run_one(size: int, steps: int, lab: Lab, tree: Path) -> dict[str, Any]:
    """As many blocks in all, from one process to another."""
    blocks = steps * len(HOSTS)
    patience_s = _patience_s(size * blocks)
    ends = [
        (host, Plan(size, seconds=patience_s, blocks=blocks, sends=host == SENDER, receives=host == RECEIVER))
        for host in (SENDER, RECEIVER)
    ]
    return figures(run_ends(lab, tree, ends, [(0, 1)], 2 * patience_s), size)


def _patience_s(size: int) -> float:
    return PATIENCE_S + size / _LEAST_BYTES_A_SECOND


def figures(saw: Sequence[dict[str, Any]], size: int) -> dict[str, Any]:
    """The document of a run: all bytes, from the first end's start to the last end's last block."""
    seconds = (max(each["ended"] for each in saw) - min(each["began"] for each in saw)) / 1e9
    total = sum(each["completed"] for each in saw) * size
    return (
        {"goodput_gbps": round(total * 8 / seconds / 1e9, 4), "seconds": round(seconds, 3)}
        | resent(saw)
        | {"lost": lost(saw)}
    )


def main(argv: Sequence[str] | None = None) -> int:
    """0: no QP was lost; 1: one was, or a run failed."""
    parser = parser_of("benchmarks/ring", __doc__)
    parser.add_argument("--size", type=int, default=64, metavar="MIB", help="MiB of a block (64)")
    parser.add_argument("--steps", type=int, default=8, help="blocks that each of the four sends (8)")
    options = parser.parse_args(argv)
    size = options.size * _MIB
    applications = [
        Application("one", partial(run_one, size, options.steps), None),
        Application("ring", partial(run_ring, size, options.steps), "one"),
    ]
    return measure(LAB_NAME, applications, options)


if __name__ == "__main__":
    sys.exit(main())
