# SPDX-License-Identifier: BSD-2-Clause
"""Joining and leaving a group, and the messages of its members.

Each rank leaves a document in the store: how its process is reached, and the inbox of its group there, a name that is
never used twice. A rank that has read a document sends its own to that inbox (`join`). What the store
holds may be of a group before, of these processes or of others: only a rank that has said `join` to this inbox has
come, and where it is is what it said then. Of two ranks the one that leaves its document later reads that of the
other, so one of them always learns of the other as it is now.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from mrc.collectives.config import GroupConfig
from mrc.collectives.control.listening import Contact, Control, Note
from mrc.collectives.control.memory import MemoryControl
from mrc.collectives.control.shared import give_back_control, take_control
from mrc.collectives.engine import Engine
from mrc.collectives.errors import CallMismatch, GroupError, RankLost
from mrc.collectives.stores import MemoryStore, Store
from mrc.errors import CallerError, MrcError, PeerError
from mrc.untrusted import NotJson, parse_json
from mrc.verbs.device import Device

_VERSION = 2
# While it waits for an entry of the store, a rank checks this often whether another rank is gone.
_LOOK_S = 0.25
_INBOX_BYTES = 16
# In place of a document that nobody needs any more.
_COME = b"-"
_MOST_INBOX = 4096


class Place(NamedTuple):
    """The place of a subgroup: the membership of the group it is in, the ranks of that one, and its name there."""

    around: Membership
    ranks: tuple[int, ...]
    name: str


class _Member(NamedTuple):
    """Where another rank is: its process, and its group's inbox there."""

    process: str
    inbox: str


