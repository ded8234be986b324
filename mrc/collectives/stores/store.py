"""What a group asks of a store."""

from __future__ import annotations

from typing import Protocol


class Store(Protocol):
    """Values by key, shared by all ranks of a job. A key is set once."""

    def set(self, key: str, value: bytes) -> None: ...

    def get(self, key: str, timeout: float) -> bytes:
        """The value of a key. Waits up to `timeout` seconds until somebody has set it, then raises TimeoutError."""


class _Below:
    """The keys of a store that begin with a prefix."""

    def __init__(self, store: Store, prefix: str) -> None:
        self._store = store
        self._prefix = prefix

    def set(self, key: str, value: bytes) -> None:
        self._store.set(self._prefix + key, value)

    def get(self, key: str, timeout: float) -> bytes:
        return self._store.get(self._prefix + key, timeout)


def sub_store(store: Store, prefix: str) -> Store:
    """A store of its own inside another one."""
    return _Below(store, prefix)
