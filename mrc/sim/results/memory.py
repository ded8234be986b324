# SPDX-License-Identifier: BSD-2-Clause
"""How much memory a process may take: of the machine, of its control group, of its own limits."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from pathlib import Path

from mrc.errors import CallerError
from mrc.report.units import size_text

_CGROUPS = Path("/sys/fs/cgroup")


def check(needed: int, what: str, advice: str) -> None:
    """Raises CallerError where `what` needs more bytes than there are. `advice` is what to do about it."""
    there = available()
    if there is not None and needed > there:
        raise CallerError(f"{what} needs about {size_text(needed)} of memory, {size_text(there)} are there: {advice}")


def available() -> int | None:
    """Bytes that this process can take besides what it has; None where the system does not say."""
    return min((each for each in (_of_machine(), *_of_groups(), _of_process()) if each is not None), default=None)


def _of_machine() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    kilobytes = {name: int(value.split()[0]) for name, _, value in (line.partition(":") for line in lines)}
    there = kilobytes.get("MemAvailable")
    return None if there is None else 1024 * (there + kilobytes.get("SwapFree", 0))


def _of_groups() -> Iterator[int]:
    """What is left to the control group of this process, and to each that it is in."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        root = _CGROUPS / "memory" if controllers else _CGROUPS
        limit, used = (
            ("memory.limit_in_bytes", "memory.usage_in_bytes") if controllers else ("memory.max", "memory.current")
        )
        group = root / path.lstrip("/")
        for each in (group, *group.parents):
            most, now = _number(each / limit), _number(each / used)
            if most is not None and now is not None:
                # Files that the group has read are given up when their memory is wanted.
                yield max(0, most - now + _of_files(each))
            if each == root:
                break


def _of_files(group: Path) -> int:
    try:
        lines = (group / "memory.stat").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("inactive_file ")), 0)


def _number(path: Path) -> int | None:
    try:
        text = path.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None


def _of_process() -> int | None:
    most, _ = resource.getrlimit(resource.RLIMIT_AS)
    if most == resource.RLIM_INFINITY:
        return None
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    return max(0, most - pages * os.sysconf("SC_PAGE_SIZE"))
