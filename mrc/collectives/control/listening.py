# SPDX-License-Identifier: BSD-2-Clause
"""The control: messages between the processes of ranks beside their data, and its listeners."""

from __future__ import annotations

import threading
from typing import Any, Protocol

Note = dict[str, Any]
# How the process of a rank is reached, as plain JSON; `process` in it is its name.
Contact = dict[str, Any]


class Listener(Protocol):
    """A group that listens. Its methods are called from any thread."""

    def hear(self, process: str, note: Note) -> None:
        """Handle a message of another process."""

    def gone(self, process: str, why: str) -> None:
        """Handle the end of a process."""

    def broken(self, why: str) -> None:
        """The control of this process has failed: nothing is heard any more."""

    def keeps(self, inner: str) -> bool:
        """Return whether a group within this one with that name may still be made here."""


class Control(Protocol):
    """The control of one process, shared by all groups on its device.

    A group listens under the name of its inbox, which only one group ever has.
    """

    @property
    def contact(self) -> Contact:
        """What other processes take to `meet` this one."""

    def listen(self, inbox: str, listener: Listener) -> None:
        """Pass messages for this inbox, and processes that are or will be gone, to `listener`."""

    def forget(self, inbox: str) -> None: ...

    def meet(self, contact: Contact) -> str:
        """Reach a process, and find out when it ends. Returns its name. Raises PeerError for a malformed contact."""

    def say(self, process: str, inbox: str, note: Note) -> None:
        """Send a message to a process that was met. Never waits; drops it if the process is gone."""

    def close(self) -> None:
        """End it once all messages are delivered, or after a short time limit. The last of its users calls this."""


class Listeners:
    """The listening groups of one process, and the processes that are gone."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._groups: dict[str, Listener] = {}
        self._gone: dict[str, str] = {}
        self._early: dict[str, list[tuple[str, Note]]] = {}
        self._broken = ""

    def listen(self, inbox: str, listener: Listener) -> None:
        with self._lock:
            self._groups[inbox] = listener
            early, gone, broken = self._early.pop(inbox, ()), list(self._gone.items()), self._broken
        for process, note in early:
            listener.hear(process, note)
        for process, why in gone:
            listener.gone(process, why)
        if broken:
            listener.broken(broken)

    def forget(self, inbox: str) -> None:
        with self._lock:
            self._groups.pop(inbox, None)
            for early in [each for each in self._early if each.startswith(f"{inbox}/")]:
                del self._early[early]

    def hear(self, process: str, inbox: str, note: Note) -> None:
        with self._lock:
            listener = self._groups.get(inbox)
            if listener is None:
                # For a subgroup that this process has not made yet; what is for one that is closed is dropped.
                outer, _, inner = inbox.rpartition("/")
                around = self._groups.get(outer)
                if around is not None and around.keeps(inner):
                    self._early.setdefault(inbox, []).append((process, note))
                return
        listener.hear(process, note)

    def gone(self, process: str, why: str) -> None:
        with self._lock:
            if process in self._gone:
                return
            self._gone[process] = why
            listeners = list(self._groups.values())
        for listener in listeners:
            listener.gone(process, why)

    def is_gone(self, process: str) -> bool:
        return process in self._gone

    def broken(self, why: str) -> None:
        with self._lock:
            self._broken = why
            listeners = list(self._groups.values())
        for listener in listeners:
            listener.broken(why)
