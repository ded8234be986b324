# SPDX-License-Identifier: BSD-2-Clause
"""Which licence holds where (docs/licence.md): every file of code says its own, and nothing loads Scapy by itself."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
BSD, GPL, EITHER = "BSD-2-Clause", "GPL-2.0-only", "BSD-2-Clause OR GPL-2.0-only"
CODE = {".py", ".c", ".h", ".css", ".js", ".lua"}
# Of others; REUSE.toml has it.
FOREIGN = {"tools/documentation/theme/assets/iframe-worker.js"}
_SAYS = re.compile(r"SPDX-License-Identifier: ([\w.() -]+?)(?: \*/)?$", re.MULTILINE)


def files_of_code() -> list[str]:
    """Those of a checkout, or of an sdist, in which git knows none."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    names = listed.stdout.splitlines() if listed.returncode == 0 else []
    if "pyproject.toml" not in names:
        folders = ("benchmarks", "examples", "mrc", "tests", "tools")
        names = [str(path.relative_to(ROOT)) for folder in folders for path in (ROOT / folder).rglob("*")]
    return sorted(name for name in names if _is_code(ROOT / name) and name not in FOREIGN)


def _is_code(path: Path) -> bool:
    if not path.is_file() or path.is_symlink() or "corpus" in path.parts:
        return False
    if path.suffix in CODE:
        return True
    with path.open("rb") as file:
        return file.read(2) == b"#!"


def wanted(name: str) -> str:
    if name.startswith("mrc/layers/"):
        return GPL
    # The kernel lends functions to programs that say so.
    return EITHER if re.fullmatch(r"mrc/lab/bpf/\w+\.c", name) else BSD


def test_every_file_of_code_says_its_licence() -> None:
    names = files_of_code()
    assert len(names) > 1000
    wrong = []
    for name in names:
        with (ROOT / name).open(encoding="utf-8") as file:
            head = "".join(file.readline() for _ in range(3))
        if _SAYS.findall(head) != [wanted(name)]:
            wrong.append(f"{name}: {_SAYS.findall(head) or 'nothing'}, not {wanted(name)}")
    assert not wrong, "\n".join(wrong)


def test_the_metadata_says_both_and_both_texts_are_there() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["license"] == f"{BSD} AND {GPL}"
    first = {"LICENSE": "BSD 2-Clause License", "mrc/layers/LICENSE": "GNU GENERAL PUBLIC LICENSE"}
    assert project["license-files"] == list(first)
    for name, line in first.items():
        assert (ROOT / name).read_text().lstrip().startswith(line)


def loads_scapy() -> list[str]:
    """The modules that may, besides mrc.layers."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (scapy,) = (contract for contract in contracts if contract["id"] == "scapy")
    return [name for name in scapy["allowed_importers"] if name != "mrc.layers"]


def test_nothing_but_those_that_are_made_of_it_loads_scapy() -> None:
    """Every module is imported, but for mrc.layers and the files that use it."""
    apart = set(loads_scapy())
    # A command's own module says what it is, and builds packets in another.
    apart.remove("mrc.cli.craft")
    modules = []
    for path in sorted((ROOT / "mrc").rglob("*.py")):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        if name not in apart and not name.startswith("mrc.layers") and not name.endswith("__main__"):
            modules.append(name)
    assert len(modules) > 700
    script = f"""
import importlib, sys
for name in {modules!r}:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as missing:  # of an extra that is not installed
        if (missing.name or "mrc").partition(".")[0] == "mrc":
            raise
    except Exception as error:
        print(name, "cannot be imported:", error)
    if "scapy" in sys.modules:
        print(name, "loads scapy")
        break
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == ""


@pytest.mark.parametrize("name", loads_scapy())
def test_the_files_that_may_load_it_are_there(name: str) -> None:
    path = ROOT.joinpath(*name.split(".")).with_suffix(".py")
    assert re.search(r"^\s*from (scapy|mrc\.layers)", path.read_text(), re.MULTILINE)
