# SPDX-License-Identifier: BSD-2-Clause
"""A directory for the files of one run: gone with it, or, if it was killed, with the next run."""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

# Between making a directory and locking it a moment passes in which it looks abandoned.
_YOUNG_S = 60.0


class ScratchDirectory:
    """A new directory, at `path`, whose name begins with `prefix`, where temporary files go or in `parent`. Removed by
    `close`, with this object, or at the end of the program.

    Directories of the same prefix and the same user that killed processes left behind are removed first. `prefix` has
    to be one that nobody else uses. Raises OSError when no directory can be made.
    """

    def __init__(self, prefix: str, parent: Path | None = None) -> None:
        parent = parent or Path(tempfile.gettempdir())
        _clear_abandoned(parent, prefix)
        self._made = tempfile.TemporaryDirectory(prefix=prefix, dir=parent)
        self.path = Path(self._made.name)
        # The kernel takes the lock back when this process ends, however it ends.
        handle = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._let_go = weakref.finalize(self, os.close, handle)
        fcntl.flock(handle, fcntl.LOCK_EX)

    def close(self) -> None:
        """Safe to call twice."""
        self._made.cleanup()
        self._let_go()


@contextmanager
def scratch_directory(prefix: str, parent: Path | None = None) -> Iterator[Path]:
    """The path of a `ScratchDirectory` that is removed at the end of the block."""
    scratch = ScratchDirectory(prefix, parent)
    try:
        yield scratch.path
    finally:
        scratch.close()


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
