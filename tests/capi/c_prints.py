# SPDX-License-Identifier: BSD-2-Clause
"""Programs that print numbers of a header, in C and in C++."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from mrc.capi.build import compiler


def output(source: str, folder: Path, *options: str, language: str = "c") -> str:
    """What a program prints that is compiled with these options. Skips where there is no compiler of C++."""
    (folder / "prints.c").write_text(source)
    program = folder / "prints"
    command = [*compiler(), "-x", language, *options, str(folder / "prints.c"), "-o", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "cc1plus" in done.stderr and "No such file" in done.stderr:
        pytest.skip("there is no C++ compiler")
    assert done.returncode == 0, done.stderr
    return subprocess.run([str(program)], check=True, capture_output=True, text=True).stdout


def prints(header: str, expressions: Iterable[str]) -> str:
    """A program that prints each expression and its value."""
    lines = "".join(f'printf("%s %lld\\n", "{each}", (long long)({each}));\n' for each in expressions)
    return f"#include <stdio.h>\n#include <stddef.h>\n#include {header}\nint main(void) {{\n{lines}return 0;\n}}\n"


def told(printed: str) -> Mapping[str, int]:
    """The values by expression."""
    return {name: int(value) for name, value in (line.rsplit(" ", 1) for line in printed.splitlines())}
