# SPDX-License-Identifier: BSD-2-Clause
"""`mrc map` where its parts come and go: a map that ended, a lab that was taken down, a host with an agent already."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import programs
import pytest
from live_run import eventually
from patience import PATIENCE_S
from programs import MRC

from mrc.fabric import Clos
from mrc.lab import Lab, state
from mrc.map.interfaces import InterfacesGone

pytestmark = pytest.mark.root

SMALL = Clos(planes=2, leaves=2, spines=1)


@contextmanager
def built(what: str) -> Iterator[Lab]:
    """A lab, which may be taken down within the block."""
    name = f"live-{os.getpid()}-{what}"
    lab = Lab.up(name, SMALL)
    try:
        yield lab
    finally:
        if state.directory(name).is_dir():
            lab.down()
        lab.close()


@contextmanager
def served(lab: Lab, history: Path | None = None) -> Iterator[subprocess.Popen[str]]:
    """`mrc map serve`, once it has written its first picture."""
    own = ("--history", str(history)) if history else ()
    argv = [*MRC, "map", "serve", "--name", lab.name, "--listen", "127.0.0.1:0", *own]
    with programs.start(argv, stderr=subprocess.PIPE, text=True) as serve:
        try:
            eventually(lambda: show(*(own or ("--name", lab.name))).returncode == 0, PATIENCE_S)
            yield serve
        finally:
            serve.terminate()
            serve.communicate(timeout=PATIENCE_S)


def show(*options: str | Path) -> subprocess.CompletedProcess[str]:
    argv = [*MRC, "map", "show", *map(str, options)]
    return programs.run(argv, capture_output=True, text=True, timeout=PATIENCE_S, check=False)


def agent_of(lab: Lab, host: str, *options: str) -> subprocess.Popen[Any]:
    argv = [*MRC, "map", "agent", *options]
    return lab.popen(host, argv, start=programs.start, stderr=subprocess.PIPE, text=True)


def test_show_says_at_once_that_nobody_serves_and_which_maps_there_are() -> None:
    with built("one") as one, built("two") as two, ExitStack() as stack:
        done = show("--name", one.name)
        assert (done.returncode, done.stdout) == (1, "")
        assert f"no map of lab {one.name} is served" in done.stderr
        first = stack.enter_context(served(one))
        stack.enter_context(served(two))
        first.terminate()
        first.communicate(timeout=PATIENCE_S)
        # What was known is shown, and said to be of a map that has ended.
        done = show("--name", one.name)
        assert done.returncode == 1
        assert "0 of 2 hosts report" in done.stdout
        (line,) = done.stderr.splitlines()
        assert f"no map of lab {one.name} is served" in line
        assert f"mrc map serve --name {one.name}" in line
        document = json.loads(show("--name", one.name, "--json").stdout)
        assert document["is_served"] is False
        # The other's goes on, and is offered to who has the name wrong.
        assert json.loads(show("--name", two.name, "--json").stdout)["is_served"] is True
        # It has only begun: what is still to be started is said.
        done = show("--name", two.name)
        assert (done.returncode, done.stdout) == (0, "nothing is known\n0 of 2 hosts report, 0 probes a second\n")
        assert done.stderr == f"no agent has reported yet: `mrc map agent --all --name {two.name}` starts them\n"
        done = show("--name", f"{two.name}x")
        assert (done.returncode, done.stdout) == (1, "")
        (line,) = done.stderr.splitlines()
        assert f"there is no lab {two.name}x" in line
        offered = line.split("maps are served of ")[1].split(", say")[0]
        assert two.name in offered
        assert one.name not in offered


def test_a_map_that_was_killed_is_not_served_either() -> None:
    with built("killed") as lab, served(lab) as serve:
        serve.kill()
        serve.wait()
        done = show("--name", lab.name)
        assert done.returncode == 1
        assert f"no map of lab {lab.name} is served" in done.stderr


def test_a_map_with_a_history_of_its_own_is_shown_by_that_file(tmp_path: Path) -> None:
    history = tmp_path / "history.sqlite"
    with built("own") as lab:
        with served(lab, history):
            done = show("--name", lab.name)
            assert (done.returncode, done.stdout) == (1, "")
            assert "name that file with --history" in done.stderr
        done = show("--history", history)
        assert done.returncode == 1
        assert f"no map of lab {lab.name} is served" in done.stderr


def test_an_agent_ends_when_its_lab_does_but_not_when_its_ports_are_down() -> None:
    with built("down") as lab:
        agent = agent_of(lab, "h0")
        try:
            assert agent.stderr is not None
            assert "no collector at" in agent.stderr.readline()
            lab.cut("h0-p0l0", "h0-p1l0")
            # Longer than it takes to be sure that interfaces are gone.
            time.sleep(5)
            assert agent.poll() is None
            lab.heal("h0-p0l0", "h0-p1l0")
            lab.down()
            said = agent.communicate(timeout=PATIENCE_S)[1]
        finally:
            agent.kill()
            agent.communicate()
    assert agent.returncode == 1
    assert said == "Error: h0 has no p0, p1 any more, as when its lab is taken down: no probes go out\n"


def test_agents_on_all_hosts_end_well_with_their_lab() -> None:
    with built("all") as lab:
        argv = [*MRC, "map", "agent", "--all", "--name", lab.name]
        agents = programs.start(argv, stderr=subprocess.PIPE, text=True)
        try:
            assert agents.stderr is not None
            assert "no collector at" in agents.stderr.readline()
            lab.down()
            said = agents.communicate(timeout=PATIENCE_S)[1]
        finally:
            agents.kill()
            agents.communicate()
    assert agents.returncode == 0, said
    assert f"lab {lab.name} is gone" in said


def test_one_interface_is_enough_and_one_made_again_is_reported_once() -> None:
    def ip(*words: str) -> None:
        subprocess.run(["ip", "link", *words], check=True)

    def look() -> None:
        ip("add", "one", "type", "veth", "peer", "name", "one-far")
        ip("add", "two", "type", "veth", "peer", "name", "two-far")
        again: list[str] = []
        both, second = InterfacesGone(["one", "two"], again.append), InterfacesGone(["two"], again.append)
        ip("del", "two")
        eventually(second, PATIENCE_S)
        assert not both()
        assert not again
        ip("add", "two", "type", "veth", "peer", "name", "two-far")
        eventually(lambda: not both() and again == ["two"], PATIENCE_S)
        ip("del", "one")
        eventually(lambda: not second() and again == ["two", "two"], PATIENCE_S)
        assert not both()
        ip("del", "two")
        eventually(both, PATIENCE_S)
        assert again == ["two", "two"]

    with built("anew") as lab:
        lab.inside("h0", look)


def test_a_second_agent_on_a_host_says_once_that_it_is_refused_and_takes_over_when_the_first_ends() -> None:
    with built("second") as lab, served(lab):
        first = agent_of(lab, "h0")
        assert first.stderr is not None
        while "probing" not in first.stderr.readline():
            pass
        second = agent_of(lab, "h0")
        try:
            assert second.stderr is not None
            assert "h0 has an agent already; asking again every second" in second.stderr.readline()
            # It has asked some times by then.
            time.sleep(4)
            first.terminate()
            first.communicate(timeout=PATIENCE_S)
            assert "probing 100 times a second" in second.stderr.readline()
        finally:
            for agent in (first, second):
                agent.terminate()
                agent.communicate(timeout=PATIENCE_S)
    assert (first.returncode, second.returncode) == (143, 143)
