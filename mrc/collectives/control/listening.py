"""Both ends of what ranks tell each other: who tells, and who listens."""

from __future__ import annotations

from typing import Any, Protocol

Note = dict[str, Any]


class Listener(Protocol):
    """A group. Called from any thread."""

    def hear(self, rank: int, note: Note) -> None:
        """A rank of the control said this."""

    def gone(self, rank: int, why: str) -> None:
        """A rank's process has ended without a word."""


class Control(Protocol):
    """One rank's way to all others, shared by its group and that one's subgroups."""

    def listen(self, group: str, listener: Listener) -> None:
        """Notes of this group go to `listener`, and who is gone, those that are gone already too."""

    def forget(self, group: str) -> None: ...

    def say(self, rank: int, group: str, note: Note) -> None:
        """Tell a rank. Never waits; to one that is gone it says nothing."""

    def close(self) -> None:
        """What was said is on its way before this returns."""


class Listeners:
    """The groups of one rank, and who is gone."""

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
            # A subgroup that this rank has not made yet.
            self._early.setdefault(group, []).append((rank, note))

    def gone(self, rank: int, why: str) -> None:
        if rank in self._gone:
            return
        self._gone[rank] = why
        for listener in list(self._groups.values()):
            listener.gone(rank, why)

    def is_gone(self, rank: int) -> bool:
        return rank in self._gone
