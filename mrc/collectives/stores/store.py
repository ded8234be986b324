"""The store as groups use it."""

from __future__ import annotations

from typing import Protocol


class Store(Protocol):
    """Holds values by key for all ranks of a job. Each key is set once."""

    def set(self, key: str, value: bytes) -> None:
        """Set the value of a key. Returns once other ranks can get it."""

    def get(self, key: str, timeout: float) -> bytes:
        """Return the value of a key. Waits until it is set; raises TimeoutError after `timeout` seconds."""
