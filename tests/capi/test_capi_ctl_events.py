# SPDX-License-Identifier: BSD-2-Clause
"""A controller in C that has no QPs: EV events of programs at its device, and operations that these carry out."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import subprocess
import threading
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from c_programs import ADDRESSES, EXAMPLES, PROGRAMS, compiled, environment, listens, runs_programs
from loopback import Inside
from patience import eventually

from mrc.capi.build import LIB
from mrc.fabric import Clos
from mrc.lab import Lab

pytestmark = runs_programs
H1 = "fd4d:5243::2"
PIPES = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
WATCHES = ("-D_GNU_SOURCE",)
WRITES = ("1048576", "100000")  # more than a test takes: they are ended
# They rest, so that the controller and other tests have a processor: 64 packets in so many microseconds use every path.
UNHURRIED = {"LD_LIBRARY_PATH": str(LIB), "PAUSE_US": "5000"}
PORT = "7001"
ASSUMED_BAD, DENIED = "2", "4"
PROBED = r"EV 0x([0-9a-f]{8}): [0-9]+ us, the answer came by port [12]\n"


class Watcher:
    """The controller: a line in, a line out."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self._states: dict[str, str] = {}  # that the events told last, by EV:PORT
        assert self._line() == "ready"

    def _line(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"the controller has ended: {self.process.wait(60)}"
        return line.removesuffix("\n")

    def __call__(self, command: str) -> str:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{command}\n")
        self.process.stdin.flush()
        return self._line()

    def _event(self) -> None:
        """The next event: of profile 1, and none before it was dropped."""
        profile, ev, state, dropped = self("event").split()
        assert (profile, dropped) == ("1", "0")
        self._states[ev] = state

    def hears(self, ev: str, state: str) -> None:
        """Wait until the events have told that an EV is in this state. On a busy machine one may be taken for bad
        that is not, or that is about to be."""
        while self._states.get(ev) != state:
            self._event()

    def hears_of_one(self, evs: Collection[str], state: str) -> None:
        """Wait until one of these EVs is in this state."""
        while not any(self._states.get(ev) == state for ev in evs):
            self._event()

    def end(self) -> None:
        said, _ = self.process.communicate(timeout=60)
        assert (self.process.returncode, said) == (0, "")


class Paths(NamedTuple):
    """What a mode's EVs are, in a lab of two planes with two spines each. Entries belong to the ports in turn.

    `lost` are those that go over p0s1; None where the switches choose and nobody knows. `wrong` is a request that is
    refused with EINVAL, and what is answered of it all the same.
    """

    named: str
    evs: tuple[str, ...]
    lost: tuple[str, ...] | None
    wrong: tuple[str, str]


_PATHS_OF_SRV6 = Paths(
    # The port is another's; there is no such spine.
    "srv6",
    ("0x0:1", "0x1000000:2", "0x1:1", "0x1000001:2"),
    ("0x1:1",),
    ("0x0:2 0x5:1 0x1:1", "EINVAL 2:"),
)
PATHS = {
    "srv6": _PATHS_OF_SRV6,
    "srv6-srh": _PATHS_OF_SRV6,
    "stev": Paths("stev", ("0x10:1", "0x11:2", "0x1000010:1", "0x1000011:2"), ("0x1000010:1",), ("0x10:3", "EINVAL")),
    # More bits than a source port has. So many that some of each port go over each spine.
    "ecmp": Paths(
        "udp", tuple(f"{0xC000 + each:#x}:{each % 2 + 1}" for each in range(32)), None, ("0x1c000:1", "EINVAL")
    ),
}


@pytest.mark.parametrize("mode", PATHS)
def test_a_controller_hears_of_and_probes_with_the_qps_of_programs_in_a_lab(mode: str, tmp_path: Path) -> None:
    """The profile of one process, used by another: an EV that is denied, some that lose everything, answers of all
    paths but those that are cut."""
    paths = PATHS[mode]
    bench = str(compiled(PROGRAMS / "mrc_bench.c", tmp_path, "-O2"))
    watches = str(compiled(PROGRAMS / "ctl_watches.c", tmp_path, *WATCHES))
    own = {name: value for name, value in os.environ.items() if name != "MRC_ADDRESSES"} | UNHURRIED
    started: list[subprocess.Popen[str]] = []
    with Lab.up(f"ctle-{os.getpid()}", Clos(planes=2, spines=2, mode=mode)) as lab:

        def start(host: str, *command: str) -> subprocess.Popen[str]:
            started.append(lab.popen(host, command, env=own, **PIPES))
            return started[-1]

        try:
            watcher = Watcher(start("h0", watches, H1, paths.named))
            every = " ".join(paths.evs)
            all_answered = ["0", *map(str, range(len(paths.evs)))]
            assert watcher(f"make {every}") == "made"
            # Nobody is connected to that host yet.
            assert watcher(f"probe 1000000000 {every}") == "EAGAIN"
            address = lab.ipv4_address("h1")
            assert address is not None
            start("h1", bench, PORT)
            start("h0", bench, PORT, address, *WRITES, "1")
            # The program started after the controller.
            eventually(lambda: _answered(watcher(f"probe 1000000000 {every}")) == all_answered)
            wrong, answer = paths.wrong
            assert watcher(f"probe 1000000000 {wrong}").startswith(answer)
            assert watcher(f"tell 0x6 {paths.evs[0]}").startswith("0 0:")
            # Whether the events' thread has found the new endpoint by now or not.
            denied = paths.evs[-1]
            assert watcher(f"deny {denied}") == "denied"
            watcher.hears(denied, DENIED)
            lab.cut("p0l0-p0s1")
            may_be = set(paths.lost or [each for each in paths.evs if each.endswith(":1")])
            must_be = set(paths.lost or ())

            def lost() -> set[str]:
                found = _unanswered(watcher, paths.evs)
                return found if must_be <= found <= may_be else set()

            # A DENIED one is probed too. What is cut has no answer, and the call ends with its time. Until the peer
            # knows, it sends answers over what is cut as well.
            watcher.hears_of_one(eventually(lost), ASSUMED_BAD)
            watcher.end()
        finally:
            for each in started:
                each.kill()


def _unanswered(watcher: Watcher, evs: Sequence[str]) -> set[str]:
    """Which EVs of a probe of all had no answer."""
    said = _answered(watcher(f"probe 300000000 {' '.join(evs)}"))
    return {ev for place, ev in enumerate(evs) if str(place) not in said[1:]}


def _answered(line: str) -> list[str]:
    """The errno, and which requests were answered."""
    return [each.split(":")[0] for each in line.split()]


# What the example probes in each mode, and what the EVs of profile 0 are called that go over p0s1.
EXAMPLE = {
    "srv6": (("0x00000001:1", "0x01000000:2"), "00000001"),
    "srv6-srh": (("0x00000001:1", "0x01000000:2"), "00000001"),
    "stev": (("0x01000000:1", "0x00000001:2"), "01[0-9a-f]{6}"),
    "ecmp": (("0x0000c001:1", "0x0000c002:2"), "0000[0-9a-f]{4}"),
}


@pytest.mark.parametrize("mode", EXAMPLE)
def test_the_example_probes_and_tells_of_an_ev_that_loses_everything(mode: str, tmp_path: Path) -> None:
    evs, lost = EXAMPLE[mode]
    bench = str(compiled(PROGRAMS / "mrc_bench.c", tmp_path, "-O2"))
    watch = str(compiled(EXAMPLES / "mrc_watch.c", tmp_path))
    own = {name: value for name, value in os.environ.items() if name != "MRC_ADDRESSES"} | UNHURRIED
    started: list[subprocess.Popen[str]] = []
    with Lab.up(f"ctlx-{os.getpid()}", Clos(planes=2, spines=2, mode=mode)) as lab:

        def start(host: str, *command: str) -> subprocess.Popen[str]:
            started.append(lab.popen(host, command, env=own, **PIPES))
            return started[-1]

        try:
            address = lab.ipv4_address("h1")
            assert address is not None
            start("h1", bench, PORT)
            start("h0", bench, PORT, address, *WRITES)
            eventually(lambda: _sent_over(lab, "p0s1") > 100)
            watching = start("h0", watch, H1, *evs)
            assert watching.stdout is not None
            measured = [re.fullmatch(PROBED, watching.stdout.readline()) for _ in range(2)]
            assert [each and each[1] for each in measured] == [each[2:10] for each in evs]
            lab.cut("p0l0-p0s1")
            bad = re.compile(f"EV 0x{lost}, port 1, profile 0: assumed bad\n")
            assert any(bad.fullmatch(line) for line in watching.stdout)
        finally:
            for each in started:
                each.kill()


def _sent_over(lab: Lab, spine: str) -> int:
    link = next(each for each in lab.status().links if each.name == f"p{spine[1]}l0-{spine}")
    return int(link.toward[spine].packets)


def test_probes_over_ordinary_udp(inside: Inside, tmp_path: Path, directory: str) -> None:
    """The controller has the address of a program: both are one device. EVs are source ports, of no profile."""
    bench = str(compiled(PROGRAMS / "mrc_bench.c", tmp_path, "-O2"))
    watches = str(compiled(PROGRAMS / "ctl_watches.c", tmp_path, *WATCHES))
    started: list[subprocess.Popen[str]] = []

    def start(address: str, *command: str) -> subprocess.Popen[str]:
        env = environment(address, MRC_CONTROL_DIR=directory, **UNHURRIED)
        started.append(subprocess.Popen(command, env=env, **PIPES))  # type: ignore[call-overload]
        return started[-1]

    def run() -> None:
        receiver = start(ADDRESSES[1], bench, PORT)
        eventually(lambda: listens(int(PORT)) or receiver.poll() is not None)
        start(ADDRESSES[0], bench, PORT, ADDRESSES[1], *WRITES)
        watcher = Watcher(start(ADDRESSES[0], watches, ADDRESSES[1], "udp"))
        eventually(lambda: watcher("probe 2000000000 0xd001:1") == "0 0:1")
        assert watcher("probe 2000000000 0xd001:1 0xd002:1 0xc000:1") == "0 0:1 1:1 2:1"
        assert watcher("tell 0x2 0xd001:1") == "0 0:1"
        watcher.end()

    try:
        inside(run)
    finally:
        for each in started:
            each.kill()


def test_a_control_socket_that_closes_ends_no_program(inside: Inside, tmp_path: Path, directory: str) -> None:
    """A program at the device ends just when it is asked: what is written to it then is no SIGPIPE for the controller.
    Who closes first is chance each time."""
    watches = str(compiled(PROGRAMS / "ctl_watches.c", tmp_path, *WATCHES))

    def hang_up(listener: socket.socket) -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                listener.accept()[0].close()

    def run() -> None:
        env = environment(ADDRESSES[0], MRC_CONTROL_DIR=directory)
        watcher = Watcher(subprocess.Popen([watches, ADDRESSES[1], "udp"], env=env, **PIPES))  # type: ignore[call-overload]
        try:
            assert {watcher("probe 1000000000 0xd001:1") for _ in range(100)} == {"EAGAIN"}
            watcher.end()
        finally:
            watcher.process.kill()

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{directory}/{os.getpid()}.sock")
        listener.listen()
        thread = threading.Thread(target=hang_up, args=[listener])
        thread.start()
        try:
            inside(run)
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()
