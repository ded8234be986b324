# SPDX-License-Identifier: BSD-2-Clause
"""What `mrc demo` finds wrong with what it saw, without running it."""

from __future__ import annotations

from typing import Any

import pytest

from mrc.cli.demo_run import DEAD_PATH_LIMIT_S, DemoPlan, _Cut, _judge, _Sample

MS = 1_000_000
PLAN = DemoPlan(size=1 << 20, planes=1, spines=2, cut_after=0.5, loss=0.0, pcap=None)


def path(spine: int, last_use_ns: int) -> dict[str, Any]:
    times = {"first_use_ns": 0, "last_use_ns": last_use_ns}
    return {"ev": spine, "plane": 0, "spine": spine, "packets": 900, "lost": 0, "state": "GOOD", **times}


def faults(cut: _Cut, last_use_ns: int) -> list[str]:
    sent = {
        "bytes": PLAN.size,
        "seconds": 1.0,
        "data_seconds": 1.0,
        "sums_agree": True,
        "files": [],
        "counters": {},
        "duplicates_received": 0,
        "paths": [path(0, 999 * MS), path(1, last_use_ns)],
    }
    samples = [_Sample(at * MS, at, [at, at]) for at in range(0, 900, 5)]
    return _judge(PLAN, sent, sent, cut, samples).faults


@pytest.mark.parametrize("took_ms", [0, 1, 120])
def test_a_path_is_dead_once_its_cable_is_down(took_ms: int) -> None:
    """The kernel takes up to 120 ms to set a cable down while namespaces are made beside it."""
    cut = _Cut(300 * MS, (300 + took_ms) * MS)
    last = cut.done_ns + int(DEAD_PATH_LIMIT_S * 1e9)
    assert faults(cut, last) == []
    assert faults(cut, last + MS) == ["plane 0 spine 1 got data 101 ms after it was cut"]
