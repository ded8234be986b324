# SPDX-License-Identifier: BSD-2-Clause
"""Groups hold, and leave behind, no more than gloo's do."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from torch_cases_run import free_port

if TYPE_CHECKING:
    from torch_ranks import Ready

PROGRAM = Path(__file__).with_name("torch_memory.py")
PATIENCE_S = 240.0
HELD, MADE = 150, 450
# gloo takes its time to destroy groups; what it holds grows with their number.
OF_GLOO = 3
# What the allocator and the interpreter keep for themselves by the time that 450 groups have come and gone.
NOISE = 1 << 20


def measured(ready: Ready, folder: Path, *jobs: tuple[str, int, int]) -> list[dict[str, int]]:
    """The larger of what both ranks found, for each job: backend, groups that are held, groups that are made."""
    environment = os.environ | {
        "MASTER_ADDR": "127.0.0.1",
        "MRC_BIND": "127.0.0.1",
        "GLOO_SOCKET_IFNAME": "lo",
        "STORE": str(folder / "store"),
    }
    environment.pop("MRC_FABRIC", None)
    words = [str(word) for job in jobs for word in (*job, free_port())]
    program = ready.start("h0", [str(PROGRAM), *words], environment)
    written, _ = program.communicate(PATIENCE_S)
    assert program.returncode == 0, written
    return [json.loads(line) for line in written.splitlines() if line.startswith("{")]


def test_groups_hold_and_leave_what_those_of_gloo_do(ready: Ready, tmp_path: Path) -> None:
    gloo, ours = measured(ready, tmp_path, ("gloo", HELD // OF_GLOO, MADE // OF_GLOO), ("mrc", HELD, MADE))
    assert ours["held"] <= 1.1 * OF_GLOO * gloo["held"]
    assert ours["left"] <= max(1.1 * OF_GLOO * gloo["left"], NOISE)
    assert ours["threads"] < 20


def test_subgroups_that_move_nothing_hold_next_to_nothing(ready: Ready, tmp_path: Path) -> None:
    (ours,) = measured(ready, tmp_path, ("subgroups", HELD, MADE))
    assert ours["held"] <= HELD * (20 << 10)
    assert ours["left"] <= NOISE
