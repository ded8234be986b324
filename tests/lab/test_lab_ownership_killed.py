# SPDX-License-Identifier: BSD-2-Clause
"""`kill -9` of anything at any moment, then `mrc lab down`: nothing is left, and another lab is as it was.

MRC_KILL_ROUNDS asks for more rounds than the few that a test run has time for, MRC_KILL_SEED for other ones.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import programs
import pytest
from lab_wire import deliveries
from programs import MRC

from mrc.errors import CallerError
from mrc.lab import Lab, lab_names, namespace, state
from mrc.threads import in_thread

pytestmark = pytest.mark.root

ROUNDS = int(os.environ.get("MRC_KILL_ROUNDS", "10"))
SEED = int(os.environ.get("MRC_KILL_SEED", "6"))
# The kernel takes a namespace down after its last user is gone, one after another with all others of the system: how
# long that takes is up to what else goes on there. Here it is whether it ends, not when.
GONE_WITHIN_S = 180.0
# A receiver whose sender is gone waits for another: the demo's for 10 s. The rest is what a busy machine adds.
ORPHANS_END_S = 120.0
# Runs the statements in its second argument for the lab in its first, over and over.
LOOP = "import sys; from mrc.lab import Lab\nwith Lab.open(sys.argv[1]) as lab:\n  while True:\n    exec(sys.argv[2])"
# In the environment of what a round starts, and so of what that starts.
MARK = "MRC_KILL_ROUND"
BPF_SYSCALL = {"x86_64": 321, "aarch64": 280}.get(os.uname().machine)
BPF_PROG_GET_FD_BY_ID, BPF_MAP_GET_FD_BY_ID, BPF_OBJ_GET_INFO_BY_FD = 13, 14, 15


# ------------------------------------------------------------------ what is left


class Canaries:
    """A cable of our own from each namespace of a lab to one of ours: it goes when the kernel destroys the lab's."""

    def __init__(self) -> None:
        self._own = in_thread(namespace.unshare_network)

    def set(self, name: str) -> int:
        """One in each namespace that bears a name of this lab; how many."""
        titles = named(name)
        lines = [
            f"link add c{number} type veth peer name canary netns {title}\n" for number, title in enumerate(titles)
        ]
        self._ip("-batch", "-", input="".join(lines))
        return len(titles)

    def left(self) -> list[str]:
        found = json.loads(self._ip("-j", "link", "show", "type", "veth") or "[]")
        return [link["ifname"] for link in found]

    def _ip(self, *arguments: str, **options: Any) -> str:
        def run() -> subprocess.CompletedProcess[str]:
            return subprocess.run(["ip", *arguments], capture_output=True, text=True, check=True, **options)

        return namespace.in_namespace(self._own, run).stdout

    def close(self) -> None:
        os.close(self._own)


def named(name: str) -> list[str]:
    """The names under /run/netns that begin as this lab's do."""
    try:
        return sorted(entry for entry in os.listdir(namespace.NETNS_DIRECTORY) if entry.startswith(f"{name}-"))
    except FileNotFoundError:
        return []


def programs_of(lab: Lab, node: str, interface: str) -> list[int]:
    """The ids of the eBPF programs at that interface, as iproute2 lists them."""
    listed = []
    for where in ("ingress", "egress"):
        argv = ["tc", "-j", "filter", "show", "dev", interface, where]
        done = lab.inside(node, lambda argv=argv: subprocess.run(argv, capture_output=True, text=True, check=False))
        listed += json.loads(done.stdout or "[]")
    return [each["options"]["prog"]["id"] for each in listed if "prog" in each.get("options", {})]


