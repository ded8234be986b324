# SPDX-License-Identifier: BSD-2-Clause
"""A store in a folder that all ranks see: one machine, or a file system they share."""

from __future__ import annotations

import contextlib
import os
import re
import stat
import tempfile
import time
from pathlib import Path

from mrc.errors import CallerError, SystemRefused

_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*(/[A-Za-z0-9_-][A-Za-z0-9_.-]*)*")
_FIRST_LOOK_S, _LONGEST_LOOK_S = 0.001, 0.05


class FileStore:
    """A store with a file for each key. Makes the folder if needed, for this user alone (mode 0700), and leaves it
    behind.

    Use a new one for each job: a folder that an earlier job has left is refused as soon as this one would leave the
    same in it. Raises CallerError for a folder that others may read, SystemRefused where it cannot be made or written
    to.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._folder = Path(folder)
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            found = self._folder.stat()
        except OSError as error:
            raise SystemRefused(error.errno, f"{self._folder} cannot be a store: {error.strerror}") from None
        if stat.S_IMODE(found.st_mode) & 0o077 or found.st_uid != os.geteuid():
            raise CallerError(
                f"{self._folder} holds the keys to the ranks' memory, and others may read it: "
                f"chmod 700 {self._folder}, as its owner"
            )

    def set(self, key: str, value: bytes) -> None:
        """Set the value of a key, once. Raises CallerError for a key that is there already and for what is no key,
        SystemRefused where it cannot be written."""
        place = self._place(key)
        try:
            # A reader sees the whole value or none. mkstemp makes the file for this user alone.
            descriptor, written = tempfile.mkstemp(dir=self._folder, prefix=".")
            try:
                with os.fdopen(descriptor, "wb") as file:
                    file.write(value)
                os.link(written, place)
            finally:
                with contextlib.suppress(OSError):
                    os.unlink(written)
        except FileExistsError:
            raise CallerError(
                f"{place} is there already: {self._folder} is of an earlier job, or another process is this rank too. "
                "Take a new folder for each job, or remove it"
            ) from None
        except OSError as error:
            raise SystemRefused(error.errno, f"{place} cannot be written: {error.strerror}") from None

    def get(self, key: str, timeout: float) -> bytes:
        """Return the value of a key. Waits until it is set; raises TimeoutError after `timeout` seconds, SystemRefused
        where it cannot be read.
        """
        place = self._place(key)
        deadline = time.monotonic() + timeout
        pause = _FIRST_LOOK_S
        while True:
            try:
                return place.read_bytes()
            except FileNotFoundError:
                pass
            except OSError as error:
                raise SystemRefused(error.errno, f"{place} cannot be read: {error.strerror}") from None
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"nobody has set {key!r} within {timeout:g} s")
            time.sleep(min(pause, left))
            pause = min(2 * pause, _LONGEST_LOOK_S)

    def _place(self, key: str) -> Path:
        if not _NAME.fullmatch(key):
            raise CallerError(
                f"a key is letters, digits, '_', '-', '.' and '/', no part of it begins with '.', got {key!r}"
            )
        return self._folder / key.replace("/", "+")
