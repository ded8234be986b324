# SPDX-License-Identifier: BSD-2-Clause
"""A lab removes what it made and nothing else: beside others, after a crash, under a name somebody else has."""

from __future__ import annotations

import gc
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest
from lab_wire import deliveries

from mrc.errors import CallerError
from mrc.lab import Lab, lab_names, namespace, state
from mrc.threads import in_thread

pytestmark = pytest.mark.root

# Runs `up` for the lab named in the first argument, after the statements in the second.
BUILDER = """
import os, signal, sys
from mrc.lab import Lab, build, namespace, state
exec(sys.argv[2])
print("ready", flush=True)
Lab.up(sys.argv[1])
print("up", flush=True)
"""
DIE = "os.kill(os.getpid(), signal.SIGKILL)"
# Crash points: what to put in the way of the builder, at a place that matters.
CRASHES = {
    "before the intention is written": f"state.LabState.save = lambda self: {DIE}",
    "while namespaces are nameless": f"build._configure = lambda *each: {DIE}",
    "before the first name": f"namespace.publish = lambda *each: {DIE}",
    "after five names": (
        f"real, left = namespace.publish, [5]\n"
        f"def publish(*each):\n  real(*each) if left[0] else {DIE}\n  left[0] -= 1\n"
        f"namespace.publish = publish"
    ),
    "between a mount point and its mount": (
        f"real = namespace._call\n"
        f"def call(what, result):\n  {DIE} if what.endswith('-p0s2') else real(what, result)\n"
        f"namespace._call = call\n"
        f"class Library:\n"
        f"  def __getattr__(self, name): return getattr(plain, name)\n"
        f"  def mount(self, source, target, *rest):\n"
        f"    return 0 if target.endswith(b'-p0s2') else plain.mount(source, target, *rest)\n"
        f"plain, namespace._libc = namespace._libc, Library()"
    ),
    "before it is declared up": f"state.LabState.finished = lambda self: {DIE}",
}


def traces(name: str) -> list[str]:
    """What is left of lab `name`: its directory, names under /run/netns."""
    try:
        entries = os.listdir(namespace.NETNS_DIRECTORY)
    except FileNotFoundError:
        entries = []
    found = [entry for entry in entries if entry.startswith(f"{name}-")]
    return found + ([name] if name in lab_names() else [])


def crash(name: str, statements: str) -> None:
    builder = subprocess.run([sys.executable, "-c", BUILDER, name, statements], capture_output=True, text=True)
    assert builder.returncode == -signal.SIGKILL, builder.stderr


@pytest.fixture
def foreign() -> Iterator[Callable[[str], tuple[int, int]]]:
    """Makes namespaces that are nobody's lab, named as told; checks afterwards that they are still there."""
    made: dict[str, tuple[int, int]] = {}

    def make(name: str) -> tuple[int, int]:
        descriptor = in_thread(namespace.unshare_network)
        with namespace.netns_directory():
            namespace.publish(name, descriptor)
        made[name] = namespace.identity(descriptor)
        os.close(descriptor)
        return made[name]

    yield make
    for name, expected in made.items():
        descriptor = os.open(namespace.NETNS_DIRECTORY / name, os.O_RDONLY)
        found = namespace.identity(descriptor)
        os.close(descriptor)
        assert namespace.withdraw(name, lambda _: True)
        assert found == expected


def test_down_leaves_nothing(lab_name: Callable[[str], str]) -> None:
    name = lab_name("gone")
    gc.collect()  # what earlier tests let go of is closed by now
    descriptors = len(os.listdir("/proc/self/fd"))
    built = Lab.up(name)
    assert len(traces(name)) == len(built.topology.nodes) + 1
    removal = built.down()
    assert traces(name) == []
    assert len(removal.removed) == len(built.topology.nodes)
    assert removal.kept == ()
    assert len(os.listdir("/proc/self/fd")) == descriptors
    with pytest.raises(CallerError, match=f"no lab '{name}'"):
        Lab.open(name)


def test_a_name_in_use_is_refused(lab: Lab) -> None:
    with pytest.raises(CallerError, match=f"mrc lab down --name {lab.name}"):
        Lab.up(lab.name)
    assert all(link.state == "up" for link in lab.status().links)


def test_two_labs_side_by_side(lab: Lab, lab_name: Callable[[str], str], make_wire: Callable) -> None:
    with Lab.up(lab_name("second")) as second:
        assert {lab.name, second.name} <= set(lab_names())
        lab.cut("plane:0")
        assert all(deliveries(make_wire(second)).values())
        lab.heal("plane:0")
    assert all(deliveries(make_wire(lab)).values())