def runs(pid: int) -> bool:
    """Whether there is such a process, other than one that is over and that nobody has waited for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def bpf(command: int, attribute: bytes) -> int:
    assert BPF_SYSCALL is not None
    buffer = ctypes.create_string_buffer(attribute.ljust(128, b"\0"), 128)
    return ctypes.CDLL(None, use_errno=True).syscall(BPF_SYSCALL, command, buffer, 128)


def maps_of(program: int) -> list[int]:
    """The ids of the maps a program uses (struct bpf_prog_info: nr_map_ids at 48, map_ids at 56)."""
    handle = bpf(BPF_PROG_GET_FD_BY_ID, struct.pack("=I", program))
    assert handle >= 0
    ids = (ctypes.c_uint32 * 16)()
    info = ctypes.create_string_buffer(128)
    struct.pack_into("=I", info, 52, 16)
    struct.pack_into("=Q", info, 56, ctypes.addressof(ids))
    assert bpf(BPF_OBJ_GET_INFO_BY_FD, struct.pack("=IIQ", handle, 128, ctypes.addressof(info))) == 0
    os.close(handle)
    (count,) = struct.unpack_from("=I", info, 52)
    return list(ids[:count])


def still_there(command: int, number: int) -> bool:
    handle = bpf(command, struct.pack("=I", number))
    if handle >= 0:
        os.close(handle)
    return handle >= 0


# ------------------------------------------------------------------ what is killed


@dataclass
class Round:
    """One lab and the programs at work on it."""

    name: str
    scratch: Path
    chance: random.Random
    processes: list[subprocess.Popen[str]] = field(default_factory=list)
    bpf: tuple[list[int], list[int]] = ([], [])

    def start(self, *argv: str | Path) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [str(word) for word in argv],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, MARK: self.name, "TMPDIR": str(self.scratch)},
        )
        self.processes.append(process)
        return process

    def mrc(self, *argv: str | Path) -> subprocess.Popen[str]:
        return self.start(*MRC, *argv)

    def loop(self, statements: str) -> subprocess.Popen[str]:
        return self.start(sys.executable, "-c", LOOP, self.name, statements)

    def inside(self, node: str, *argv: str | Path) -> subprocess.Popen[str]:
        return self.mrc("lab", "exec", "--name", self.name, node, "--", *argv)

    def up(self) -> Lab:
        return Lab.up(self.name)

    def kill(self) -> None:
        """What was started, not what that started in turn."""
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.wait()
            if process.stdout is not None:
                process.stdout.close()

    def strays(self) -> list[int]:
        """What was started, by whomever, and still runs."""
        wanted = f"{MARK}={self.name}".encode()
        found = []
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if entry.name.isdecimal() and wanted in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
        return found

    def end(self) -> None:
        for pid in self.strays():
            with contextlib.suppress(OSError):
                handle = os.pidfd_open(pid)
                try:
                    if pid in self.strays():
                        signal.pidfd_send_signal(handle, signal.SIGKILL)
                finally:
                    os.close(handle)
        # What was just killed may still be writing there.
        shutil.rmtree(self.scratch, ignore_errors=True)
        # After a failure only: whatever is there would be in the way of others.
        with contextlib.suppress(CallerError):
            Lab.remove(self.name)


def building(now: Round) -> None:
    now.mrc("lab", "up", "--name", now.name)


def removing(now: Round) -> None:
    now.up().close()
    now.mrc("lab", "down", "--name", now.name)


def running(now: Round) -> None:
    now.up().close()
    now.inside("h0", "sh", "-c", "sleep 600 & sleep 600")
    now.inside("p0s1", "sleep", "600")


def transferring(now: Round) -> None:
    now.up().close()
    file = now.scratch / "file"
    with open(file, "wb") as stream:
        stream.truncate(256 << 20)
    receiver = now.inside("h1", *MRC, "recv", "--dir", now.scratch)
    assert receiver.stdout is not None
    now.inside("h0", *MRC, "send", file, receiver.stdout.readline().strip(), "--stats", now.scratch / "stats")


def impairing(now: Round) -> None:
    now.up().close()
    now.loop("lab.impair('p0l0-p0s1', 0.1); lab.clear('p0l0-p0s1')")


def impairing_by_ebpf(now: Round) -> None:
    more = "rate_bps=10**9, ecn_at_bytes=10**5, trim_at_bytes=2 * 10**5, duplicate=0.01, corrupt=0.01"
    lab = now.up()
    lab.impair("p0l0-p0s1", rate_bps=10**9, ecn_at_bytes=10**5)
    programs = programs_of(lab, "p0l0", "p0s1")
    now.bpf = (programs, [each for program in programs for each in maps_of(program)])
    assert programs
    lab.close()
    now.loop(f"lab.impair('p0l0-p0s0', 0.1, {more}); lab.clear('p0l0-p0s0')")


def flapping(now: Round) -> None:
    now.up().close()
    now.mrc("lab", "flap", "--name", now.name, "plane:0", "h1-p1l1", "--period", "40ms", "--count", "1000")
    now.mrc("lab", "events", "--name", now.name, "--follow")


def cutting_while_others_look(now: Round) -> None:
    now.up().close()
    now.loop("lab.cut('p0s1', 'h0-p0l0'); lab.heal('p0s1', 'h0-p0l0')")
    now.loop("lab.status(); lab.events.read()")


def in_a_shell(now: Round) -> None:
    """Its labs are in namespaces of its own: outside there never is anything."""
    argv = [*MRC, "lab", "up", "--name", now.name]
    now.mrc("lab", "shell", "--", "sh", "-c", '"$@" && sleep 600', "sh", *argv)


def demonstrating(now: Round) -> None:
    """Its labs are in namespaces of its own; the programs it started there end by themselves."""
    commands = (["demo", "--size", "16MiB"], ["drill", "run", "startup"])
    now.mrc(*now.chance.choice(commands))


SCENES: tuple[Callable[[Round], None], ...] = (
    building,
    removing,
    running,
    transferring,
    impairing,
    impairing_by_ebpf,
    flapping,
    cutting_while_others_look,
    in_a_shell,
    demonstrating,
)
# How long after its start something is killed, at most: as long as it takes, or until it is well under way.
LONGEST_S = {building: 0.8, removing: 0.8, demonstrating: 5.0}


# ------------------------------------------------------------------ the test


@pytest.fixture
def canaries() -> Iterator[Canaries]:
    opened = Canaries()
    yield opened
    opened.close()


def down(now: Round) -> tuple[int, dict[str, Any]]:
    argv = [*MRC, "lab", "down", "--name", now.name, "--json", *(["--kill"] if now.chance.random() < 0.5 else [])]
    ended = programs.run(argv, capture_output=True, text=True)
    assert "Traceback" not in ended.stderr, ended.stderr
    return ended.returncode, json.loads(ended.stdout or "{}")


def test_whatever_is_killed_down_leaves_nothing(
    lab: Lab, lab_name: Callable[[str], str], tmp_path: Path, canaries: Canaries, make_wire: Callable[..., Any]
) -> None:
    """`lab` is the other lab."""
    for program in ("ip", "tc"):
        if shutil.which(program) is None:
            pytest.skip(f"needs the program {program}")
    others = lab.events.read()
    chance = random.Random(SEED)
    for number in range(ROUNDS):
        scene = SCENES[number % len(SCENES)]
        now = Round(lab_name(f"kill{number}"), tmp_path / str(number), chance)
        now.scratch.mkdir()
        try:
            one_round(now, scene, canaries, f"round {number}, {scene.__name__}, seed {SEED}")
        finally:
            now.end()
    assert lab.events.read() == others
    assert all(link.state == "up" for link in lab.status().links)
    assert all(deliveries(make_wire(lab)).values())


def one_round(now: Round, scene: Callable[[Round], None], canaries: Canaries, what: str) -> None:
    try:
        scene(now)
        time.sleep(now.chance.uniform(0, LONGEST_S.get(scene, 1.5)))
    finally:
        now.kill()
    existed = now.name in lab_names()
    before = canaries.set(now.name)
    assert existed or not before, what
    code, said = down(now)
    assert code == (0 if existed else 1), what
    # What was started by what was killed may live on: `down` ends it, or else names it. It may have ended since.
    until = time.monotonic() + GONE_WITHIN_S
    for each in said.get("still_running", []):
        # One that is about to run another program, or to be gone, is neither ours nor gone for a moment.
        while each["pid"] not in now.strays() and runs(each["pid"]):
            assert time.monotonic() < until, f"{what}: {each}"
            time.sleep(0.01)
        if each["pid"] in now.strays():
            with contextlib.suppress(ProcessLookupError):
                os.kill(each["pid"], signal.SIGKILL)
    assert now.name not in lab_names(), what
    assert not (state.STATE_DIRECTORY / now.name).exists(), what
    assert named(now.name) == [], what
    assert said.get("kept", []) == [], what
    until = time.monotonic() + GONE_WITHIN_S
    while canaries.left() or any(
        still_there(command, each)
        for command, ids in zip((BPF_PROG_GET_FD_BY_ID, BPF_MAP_GET_FD_BY_ID), now.bpf, strict=True)
        for each in ids
    ):
        assert time.monotonic() < until, f"{what}: {canaries.left()} {now.bpf}"
        time.sleep(0.01)
    while scene is demonstrating and now.strays():
        assert time.monotonic() < until + ORPHANS_END_S, f"{what}: {now.strays()}"
        time.sleep(0.05)
