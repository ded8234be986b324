"""What a group asks of a store."""

from __future__ import annotations

from typing import Protocol


class Store(Protocol):
    """Values by key, shared by all ranks of a job. A key is set once."""

    def set(self, key: str, value: bytes) -> None: ...

    def get(self, key: str, timeout: float) -> bytes:
        """The value of a key. Waits up to `timeout` seconds until somebody has set it, then raises TimeoutError."""
