# SPDX-License-Identifier: BSD-2-Clause
"""The page requirements.md and the tests, held to each other by tools/requirements, and that tool on made-up trees."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

TOOL = Path(__file__).resolve().parents[1] / "tools" / "requirements"
HEAD = "| id | requirement | grade | level | source |\n|---|---|---|---|---|\n"
ROW = "| MRC-{} | A sentence. | A | must | wire.md 1 |\n"


def _run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, TOOL, *arguments], capture_output=True, text=True, check=False)


def _checkout(root: Path, document: str, **tests: str) -> Path:
    (root / "docs" / "contributing").mkdir(parents=True)
    (root / "docs" / "contributing" / "requirements.md").write_text(HEAD + document)
    (root / "tests").mkdir()
    for name, text in tests.items():
        (root / "tests" / f"{name}.py").write_text(text)
    return root


def _found(root: Path) -> tuple[int, dict[str, Any]]:
    done = _run("--root", root, "--json")
    return done.returncode, json.loads(done.stdout)


def test_every_requirement_has_a_test_and_every_cited_id_exists() -> None:
    done = _run()
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("test", "counts"),
    [
        ('def test_a() -> None:\n    """MRC-X-01."""\n', True),
        ('@mark(ids=("MRC-X-01",))\ndef test_a() -> None:\n    pass\n', True),
        ("def test_a() -> None:\n    # MRC-X-01\n    assert True\n", True),
        ('class TestIt:\n    def test_a(self) -> None:\n        """MRC-X-01."""\n', True),
        ('"""MRC-X-01."""\n\n\ndef test_a() -> None:\n    pass\n', False),
        ('class TestIt:\n    """MRC-X-01."""\n\n    def test_a(self) -> None:\n        pass\n', False),
        ('def helper() -> None:\n    """MRC-X-01."""\n', False),
        ('def test_a() -> None:\n    """MRC-X-011, MMRC-X-01."""\n', False),
    ],
    ids=["docstring", "decorator", "body", "method", "module", "class", "helper", "another id"],
)
def test_only_a_test_function_tests(tmp_path: Path, test: str, counts: bool) -> None:
    code, found = _found(_checkout(tmp_path, ROW.format("X-01"), test_it=test))
    assert [each["id"] for each in found["untested"]] == ([] if counts else ["MRC-X-01"])
    assert found["groups"] == {"MRC-X": {"requirements": 1, "tested": int(counts)}}
    assert code == (0 if counts else 1)


@pytest.mark.parametrize("where", ["docstring", "module", "other file"])
def test_an_id_that_does_not_exist_is_found_wherever_it_is_cited(tmp_path: Path, where: str) -> None:
    test = 'def test_a() -> None:\n    """MRC-X-01."""\n'
    root = _checkout(tmp_path, ROW.format("X-01"), test_it=test)
    if where == "docstring":
        (root / "tests" / "test_b.py").write_text('def test_b() -> None:\n    """MRC-X-02."""\n')
        place = "tests/test_b.py::test_b"
    elif where == "module":
        (root / "tests" / "test_b.py").write_text('"""MRC-X-02."""\n')
        place = "tests/test_b.py:1"
    else:
        (root / "docs" / "page.md").write_text("\nsee MRC-X-02\n")
        place = "docs/page.md:2"
    code, found = _found(root)
    assert (code, found["unknown"], found["untested"]) == (1, {"MRC-X-02": [place]}, [])
    assert "MRC-X-02" in _run("--root", root).stdout


def test_a_range_cites_every_id_in_it(tmp_path: Path) -> None:
    test = 'def test_a() -> None:\n    """MRC-X-02..04."""\n'
    root = _checkout(tmp_path, "".join(ROW.format(f"X-0{number}") for number in range(1, 5)), test_it=test)
    assert [each["id"] for each in _found(root)[1]["untested"]] == ["MRC-X-01"]


def test_the_tests_of_an_id_are_listed(tmp_path: Path) -> None:
    test = 'def test_a() -> None:\n    """MRC-X-01."""\n'
    root = _checkout(tmp_path, ROW.format("X-01") + ROW.format("X-02"), test_it=test)
    done = _run("--root", root, "--tests", "MRC-X", "--json")
    assert json.loads(done.stdout) == {"MRC-X-01": ["tests/test_it.py::test_a"], "MRC-X-02": []}
    assert _run("--root", root, "--tests", "MRC-Y").returncode == 2


@pytest.mark.parametrize(
    ("document", "complaint"),
    [
        ("", "no requirements"),
        (ROW.format("X-01") * 2, "twice"),
        (ROW.format("X-1"), "is not an id"),
        ("| MRC-X-01 | A sentence. | A | must |\n", "5 cells"),
        ("| MRC-X-01 | A sentence. | D | must | wire.md 1 |\n", "grade"),
        ("| MRC-X-01 | A sentence. | A | shall | wire.md 1 |\n", "level"),
    ],
)
def test_a_document_that_cannot_be_read_is_no_success(tmp_path: Path, document: str, complaint: str) -> None:
    done = _run("--root", _checkout(tmp_path, document))
    assert done.returncode == 2
    assert complaint in done.stderr
    assert done.stderr.count("\n") == 1