@pytest.mark.parametrize("where", CRASHES)
def test_after_a_crash_down_leaves_nothing(where: str, lab_name: Callable[[str], str]) -> None:
    name = lab_name("crash")
    crash(name, CRASHES[where])
    assert name in lab_names()
    with pytest.raises(CallerError, match="half-built"):
        Lab.open(name)
    Lab.remove(name)
    assert traces(name) == []


def test_after_a_crash_at_any_moment_down_leaves_nothing(lab_name: Callable[[str], str]) -> None:
    name = lab_name("killed")
    chance = random.Random(20)
    for _ in range(5):
        builder = subprocess.Popen([sys.executable, "-c", BUILDER, name, ""], stdout=subprocess.PIPE, text=True)
        assert builder.stdout is not None
        assert builder.stdout.readline() == "ready\n"
        time.sleep(chance.uniform(0.0, 0.35))
        builder.kill()
        builder.communicate()
        if name in lab_names():
            Lab.remove(name)
        assert traces(name) == []


def test_up_clears_its_own_crashed_leftover(lab_name: Callable[[str], str], make_wire: Callable) -> None:
    name = lab_name("again")
    crash(name, CRASHES["after five names"])
    with Lab.up(name) as built:
        assert built.replaced_crashed
        assert all(deliveries(make_wire(built)).values())
    assert traces(name) == []


def test_a_clashing_foreign_namespace_stops_up_and_survives(lab_name: Callable[[str], str], foreign: Callable) -> None:
    name = lab_name("clash")
    foreign(f"{name}-p1s0")
    with pytest.raises(CallerError, match="is not this lab's"):
        Lab.up(name)
    assert traces(name) == [f"{name}-p1s0"]


def test_a_foreign_namespace_that_came_after_a_crash_survives(
    lab_name: Callable[[str], str], foreign: Callable
) -> None:
    name = lab_name("late")
    crash(name, CRASHES["after five names"])
    foreign(f"{name}-p1s3")
    removal = Lab.remove(name)
    assert removal.kept == (f"{name}-p1s3",)
    assert len(removal.removed) == 5
    assert traces(name) == [f"{name}-p1s3"]


def test_a_foreign_namespace_with_a_reused_inode_survives(lab_name: Callable[[str], str], foreign: Callable) -> None:
    # Inode numbers of dead namespaces are given out again: one that matches is not proof enough.
    name = lab_name("inode")
    crash(name, CRASHES["before the first name"])
    identity = foreign(f"{name}-h0")
    found = state.load(name)
    assert found is not None
    found.with_namespaces({**found.namespaces, "h0": identity}).save()
    assert Lab.remove(name).kept == (f"{name}-h0",)


def test_a_stranger_under_a_built_labs_name_is_neither_used_nor_removed(
    lab_name: Callable[[str], str], foreign: Callable
) -> None:
    name = lab_name("swapped")
    built = Lab.up(name)
    assert namespace.withdraw(f"{name}-h1", lambda _: True)
    foreign(f"{name}-h1")
    with pytest.raises(OSError, match="not the namespace this lab made"):
        built.popen("h1", ["true"])
    assert built.down().kept == (f"{name}-h1",)


def test_a_build_that_fails_leaves_nothing(lab_name: Callable[[str], str], monkeypatch: pytest.MonkeyPatch) -> None:
    name = lab_name("fails")

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(state.LabState, "finished", interrupted)
    with pytest.raises(KeyboardInterrupt):
        Lab.up(name)
    assert traces(name) == []


def test_running_programs_are_named(lab_name: Callable[[str], str]) -> None:
    name = lab_name("busy")
    built = Lab.up(name)
    sleeper = built.popen("p0s0", ["sleep", "600"])
    assert (sleeper.pid, "p0s0") in built.processes()
    built.down()
    assert traces(name) == []
    sleeper.kill()
    sleeper.wait()


def test_a_user_namespace_is_enough(lab_name: Callable[[str], str]) -> None:
    if (unshare := shutil.which("unshare")) is None:
        pytest.skip("needs the program unshare")
    script = (
        "from mrc.lab import Lab\n"
        "with Lab.up('inner') as lab:\n"
        "  lab.cut('p0s1'); lab.heal('p0s1'); lab.impair('p0l0-p0s0', 0.5)\n"
        "  assert lab.popen('h0', ['true']).wait() == 0\n"
        "  print(sum(link.state == 'up' for link in lab.status().links))"
    )
    argv = [unshare, "--user", "--map-root-user", "--net", "--mount", "sh", "-c"]
    if subprocess.run([*argv, "mount -t tmpfs none /run"], capture_output=True).returncode:
        pytest.skip("user namespaces are not allowed here")
    inner = 'mount -t tmpfs none /run && exec "$@"'
    ended = subprocess.run([*argv, inner, "sh", sys.executable, "-c", script], capture_output=True, text=True)
    assert ended.stdout.split() == ["20"], ended.stderr
    assert "inner" not in lab_names()
