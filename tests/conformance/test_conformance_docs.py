# SPDX-License-Identifier: BSD-2-Clause
"""docs/conformance.md: what it shows runs, and its tables are those of the code."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

from interpreted_alone import interpreted_alone
from mutants import mutants

from mrc.conformance.case import REGISTRY
from mrc.conformance.catalogue import catalogue, missing
from mrc.conformance.report.tables import Row, between_markers, missing_table, mutant_table
from mrc.conformance.runner import run_case
from mrc.conformance.targets.in_process import target

interpreted_alone()

PAGE = Path(__file__).resolve().parents[2] / "docs" / "conformance.md"
TEXT = PAGE.read_text(encoding="utf-8")


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


def table_of(name: str) -> str:
    found = re.search(rf"<!-- {name}: .*? -->\n(.*?)\n<!-- end of {name} -->", TEXT, re.DOTALL)
    assert found is not None
    return found[1]


def commands_on(target: str) -> list[list[str]]:
    """The runs the page shows against a target, without `mrc`."""
    return [
        shlex.split(line) for line in re.findall(rf"^\$ mrc (conformance run --target {target}.*)$", TEXT, re.MULTILINE)
    ]


def test_the_adapter_runs_as_it_stands(tmp_path: Path) -> None:
    """Each command on it that the page shows, the whole suite among them: it fails where the page says that it is
    wrong, for the reasons that the page gives, and no case ends in an error."""
    (adapter,) = blocks("python adapter")
    (tmp_path / "my_endpoint.py").write_text(adapter)
    few, whole = commands_on("my_endpoint")
    documents = []
    for words in (few, whole):
        command = [sys.executable, "-m", "mrc", *words, "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
        document = json.loads(done.stdout)
        errors = {each["id"]: each["actual"] for each in document["cases"] if each["verdict"] == "error"}
        assert (done.returncode, document["void"], document["errors"], errors) == (1, None, 0, {})
        documents.append({each["id"]: each for each in document["cases"]})
    found = {name: each["verdict"] for name, each in documents[0].items()}
    assert (found["MRC-SACK-04"], found["MRC-SACK-05"], found["MRC-SACK-06"]) == ("passed", "failed", "failed")
    assert set(documents[1]) == {each.id for each in catalogue()}
    failed = [each for each in documents[1].values() if each["verdict"] == "failed"]
    # What it does not have it is not blamed for: a second EV, a second QP, settings, ports, memory that can be seen.
    assert not [each["id"] for each in failed if each["group"] in ("paths", "congestion")]
    unsupported = {each["actual"] for each in documents[1].values() if each["verdict"] == "unsupported"}
    for reason in (
        "the case needs 2 EVs of the target's profile, this target has 1",
        "the case needs 2 QPs at once, this target has 1",
        "the case needs 2 planes, this target has 1",
        "the case needs 1 write with immediate that the target grants, this target has 0",
        "TRIM_NACK cannot be agreed with this target",
        "this endpoint has no setting timeout",
        "the target cannot post a write",
    ):
        assert reason in unsupported


def test_the_endpoint_in_an_event_loop_runs_as_it_stands(tmp_path: Path) -> None:
    """It finds what the same responder does in virtual time, and a broken one is a crash, not a silence."""
    (adapter,) = blocks("python adapter")
    (looped,) = blocks("python async adapter")
    (tmp_path / "my_endpoint.py").write_text(adapter)
    (tmp_path / "my_loop.py").write_text(looped)
    (words,) = commands_on("my_loop")

    def verdicts(target: str) -> dict[str, tuple[str, str]]:
        command = [sys.executable, "-m", "mrc", *words[:3], target, *words[4:], "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
        document = json.loads(done.stdout)
        assert document["errors"] == 0, done.stderr
        return {each["id"]: (each["verdict"], each["actual"]) for each in document["cases"]}

    assert words[2:4] == ["--target", "my_loop:Ours"]
    found = verdicts("my_loop:Ours")
    assert {name: verdict for name, (verdict, _) in found.items()} == {
        name: verdict for name, (verdict, _) in verdicts("my_endpoint:Ours").items()
    }
    assert found["MRC-SACK-04"][0] == "passed"
    broken = looped.replace("found = read_carriage(data)", "raise KeyError('no such QP')")
    (tmp_path / "my_broken_loop.py").write_text(broken)
    crashed = verdicts("my_broken_loop:Ours")
    assert {verdict for verdict, _ in crashed.values()} <= {"failed", "unsupported"}
    assert any("no such QP" in actual for _, actual in crashed.values())


def test_the_case_it_shows_is_the_one_in_the_catalogue() -> None:
    shown = next(each for each in blocks("python") if "@case" in each)
    names: dict[str, object] = {}
    body = shown.replace('@case("MRC-SACK-09",', '@case("MRC-SACK-09/shown-in-the-docs",')
    exec(compile(body, str(PAGE), "exec"), names)
    shown_case = REGISTRY.pop("MRC-SACK-09/shown-in-the-docs")
    assert run_case(shown_case, target()).verdict == "passed"
    assert run_case(shown_case, mutants()["bitmap_base_off_by_one"].target()).verdict == "failed"


def test_the_table_of_mutants_names_every_mutant_and_what_catches_it() -> None:
    """Made anew by tools/conformance-tables whenever a mutant or a case is added."""
    rows = dict(re.findall(r"^\| (\w+) \| .*? \| (.*) \|$", table_of("mutants"), re.MULTILINE))
    assert set(rows) - {"mutant"} == set(mutants())
    for name, mutant in mutants().items():
        assert f"| {name} | {mutant.what} |" in TEXT
        for requirement in mutant.caught_by:
            assert re.search(rf"\*\*{requirement}(/[\w-]+)?\*\*", rows[name]), f"{name} is not caught by {requirement}"


def test_the_table_of_what_has_no_case_is_that_of_the_code() -> None:
    assert table_of("missing") == missing_table(missing())


def test_a_row_says_what_catches_a_mutant_and_what_else_fails_it() -> None:
    known = mutants()
    others = tuple(f"MRC-X-{number}" for number in range(9))
    few = Row("sack_echoes_another_ev", ("MRC-WIRE-09", "MRC-SACK-04", "MRC-SACK-04/among-others"), void=False)
    many = Row("sack_echoes_another_ev", others, void=True)
    lines = mutant_table([few, many], known).splitlines()
    assert lines[2].endswith("| **MRC-SACK-04**, **MRC-SACK-04/among-others**, MRC-WIRE-09 |")
    assert lines[3].endswith("| and 9 more; the run is void |")
    assert (few.lacking(["MRC-SACK-04"]), many.lacking(["MRC-SACK-04"])) == ([], ["MRC-SACK-04"])


def test_a_page_keeps_what_is_not_between_its_markers() -> None:
    page = "a\n<!-- x: made by tools/conformance-tables -->\nold\n<!-- end of x -->\nb\n"
    assert between_markers(page, "x", "new\n\\1") == page.replace("old", "new\n\\1")
