"""Where the parts of `mrc map` meet: files in the lab's own directory, which go with it."""

from __future__ import annotations

import os
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


class LabIsGone:
    """Whether this lab was taken down, or another has its name; looks once a second."""

    def __init__(self, name: str) -> None:
        """Raises CallerError when there is no such lab."""
        from mrc.lab import state

        here = state.load(name)
        self._name, self._tag = name, here.tag if here else ""
        self._due = 0.0

    def __call__(self) -> bool:
        from mrc.errors import MrcError
        from mrc.lab import state

        now = time.monotonic()
        if now < self._due:
            return False
        self._due = now + _LOOK_S
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
