# SPDX-License-Identifier: BSD-2-Clause
"""Programs that run in a lab when it goes: named, or ended with --kill; those of others are neither."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import programs
import pytest
from patience import PATIENCE_S
from programs import MRC

from mrc.lab import Lab, namespace, state
from mrc.threads import in_thread

pytestmark = pytest.mark.root

STUBBORN = "trap '' TERM; echo ready; while :; do sleep 0.1; done"


def down(name: str, *options: str) -> tuple[dict[str, Any], str]:
    argv = [*MRC, "lab", "down", "--name", name, "--json", *options]
    done = programs.run(argv, capture_output=True, text=True, check=True)
    return json.loads(done.stdout), done.stderr


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[str]]]:
    """Programs put here are over after the test."""
    processes: list[subprocess.Popen[str]] = []
    yield processes
    for process in processes:
        process.kill()
        process.communicate()


def test_without_being_asked_down_ends_nothing(
    lab_name: Callable[[str], str], started: list[subprocess.Popen[str]]
) -> None:
    name = lab_name("named")
    built = Lab.up(name)
    started.append(built.popen("p0s0", ["sleep", "600"]))
    built.close()
    said, err = down(name)
    assert said["still_running"] == [{"pid": started[0].pid, "node": "p0s0", "command": "sleep"}]
    assert said["ended"] == []
    assert f"process {started[0].pid} (sleep) on p0s0 still runs" in err
    assert started[0].poll() is None


def test_what_was_left_is_ended_when_the_lab_is_gone(
    lab_name: Callable[[str], str], started: list[subprocess.Popen[str]]
) -> None:
    name = lab_name("left")
    for _ in range(2):  # also of two labs of one name
        built = Lab.up(name)
        started.append(built.popen("h0", ["sleep", "600"], text=True))
        built.close()
        _, err = down(name)
        assert f"`mrc lab down --name {name} --kill` ends" in err
    assert name not in state.names()
    said, _ = down(name)
    assert sorted(each["pid"] for each in said["still_running"]) == sorted(each.pid for each in started)
    assert (said["removed"], said["ended"]) == ([], [])
    said, err = down(name, "--kill")
    assert sorted(each["pid"] for each in said["ended"]) == sorted(each.pid for each in started)
    assert said["still_running"] == []
    assert f"ended process {started[0].pid} (sleep) on h0" in err
    assert [each.wait(PATIENCE_S) for each in started] == [-15, -15]
    # Nothing is left to end, nor to remember.
    again = programs.run([*MRC, "lab", "down", "--name", name, "--kill"], capture_output=True, text=True)
    assert again.returncode == 1
    assert f"there is no lab '{name}'" in again.stderr
    assert not [path for path in state.STATE_DIRECTORY.glob(".left-*") if name in path.read_text()]


def test_a_stranger_is_not_what_a_lab_left(
    lab_name: Callable[[str], str], started: list[subprocess.Popen[str]]
) -> None:
    """The number of the namespace is given out again once the program that was left has ended."""
    name = lab_name("left-reused")
    descriptor = in_thread(namespace.unshare_network)
    stranger = namespace.in_namespace(descriptor, lambda: subprocess.Popen(["sleep", "600"], text=True))
    started.append(stranger)
    built = Lab.up(name)
    started.append(built.popen("h0", ["sleep", "600"], text=True))
    built.close()
    down(name)
    (record,) = (path for path in state.STATE_DIRECTORY.glob(".left-*") if name in path.read_text())
    document = json.loads(record.read_text())
    document["namespaces"]["h1"] = namespace.identity(descriptor)
    record.write_text(json.dumps(document))
    os.close(descriptor)
    said, _ = down(name, "--kill")
    assert [each["pid"] for each in said["ended"]] == [started[1].pid]
    assert stranger.poll() is None


def test_asked_to_down_ends_them_also_the_stubborn(
    lab_name: Callable[[str], str], started: list[subprocess.Popen[str]]
) -> None:
    name = lab_name("ended")
    outside = subprocess.Popen(["sleep", "600"], text=True)
    started.append(outside)
    built = Lab.up(name)
    gentle = built.popen("h0", ["sleep", "600"], text=True)
    stubborn = built.popen("p1s3", ["sh", "-c", STUBBORN], stdout=subprocess.PIPE, text=True)
    started += [gentle, stubborn]
    assert stubborn.stdout is not None
    assert stubborn.stdout.readline() == "ready\n"
    built.close()
    said, _ = down(name, "--kill")
    assert {(each["pid"], each["node"]) for each in said["ended"]} >= {(gentle.pid, "h0"), (stubborn.pid, "p1s3")}
    assert said["still_running"] == []
    assert gentle.wait(PATIENCE_S) == -15
    assert stubborn.wait(PATIENCE_S) == -9
    assert outside.poll() is None


def test_who_asks_is_not_ended(lab_name: Callable[[str], str]) -> None:
    """From a shell on a host of the lab itself: the shell outlives it."""
    name = lab_name("inside")
    built = Lab.up(name)
    script = f"sleep 600 & {' '.join(MRC)} lab down --name {name} --kill --json; echo survived"
    shell = built.popen("h0", ["sh", "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    built.close()
    out, _ = shell.communicate(timeout=PATIENCE_S)
    document, _, rest = out.rpartition("}\n")
    assert rest == "survived\n"
    said = json.loads(document + "}")
    assert [each["command"] for each in said["ended"]] == ["sleep"]
    assert {(each["pid"], each["node"]) for each in said["still_running"]} == {(shell.pid, "h0")}


def test_a_stranger_in_a_namespace_of_the_same_number_is_left_alone(
    lab_name: Callable[[str], str], started: list[subprocess.Popen[str]]
) -> None:
    """The numbers of dead namespaces are given out again: what the lab wrote down may be somebody else's by now."""
    name = lab_name("reused")
    descriptor = in_thread(namespace.unshare_network)
    stranger = namespace.in_namespace(descriptor, lambda: subprocess.Popen(["sleep", "600"], text=True))
    started.append(stranger)
    built = Lab.up(name)
    built.close()
    found = state.load(name)
    assert found is not None
    found.with_namespaces({**found.namespaces, "h0": namespace.identity(descriptor)}).save()
    os.close(descriptor)
    assert Lab.open(name).processes() == []
    said, _ = down(name, "--kill")
    assert (said["ended"], said["still_running"], said["kept"]) == ([], [], [f"{name}-h0"])
    assert stranger.poll() is None
    assert namespace.withdraw(f"{name}-h0", lambda _: True)


def test_what_is_forked_meanwhile_is_ended_too(
    lab_name: Callable[[str], str], started: list[subprocess.Popen[str]], tmp_path: Path
) -> None:
    """A program whose children start another child whenever they are asked to end."""
    name = lab_name("forking")
    script = tmp_path / "forking"
    script.write_text("#!/bin/sh\ntrap 'sleep 600 & exit' TERM\necho ready\nwhile :; do sleep 0.05; done\n")
    script.chmod(0o755)
    built = Lab.up(name)
    forking = built.popen("h1", [str(script)], stdout=subprocess.PIPE, text=True)
    started.append(forking)
    assert forking.stdout is not None
    forking.stdout.readline()
    built.close()
    said, _ = down(name, "--kill")
    assert said["still_running"] == []
    until = time.monotonic() + PATIENCE_S
    while any(Path(f"/proc/{each['pid']}/ns/net").exists() for each in said["ended"] if each["pid"] != forking.pid):
        assert time.monotonic() < until
    assert forking.wait(PATIENCE_S) is not None
