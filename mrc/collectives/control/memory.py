"""The control for ranks of one process: messages are calls."""

from __future__ import annotations

import threading

from mrc.collectives.control.listening import Listener, Listeners, Note


class Board:
    """The ranks of one MemoryStore."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ranks: dict[int, Listeners] = {}

    def of(self, rank: int) -> Listeners:
        with self._lock:
            return self._ranks.setdefault(rank, Listeners())

    def lose(self, rank: int, why: str) -> None:
        """Report to all other ranks that this rank's process has ended, for tests."""
        for other, listeners in list(self._ranks.items()):
            if other != rank:
                listeners.gone(rank, why)


class MemoryControl:
    """The control of one rank."""

    def __init__(self, board: Board, rank: int) -> None:
        self._board = board
        self._rank = rank
        self._own = board.of(rank)

    def listen(self, group: str, listener: Listener) -> None:
        self._own.listen(group, listener)

    def forget(self, group: str) -> None:
        self._own.forget(group)

    def say(self, rank: int, group: str, note: Note) -> None:
        self._board.of(rank).hear(self._rank, group, note)

    def close(self) -> None:
        """Do nothing: there is no resource."""
