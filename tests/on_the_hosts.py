# SPDX-License-Identifier: BSD-2-Clause
"""The processes that a command runs on the hosts of its lab."""

from __future__ import annotations

import os


def on_the_hosts(command: int) -> list[int]:
    """The processes below `command` that are in another network namespace: forks of it are told by nothing else."""
    found, below = [], [command]
    while below:
        process = below.pop()
        try:
            with open(f"/proc/{process}/task/{process}/children") as children:
                below += map(int, children.read().split())
            if os.readlink(f"/proc/{process}/ns/net") != os.readlink(f"/proc/{command}/ns/net"):
                found.append(process)
        except OSError:
            continue  # it has ended
    return found
