# SPDX-License-Identifier: BSD-2-Clause
"""What is in tools/ and benchmarks/ is started by its name, by somebody who has activated no virtual environment."""

from __future__ import annotations

import ast
import importlib
import os
import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

TOOLS = Path(__file__).resolve().parents[1] / "tools"
pytestmark = pytest.mark.skipif(
    Path(sys.prefix) != TOOLS.parent / ".venv" and os.environ.get("CI") != "true",
    reason="would make an environment in the checkout: run tools/test",
)
# tools/bench would install what benchmarks need, beside tests that run.
STARTED = sorted(
    path.relative_to(TOOLS.parent).as_posix()
    for folder in (TOOLS, TOOLS.parent / "benchmarks")
    for path in folder.iterdir()
    if path.is_file() and os.access(path, os.X_OK) and path != TOOLS / "bench"
)


def test_the_tools_are_found() -> None:
    assert {"tools/demo", "tools/test", "benchmarks/hostile-load", "tools/map-trials"} <= set(STARTED)


def test_what_runs_interpreted_alone_runs_interpreted() -> None:
    """Such a file is skipped in the compiled part of `tools/test`."""
    folder = TOOLS.parent / "tests" / "conformance"
    (names,) = re.findall(
        r"^wrong=\(tests/conformance/test_conformance_{(.*)}\.py\)$", (TOOLS / "test").read_text(), re.M
    )
    run = {f"test_conformance_{name}.py" for name in names.split(",")}
    skipped = {path.name for path in folder.glob("test_*.py") if "\ninterpreted_alone()\n" in path.read_text()}
    both = {"test_conformance_cases.py", "test_conformance_rc.py"}
    assert run == skipped | both
    assert len(skipped) == len(run) - len(both) > 0


@pytest.mark.parametrize("name", STARTED)
def test_every_tool_tells_what_it_does_and_changes_nothing(name: str, tmp_path: Path) -> None:
    outside = [each for each in os.environ["PATH"].split(os.pathsep) if not each.startswith(sys.prefix)]
    environment = {key: value for key, value in os.environ.items() if key != "VIRTUAL_ENV"}
    done = subprocess.run(
        [TOOLS.parent / name, "--help"],
        cwd=tmp_path,
        env={**environment, "PATH": os.pathsep.join(outside)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.split()) > 5
    assert not list(tmp_path.iterdir())


def test_mutate_knows_every_module_of_the_endpoint_and_none_that_is_gone() -> None:
    groups: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = runpy.run_path(str(TOOLS / "mutate"))["GROUPS"]
    known = set()
    for modules, tests in groups.values():
        for pattern in (*(f"mrc/{name}.py" for name in modules), *tests):
            found = set(TOOLS.parent.glob(pattern))
            assert found, f"{pattern} leads nowhere"
            known |= found
    endpoint = (TOOLS.parent / "mrc" / "endpoint").rglob("*.py")
    assert {path for path in endpoint if path.name != "__init__.py"} <= known


def test_the_benchmarks_import_what_there_is() -> None:
    """They are run by hand: what they measure must not go without them."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", "benchmarks"],
        cwd=TOOLS.parent,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_differential_names_the_first_packet_that_differs_and_the_counters_that_both_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(TOOLS)
    monkeypatch.setenv("MRC_TOOLSTARTED_AGAIN", "1")
    difference = runpy.run_path(str(TOOLS / "differential"))["difference"]
    one = [3, 2, 50, ["W1/0", "W2/1"], [{"acks_sent": 1, "acks_received": 4}]]
    assert difference(one, one) is None
    assert difference(one, [3, 2, 50, one[3], [{"acks_sent": 1, "acks_received": 4, "new": 9}]]) is None
    counted = [3, 2, 50, one[3], [{"acks_sent": 2, "acks_received": 4}]]
    assert difference(one, counted) == {"round": 3, "packet": None, "counters": ["acks_sent"]}
    packet = {"number": 2, "sent": ("none", "SACK2/1")}
    longer = [3, 3, 50, [*one[3], "SACK2/1"], one[4]]
    assert difference(one, longer) == {"round": 3, "packet": packet, "counters": []}


def mutation_results(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(TOOLS))
    return importlib.import_module("mutation.results")


def test_every_equivalent_mutant_is_of_a_function_that_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    # That the function still has this mutant, tools/mutate says, which makes them.
    results = mutation_results(monkeypatch)
    functions: dict[Path, set[str]] = {}
    lost = []
    for name in results.equivalent():
        path, function = results.place(name, TOOLS.parent) or (None, "")
        if path is not None and path not in functions:
            functions[path] = set(functions_of(path))
        if path is None or function not in functions[path]:
            lost.append(name)
    assert not lost
    assert len(functions) > 20


def functions_of(path: Path) -> Iterator[str]:
    """The functions of a module and the methods of its classes."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef):
            yield node.name
        elif isinstance(node, ast.ClassDef):
            yield from (f"{node.name}.{each.name}" for each in node.body if isinstance(each, ast.FunctionDef))


def test_an_equivalent_mutant_that_is_no_more_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    results = mutation_results(monkeypatch)
    for path in ("mrc/room/one.py", "mrc/room/other.py"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    here, of_another, no_file = "mrc.room.one.Kind.act.aa.1", "mrc.room.other.act.bb.1", "mrc.room.gone.act.cc.1"
    changed, second = "mrc.room.one.Kind.act.dd.1", "mrc.room.one.Kind.act.aa.2"
    module = SimpleNamespace(path=Path("mrc/room/one.py"), mutants=[SimpleNamespace(name=here)])
    names = {here, of_another, no_file, changed, second}
    # The module of `of_another` was not asked for: nothing is known of its mutants.
    assert list(results.gone(names, [module], tmp_path)) == [no_file, second, changed]
    assert results.place(here, tmp_path) == (tmp_path / "mrc/room/one.py", "Kind.act")


def test_the_table_of_mutants_has_each_number_below_its_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    results = mutation_results(monkeypatch)
    module = SimpleNamespace(path=Path("mrc/one.py"), mutants=[SimpleNamespace(name="mrc.one.act.aa.1")])
    names, *rows = results.table([module], results.Results(tmp_path / "none.json"))
    assert [len(row) for row in rows] == [len(names)] * 2
