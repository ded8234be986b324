# SPDX-License-Identifier: BSD-2-Clause
"""The store as groups use it."""

from __future__ import annotations

from typing import Protocol


class Store(Protocol):
    """Holds values by key for all ranks of a job. One that a later group of them uses as well takes a key again.

    Where a store has a true `overwrites`, a rank replaces what it has set by a byte once nobody needs it any more.
    """

    def set(self, key: str, value: bytes) -> None:
        """Set the value of a key. Returns once other ranks can get it."""

    def get(self, key: str, timeout: float) -> bytes:
        """Return the value of a key. Waits until it is set; raises TimeoutError after `timeout` seconds."""
