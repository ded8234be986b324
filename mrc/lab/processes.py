# SPDX-License-Identifier: BSD-2-Clause
"""The programs that run in a lab: which they are, and ending them, and nothing outside of it.

A process counts by the namespace it is in: the namespace's identity has to be one that the lab wrote down, and its `lo`
has to bear the lab's tag, since the numbers of dead namespaces are given out again. A pidfd is taken before that is
looked at, so that a signal goes to that process, even when another one has its number by then.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from mrc.lab import namespace
from mrc.lab.netlink import NetlinkSocket

Identity = tuple[int, int]
# Processes of the lab itself, which are part of its links (mrc.lab.impairment.delay).
OF_LINKS = "mrc-delay"
# The process id of the `mrc lab shell` around a lab: relays end with it, since they would keep its network.
SHELL_VARIABLE = "MRC_LAB_SHELL"
# What a process forks while it is being ended is found the next time round.
_ROUNDS = 5


@dataclass(frozen=True, slots=True)
class LabProcess:
    """A process in the namespace of `node`. `command` is the kernel's short name of it."""

    pid: int
    node: str
    command: str


def running(namespaces: Mapping[str, Identity], tag: str) -> list[LabProcess]:
    """Every process in the lab of these namespaces (node to identity) and this tag, this one and relays aside."""
    with ExitStack() as stack:
        return [process for process, _ in _held(namespaces, tag, stack) if process.command != OF_LINKS]


def end_relays(namespaces: Mapping[str, Identity], tag: str, wait_s: float) -> None:
    """End the processes that delay packets in the lab; what they hold is lost. Waits up to `wait_s` for that."""
    with ExitStack() as stack:
        found = [each for each in _held(namespaces, tag, stack) if each[0].command == OF_LINKS]
        _signalled(found, signal.SIGTERM, wait_s)


def end(namespaces: Mapping[str, Identity], tag: str, grace_s: float) -> list[LabProcess]:
    """End every process in the lab but this one and those it was started from; those that were ended.

    SIGTERM first, and SIGKILL for what is still there after `grace_s` seconds. What may not be ended is left.
    """
    spared = _ancestors()
    ended: dict[int, LabProcess] = {}
    for _ in range(_ROUNDS):
        with ExitStack() as stack:
            found = [each for each in _held(namespaces, tag, stack) if each[0].pid not in spared]
            if not found:
                break
            left = _signalled(found, signal.SIGTERM, grace_s)
            left = _signalled(left, signal.SIGKILL, grace_s)
            ended |= {process.pid: process for process, handle in found if (process, handle) not in left}
            if len(left) == len(found):
                break
    return list(ended.values())


def _held(namespaces: Mapping[str, Identity], tag: str, stack: ExitStack) -> list[tuple[LabProcess, int]]:
    """The processes in the lab, each with a pidfd that `stack` closes."""
    nodes = {identity: node for node, identity in namespaces.items()}
    ours: dict[Identity, bool] = {}
    held = []
    for pid, node in namespace.processes_in(nodes):
        try:
            handle = os.pidfd_open(pid)
            stack.callback(os.close, handle)
            descriptor = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            continue  # it ended meanwhile
        stack.callback(os.close, descriptor)
        identity = namespace.identity(descriptor)
        if identity not in ours:
            # The descriptor keeps the namespace, and so its number, for as long as `ours` is asked.
            ours[identity] = identity in nodes and bears(descriptor, tag)
        if ours[identity]:
            with suppress(OSError):
                command = Path(f"/proc/{pid}/comm").read_text().strip()
                held.append((LabProcess(pid, node, command), handle))
    return held


def bears(descriptor: int, tag: str) -> bool:
    """Whether the `lo` of the namespace behind `descriptor` bears this tag."""
    from mrc.lab import messages

    answers: list[bytes] = []
    netlink = NetlinkSocket.inside(descriptor)
    try:
        netlink.dump("read interfaces", messages.dump_links(), lambda _, data: answers.append(data))
    finally:
        netlink.close()
    return any(tag.encode() in answer for answer in answers)


def _signalled(held: list[tuple[LabProcess, int]], number: int, wait_s: float) -> list[tuple[LabProcess, int]]:
    """Send it to all, wait until they are gone; those that are not."""
    for _, handle in held:
        with suppress(OSError):
            signal.pidfd_send_signal(handle, number)
    deadline = time.monotonic() + wait_s
    left = held
    while left:
        # A pidfd becomes readable when its process ends.
        poll = select.poll()
        for _, handle in left:
            poll.register(handle, select.POLLIN)
        gone = {handle for handle, _ in poll.poll(max(0.0, deadline - time.monotonic()) * 1e3)}
        if not gone:
            break
        left = [each for each in left if each[1] not in gone]
    return left


def _ancestors() -> set[int]:
    """This process, its parent, and so on."""
    found: set[int] = set()
    pid = os.getpid()
    while pid and pid not in found:
        found.add(pid)
        try:
            # proc(5): the parent is the second field behind the name, which is in brackets and may hold anything.
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            break
    return found
