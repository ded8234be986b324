# SPDX-License-Identifier: BSD-2-Clause
"""The five guides, followed from start to end: each command succeeds and prints what is shown below it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from guide_pages import GUIDES, Block, Shell, blocks, prints
from patience import eventually

from mrc.lab import Lab, lab_names

PAGES = sorted(GUIDES.glob("*.md"))


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    """A shell whose lab is gone afterwards, and what runs in it."""
    made = Shell(tmp_path, f"guide-{os.getpid()}")
    yield made
    if made.lab in lab_names():
        Lab.remove(made.lab)
    made.close()


def runs(page: str) -> list[Block]:
    """The blocks of a guide that are run."""
    return [block for block in blocks(GUIDES / f"{page}.md") if block.not_run is None]


def test_what_is_not_run_says_why() -> None:
    left_out = {(page.stem, block.body): block.not_run for page in PAGES for block in blocks(page) if block.not_run}
    script = 'import torch.distributed as dist\n\ndist.init_process_group("mrc")\n'
    assert left_out == {("trainer", script): "a part of a script; the tests of mrc.torch run whole ones"}


def test_every_block_is_a_file_or_a_session() -> None:
    kinds = [(page.stem, block.kind, block.saved_as) for page in PAGES for block in blocks(page) if not block.not_run]
    assert [row for row in kinds if row[1] != "console"] == [
        ("programmer", "python", "write.py"),
        ("researcher", "yaml", "incast.yaml"),
        ("trainer", "python", "train.py"),
    ]
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        assert len(blocks(page)) == len(re.findall(r"^```.*\n", text, re.M)) / 2
        prompts = re.findall(r"^[$#] \S.*$", "".join(re.findall(r"^```console\n(.*?)^```$", text, re.M | re.S)), re.M)
        commands = [command for block in blocks(page) if block.kind == "console" for command in block.commands()]
        assert len(commands) == len(prompts) > 0
        assert any(command.shown for command in commands)


@pytest.mark.parametrize("page", ["programmer", "researcher"])
def test_a_guide_without_a_lab(page: str, shell: Shell) -> None:
    for block in runs(page):
        shell.follow(block)
    if page == "researcher":
        written = {path.name for path in shell.directory.glob("*.svg")}
        assert written == {"incast-fct.svg", "both.svg"}


@pytest.mark.root
def test_the_guide_for_testers(need_root: None, shell: Shell) -> None:
    for block in runs("tester"):
        shell.follow(block)
    assert (shell.directory / "report.html").exists()


@pytest.mark.root
def test_the_guide_for_operators(need_root: None, shell: Shell) -> None:
    for block in runs("operator"):
        shell.follow(block)
    assert shell.lab not in lab_names()


@pytest.mark.root
def test_the_guide_for_trainers(need_root: None, shell: Shell) -> None:
    for block in runs("trainer"):
        if block.body.startswith("# mrc lab cut"):
            # "After the first step": the first of the second run.
            eventually(lambda: len(re.findall(r"^step 0 ", shell.printed(), re.M)) == 2)
        shell.follow(block)
    # Both runs came to their ends.
    steps = [int(number) for number in re.findall(r"^step (\d+) 1\.5 ", shell.printed(), re.M)]
    assert steps == [0, 50, 100] * 2
    assert shell.lab not in lab_names()


def test_what_a_page_shows_is_held_to_what_is_printed() -> None:
    printed = "job   took, us\n[1] other\nincast   161.49\n4 of 4 hosts\n"
    assert prints(("job  took, us", "...", "incast  1.2", "4 of 5 hosts"), printed)
    assert not prints(("incast  1.2", "job  took, us"), printed)
    assert not prints(("incast  lost",), printed)
    assert not prints(("4 of 4 hosts", "4 of 4 hosts"), printed)


def test_a_command_that_fails_fails_the_guide(shell: Shell) -> None:
    (block,) = [block for block in runs("programmer") if block.kind == "console"]
    with pytest.raises(AssertionError, match=r"line \d+: python write.py\n.*No such file"):
        shell.follow(block)
