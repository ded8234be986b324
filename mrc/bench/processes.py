# SPDX-License-Identifier: BSD-2-Clause
"""The programs of others that a measurement in a lab runs: found, waited for, and what they used."""

from __future__ import annotations

import errno
import resource
import shutil
import time
from pathlib import Path

from mrc.child import START_TIMEOUT_S, Child
from mrc.errors import SystemRefused

_LOOK_S = 0.01
_AWAITING = ("0A", "07")  # a TCP socket that listens, a UDP socket that is not connected
# Where a user's PATH does not lead on Debian.
SYSTEM_PROGRAMS = ("/usr/sbin", "/sbin")
# What the directories of measurements are called, in front: those that a killed one left go with the next.
SCRATCH = "mrc-bench-"


def find_program(name: str, who: str, *packages: str) -> str:
    """Where a program is. Raises SystemRefused, with the packages to install, when it is missing."""
    found = shutil.which(name) or next(
        (path for folder in SYSTEM_PROGRAMS if (path := shutil.which(name, path=folder)) is not None), None
    )
    if found is None:
        what = f"the package {packages[0]}" if len(packages) == 1 else f"the packages {' and '.join(packages)}"
        raise SystemRefused(errno.ENOENT, f"{who} needs the program {name}: install {what}")
    return found


def wait_until_bound(program: Child, table: str, port: int) -> None:
    """Wait until a socket of the program's host awaits peers at this port; `table` is one of /proc/net: `tcp6`, `udp6`.

    Raises PeerError when the program ends, or no socket does within START_TIMEOUT_S.
    """
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline and not program.ended:
        try:
            lines = Path(f"/proc/{program.process.pid}/net/{table}").read_text().splitlines()
        except OSError:  # it has just ended
            continue
        # Connections of the run before may still have the port.
        if any(at.endswith(f":{port:04X}") and state in _AWAITING for _, at, _, state, *_ in map(str.split, lines)):
            return
        time.sleep(_LOOK_S)
    raise program.not_started()


def children_cpu_seconds() -> float:
    """What the processes that this one started, and that are over, used: all threads, kernel time included."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
