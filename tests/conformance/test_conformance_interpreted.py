# SPDX-License-Identifier: BSD-2-Clause
"""Wrong endpoints run interpreted, whatever was compiled; the endpoint itself passes both ways."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import mutants.mutant
import pytest
from interpreted_alone import interpreted_alone
from mutants.mutant import check_interpreted

from mrc.cli.conformance_suites import TRANSPORTS, suite
from mrc.conformance import interpreted
from mrc.conformance.catalogue import catalogue, chosen
from mrc.conformance.interpreted import run_interpreted
from mrc.conformance.wrong_endpoints import named_mutant, wrong_endpoints
from mrc.core import COMPILED, INTERPRETED, VARIABLE, Core
from mrc.errors import CallerError

interpreted_alone()


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (interpreted, mutants.mutant):
        monkeypatch.setattr(module, "CORE", Core(COMPILED))


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_where_it_is_compiled_there_are_none(transport: str) -> None:
    with pytest.raises(CallerError, match="set MRC_CORE=python in the environment"):
        wrong_endpoints(suite(transport).mutants)


@pytest.mark.usefixtures("compiled")
def test_a_command_starts_itself_again(monkeypatch: pytest.MonkeyPatch) -> None:
    started = []
    monkeypatch.setattr(os, "execve", lambda *arguments: started.append(arguments))
    monkeypatch.setattr(sys, "argv", ["/anywhere/mrc", "conformance", "serve", "--mutant", "x"])
    run_interpreted()
    ((program, command, environment),) = started
    assert program == sys.executable
    assert command == [sys.executable, "-m", "mrc", "conformance", "serve", "--mutant", "x"]
    assert environment == {**os.environ, VARIABLE: INTERPRETED}


def test_interpreted_it_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "execve", lambda *arguments: pytest.fail("started again"))
    run_interpreted()
    check_interpreted()


@pytest.mark.parametrize(
    ("target", "mutant"),
    [
        ("mutant:sack_echoes_another_ev", "sack_echoes_another_ev"),
        ("mutant:", ""),
        ("mutants:sack_echoes_another_ev", None),
        ("mrc.conformance.targets.in_process:target", None),
        ("self", None),
    ],
)
def test_which_targets_they_are(target: str, mutant: str | None) -> None:
    assert named_mutant(target) == mutant


def run_with(core: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mrc", "conformance", "run", "--json", *arguments]
    environment = {**os.environ, VARIABLE: core}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=600)


@pytest.fixture(scope="module")
def compiled_here() -> None:
    trial = subprocess.run(
        [sys.executable, "-c", "import mrc"], env={**os.environ, VARIABLE: COMPILED}, capture_output=True, check=False
    )
    if trial.returncode:
        pytest.skip(trial.stderr.decode().splitlines()[-1])


@pytest.mark.usefixtures("compiled_here")
def test_the_compiled_endpoint_passes() -> None:
    """By the command; test_conformance_cases.py runs every case in both ways."""
    done = run_with(COMPILED, "--strict", "--id", "MRC-SACK")
    document = json.loads(done.stdout)
    assert (done.returncode, document["void"], document["failed"]) == (0, None, 0)
    assert document["passed"] == len(chosen(catalogue(), ["MRC-SACK"])) > 20


@pytest.mark.usefixtures("compiled_here")
@pytest.mark.parametrize(
    "arguments",
    [
        ("--id", "MRC-SACK-04", "--target", "mutant:sack_echoes_another_ev"),
        ("--transport", "rc", "--id", "RC-RESP-06", "--target", "mutant:gaps_are_silent"),
    ],
)
def test_a_wrong_endpoint_fails_where_the_right_one_is_compiled(arguments: tuple[str, ...]) -> None:
    done = run_with(COMPILED, *arguments)
    document = json.loads(done.stdout)
    assert (done.returncode, document["void"]) == (1, None)
    assert document["failed"]
