# SPDX-License-Identifier: BSD-2-Clause
"""A directory for the files of one run: gone with it, or, if it was killed, with the next run."""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

# Between making a directory and locking it a moment passes in which it looks abandoned.
_YOUNG_S = 60.0


@contextmanager
def scratch_directory(prefix: str, parent: Path | None = None) -> Iterator[Path]:
    """A new directory whose name begins with `prefix`, where temporary files go or in `parent`. Removed at the end of
    the block.

    Directories of the same prefix and the same user that killed processes left behind are removed first. `prefix` has
    to be one that nobody else uses. Raises OSError when no directory can be made.
    """
    parent = parent or Path(tempfile.gettempdir())
    _clear_abandoned(parent, prefix)
    with tempfile.TemporaryDirectory(prefix=prefix, dir=parent) as made:
        # The kernel takes the lock back when this process ends, however it ends.
        handle = os.open(made, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield Path(made)
        finally:
            os.close(handle)


def _clear_abandoned(parent: Path, prefix: str) -> None:
    for path in parent.glob(f"{prefix}*"):
        with suppress(OSError):
            found = path.lstat()
            if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
                continue
            if time.time() - found.st_mtime < _YOUNG_S:
                continue
            handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path)
            finally:
                os.close(handle)
