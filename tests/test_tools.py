# SPDX-License-Identifier: BSD-2-Clause
"""What is in tools/ and benchmarks/ is started by its name, by somebody who has activated no virtual environment."""

from __future__ import annotations

import io
import os
import re
import runpy
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stdout
from multiprocessing import get_context
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parents[1] / "tools"
CASES = TOOLS.parent / "tests" / "conformance"
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


def test_what_runs_interpreted_alone_runs_interpreted() -> None:
    """Such a file is skipped in the compiled part of `tools/test`."""
    said = r"^wrong=\(tests/conformance/test_conformance_{(.*)}\.py\)$"
    (names,) = re.findall(said, (TOOLS / "test").read_text(), re.M)
    skipped = {path.stem for path in CASES.glob("test_*.py") if "\ninterpreted_alone()\n" in path.read_text()}
    assert skipped
    assert {f"test_conformance_{name}" for name in names.split(",")} == skipped | {
        "test_conformance_cases",
        "test_conformance_rc",
    }


# By one tool of Python's the environment is looked after, as by those of the shell; the others would do the same again.
LOOKS_AFTER_IT = "tools/studies"


def told(command: Path, folder: Path) -> str:
    """What a tool of Python's says to --help in the environment, here where that is at work."""
    os.chdir(folder)
    os.environ["MRC_TOOL_STARTED_AGAIN"] = "1"
    sys.argv = [str(command), "--help"]
    sys.path[:] = [str(command.parent), *(each for each in sys.path if not each.startswith(str(Path(__file__).parent)))]
    with redirect_stdout(io.StringIO()) as said, pytest.raises(SystemExit) as ended:
        runpy.run_path(str(command), run_name="__main__")
    assert not ended.value.code
    return said.getvalue()


@pytest.mark.parametrize("name", STARTED)
def test_every_tool_tells_what_it_does_and_changes_nothing(name: str, tmp_path: Path) -> None:
    command = TOOLS.parent / name
    outside = [each for each in os.environ["PATH"].split(os.pathsep) if not each.startswith(sys.prefix)]
    # This Python itself: a program of that name that looks for one takes longer than most tools.
    path = [str(Path(sys.base_prefix, "bin")), *outside]
    again = tmp_path / "again"
    if command.read_text().startswith("#!/usr/bin/env python3") and name != LOOKS_AFTER_IT:
        (bash := tmp_path / "bin" / "bash").parent.mkdir()
        bash.write_text(f'#!/bin/sh\nshift 5\necho "$@" >{again}\n')
        bash.chmod(0o755)
        path.insert(0, str(bash.parent))
    environment = os.environ | {"PATH": os.pathsep.join(path)}
    environment.pop("VIRTUAL_ENV", None)
    (here := tmp_path / "here").mkdir()
    done = subprocess.run(
        [command, "--help"], cwd=here, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    said = done.stdout
    if again.exists():
        assert (again.read_text(), said) == (f"{command} --help\n", "")
        with ProcessPoolExecutor(1, get_context("fork")) as fork:
            said = fork.submit(told, command, here).result()
    assert len(said.split()) > 5
    assert not list(here.iterdir())


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


def test_differential_names_the_first_packet_that_differs_and_the_counters_that_both_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What it finds nothing in is taken for unchanged."""
    monkeypatch.syspath_prepend(TOOLS)
    monkeypatch.setenv("MRC_TOOL_STARTED_AGAIN", "1")
    difference = runpy.run_path(str(TOOLS / "differential"))["difference"]
    one = [3, 2, 50, ["W1/0", "W2/1"], [{"acks_sent": 1, "acks_received": 4}]]
    assert difference(one, [*one[:4], [{"acks_sent": 1, "acks_received": 4, "new": 9}]]) is None
    counted = [*one[:4], [{"acks_sent": 2, "acks_received": 4}]]
    assert difference(one, counted) == {"round": 3, "packet": None, "counters": ["acks_sent"]}
    packet = {"number": 2, "sent": ("none", "SACK2/1")}
    longer = [3, 3, 50, [*one[3], "SACK2/1"], one[4]]
    assert difference(one, longer) == {"round": 3, "packet": packet, "counters": []}


def test_an_environment_is_made_with_the_python_that_is_named_and_with_no_other() -> None:
    def chosen(named: str) -> subprocess.CompletedProcess[str]:
        script = f"set -eu; source {TOOLS / 'setup.sh'}; interpreter=$(python); echo chosen $interpreter"
        environment = os.environ | {"MRC_PYTHON": named}
        return subprocess.run(["bash", "-c", script], env=environment, capture_output=True, text=True, check=False)

    assert chosen(sys.executable).stdout == f"chosen {sys.executable}\n"
    assert chosen("").stdout.startswith("chosen python3")
    refused = chosen("/bin/true-python")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "MRC_PYTHON is /bin/true-python, which is no Python 3.11 or newer" in refused.stderr
