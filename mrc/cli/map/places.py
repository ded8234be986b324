# SPDX-License-Identifier: BSD-2-Clause
"""Where the parts of `mrc map` meet: files in the lab's own directory, which go with it."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path

_LOOK_S = 1.0


def socket_of(lab: str) -> Path:
    """Where the collector of this lab listens. Raises CallerError for a name that is none."""
    from mrc.lab import state

    return state.directory(lab) / "map.sock"


def history_of(lab: str) -> Path:
    from mrc.lab import state

    return state.directory(lab) / "map.sqlite"


def is_served(lab: str) -> bool:
    """Whether a collector listens for this lab now. Raises CallerError for a name that is none."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as knock:
        try:
            knock.connect(os.fspath(socket_of(lab)))
        except (FileNotFoundError, ConnectionRefusedError):
            return False
        except OSError:
            return True  # a full backlog, or not ours: somebody is there
    return True


def no_map_of(lab: str) -> str:
    """What there is instead of the map of a lab that nobody serves, and what to do."""
    from mrc.lab import state

    known = sorted(path.parent.name for path in state.STATE_DIRECTORY.glob("*/lab.json"))
    served = [each for each in known if each != lab and is_served(each)]
    why = f"no map of lab {lab} is served" if lab in known else f"there is no lab {lab}"
    there = (
        f"maps are served of {', '.join(served)}, say which with --name" if served else "no map is served of another"
    )
    return f"{why}; {there}" + (f"; `mrc map serve --name {lab}` begins one" if lab in known else "")


class LabIsGone:
    """Whether this lab was taken down, or another has its name; looks once a second."""

    def __init__(self, name: str) -> None:
        """Raises CallerError when there is no such lab."""
        from mrc.lab import state

        here = state.load(name)
        self._name, self._tag = name, here.tag if here else ""
        self._due = 0.0

    def __call__(self) -> bool:
        now = time.monotonic()
        if now < self._due:
            return False
        self._due = now + _LOOK_S
        return self.look()

    def look(self) -> bool:
        """Without waiting for the next second."""
        from mrc.errors import MrcError
        from mrc.lab import state

        try:
            here = state.load(self._name)
        except MrcError:
            return True
        return here is None or here.tag != self._tag


class OnHost:
    """Whether a process is in the namespace of a host of this lab: called with its id and the host's number."""

    def __init__(self, name: str) -> None:
        """Raises CallerError when there is no such lab."""
        from mrc.lab import state

        here = state.load(name)
        self._namespaces = here.namespaces if here else {}

    def __call__(self, pid: int, host: int) -> bool:
        try:
            found = os.stat(f"/proc/{pid}/ns/net")
        except OSError:
            return False
        return self._namespaces.get(f"h{host}") == (found.st_dev, found.st_ino)
