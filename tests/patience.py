# SPDX-License-Identifier: BSD-2-Clause
"""Waiting in tests: long for what has to come; for what must not come, until everything else has."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import subprocess
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import IO, Any, TypeVar

from mrc.lab import Lab

T = TypeVar("T")
# For what has to happen: however slow a machine is, and whatever it stands still for meanwhile. Nobody waits for it who
# is not about to fail.
PATIENCE_S = 120.0
# More than the cables from one host to another.
_HOPS = 16
# What is left of IEEE 802's numbers for local experiments: no node of a lab takes such a frame.
MARKER_ETHERTYPE = 0x88B5


def eventually(look: Callable[[], Any], within_s: float = PATIENCE_S) -> Any:
    """What `look()` returns as soon as it is true. Fails when that does not happen.

    What takes long to look at is looked at less often: whoever is waited for needs the processor.
    """
    by = time.monotonic() + within_s
    before = _used_s()
    while not (found := look()):
        assert time.monotonic() < by, "it never happened"
        took_s = _used_s() - before
        time.sleep(min(0.25, max(0.002, 4 * took_s)))
        before = _used_s()
    return found


def _used_s() -> float:
    """The processor's time that this thread has used, and the programs that this process has waited for."""
    of_programs = os.times()
    return time.thread_time() + of_programs.children_user + of_programs.children_system


def undisturbed(attempt: Callable[[], T], disturbed: Callable[[T], object], times: int = 10) -> T:
    """What `attempt()` gives, of so many at most until one was not `disturbed`; the last however it went.

    Where a machine keeps a process waiting, packets come late and are sent again although they had arrived. What that
    must not touch is judged on an attempt without it; a fault of ours disturbs them all.
    """
    for _ in range(times - 1):
        if not disturbed(result := attempt()):
            return result
    return attempt()


def until_in_use(interfaces: Collection[str], namespace: str | None = None) -> None:
    """Until interfaces that were just set up carry packets, and their addresses are local.

    Workers of the kernel see to the queue of a cable and to the routes of IPv6 addresses a little after `ip` has ended,
    on a busy machine later. Before that what is sent vanishes.
    """
    ip = ["ip", *(("-n", namespace) if namespace else ())]

    def shown(*words: str) -> Any:
        return json.loads(subprocess.run([*ip, "-j", *words], check=True, capture_output=True, text=True).stdout)

    def in_use() -> bool:
        found = [each for each in shown("addr") if each.get("ifname") in interfaces]
        addresses = {each["local"] for one in found for each in one["addr_info"] if each["family"] == "inet6"}
        local = {each["dst"] for each in shown("-6", "route", "show", "table", "local")}
        return sum(each["operstate"] in ("UP", "UNKNOWN") for each in found) == len(interfaces) and addresses <= local

    eventually(in_use)


def until_out_of_use(interface: str, namespace: str) -> None:
    """Until the kernel has told that the carrier of an interface is gone, a little after the far end was set down."""
    argv = ["ip", "-n", namespace, "-j", "link", "show", "dev", interface]

    def out_of_use() -> bool:
        shown = json.loads(subprocess.run(argv, check=True, capture_output=True, text=True).stdout)
        return bool(shown[0]["operstate"] != "UP")

    eventually(out_of_use)


def narrow_pipe() -> tuple[IO[bytes], IO[bytes]]:
    """A pipe that is full after 4096 bytes: the end to read, the end to write."""
    ends = os.pipe()
    fcntl.fcntl(ends[1], fcntl.F_SETPIPE_SZ, 4096)
    return open(ends[0], "rb", buffering=0), open(ends[1], "wb", buffering=0)


def until_it_waits_for_a_reader(process: subprocess.Popen[Any]) -> None:
    """Until a program waits in the kernel for room in a pipe (proc(5), wchan)."""
    eventually(lambda: process.poll() is not None or "pipe_write" in Path(f"/proc/{process.pid}/wchan").read_text())
    assert process.returncode is None, "it has written all it had"


def carries_data(pid: int) -> bool:
    """Whether a program that is started by `pid`, or by what it started, has sent 20 MB where it runs."""
    family, outside = [pid], os.stat("/proc/self/ns/net").st_ino
    for each in family:
        with suppress(OSError):
            for thread in Path(f"/proc/{each}/task").iterdir():
                family += map(int, (thread / "children").read_text().split())
    for each in family:
        with suppress(OSError):
            if os.stat(f"/proc/{each}/ns/net").st_ino == outside:
                continue
            lines = Path(f"/proc/{each}/net/dev").read_text().splitlines()[2:]
            if max(int(line.rpartition(":")[2].split()[8]) for line in lines) > 20_000_000:
                return True
    return False


class Fence:
    """Tells when packets that were sent by hand have got as far as they ever will, without a look at the clock.

    A veth hands each packet to the queue of the CPU it is sent on, first in, first out, and so on at each hop. A
    datagram over loopback takes the same queue: when it is back, all that was ahead of it has come a hop further.
    """

    def __init__(self, inside: Callable[[Callable[[], socket.socket]], socket.socket]) -> None:
        """`inside` calls a function where there is a loopback that is up, and nothing listens to everything."""
        self._socket = inside(lambda: socket.socket(socket.AF_INET6, socket.SOCK_DGRAM))
        self._socket.bind(("::1", 0))
        self._socket.connect(self._socket.getsockname()[:2])
        self._socket.settimeout(PATIENCE_S)

    def wait(self) -> None:
        """Until what was sent has arrived, was dropped, or waits where a link has a rate."""
        allowed = os.sched_getaffinity(0)
        try:
            for cpu in allowed:
                os.sched_setaffinity(0, {cpu})
                for _ in range(_HOPS):
                    self._socket.send(b"next")
                    self._socket.recv(16)
        finally:
            os.sched_setaffinity(0, allowed)

    @classmethod
    def of(cls, lab: Lab) -> Fence:
        """On a switch: raw sockets on hosts would hear it."""
        return cls(partial(lab.inside, lab.topology.switches[-1]))

    def close(self) -> None:
        self._socket.close()


class CaptureMarker:
    """Frames that leave by an interface under capture: the file has all that came before one as soon as it has that."""

    def __init__(self, inside: Callable[[Callable[[], socket.socket]], socket.socket], interface: str) -> None:
        """`inside` calls a function in the interface's namespace."""
        self._socket = inside(lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0))
        self._socket.bind((interface, 0))
        self._number = 0

    def wait(self, file: Path) -> None:
        """Until the capture that writes `file` has seen a frame that leaves now."""
        by = time.monotonic() + PATIENCE_S
        texts: list[bytes] = []
        while not any(text in self._content(file) for text in texts):
            assert time.monotonic() < by, f"nothing is captured into {file}"
            self._number += 1
            texts.append(b"marker %d of %d." % (self._number, id(self)))
            # From and to nobody. One that leaves before the capture has begun is not in it.
            header = bytes(5) + b"\2" + bytes(5) + b"\2" + MARKER_ETHERTYPE.to_bytes(2, "big")
            with suppress(OSError):  # the cable is cut
                self._socket.send(header + texts[-1].ljust(64, b"."))
            time.sleep(0.05)

    @staticmethod
    def _content(file: Path) -> bytes:
        return file.read_bytes() if file.exists() else b""

    def close(self) -> None:
        self._socket.close()
