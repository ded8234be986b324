# SPDX-License-Identifier: BSD-2-Clause
"""The rules the house stands on: who imports whom, whose names are whose, which licence holds where (docs/licence.md).

Private names are ruff's affair (SLF001), imports those of `[tool.importlinter]` in pyproject.toml.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
CODE = {".py", ".c", ".h", ".css", ".js", ".lua"}
# Of the first beginning that fits a file.
LICENCES = {
    "mrc/layers/": "GPL-2.0-only",
    # The kernel lends functions to programs that say so.
    "mrc/lab/bpf/link.c": "BSD-2-Clause OR GPL-2.0-only",
    "mrc/lab/bpf/usid.c": "BSD-2-Clause OR GPL-2.0-only",
    "": "BSD-2-Clause",
}
_SAYS = re.compile(r"SPDX-License-Identifier: ([\w.() -]+?)(?: \*/)?$", re.MULTILINE)


def test_imports_point_one_way() -> None:
    """Among packages, rooms and files, at run time and for types: pyproject.toml has who may import whom."""
    command = [Path(sys.executable).with_name("lint-imports"), "--no-logo", "--no-cache"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("pattern", "places"),
    [
        # Others read what `QP.figures` offers.
        (r"\bendpoint_qp\b", {"verbs"}),
        # A start that the system refuses is an error with a reason, for whoever wants the thread.
        (r"\bThread\(", {"threads.py"}),
        # What is imported is public, but for a header of Scapy's.
        (r"\bfrom \S+ import (?:[\w ,]*|\([\w\s,]*)\b_[A-Za-z]", {"layers"}),
    ],
)
def test_some_names_are_the_affair_of_one_place(pattern: str, places: set[str]) -> None:
    named = [path for path in (ROOT / "mrc").rglob("*.py") if re.search(pattern, path.read_text())]
    assert {path.relative_to(ROOT / "mrc").parts[0] for path in named} == places


def code() -> list[Path]:
    """Code that git knows or has not been told of; in an sdist, where it knows none, that of the folders."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    paths = [ROOT / name for name in listed.stdout.splitlines()]
    paths = paths or [
        path for top in ("benchmarks", "examples", "mrc", "tests", "tools") for path in (ROOT / top).rglob("*")
    ]
    found = [path for path in paths if path.is_file() and not path.is_symlink() and "corpus" not in path.parts]
    return [path for path in found if path.suffix in CODE or path.read_bytes()[:2] == b"#!"]


def test_every_file_of_code_says_its_licence() -> None:
    wrong = []
    for path in code():
        name = path.relative_to(ROOT).as_posix()
        licence = next(licence for begin, licence in LICENCES.items() if name.startswith(begin))
        if _SAYS.findall("\n".join(path.read_text().splitlines()[:3])) != [licence]:
            wrong.append(name)
    assert wrong == ["tools/documentation/theme/assets/iframe-worker.js"]  # of others: REUSE.toml has it
    assert len(code()) > 1000


def test_the_metadata_says_both_and_both_texts_are_there() -> None:
    assert PYPROJECT["project"]["license"] == "BSD-2-Clause AND GPL-2.0-only"
    first = {"LICENSE": "BSD 2-Clause License", "mrc/layers/LICENSE": "GNU GENERAL PUBLIC LICENSE"}
    assert PYPROJECT["project"]["license-files"] == list(first)
    for name, line in first.items():
        assert (ROOT / name).read_text().lstrip().startswith(line)


@pytest.mark.seconds
def test_nothing_but_those_that_are_made_of_it_loads_scapy() -> None:
    """Every module is imported, but for those that the contract `scapy` allows it."""
    (scapy,) = (each for each in PYPROJECT["tool"]["importlinter"]["contracts"] if each["id"] == "scapy")
    # A command's own module says what it is, and builds packets in another.
    apart = tuple(name for name in scapy["allowed_importers"] if name != "mrc.cli.craft")
    paths = [path.relative_to(ROOT).with_suffix("") for path in sorted((ROOT / "mrc").rglob("*.py"))]
    names = [".".join(path.parts).removesuffix(".__init__") for path in paths if path.name != "__main__"]
    script = f"""
import gc, importlib, sys
gc.disable()
for name in {[name for name in names if not name.startswith(apart)]!r}:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as missing:  # of an extra that is not installed
        if (missing.name or "mrc").partition(".")[0] == "mrc":
            raise
    if "scapy" in sys.modules:
        sys.exit(f"{{name}} loads scapy")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
