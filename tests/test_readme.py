# SPDX-License-Identifier: BSD-2-Clause
"""The front page: its program runs as it stands and prints what is shown, and it stays a page."""

from __future__ import annotations

import io
import re
from contextlib import redirect_stdout
from pathlib import Path

README = (Path(__file__).parents[1] / "README.md").read_text()


def test_its_program_prints_what_is_shown() -> None:
    (program,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    (shown,) = re.findall(r"```text\n(.*?)```", README, re.DOTALL)
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(compile(program, "README.md", "exec"), {})
    assert printed.getvalue() == shown
    assert len([line for line in program.splitlines() if line]) <= 12


def test_it_is_one_page() -> None:
    assert len(README.splitlines()) <= 100
