# SPDX-License-Identifier: BSD-2-Clause
"""docs/collectives.md, block by block: what it prints is what it says it prints."""

from __future__ import annotations

import os
import re
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tutorials import DOCS, steps

from mrc.child import Child
from mrc.collectives import DEFAULT_GROUP_CONFIG
from mrc.collectives.messages import HEADER_BYTES
from mrc.lab import Lab
from mrc.lab.children import start_on

TUTORIAL = DOCS / "collectives.md"
END_S = 120.0


def test_the_page_prints_what_it_says() -> None:
    names: dict[str, Any] = {}
    here = [step for step in steps(TUTORIAL) if not step.live]
    for step in here:
        step.run(names)
    assert len(here) >= 8


def test_the_sizes_are_those_of_the_code() -> None:
    text, config = TUTORIAL.read_text(), DEFAULT_GROUP_CONFIG
    for name, shown in (
        ("eager_bytes", f"{config.eager_bytes >> 10} KiB"),
        ("eager_slots", str(config.eager_slots)),
        ("chunk_bytes", f"{config.chunk_bytes >> 10} KiB"),
        ("window", str(config.window)),
        ("registrations", str(config.registrations)),
    ):
        # `window` chunks (8), `registrations`, 256)
        assert re.search(rf"`{name}`[^)`]*\b{shown}\)", text), name
    assert (
        f"doubling up to {config.doubling_bytes >> 10} KiB, halving and doubling up to {config.halving_bytes >> 10} KiB"
        in text
    )
    for ranks, word in ((2, "two"), (16, "sixteen")):
        kept = 2 * (ranks - 1) * config.eager_slots * (config.eager_bytes + HEADER_BYTES)
        kept += config.window * config.chunk_bytes
        assert f"{kept / (1 << 20):.1f} MiB for {word}" in text


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0 and os.environ.get("CI") != "true", reason="needs root")
def test_the_live_part_prints_what_it_says(tmp_path: Path) -> None:
    (step,) = (step for step in steps(TUTORIAL) if step.live)
    program = tmp_path / "rank.py"
    program.write_text(step.code)
    with Lab.up(f"collectives-tutorial-{os.getpid()}", fast=True) as lab, ExitStack() as stack:
        started: list[Child] = []
        for rank in range(2):
            told = {"RANK": str(rank), "WORLD_SIZE": "2", "STORE": str(tmp_path / "store")}
            argv = ["env", *(f"{name}={value}" for name, value in told.items()), sys.executable, str(program)]
            started.append(stack.enter_context(start_on(lab, f"h{rank}", f"rank {rank}", argv)))
        for each in started:
            assert each.rest(END_S) == step.shown
