# SPDX-License-Identifier: BSD-2-Clause
"""The control for ranks of one process: messages are calls."""

from __future__ import annotations

import threading

from mrc.collectives.control.listening import Contact, Listener, Listeners, Note
from mrc.errors import PeerError


class Board:
    """The ranks of one MemoryStore. Each counts as a process, named by its number."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ranks: dict[str, Listeners] = {}

    def of(self, process: str) -> Listeners:
        with self._lock:
            return self._ranks.setdefault(process, Listeners())

    def lose(self, rank: int, why: str) -> None:
        """Report to all other ranks that this rank's process has ended, for tests."""
        for other, listeners in list(self._ranks.items()):
            if other != str(rank):
                listeners.gone(str(rank), why)


class MemoryControl:
    """The control of one rank."""

    def __init__(self, board: Board, rank: int) -> None:
        self._board = board
        self._process = str(rank)
        self._own = board.of(self._process)

    @property
    def contact(self) -> Contact:
        return {"process": self._process}

    def listen(self, inbox: str, listener: Listener) -> None:
        self._own.listen(inbox, listener)

    def forget(self, inbox: str) -> None:
        self._own.forget(inbox)

    def meet(self, contact: Contact) -> str:
        process = contact.get("process")
        if not isinstance(process, str):
            raise PeerError("a rank left no control address in the store")
        return process

    def say(self, process: str, inbox: str, note: Note) -> None:
        self._board.of(process).hear(self._process, inbox, note)

    def close(self) -> None:
        """Do nothing: there is no resource."""
