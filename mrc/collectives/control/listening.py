"""The control: messages between ranks beside their data, and its listeners."""

from __future__ import annotations

from typing import Any, Protocol

Note = dict[str, Any]


class Listener(Protocol):
    """A group that listens. Its methods are called from any thread."""

    def hear(self, rank: int, note: Note) -> None:
        """Handle a message of a rank."""

    def gone(self, rank: int, why: str) -> None:
        """Handle the end of a rank's process."""


class Control(Protocol):
    """The control of one rank, shared by its group and subgroups."""

    def listen(self, group: str, listener: Listener) -> None:
        """Pass messages for this group, and ranks that are or will be gone, to `listener`."""

    def forget(self, group: str) -> None: ...

    def say(self, rank: int, group: str, note: Note) -> None:
        """Send a message to a rank. Never waits; drops it if the rank is gone."""

    def close(self) -> None:
        """End the control once all messages are delivered, or after a short time limit."""


class Listeners:
    """The listening groups of one rank, and the ranks that are gone."""

    def __init__(self) -> None:
        self._groups: dict[str, Listener] = {}
        self._gone: dict[int, str] = {}
        self._early: dict[str, list[tuple[int, Note]]] = {}

    def listen(self, group: str, listener: Listener) -> None:
        self._groups[group] = listener
        for rank, note in self._early.pop(group, ()):
            listener.hear(rank, note)
        for rank, why in list(self._gone.items()):
            listener.gone(rank, why)

    def forget(self, group: str) -> None:
        self._groups.pop(group, None)

    def hear(self, rank: int, group: str, note: Note) -> None:
        listener = self._groups.get(group)
        if listener is not None:
            listener.hear(rank, note)
        else:
            # For a subgroup that this rank has not made yet.
            self._early.setdefault(group, []).append((rank, note))

    def gone(self, rank: int, why: str) -> None:
        if rank in self._gone:
            return
        self._gone[rank] = why
        for listener in list(self._groups.values()):
            listener.gone(rank, why)

    def is_gone(self, rank: int) -> bool:
        return rank in self._gone
