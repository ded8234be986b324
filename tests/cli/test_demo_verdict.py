# SPDX-License-Identifier: BSD-2-Clause
"""What `mrc demo` finds wrong with what it saw, without running it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import Any

import pytest
from patience import eventually

from mrc.cli.demo_run import DEAD_PATH_LIMIT_S, DemoPlan, Waits, _Cut, _judge, _Sample

MS = 1_000_000
PLAN = DemoPlan(size=1 << 20, planes=1, spines=2, cut_after=0.5, loss=0.0, pcap=None)


def path(spine: int, last_use_ns: int) -> dict[str, Any]:
    times = {"first_use_ns": 0, "last_use_ns": last_use_ns}
    return {"ev": spine, "plane": 0, "spine": spine, "packets": 900, "lost": 0, "state": "GOOD", **times}


def faults(cut: _Cut, last_use_ns: int, *waited: tuple[int, int], other_ns: int = 999 * MS) -> list[str]:
    """`waited`: moments, and how long both ends had waited for a processor by then. Of each one thread counts.
    `other_ns`: when the path was last used that is not cut. Most packets leave in the last 100 ms."""
    waits = Waits([])
    for at_ns, both_ns in waited:
        half_ns = both_ns // 2
        waits.note(at_ns, {1: {11: half_ns, 12: half_ns // 2}, 2: {21: 7 * MS, 22: both_ns - half_ns}})
    sent = {
        "bytes": PLAN.size,
        "seconds": 1.0,
        "data_seconds": 1.0,
        "sums_agree": True,
        "files": [],
        "counters": {},
        "duplicates_received": 0,
        "paths": [path(0, other_ns), path(1, last_use_ns)],
    }
    samples = [_Sample(at * MS, at, [100, 100]) for at in range(0, 900, 5)]
    return _judge(PLAN, sent, sent, cut, samples, waits).faults


@pytest.mark.parametrize("took_ms", [0, 1, 120])
def test_a_path_is_dead_once_its_cable_is_down(took_ms: int) -> None:
    """The kernel takes up to 120 ms to set a cable down while namespaces are made beside it."""
    cut = _Cut(300 * MS, (300 + took_ms) * MS)
    last = cut.done_ns + int(DEAD_PATH_LIMIT_S * 1e9)
    assert faults(cut, last) == []
    assert faults(cut, last + MS) == ["plane 0 spine 1 got data 101 ms after it was cut"]


def test_an_end_that_waits_for_a_processor_notices_nothing_meanwhile() -> None:
    """That time does not count, from the last look before the cut until the first after the last packet."""
    cut = _Cut(300 * MS, 300 * MS)
    before, at_cut, soon_after, at_last = (296 * MS, 40 * MS), (300 * MS, 60 * MS), (499 * MS, 90 * MS), 500 * MS
    assert faults(cut, at_last, before, at_cut, soon_after, (504 * MS, 160 * MS)) == []
    assert faults(cut, at_last, before, at_cut, soon_after, (504 * MS, 159 * MS)) == [
        "plane 0 spine 1 got data 200 ms after it was cut; the two ends waited 99 ms for a processor"
    ]
    # The last look was before the last packet; there was none before the cut.
    assert faults(cut, at_last, at_cut, soon_after, (499 * MS, 160 * MS)) == []
    assert faults(cut, at_last, (310 * MS, 60 * MS), (504 * MS, 120 * MS)) != []


def test_nobody_waits_between_a_moment_and_an_earlier_one() -> None:
    """The last packet leaves while the kernel still takes the cable down."""
    waits = Waits([])
    for at_ns, waited_ns in ((320, 60), (480, 200), (510, 230)):
        waits.note(at_ns, {1: {11: waited_ns}})
    assert [waits.between(500, 310), waits.between(310, 310), waits.between(330, 500)] == [0, 0, 170]


def test_a_path_that_is_used_late_enough_was_in_use_at_the_end() -> None:
    """In the last 200 ms, of which the ends waited 100 ms for a processor: in the last 300."""
    cut = _Cut(1000 * MS, 1000 * MS)
    unused = ["plane 0 spine 0 was not in use at the end"]
    waited = (799 * MS, 10 * MS), (1000 * MS, 110 * MS)
    assert faults(cut, 1000 * MS, other_ns=800 * MS) == []
    assert faults(cut, 1000 * MS, other_ns=799 * MS) == unused
    assert faults(cut, 1000 * MS, *waited, other_ns=700 * MS) == []
    assert faults(cut, 1000 * MS, *waited, other_ns=699 * MS) == unused


def test_a_process_that_shares_its_processor_is_seen_to_wait() -> None:
    allowed = os.sched_getaffinity(0)
    script = f"import os; os.sched_setaffinity(0, {{{min(allowed)}}})\nwhile True: pass"
    both = [subprocess.Popen([sys.executable, "-c", script]) for _ in range(2)]
    try:
        waits = Waits([each.pid for each in both])
        waits.look()
        began_ns = time.monotonic_ns()

        def waited() -> int:
            waits.look()
            return waits.between(began_ns, time.monotonic_ns())

        eventually(lambda: waited() > 50 * MS)
    finally:
        for each in both:
            each.kill()
            each.wait()
    # What has ended has waited as long as it had when it was last looked at.
    before = waited()
    assert waited() == before > 50 * MS
