# SPDX-License-Identifier: BSD-2-Clause
"""The whole lab but its eBPF part as an ordinary user: inside `mrc lab shell`, as somebody who is not root at all."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ordinary_user import NOBODY, environment, ordinary, python

from mrc.lab import lab_names

TOUR = Path(__file__).with_name("user_tour.py")


@pytest.fixture(scope="module")
def tour() -> Iterator[dict[str, Any]]:
    """What the commands said that an ordinary user gave one after another."""
    interpreter = python()
    before = "mrc" in lab_names()
    with tempfile.TemporaryDirectory(prefix="mrc-user-") as scratch:
        if os.geteuid() == 0:
            os.chown(scratch, NOBODY, NOBODY)
        argv = [interpreter, "-m", "mrc", "lab", "shell", "--", interpreter, str(TOUR), scratch]
        done = subprocess.run(
            argv, env=environment(), capture_output=True, text=True, check=False, timeout=600, cwd="/", **ordinary()
        )
        assert done.returncode == 0, done.stderr
        assert "Traceback" not in done.stderr
        yield json.loads(done.stdout)
    assert ("mrc" in lab_names()) is before


def test_it_was_an_ordinary_user(tour: dict[str, Any]) -> None:
    inside, outside, count = tour["uid_map"]
    assert (inside, outside, count) == ("0", str(os.geteuid() or NOBODY), "1")


def test_a_lab_comes_up_and_goes(tour: dict[str, Any]) -> None:
    assert len(tour["up"]["hosts"]) == 2
    assert len(tour["up"]["switches"]) == 12
    assert len(tour["down"]["removed"]) == 14
    assert (tour["down"]["kept"], tour["down"]["still_running"], tour["list"]) == ([], [], [])


def test_programs_run_in_it(tour: dict[str, Any]) -> None:
    interfaces = {line.split(":")[0].strip() for line in tour["hostname"].splitlines() if ":" in line}
    assert interfaces == {"lo", "usid0", "p0l0", "p0l1"}


def test_a_file_crosses_it_whole(tour: dict[str, Any]) -> None:
    """Its socket buffers are small, and one link loses packets."""
    transfer = tour["transfer"]
    assert transfer["received"] == 0
    assert transfer["sent"]["sums_agree"] is True
    assert len(set(transfer["sums"])) == 1
    assert all(path["packets"] for path in transfer["sent"]["paths"])


def test_links_break_and_are_mended(tour: dict[str, Any]) -> None:
    assert tour["cut"]["cut"][0]["links"] == ["p0l0-p0s1", "p0l1-p0s1"]
    states = {link["name"]: link["state"] for link in tour["status when cut"]["links"]}
    assert {name for name, is_now in states.items() if is_now == "down"} == {"p0l0-p0s1", "p0l1-p0s1"}
    assert tour["flap"]["cycles"] + tour["flap"]["left_out"] == 2
    assert {link["state"] for link in tour["status"]["links"]} == {"up"}


def test_packets_get_lost_where_they_are_to(tour: dict[str, Any]) -> None:
    ways = {link["name"]: link["toward"] for link in tour["status"]["links"]}
    lossy = ways.pop("p0l0-p0s0")
    assert {way["loss_percent"] for way in lossy.values()} == {2.0}
    assert sum(way["dropped_packets"] for way in lossy.values()) > 0
    assert {way["loss_percent"] for toward in ways.values() for way in toward.values()} == {0.0}


def test_the_log_has_it_all(tour: dict[str, Any]) -> None:
    events = [each["event"] for each in tour["events"]["events"]]
    flapped = ["flap-start", *["cut", "heal"] * tour["flap"]["cycles"], "flap-end"]
    assert events == ["up", "impair", "impair", "cut", "heal", *flapped]


def test_what_needs_ebpf_says_so(tour: dict[str, Any]) -> None:
    code, err = tour["ecn"]
    assert code == 1
    assert err.count("\n") == 1
    assert "eBPF" in err
