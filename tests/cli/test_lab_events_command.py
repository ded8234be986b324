# SPDX-License-Identifier: BSD-2-Clause
"""`mrc lab events` as a user types it, and what `mrc lab cut` and `heal` say in JSON beside it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import programs
import pytest
from click.testing import CliRunner, Result
from patience import PATIENCE_S
from programs import MRC

from mrc.cli.lab import lab as lab_command
from mrc.lab import Lab

needs_root = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0 and os.environ.get("CI") != "true", reason="needs root"),
]
KEYS = {"at_monotonic_ns", "at_unix_ns", "event", "target", "links", "details"}


def invoke(*argv: str) -> Result:
    return CliRunner().invoke(lab_command, list(argv))


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with Lab.up(f"test-{os.getpid()}-events") as built:
        yield built


def events(lab: Lab, *options: str) -> list[dict[str, Any]]:
    result = invoke("events", "--name", lab.name, "--json", *options)
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert document["name"] == lab.name
    assert document["damaged_lines"] == 0
    found = document["events"]
    assert all(set(each) == KEYS for each in found)
    return list(found)


@pytest.mark.parametrize(
    "argv",
    [
        ["events", "--json", "--follow"],
        ["events", "--json", "--jsonl"],
        ["events", "--since", "yesterday"],
        ["events", "--since", "5 parsecs"],
        ["flap"],
        ["flap", "p0l0-p0s1", "--count", "0"],
        ["flap", "p0l0-p0s1", "--period", "soon"],
        ["flap", "p0l0-p0s1", "--duty", "0.5"],
    ],
)
def test_usage_errors_exit_2(argv: list[str]) -> None:
    result = invoke(*argv)
    assert result.exit_code == 2
    assert result.stdout == ""


def test_no_lab_no_events() -> None:
    result = invoke("events", "--name", "nosuchlab")
    assert result.exit_code == 1
    assert "mrc lab up --name nosuchlab" in result.stderr


class TestWithALab:
    pytestmark = needs_root

    @pytest.mark.parametrize("what", ["cut", "heal"])
    def test_the_times_of_the_command_are_those_of_the_log(self, lab: Lab, what: str) -> None:
        result = invoke(what, "--name", lab.name, "--json", "p0s1", "h0-p1l0")
        said = json.loads(result.stdout)[what]
        assert [each["target"] for each in said] == ["p0s1", "h0-p1l0"]
        logged = [each for each in events(lab) if each["event"] == what][-2:]
        for mine, its in zip(said, logged, strict=True):
            assert {key: its[key] for key in mine} == mine

    def test_only_later_ones(self, lab: Lab) -> None:
        found: list[dict[str, Any]] = []
        while not found:  # who stands still for 200 ms sees nothing
            time.sleep(0.3)
            lab.heal("p0s1")
            found = events(lab, "--since", "200ms")
        (one,) = found
        assert one["event"] == "heal"
        moment = datetime.fromtimestamp(one["at_unix_ns"] / 1e9 - 0.1, UTC)
        assert events(lab, "--since", moment.isoformat()) == [one]
        local = moment.astimezone().replace(tzinfo=None)
        assert events(lab, "--since", local.isoformat(sep=" ")) == [one]
        assert events(lab, "--since", "2999-01-01") == []

    def test_lines_are_the_log(self, lab: Lab) -> None:
        result = invoke("events", "--name", lab.name, "--jsonl")
        assert [json.loads(line) for line in result.stdout.splitlines()] == events(lab)

    def test_people_get_a_line_an_event(self, lab: Lab) -> None:
        lab.cut("p0s2")
        lab.heal("p0s2")
        lines = invoke("events", "--name", lab.name).stdout.splitlines()
        assert len(lines) == len(events(lab))
        assert "up" in lines[0]
        assert "planes 2" in lines[0]
        last = events(lab)[-1]
        assert lines[-1].startswith(datetime.fromtimestamp(last["at_unix_ns"] // 10**9).strftime("%Y-%m-%d %H:%M:%S."))
        assert f".{last['at_unix_ns'] % 10**9 // 1000:06d}  heal" in lines[-1]
        assert "p0s2  (p0l0-p0s2 p0l1-p0s2)  took " in lines[-1]

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_following_until_it_is_ended(self, lab: Lab, number: signal.Signals) -> None:
        before = len(events(lab))
        argv = [*MRC, "lab", "events", "--name", lab.name, "--follow", "--jsonl"]
        process = programs.start(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1)
        try:
            assert process.stdout is not None
            assert len([process.stdout.readline() for _ in range(before)]) == before
            lab.cut("p0s3")
            assert json.loads(process.stdout.readline())["event"] == "cut"
            lab.heal("p0s3")
            assert json.loads(process.stdout.readline())["event"] == "heal"
            process.send_signal(number)
            out, err = process.communicate(timeout=PATIENCE_S)
        finally:
            process.kill()
        assert (process.returncode, out, err) == (128 + number, "", "")

    def test_following_ends_with_the_lab(self) -> None:
        name = f"test-{os.getpid()}-followed"
        with Lab.up(name):
            argv = [*MRC, "lab", "events", "--name", name, "--follow"]
            process = programs.start(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            assert process.stdout is not None
            assert "up" in process.stdout.readline()
        out, err = process.communicate(timeout=PATIENCE_S)
        assert (process.returncode, out, err) == (0, "", f"lab {name} is gone\n")

    def test_a_damaged_line_is_told(self, lab: Lab) -> None:
        before = lab.events.path.read_bytes()
        with open(lab.events.path, "ab") as file:
            file.write(b"{half a li")
        lab.heal("p0s3")
        result = invoke("events", "--name", lab.name)
        lab.events.path.write_bytes(before)  # for the tests that come after
        assert result.exit_code == 0
        assert result.stderr == f"1 damaged lines of {lab.events.path} are left out\n"
