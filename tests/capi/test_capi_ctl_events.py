# SPDX-License-Identifier: BSD-2-Clause
"""A controller in C that has no QPs: EV events of programs at its device, and operations that these carry out."""

from __future__ import annotations

import os
import re
import subprocess
import time
from pathlib import Path

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
PORT = "7001"
PROBED = r"EV 0x([0-9a-f]{8}): [0-9]+ us, the answer came by port [12]\n"


class Watcher:
    """The controller: a line in, a line out."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        assert self._line() == "ready"

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().removesuffix("\n")

    def __call__(self, command: str) -> str:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{command}\n")
        self.process.stdin.flush()
        return self._line()

    def hears(self, wanted: str) -> None:
        """Wait for an event. On a busy machine an EV may be taken for bad that is not."""
        while self("event") != wanted:
            pass

    def end(self) -> None:
        said, _ = self.process.communicate(timeout=60)
        assert (self.process.returncode, said) == (0, "")


def test_a_controller_hears_of_and_probes_with_the_qps_of_programs_in_a_lab(tmp_path: Path) -> None:
    """An EV that it denies, one that loses everything, answers of all paths but those that are cut."""
    bench = str(compiled(PROGRAMS / "mrc_bench.c", tmp_path, "-O2"))
    watches = str(compiled(PROGRAMS / "ctl_watches.c", tmp_path, *WATCHES))
    own = {name: value for name, value in os.environ.items() if name != "MRC_ADDRESSES"} | {"LD_LIBRARY_PATH": str(LIB)}
    started: list[subprocess.Popen[str]] = []
    with Lab.up(f"ctle-{os.getpid()}", Clos(planes=2, spines=2, mode="srv6")) as lab:

        def start(host: str, *command: str) -> subprocess.Popen[str]:
            started.append(lab.popen(host, command, env=own, **PIPES))
            return started[-1]

        try:
            watcher = Watcher(start("h0", watches, H1, "srv6"))
            every = "0x0:1 0x1:1 0x1000000:2 0x1000001:2"
            # Nobody is connected to that host yet.
            assert watcher(f"probe 1000000000 {every}") == "EAGAIN"
            address = lab.ipv4_address("h1")
            assert address is not None
            start("h1", bench, PORT)
            start("h0", bench, PORT, address, *WRITES)
            # The program started after the controller.
            eventually(lambda: watcher(f"probe 1000000000 {every}").startswith("0 0:"))
            assert [each.split(":")[0] for each in watcher(f"probe 1000000000 {every}").split()] == [
                "0",
                "0",
                "1",
                "2",
                "3",
            ]
            # The port is another's; there is no such spine.
            assert watcher("probe 1000000000 0x0:2 0x1:1").startswith("EINVAL 1:")
            assert watcher("probe 1000000000 0x5:1") == "EINVAL"
            assert watcher("tell 0x6 0x1:1").startswith("0 0:")
            time.sleep(0.5)  # the events' thread looks for new endpoints ten times a second
            assert watcher("deny 0x1000001:2") == "denied"
            watcher.hears("0 0x1000001:2 4 0")
            lab.cut("p0l0-p0s1")
            watcher.hears("0 0x1:1 2 0")
            # A DENIED one is probed too. What is cut has no answer, and the call ends with its time. Until the peer
            # knows, it sends answers over what is cut as well.
            eventually(lambda: _answered(watcher(f"probe 300000000 {every}")) == ["ETIMEDOUT", "0", "2", "3"])
            watcher.end()
        finally:
            for each in started:
                each.kill()


def _answered(line: str) -> list[str]:
    """The errno, and which requests were answered."""
    return [each.split(":")[0] for each in line.split()]


def test_the_example_probes_and_tells_of_an_ev_that_loses_everything(tmp_path: Path) -> None:
    bench = str(compiled(PROGRAMS / "mrc_bench.c", tmp_path, "-O2"))
    watch = str(compiled(EXAMPLES / "mrc_watch.c", tmp_path))
    own = {name: value for name, value in os.environ.items() if name != "MRC_ADDRESSES"} | {"LD_LIBRARY_PATH": str(LIB)}
    started: list[subprocess.Popen[str]] = []
    with Lab.up(f"ctlx-{os.getpid()}", Clos(planes=2, spines=2, mode="srv6")) as lab:

        def start(host: str, *command: str) -> subprocess.Popen[str]:
            started.append(lab.popen(host, command, env=own, **PIPES))
            return started[-1]

        try:
            address = lab.ipv4_address("h1")
            assert address is not None
            start("h1", bench, PORT)
            start("h0", bench, PORT, address, *WRITES)
            eventually(lambda: _sent_over(lab, "p0s1") > 100)
            watching = start("h0", watch, H1, "0x00000001:1", "0x01000000:2")
            assert watching.stdout is not None
            measured = [re.fullmatch(PROBED, watching.stdout.readline()) for _ in range(2)]
            assert [each and each[1] for each in measured] == ["00000001", "01000000"]
            lab.cut("p0l0-p0s1")
            assert "EV 0x00000001, port 1, profile 0: assumed bad\n" in iter(watching.stdout.readline, "")
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
        env = environment(address, MRC_CONTROL_DIR=directory)
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
