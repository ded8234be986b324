"""How a rank comes to a group and leaves it, and what it hears of the others meanwhile."""

from __future__ import annotations

import time
from collections.abc import Sequence

from mrc.collectives.config import GroupConfig
from mrc.collectives.control.listening import Control, Note
from mrc.collectives.control.memory import MemoryControl
from mrc.collectives.control.tcp import TcpControl
from mrc.collectives.engine import Engine
from mrc.collectives.errors import GroupError, RankLost
from mrc.collectives.mesh import Mesh
from mrc.collectives.stores import MemoryStore, Store
from mrc.errors import MrcError, PeerError

# How often a rank that waits for another one's entry in the store looks whether any of them is gone.
_LOOK_S = 0.25


class Membership:
    """Of one group. `ranks` are its ranks by their numbers in the group of all, whose `control` it uses; that one has
    none yet."""

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
        engine.on_failed = self.tell_failure

    # ------------------------------------------------------------------ coming

    def join(self, control: Control | None, addresses: Sequence[str]) -> None:
        """Be there for the others, and wait for them; over a MemoryStore the last one to come lets all begin.

        `addresses` are this host's. Raises PeerError when they do not come in time.
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
        """In whoever came last: what goes wrong is the affair of this rank's callers, not of that one's."""
        try:
            self._connect()
        except MrcError as error:
            if self._joins:
                self._refused = error
                return
            failure = GroupError(str(error))
            self._engine.ask(lambda: self._engine.fail(failure))

    def _connect(self) -> None:
        """All are there, or are waited for. Who is connected says so: before nobody may send to it."""
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
        """A value of another rank's. Ends early when a rank that has come is gone again."""
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
        """What a rank says of itself, or of another."""
        engine, number = self._engine, self._ranks.index(rank)
        if "bye" in note:
            sequence = int(note["bye"])
            engine.settle(lambda: engine.left(number, sequence))
            return
        text = str(note.get("failed"))
        lost = note.get("lost")
        if lost is None:
            error = GroupError(f"rank {number} has given up: {text}", number)
        elif lost == engine.rank:
            error = GroupError(f"rank {number} takes this one for gone: {text}", number)
        else:
            error = RankLost(text, int(lost))
        engine.ask(lambda: engine.fail(error))

    def gone(self, rank: int, why: str) -> None:
        """A rank's process has ended."""
        if rank in self._ranks:
            engine, number = self._engine, self._ranks.index(rank)
            engine.ask(lambda: engine.lost(number, why))

    # ------------------------------------------------------------------ what this one says

    def tell_failure(self, error: GroupError) -> None:
        """The group has failed here."""
        note: Note = {"failed": error.text}
        if isinstance(error, RankLost) and error.rank is not None:
            note["lost"] = error.rank
        self._tell_all(note)

    def say_bye(self, sequence: int) -> None:
        """This rank takes part in no operation from that one on, and has got and sent all of those before."""
        self._tell_all({"bye": sequence})

    def _tell_all(self, note: Note) -> None:
        if self.control is not None:
            for rank in self._others:
                self.control.say(self._ranks[rank], self.name, note)

    def leave(self) -> None:
        """Hear nothing any more. Returns once all that was said is on its way."""
        if self.control is not None:
            self.control.forget(self.name)
        if self._owned is not None:
            self._owned.close()
