"""Joining and leaving a group, and the messages of its members."""

from __future__ import annotations

import time
from collections.abc import Sequence

from mrc.collectives.config import GroupConfig
from mrc.collectives.control.listening import Control, Note
from mrc.collectives.control.memory import MemoryControl
from mrc.collectives.control.tcp import TcpControl
from mrc.collectives.engine import Engine
from mrc.collectives.errors import CallMismatch, GroupError, RankLost
from mrc.collectives.mesh import Mesh
from mrc.collectives.stores import MemoryStore, Store
from mrc.errors import MrcError, PeerError

# While it waits for an entry of the store, a rank checks this often whether another rank is gone.
_LOOK_S = 0.25


class Membership:
    """Membership of one group. `ranks`: the numbers of its ranks in the whole group."""

    def __init__(
        self, store: Store, name: str, ranks: Sequence[int], engine: Engine, mesh: Mesh, config: GroupConfig
    ) -> None:
        self.store = store
        self.name = name
        self._ranks = tuple(ranks)
        self._engine = engine
        self._mesh = mesh
        self._config = config
        self._others = [rank for rank in range(engine.size) if rank != engine.rank]
        self.control: Control | None = None
        self._joins = True
        self._refused: MrcError | None = None
        self._owned: TcpControl | MemoryControl | None = None
        engine.on_failed = self.report_failure

    # ------------------------------------------------------------------ coming

    def join(self, control: Control | None, addresses: Sequence[str]) -> None:
        """Publish this rank's document and wait for the other ranks; over a MemoryStore the last rank completes the
        join.

        `control`: that of the whole group, None to make one that listens at `addresses`. Raises PeerError when a rank
        does not come in time.
        """
        store, rank = self.store, self._engine.rank
        document = None
        if control is not None:
            self.control = control
        elif isinstance(store, MemoryStore):
            self.control = self._owned = MemoryControl(store.board, rank)
        else:
            self.control = self._owned = TcpControl(rank, addresses)
            document = self._owned.document()
        store.set(self._key("rank", rank), self._mesh.document(document))
        if isinstance(store, MemoryStore):
            store.when([self._key("rank", other) for other in self._others], self._connect_late)
            self._joins = False
            if self._refused is not None:
                raise self._refused
        else:
            self._connect()

    def _connect_late(self) -> None:
        """Connect in the thread of the last rank to come. An error is for this rank's callers, not for that thread."""
        try:
            self._connect()
        except MrcError as error:
            if self._joins:
                self._refused = error
                return
            failure = GroupError(str(error))
            self._engine.ask(lambda: self._engine.fail(failure))

    def _connect(self) -> None:
        """Connect to all ranks, publish that this rank may be sent to, and wait until all others may."""
        store, engine = self.store, self._engine
        controls = {rank: self._mesh.connect(rank, self._get("rank", rank)) for rank in self._others}
        if isinstance(self._owned, TcpControl):
            self._owned.meet(controls)
        assert self.control is not None
        self.control.listen(self.name, self)
        store.set(self._key("ready", engine.rank), b"")
        if isinstance(store, MemoryStore):
            store.when([self._key("ready", rank) for rank in self._others], lambda: engine.ask(engine.open))
            return
        for rank in self._others:
            self._get("ready", rank)
        engine.ask(engine.open)

    def _key(self, kind: str, rank: int) -> str:
        return f"{self.name}/{kind}/{rank}"

    def _get(self, kind: str, rank: int) -> bytes:
        """Return a value that another rank stored. Raises the group's error if a rank ends meanwhile."""
        patience_s = self._config.join_timeout_s
        deadline = time.monotonic() + patience_s
        while True:
            try:
                return self.store.get(self._key(kind, rank), min(_LOOK_S, max(0.0, deadline - time.monotonic())))
            except TimeoutError:
                if self._engine.error is not None:
                    raise self._engine.error.during("joining") from None
                if time.monotonic() >= deadline:
                    raise PeerError(
                        f"rank {rank} of {self._engine.size} has not come within {patience_s:g} s: look whether it was "
                        "started, and with the same store"
                    ) from None

    # ------------------------------------------------------------------ what other ranks say, from any thread

    def hear(self, rank: int, note: Note) -> None:
        """Handle a message of another rank."""
        engine, number = self._engine, self._ranks.index(rank)
        if "bye" in note:
            sequence = int(note["bye"])
            engine.settle(lambda: engine.left(number, sequence))
            return
        text = str(note.get("failed"))
        lost = note.get("lost")
        error: GroupError
        if note.get("mismatch"):
            error = CallMismatch(f"rank {number} has given up: {text}", number)
        elif lost is None:
            error = GroupError(f"rank {number} has given up: {text}", number)
        elif lost == engine.rank:
            error = GroupError(f"rank {number} takes this one for gone: {text}", number)
        else:
            error = RankLost(text, int(lost))
        engine.ask(lambda: engine.fail(error))

    def gone(self, rank: int, why: str) -> None:
        """Handle the end of a rank's process."""
        if rank in self._ranks:
            engine, number = self._engine, self._ranks.index(rank)
            engine.ask(lambda: engine.lost(number, why))

    # ------------------------------------------------------------------ what this one says

    def report_failure(self, error: GroupError) -> None:
        """Report to the other ranks that the group has failed here."""
        note: Note = {"failed": error.text}
        if isinstance(error, RankLost) and error.rank is not None:
            note["lost"] = error.rank
        elif isinstance(error, CallMismatch):
            note["mismatch"] = True
        self._send_all(note)

    def say_bye(self, sequence: int) -> None:
        """Report that this rank has completed all operations before `sequence` and takes no part in later ones."""
        self._send_all({"bye": sequence})

    def _send_all(self, note: Note) -> None:
        if self.control is not None:
            for rank in self._others:
                self.control.say(self._ranks[rank], self.name, note)

    def leave(self) -> None:
        """Stop listening. Returns when everything said is delivered, or after a short time limit."""
        if self.control is not None:
            self.control.forget(self.name)
        if self._owned is not None:
            self._owned.close()
