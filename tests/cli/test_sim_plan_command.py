# SPDX-License-Identifier: BSD-2-Clause
"""`mrc sim plan`."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from mrc.cli import main


def test_a_plan_for_people_has_the_papers_figures() -> None:
    said = CliRunner().invoke(main, ["sim", "plan", "131072"], prog_name="mrc")
    assert said.exit_code == 0
    rows = {line[:30].strip(): line.split()[-2:] for line in said.stdout.splitlines()}
    assert rows["switches"] == ["6,144", "14,336"]
    assert rows["optical modules"] == ["524,288", "1,048,576"]
    assert "a host takes 0.6 of the switches and 0.667 of the optics of three tiers" in said.stdout


def test_the_same_plan_as_json() -> None:
    said = CliRunner().invoke(main, ["sim", "plan", "65536", "--json"], prog_name="mrc")
    several, single = json.loads(said.stdout)["designs"]
    assert several["switches_by_tier"] == [2048, 1024]
    assert several["switches_per_host_ratio"] == 0.6
    assert several["optics_per_host_ratio"] == pytest.approx(2 / 3)
    assert (several["hops"], single["hops"]) == (3, 5)


def test_an_error_names_the_option() -> None:
    said = CliRunner().invoke(main, ["sim", "plan", "100", "--switch", "0.1tbit"], prog_name="mrc")
    assert said.exit_code == 1
    assert "Error: a switch of 100gbit has 1 port of 100gbit: at least 4 are needed" in said.stderr
