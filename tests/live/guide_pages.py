# SPDX-License-Identifier: BSD-2-Clause
"""The guides of docs/guides as their reader follows them: files saved, commands typed, in one shell for each page.

A page says in a comment before a block where a test departs from it:

- `<!-- not run: REASON -->`: the block is not run.
- `<!-- tested: X as Y -->`: Y stands for X, to make it shorter or to stay out of the way of what else runs.
"""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from patience import PATIENCE_S, eventually

GUIDES = Path(__file__).parents[2] / "docs" / "guides"
# What may stand before a block: comments of tests, and the file that it is to be saved as.
_BLOCK = re.compile(r"(?P<before>[^\n]*\n*(?:<!--[^\n]*-->\n+)*)^```(?P<kind>[^\n]*)\n(?P<body>.*?)^```$", re.M | re.S)
# These look at what goes on meanwhile: they are repeated until they show what the page shows.
_LOOKS = ("sleep ", "mrc ctl list", "mrc map show", "mrc top")
_NUMBER = re.compile(r"0x[0-9a-f]+|\d[\d.,:]*(?<=\d)")


@dataclass(frozen=True)
class Command:
    """A command of a page, and what the page shows below it."""

    line: int
    words: str
    shown: tuple[str, ...]


@dataclass(frozen=True)
class Block:
    page: Path
    line: int
    kind: str
    body: str
    saved_as: str | None
    not_run: str | None

    def commands(self) -> Iterator[Command]:
        """Those of a block of a shell; its prompts are `$` for anybody and `#` for root."""
        for match in re.finditer(r"^[$#] (.*)\n((?:(?![$#] ).*\n)*)", self.body, re.M):
            line = self.line + self.body[: match.start()].count("\n")
            yield Command(line, match[1], tuple(filter(None, match[2].splitlines())))


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    found = []
    for match in _BLOCK.finditer(text):
        before, body = match["before"], match["body"]
        for old, new in re.findall(r"<!-- tested: (.+?) as (.+?) -->", before):
            assert old in body, f"{page.name}: {old!r} is not in the block that it is to be replaced in"
            body = body.replace(old, new)
        saved = re.search(r"[Ss]ave this as `([^`]+)`", before)
        reason = re.search(r"<!-- not run: (.+) -->", before)
        line = text[: match.start("body")].count("\n") + 1
        found.append(Block(page, line, match["kind"], body, saved and saved[1], reason and reason[1]))
    return found


def prints(shown: tuple[str, ...], printed: str) -> bool:
    """Whether all lines that a page shows were printed, in this order. Numbers and the width of columns may differ.

    `...` stands for lines that are left out. Other programs of the shell may print between the lines.
    """
    lines = iter([_plain(line) for line in printed.splitlines()])
    return all(_plain(line) in lines for line in shown if line != "...")


def _plain(line: str) -> str:
    return " ".join(_NUMBER.sub("N", line).split())


class Shell:
    """A bash in a directory, whose commands see the lab of this test as the default one."""

    def __init__(self, directory: Path, lab: str) -> None:
        self.directory, self.lab = directory, lab
        self._log = directory / ".printed"
        control = directory / ".control"
        control.mkdir()
        environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "MRC_LAB": lab,
            "MRC_CONTROL_DIR": str(control),
        }
        self._ended, ended = os.pipe()
        # Where the shell writes the exit status of each command.
        self._status = ended
        with self._log.open("w") as log:
            self._bash = subprocess.Popen(
                ["bash", "--norc"], cwd=directory, env=environment, stdin=subprocess.PIPE, stdout=log,
                stderr=subprocess.STDOUT, text=True, start_new_session=True, pass_fds=(ended,),
            )  # fmt: skip
        os.close(ended)

    def printed(self) -> str:
        """All that was printed so far, by commands in the background too. The lab has its usual name in it."""
        return self._log.read_text(encoding="utf-8").replace(self.lab, "mrc")

    def run(self, command: Command) -> str:
        """What is printed until a command is over; it has to succeed. One in the background is over at once."""
        for name in re.findall(r"\$\(head -1 (\w+)\)", command.words):
            # A reader types more slowly than a program starts.
            file = self.directory / name
            eventually(lambda file=file: file.exists() and file.read_text(encoding="utf-8").endswith("\n"))
        begin = len(self.printed())
        assert self._bash.stdin is not None
        self._bash.stdin.write(f"{{ {command.words}\n}} </dev/null {self._status}>&-\necho $? >&{self._status}\n")
        self._bash.stdin.flush()
        ready, _, _ = select.select([self._ended], [], [], PATIENCE_S)
        printed = self.printed()[begin:]
        assert ready, f"line {command.line}: {command.words} does not end\n{printed}"
        status = os.read(self._ended, 16).decode().strip()
        assert status == "0", f"line {command.line}: {command.words}\n{printed}"
        return printed

    def follow(self, block: Block) -> None:
        """Run the commands of a block, or save it as the file that it is; a command prints what is shown below it."""
        if block.saved_as is not None:
            (self.directory / block.saved_as).write_text(block.body, encoding="utf-8")
        for command in block.commands() if block.kind == "console" else ():
            printed = self.run(command)
            if not prints(command.shown, printed):
                assert command.words.startswith(_LOOKS), f"line {command.line}: {command.words}\n{printed}"
                eventually(lambda command=command: prints(command.shown, self.run(command)))

    def close(self) -> None:
        assert self._bash.stdin is not None
        self._bash.stdin.close()
        with suppress(ProcessLookupError):
            os.killpg(self._bash.pid, signal.SIGTERM)
        self._bash.wait()
        os.close(self._ended)
