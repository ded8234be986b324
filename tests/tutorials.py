# SPDX-License-Identifier: BSD-2-Clause
"""Pages of docs/ that run as they stand: blocks of Python, each followed by what it prints.

A page may also change the sources: `diff PATH` blocks are changes to a copy of them (`ChangedSources`), in which the
blocks `python changed` and `console changed` run.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[1] / "docs"
_FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Step:
    """A block of code, the line it starts on, and what is shown below it; `live` needs a lab, `changed` the changed
    sources."""

    page: Path
    line: int
    code: str
    shown: str
    live: bool
    changed: bool

    def run(self, names: dict[str, Any]) -> None:
        """Run it with `names` as its globals; it has to print what is shown."""
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile("\n" * (self.line - 1) + self.code, str(self.page), "exec"), names)
        assert printed.getvalue() == self.shown, f"{self.page.name}, line {self.line}"


def steps(page: Path) -> list[Step]:
    """The blocks of a page. Besides code and output there may be blocks of a shell (`console`), which are not run, and
    changes to the sources."""
    blocks = list(_blocks(page))
    found = []
    for (line, kind, body), after in zip(blocks, [*blocks[1:], (0, "", "")], strict=True):
        if kind == "python program":
            continue
        if kind.startswith("python"):
            shown = after[2] if after[1] == "text" else ""
            found.append(Step(page, line, body, shown, kind == "python live", kind == "python changed"))
        else:
            known = kind in ("text", "toml", "console", "console changed") or kind.startswith("diff ")
            assert known, f"line {line}: a block of kind {kind!r} is neither code nor output"
    return found


def programs(page: Path) -> list[str]:
    """The `python program` blocks of a page: files of their own, which processes run."""
    return [body for _, kind, body in _blocks(page) if kind == "python program"]


def _blocks(page: Path) -> Iterator[tuple[int, str, str]]:
    text = page.read_text()
    for match in _FENCE.finditer(text):
        yield text[: match.start()].count("\n") + 2, match[1], match[2]


class ChangedSources:
    """A copy of mrc in a directory, with the changes that a page describes; programs run there, interpreted."""

    def __init__(self, page: Path, directory: Path) -> None:
        self.page, self.directory = page, directory
        shutil.copytree(
            DOCS.parent / "mrc",
            directory / "mrc",
            ignore=shutil.ignore_patterns("__pycache__", "*.so", "compiled.json"),
        )
        for line, kind, body in _blocks(page):
            if kind.startswith("diff "):
                self._change(directory / kind.removeprefix("diff "), line, body.splitlines(keepends=True))

    def _change(self, path: Path, line: int, lines: list[str]) -> None:
        old = "".join(each[1:] for each in lines if each[0] in " -")
        new = "".join(each[1:] for each in lines if each[0] in " +")
        text = path.read_text()
        assert text.count(old) == 1, f"{self.page.name}, line {line}: {path.name} does not have these lines once"
        path.write_text(text.replace(old, new))

    def run(self, *argv: str) -> str:
        """What a program prints, on both of its outputs. `mrc` is the changed one."""
        programs = self.directory / "bin"
        if not programs.exists():
            programs.mkdir()
            (programs / "mrc").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m mrc "$@"\n')
            (programs / "mrc").chmod(0o755)
        environment = {
            **os.environ,
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(self.directory),
            "MRC_CORE": "python",
        }
        done = subprocess.run(
            argv, cwd=self.directory, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            check=False,
        )  # fmt: skip
        return done.stdout

    def consoles(self) -> Iterator[tuple[int, str, str]]:
        """(line, command, what is shown below it) of each `console changed` block."""
        for line, kind, body in _blocks(self.page):
            if kind == "console changed":
                for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
                    command, _, shown = part.partition("\n")
                    yield line, command, shown
