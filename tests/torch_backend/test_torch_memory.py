# SPDX-License-Identifier: BSD-2-Clause
"""Groups hold, and leave behind, no more than gloo's do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from torch_cases_run import free_port

PROGRAM = Path(__file__).with_name("torch_memory.py")
PATIENCE_S = 240.0
HELD, MADE = 300, 900
# gloo takes its time to destroy groups; what it holds grows with their number.
OF_GLOO = 3
# What the allocator and the interpreter keep for themselves by the time that 900 groups have come and gone.
NOISE = 2 << 20


def measured(backend: str, folder: Path, held: int, made: int) -> dict[str, int]:
    """The larger of what both ranks found."""
    environment = os.environ | {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
        "WORLD_SIZE": "2",
        "MRC_BIND": "127.0.0.1",
        "GLOO_SOCKET_IFNAME": "lo",
        "OMP_NUM_THREADS": "1",
        "STORE": str(folder / "store"),
    }
    environment.pop("MRC_FABRIC", None)
    argv = [sys.executable, "-W", "ignore", str(PROGRAM), backend, str(held), str(made)]
    ranks = [
        subprocess.Popen(argv, env=environment | {"RANK": str(rank)}, stdout=subprocess.PIPE, text=True)
        for rank in range(2)
    ]
    try:
        found = [json.loads(each.communicate(timeout=PATIENCE_S)[0]) for each in ranks]
    finally:
        for each in ranks:
            each.kill()
            each.communicate()
    return {name: max(each[name] for each in found) for name in found[0]}


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_groups_hold_and_leave_what_those_of_gloo_do(tmp_path: Path) -> None:
    gloo = measured("gloo", tmp_path, HELD // OF_GLOO, MADE // OF_GLOO)
    ours = measured("mrc", tmp_path, HELD, MADE)
    assert ours["held"] <= 1.1 * OF_GLOO * gloo["held"]
    assert ours["left"] <= max(1.1 * OF_GLOO * gloo["left"], NOISE)
    assert ours["threads"] < 20


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_subgroups_that_move_nothing_hold_next_to_nothing(tmp_path: Path) -> None:
    ours = measured("subgroups", tmp_path, HELD, MADE)
    assert ours["held"] <= HELD * (20 << 10)
    assert ours["left"] <= NOISE