class Membership:
    """Membership of one group. `keeps` says whether a subgroup may still be made; `within`: the group is one itself."""

    def __init__(
        self,
        device: Device,
        store: Store,
        engine: Engine,
        config: GroupConfig,
        keeps: Callable[[str], bool],
        within: Place | None = None,
    ) -> None:
        self.store = store
        self.inbox: str = secrets.token_hex(_INBOX_BYTES) if within is None else f"{within.around.inbox}/{within.name}"
        self.keeps = keeps
        self._device = device
        self._engine = engine
        self._config = config
        self._within = within
        self._others = [rank for rank in range(engine.size) if rank != engine.rank]
        self._control: Control | None = None
        self._owns = False
        self._changed = threading.Condition()
        self._members: dict[int, _Member] = {}  # that have come
        self._told: dict[int, _Member] = {}
        self._refused: MrcError | None = None
        self._joining = True  # the constructor waits
        self._gone: dict[str, str] = {}
        self._when_whole: list[Callable[[], None]] = []
        self._early: list[tuple[str, Note]] = []  # in a subgroup, before the ranks around it are known
        engine.on_failed = self.report_failure
        engine.tell = self._say

    # ------------------------------------------------------------------ coming

    def join(self) -> None:
        """Come, and wait for the other ranks; over a MemoryStore, and in a subgroup, do not wait.

        Raises PeerError when a rank does not come in time, CallerError where ranks differ in their settings.
        """
        if not self._others:
            return
        store, rank = self.store, self._engine.rank
        if self._within is not None:
            self._join_within(self._within)
        elif isinstance(store, MemoryStore):
            self._control = MemoryControl(store.board, rank)
            self._control.listen(self.inbox, self)
            store.set(_key(rank), self._document())
            for other in self._others:
                store.when([_key(other)], lambda other=other: self._try(lambda: self._greet(other, store)))  # type: ignore[misc]
        else:
            self._control = take_control(self._device)
            self._owns = True
            self._control.listen(self.inbox, self)
            store.set(_key(rank), self._document())
            self._meet_all()
            if self._is_whole() and getattr(store, "overwrites", False):
                # Every rank has read it, or was sent it. A store that is gone holds nothing any more.
                with contextlib.suppress(MrcError):
                    store.set(_key(rank), _COME)
        with self._changed:
            self._joining = False
            if self._refused is not None:
                raise self._refused

    def _join_within(self, place: Place) -> None:
        """All that there is to know is known around, or will be."""
        self._control = place.around._control  # noqa: SLF001
        assert self._control is not None
        self._control.listen(self.inbox, self)

        def whole() -> None:
            with self._changed:
                for rank in self._others:
                    process, inbox = place.around._members[place.ranks[rank]]  # noqa: SLF001
                    self._members[rank] = _Member(process, f"{inbox}/{place.name}")
                early, self._early = self._early, []
            self._whole()
            for process, note in early:
                self.hear(process, note)
            for process, why in list(self._gone.items()):
                self.gone(process, why)

        place.around._once_whole(whole)  # noqa: SLF001

    def _once_whole(self, action: Callable[[], None]) -> None:
        """Run `action` once all ranks have come."""
        with self._changed:
            if not self._is_whole():
                self._when_whole.append(action)
                return
        action()

    def _is_whole(self) -> bool:
        return len(self._members) == len(self._others)

    def _whole(self) -> None:
        self._engine.ask(self._engine.open)
        with self._changed:
            waiting, self._when_whole = self._when_whole, []
        for action in waiting:
            action()

    def _meet_all(self) -> None:
        """Read the documents as they come, until all ranks have."""
        deadline = time.monotonic() + self._config.join_timeout_s
        unread = set(self._others)
        while True:
            with self._changed:
                missing = [rank for rank in self._others if rank not in self._members]
                if self._refused is not None or not missing:
                    return
                if not unread.intersection(missing):
                    self._changed.wait(min(_LOOK_S, max(0.0, deadline - time.monotonic())))
                    self._check_joining(missing, deadline)
                    continue
            rank = min(unread.intersection(missing))
            try:
                document = self.store.get(_key(rank), min(_LOOK_S, max(0.0, deadline - time.monotonic())))
            except TimeoutError:
                self._check_joining(missing, deadline)
                continue
            unread.discard(rank)
            self._try(lambda rank=rank, document=document: self._read(rank, document))  # type: ignore[misc]

    def _check_joining(self, missing: Sequence[int], deadline: float) -> None:
        if self._engine.error is not None:
            raise self._engine.error.during("joining")
        if time.monotonic() >= deadline:
            raise PeerError(
                f"rank {missing[0]} of {self._engine.size} has not come within {self._config.join_timeout_s:g} s: look "
                "whether it was started, and with the same store"
            )

    def _greet(self, rank: int, store: MemoryStore) -> None:
        if rank not in self._members:
            self._read(rank, store.get(_key(rank), 0))

    def _read(self, rank: int, document: bytes) -> None:
        """Take a document from the store, which may be an old one."""
        if document == _COME:
            # All ranks had come to that group. If it is this one, this rank has heard of that one; if it is one before,
            # that one has yet to come, and will read what this one left.
            return
        try:
            described = parse_json(document, f"what rank {rank} left in the store")
        except NotJson as error:
            raise PeerError(str(error)) from None
        # Whether it is of a rank that agrees with this one is for that rank to say.
        self._tell(rank, _inbox_of(rank, described), described)

    def _tell(self, rank: int, inbox: str, described: dict[str, Any]) -> None:
        """Say to a rank's inbox that this rank has come, once."""
        assert self._control is not None
        member = _Member(self._control.meet(described["contact"]), inbox)
        with self._changed:
            if self._told.get(rank) == member or (rank in self._members and self._members[rank] != member):
                return
            self._told[rank] = member
        self._control.say(member.process, member.inbox, {"rank": self._engine.rank, "join": self._described()})

    def _try(self, action: Callable[[], None]) -> None:
        """Run what may find that ranks differ: an error is for this rank's callers, not for this thread."""
        try:
            action()
        except MrcError as error:
            with self._changed:
                if self._joining:
                    self._refused = error
                    self._changed.notify_all()
                    return
            failure = GroupError(str(error))
            self._engine.ask(lambda: self._engine.fail(failure))

    # ------------------------------------------------------------------ documents

    def _described(self) -> dict[str, Any]:
        assert self._control is not None
        contact: Contact = self._control.contact
        return {
            "version": _VERSION,
            "rank": self._engine.rank,
            "size": self._engine.size,
            "config": self._config.shared,
            "contact": contact,
            "inbox": self.inbox,
        }

    def _document(self) -> bytes:
        return json.dumps(self._described()).encode()

    def _check(self, rank: int, described: dict[str, Any]) -> None:
        """Raises PeerError for a rank of another group, CallerError for other settings."""
        size = self._engine.size
        if (described.get("rank"), described.get("size")) != (rank, size):
            raise PeerError(
                f"rank {rank} says that it is rank {described.get('rank')} of {described.get('size')}, not of {size}: "
                "use a new store for each job, and the same size at all ranks"
            )
        ours, theirs = self._config.shared, described.get("config")
        if ours != theirs:
            differ = [name for name in ours if not isinstance(theirs, dict) or theirs.get(name) != ours[name]]
            raise CallerError(
                f"rank {rank} has other settings than this rank: {', '.join(differ)}; "
                "give all ranks the same GroupConfig"
            )

    # ------------------------------------------------------------------ what other ranks say, from any thread

    def hear(self, process: str, note: Note) -> None:
        """Handle a message of another rank."""
        rank = note.get("rank")
        if rank not in self._others:
            return
        assert isinstance(rank, int)
        if "join" in note:
            self._try(lambda: self._on_join(rank, process, note["join"]))
            return
        with self._changed:
            known = self._members.get(rank)
            if known is None and self._within is not None:
                self._early.append((process, note))
        if known is None or known.process != process:
            return
        engine = self._engine
        if "link" in note:
            side, linked = note["link"], bool(note.get("linked"))
            engine.ask(lambda: engine.on_side(rank, side, linked=linked))
        elif "linked" in note:
            engine.ask(lambda: engine.on_linked(rank))
        elif isinstance(sequence := note.get("bye"), int):
            engine.settle(lambda: engine.left(rank, sequence))
        elif "failed" in note:
            error = self._failure(rank, note)
            engine.ask(lambda: engine.fail(error))

    def _on_join(self, rank: int, process: str, described: Any) -> None:
        """A rank has read this one's document: it has come."""
        inbox = _inbox_of(rank, described)
        # Before anything can be wrong with it: the other one has to learn of that, too.
        self._tell(rank, inbox, described)
        self._check(rank, described)
        with self._changed:
            if rank in self._members:
                return
            self._members[rank] = _Member(process, inbox)
            whole = self._is_whole()
            self._changed.notify_all()
        if whole:
            self._whole()
        if process in self._gone:
            self.gone(process, self._gone[process])

    def _failure(self, rank: int, note: Note) -> GroupError:
        text, lost = str(note.get("failed")), note.get("lost")
        if note.get("mismatch"):
            return CallMismatch(f"rank {rank} has given up: {text}", rank)
        if not isinstance(lost, int) or not 0 <= lost < self._engine.size:
            return GroupError(f"rank {rank} has given up: {text}", rank)
        if lost == self._engine.rank:
            return GroupError(f"rank {rank} takes this one for gone: {text}", rank)
        return RankLost(text, lost)

    def gone(self, process: str, why: str) -> None:
        """Handle the end of a process. One that no rank is in may have left its document for a group before."""
        with self._changed:
            self._gone[process] = why
            ranks = [rank for rank, member in self._members.items() if member.process == process]
        engine = self._engine
        for rank in ranks:
            engine.ask(lambda rank=rank: engine.lost(rank, why))  # type: ignore[misc]

    def broken(self, why: str) -> None:
        """This process's control has failed."""
        engine = self._engine
        error = GroupError(why, engine.rank)
        engine.ask(lambda: engine.fail(error))

    # ------------------------------------------------------------------ what this one says

    def report_failure(self, error: GroupError) -> None:
        """Report to the other ranks that the group has failed here."""
        note: Note = {"failed": error.text}
        if isinstance(error, RankLost) and error.rank is not None:
            note["lost"] = error.rank
        elif isinstance(error, CallMismatch):
            note["mismatch"] = True
        self._say_all(note)

    def say_bye(self, sequence: int) -> None:
        """Report that this rank has completed all operations before `sequence` and takes no part in later ones."""
        self._say_all({"bye": sequence})

    def _say_all(self, note: Note) -> None:
        for rank in self._others:
            self._say(rank, note)

    def _say(self, rank: int, note: Note) -> None:
        member = self._members.get(rank) or self._told.get(rank)
        if self._control is not None and member is not None:
            self._control.say(member.process, member.inbox, note | {"rank": self._engine.rank})

    def leave(self) -> None:
        """Stop listening. The last group of a process returns when everything said is delivered, or after a short time
        limit."""
        control, self._control = self._control, None
        if control is not None:
            control.forget(self.inbox)
        if self._owns:
            self._owns = False
            give_back_control(self._device)


def _inbox_of(rank: int, described: Any) -> str:
    """Return the inbox in a document. Raises PeerError for a malformed one."""
    if not isinstance(described, dict) or not isinstance(described.get("contact"), dict):
        raise PeerError(f"rank {rank} left no description of itself in the store")
    if described.get("version") != _VERSION:
        raise PeerError(f"rank {rank} runs another release of mrc: use the same one at all ranks")
    inbox = described.get("inbox")
    if not isinstance(inbox, str) or not 1 <= len(inbox) <= _MOST_INBOX:
        raise PeerError(f"rank {rank} left no inbox in the store")
    return inbox


def _key(rank: int) -> str:
    return f"world/rank/{rank}"
