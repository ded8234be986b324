# SPDX-License-Identifier: BSD-2-Clause
"""Changes to one lab's impairments come one after the other, from whichever thread or process.

Each reads what is there, changes some of it and writes it back: two at once would lose what one of them wrote.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mrc.errors import SystemRefused

_WAIT_S = 20.0
_POLL_S = 0.002


@contextmanager
def turn(directory: Path) -> Iterator[None]:
    """Hold the lock on a lab's directory, which leaves no file and ends with its holder. Raises SystemRefused."""
    try:
        handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise SystemRefused(f"cannot open {directory}: {error.strerror}: was the lab taken down?") from None
    try:
        by = time.monotonic() + _WAIT_S
        while not _locked(handle):
            if time.monotonic() > by:
                raise SystemRefused(f"another mrc lab command holds {directory} for {_WAIT_S:.0f} s: end it")
            time.sleep(_POLL_S)
        yield
    finally:
        os.close(handle)


def _locked(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
