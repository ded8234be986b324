# SPDX-License-Identifier: BSD-2-Clause
"""A process for each rank, on the hosts of a lab: results, and a rank that is held, stopped or killed.

Ranks are forks of this process: what they import takes longer than most of what they do.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import collectives_rank
import pytest

from mrc import CORE
from mrc.child import Child, forked, python
from mrc.core import COMPILED
from mrc.fabric import Clos
from mrc.lab import Lab
from mrc.lab.children import start_on

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0 and os.environ.get("CI") != "true", reason="needs root"),
    pytest.mark.skipif(CORE.kind != COMPILED, reason="interpreted nothing runs without the interpreter"),
]

RANKS = 4
STOPPED_S = 8.0
END_S = 300.0


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with Lab.up(f"collectives-{os.getpid()}", Clos(planes=2, leaves=2, spines=2, hosts_per_leaf=2), fast=True) as built:
        yield built


@contextmanager
def started(lab: Lab, store: Path, size: int, *what: str) -> Iterator[list[Child]]:
    store.chmod(0o700)
    with ExitStack() as stack:
        yield [
            stack.enter_context(
                start_on(
                    lab,
                    f"h{rank}",
                    f"rank {rank}",
                    python(collectives_rank.__name__, str(store), str(rank), str(size), *what),
                    start=forked,
                    talks=True,
                )
            )
            for rank in range(size)
        ]


def said(rank: Child) -> dict[str, Any]:
    """The last line of a process that ends well."""
    return dict(json.loads(rank.rest(END_S).strip().splitlines()[-1]))


@pytest.mark.parametrize("size", [2, RANKS])
def test_results(lab: Lab, tmp_path: Path, size: int) -> None:
    """Up to 64 MiB between two, and a group of half the ranks."""
    with started(lab, tmp_path, size, "results") as ranks:
        assert [said(each) for each in ranks] == [{"ok": True}] * size


def test_one_ticket_starts_all_ranks(lab: Lab, tmp_path: Path) -> None:
    with started(lab, tmp_path, 3, "ticket") as ranks:
        ticket = json.loads(ranks[0].started("ticket"))["ticket"]
        for each in ranks[1:]:
            each.say(ticket)
        assert [said(each) for each in ranks] == [{"ok": True}] * 3


def test_groups_come_and_go(lab: Lab, tmp_path: Path) -> None:
    with started(lab, tmp_path, RANKS, "groups") as ranks:
        assert [said(each) for each in ranks] == [{"ok": True}] * RANKS


@pytest.mark.parametrize("victim", [0, 2])
def test_a_rank_that_is_killed_is_named(lab: Lab, tmp_path: Path, victim: int) -> None:
    with started(lab, tmp_path, RANKS, "killed") as ranks:
        for each in ranks:
            each.started("going")
        ranks[victim].process.send_signal(signal.SIGKILL)
        for rank, each in enumerate(ranks):
            if rank != victim:
                noticed = said(each)
                assert noticed["lost"] == victim
                assert f"rank {victim} is gone" in noticed["text"]


@pytest.mark.parametrize("how", ["held", "stopped"])
def test_a_rank_that_does_nothing_for_a_while_is_waited_for(lab: Lab, tmp_path: Path, how: str) -> None:
    """One call keeps its interpreter, or the process is stopped."""
    with started(lab, tmp_path, 3, how) as ranks:
        for each in ranks:
            each.started("going")
        if how == "stopped":
            ranks[1].process.send_signal(signal.SIGSTOP)
            time.sleep(STOPPED_S)
            ranks[1].process.send_signal(signal.SIGCONT)
        assert [said(each) for each in ranks] == [{"ok": True}] * 3
