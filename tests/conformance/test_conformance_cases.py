# SPDX-License-Identifier: BSD-2-Clause
"""The cases against this project's endpoint in virtual time, and what has to hold for the catalogue as a whole."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

import mrc.conformance.cases
import mrc.conformance.codec
from mrc.conformance.case import Case
from mrc.conformance.catalogue import catalogue, chosen, missing
from mrc.conformance.missing import REASONS
from mrc.conformance.requirements import GROUPS, ids_in, requirements
from mrc.conformance.results import Run
from mrc.conformance.runner import run
from mrc.conformance.target import OPTIONS
from mrc.conformance.targets.in_process import target

ROOT = Path(__file__).resolve().parents[2]
# The requirements of these groups have a case each, or a reason why not.
_GROUPS = "WIRE ICRC EV SRV6 ECN TRIM NAME ACK SACK RESP NACK REQ SEND LOSS RETRY PATH PORT PROBE OP IMM MPR QP ERR"
_GROUPS += " CC RTT"
COMPLETE = tuple(f"MRC-{group}-" for group in _GROUPS.split())


@cache
def whole_run() -> Run:
    return run(catalogue(), target(), strict=True)


@pytest.mark.parametrize("each", catalogue(), ids=lambda each: each.id)
def test_our_endpoint_passes(each: Case) -> None:
    result = next(result for result in whole_run().results if result.case is each)
    assert result.verdict == "passed", f"expected {result.expected}; {result.actual}\n" + "\n".join(
        result.log.story(30)
    )
    assert not result.unchecked


def test_the_run_is_not_void() -> None:
    assert whole_run().void == ""


def test_a_run_is_the_same_every_time() -> None:
    """Byte by byte, and at the same times."""
    cases = chosen(catalogue(), ["MRC-SACK", "MRC-WIRE"])

    def packets(found: Run) -> list[list[tuple[int, bytes]]]:
        chosen_here = (result for result in found.results if result.case in cases)
        return [[(passed.at, passed.frame) for passed in result.log] for result in chosen_here]

    assert packets(run(cases, target())) == packets(whole_run())


def test_every_requirement_of_the_complete_groups_has_a_case_or_a_reason() -> None:
    without = [each.requirement.id for each in missing() if not each.reason]
    assert [each for each in without if each.startswith(COMPLETE)] == []


def test_reasons_are_given_for_requirements_without_a_case_and_for_no_others() -> None:
    reasoned = [each for ids in REASONS for each in ids_in(ids)]
    assert len(reasoned) == len(set(reasoned))
    assert set(reasoned) <= {each.requirement.id for each in missing()}


@pytest.mark.parametrize("reason", REASONS.values(), ids=REASONS.keys())
def test_the_tests_a_reason_names_are_there(reason: str) -> None:
    """`test_NAME of tests/FILE.py`."""
    named = re.findall(r"\b(test_\w+)\s+of\s+(tests/[\w/]+\.py)", reason)
    assert len(re.findall(r"\btest_\w+(?!\w|\.py)", reason)) == len(named)
    for name, path in named:
        assert f"def {name}(" in (ROOT / path).read_text(), f"{path} has no {name}"


def test_requirements_are_those_of_the_document() -> None:
    """There is one copy: the package's is a link to it."""
    document = ROOT / "docs" / "contributing" / "requirements.md"
    assert (ROOT / "mrc" / "conformance" / "requirements.md").resolve() == document
    rows = [line for line in document.read_text().splitlines() if line.startswith("| MRC-")]
    assert [
        f"| {each.id} | {each.text} | {each.grade} | {each.level} | {each.source} |" for each in requirements().values()
    ] == rows
    assert {each.group for each in requirements().values()} <= set(GROUPS)


@pytest.mark.parametrize("each", catalogue(), ids=lambda each: each.id)
def test_a_case_can_be_read_without_the_code(each: Case) -> None:
    """Its words are there, and what it asks of a target is written down."""
    assert each.about.endswith(".")
    assert len(each.look_at) > 10
    assert set(each.setup.options) <= set(OPTIONS)
    assert f'"{each.id}"' in each.source
    assert each.requirement.id in requirements()


def scripts_and_codec() -> list[Path]:
    packages = mrc.conformance.cases, mrc.conformance.codec
    return sorted(path for package in packages for path in Path(package.__path__[0]).rglob("*.py"))


@pytest.mark.parametrize("path", scripts_and_codec(), ids=lambda path: path.name)
def test_scripts_and_codec_know_nothing_of_the_endpoint(path: Path) -> None:
    """What holds an endpoint to the protocol must not be made of that endpoint; only errors and switches are shared."""
    for node in ast.walk(ast.parse(path.read_text())):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
        for name in names:
            mine = name.startswith("mrc.conformance.") and ".targets" not in name and "wrong_endpoints" not in name
            assert (
                mine or name in ("mrc.errors", "mrc.wire.profile") or name.partition(".")[0] not in ("mrc", "mutants")
            ), name


SACK_09 = {"MRC-SACK-09", "MRC-SACK-09/received", "MRC-SACK-09/wrap", "MRC-SACK-09/whole"}


@pytest.mark.parametrize(
    ("patterns", "ids"),
    [
        (["MRC-SACK-09"], SACK_09),
        (["=MRC-SACK-09"], {"MRC-SACK-09"}),
        (["=MRC-SACK-09/wrap", "=MRC-SACK-0"], {"MRC-SACK-09/wrap"}),
        (["MRC-SACK-09/wrap"], {"MRC-SACK-09/wrap"}),
        (["MRC-ACK-0[12]"], {"MRC-ACK-01", "MRC-ACK-02"}),
        # A wildcard before the variant takes every variant, as the id written out does.
        (["MRC-SACK-0[49]"], {"MRC-SACK-04", "MRC-SACK-04/among-others"} | SACK_09),
        (["MRC-SACK-*9"], SACK_09 | {"MRC-SACK-19"}),
        (["MRC-SACK-*/wrap"], {"MRC-SACK-03/wrap", "MRC-SACK-09/wrap"}),
        (["MRC-SACK-09/wr"], {"MRC-SACK-09/wrap"}),
        # Whole words first: what only begins with an id is not meant by it.
        (["MRC-RETRY-05/long"], {"MRC-RETRY-05/long"}),
        (["MRC-RETRY-05/longe"], {"MRC-RETRY-05/longest"}),
        (["mrc-sack-09"], set()),
        (["MRC-WIRE-17", "MRC-WIRE-18"], {"MRC-WIRE-17", "MRC-WIRE-18"}),
    ],
)
def test_patterns_pick_cases(patterns: list[str], ids: set[str]) -> None:
    assert {each.id for each in chosen(catalogue(), patterns)} == ids


def test_a_short_pattern_picks_all_that_begins_so() -> None:
    picked = chosen(catalogue(), ["MRC-ACK"])
    assert {each.requirement.id[:7] for each in picked} == {"MRC-ACK"}
    assert len(picked) >= 11
    assert chosen(picked, [], ["wire"]) == []
    tens = {each.requirement.id for each in chosen(catalogue(), ["MRC-SACK-0"])}
    assert tens == {each.requirement.id for each in catalogue() if each.id[:10] == "MRC-SACK-0"} != set()
