"""A group of ranks, and what they do together."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

from mrc.collectives.arrays import array_over
from mrc.collectives.config import DEFAULT_GROUP_CONFIG, GroupConfig
from mrc.collectives.control.listening import Control, Note
from mrc.collectives.control.memory import MemoryControl
from mrc.collectives.control.tcp import TcpControl
from mrc.collectives.engine import Carried, Engine
from mrc.collectives.errors import GroupError, RankLost
from mrc.collectives.mesh import Mesh
from mrc.collectives.messages import Call, Signature, dtype_number
from mrc.collectives.operations.all_reduce import DoublingAllReduce, RingAllReduce
from mrc.collectives.reduction import ReduceOp, Reduction
from mrc.collectives.stores import MemoryStore, Store
from mrc.collectives.work import Work
from mrc.errors import CallerError, MrcError, PeerError
from mrc.verbs import Context
from mrc.verbs.device import Device

_LOOK_S = 0.25


class Group:
    """`size` processes, this one being `rank`, that call the same operations in the same order.

    `device` runs the endpoint: `mrc.net.device.open_device`, or a host in virtual time (`mrc.sim.device.SimDevice`).
    The ranks find each other by the `store`. Made, a group has a QP to every other rank; over a MemoryStore it may be
    made before the others are, and what is called waits for them.

    Raises CallerError for a rank out of range, PeerError when not all ranks come within `join_timeout_s`.
    """

    def __init__(
        self, device: Device, store: Store, rank: int, size: int, config: GroupConfig = DEFAULT_GROUP_CONFIG
    ) -> None:
        if type(size) is not int or not 1 <= size <= 1024:
            raise CallerError(f"size is 1..1024, got {size!r}")
        if type(rank) is not int or not 0 <= rank < size:
            raise CallerError(f"rank is 0..{size - 1} in a group of {size}, got {rank!r}")
        self.device = device
        self.rank = rank
        self.size = size
        self.config = config
        self._store = store
        self._lock = threading.Lock()
        self._sequence = 0
        self._closed = False
        self._context = Context(device)
        self._control: Control | None = None
        self._name = "world"
        try:
            self._pd = self._context.pd()
            self._engine = Engine(self._context, self._pd, rank, size, config)
            self._mesh = Mesh(self._context, self._engine, config)
            self._join()
        except BaseException:
            self._give_up("it could not join the group")
            raise

    # ------------------------------------------------------------------ coming together

    def _join(self) -> None:
        if self.size == 1:
            return
        others = [rank for rank in range(self.size) if rank != self.rank]
        store = self._store
        self._engine.on_failed = self._tell_failure
        if isinstance(store, MemoryStore):
            self._control = MemoryControl(store.board, self.rank)
            self._store.set(f"rank/{self.rank}", self._mesh.document(None))
            store.when([f"rank/{rank}" for rank in others], self._connect)
        else:
            control = TcpControl(self.rank, [port.address for port in self.device.ports()])
            self._control = control
            self._store.set(f"rank/{self.rank}", self._mesh.document(control.document()))
            self._connect()

    def _connect(self) -> None:
        """All documents are there, or are waited for. Who is connected says so: before nobody may send to it."""
        others = [rank for rank in range(self.size) if rank != self.rank]
        controls = {rank: self._mesh.connect(rank, self._get(f"rank/{rank}", rank)) for rank in others}
        if isinstance(self._control, TcpControl):
            self._control.meet(controls)
        assert self._control is not None
        self._control.listen(self._name, self)
        self._store.set(f"ready/{self.rank}", b"")
        ready = [f"ready/{rank}" for rank in others]
        if isinstance(self._store, MemoryStore):
            self._store.when(ready, lambda: self._engine.ask(self._engine.open))
            return
        for rank in others:
            self._get(f"ready/{rank}", rank)
        self._engine.ask(self._engine.open)

    def _get(self, key: str, rank: int) -> bytes:
        """A value of another rank's. Ends early when a rank that has come is gone again."""
        deadline = time.monotonic() + self.config.join_timeout_s
        while True:
            try:
                return self._store.get(key, min(_LOOK_S, max(0.0, deadline - time.monotonic())))
            except TimeoutError:
                if self._engine.error is not None:
                    raise self._engine.error.during("joining") from None
                if time.monotonic() >= deadline:
                    raise PeerError(
                        f"rank {rank} of {self.size} has not come within {self.config.join_timeout_s:g} s: look "
                        "whether it was started, and with the same store"
                    ) from None

    # ------------------------------------------------------------------ what other ranks say, from any thread

    def hear(self, rank: int, note: Note) -> None:
        """For the control: what a rank says of itself, or of another."""
        engine = self._engine
        if "bye" in note:
            sequence = int(note["bye"])
            engine.settle(lambda: engine.left(rank, sequence))
        elif "lost" in note:
            lost, text = int(note["lost"]), str(note["failed"])
            error = (
                RankLost(text, lost)
                if lost != self.rank
                else GroupError(f"rank {rank} takes this one for gone: {text}", rank)
            )
            engine.ask(lambda: engine.fail(error))
        else:
            text = str(note.get("failed"))
            engine.ask(lambda: engine.fail(GroupError(f"rank {rank} has given up: {text}", rank)))

    def gone(self, rank: int, why: str) -> None:
        """For the control: a rank's process has ended."""
        engine = self._engine
        engine.ask(lambda: engine.lost(rank, why))

    def _tell_failure(self, error: GroupError) -> None:
        note: Note = {"failed": error.text}
        if isinstance(error, RankLost) and error.rank is not None:
            note["lost"] = error.rank
        self._tell_all(note)

    def _tell_all(self, note: Note) -> None:
        if self._control is not None:
            for rank in range(self.size):
                if rank != self.rank:
                    self._control.say(rank, self._name, note)

    # ------------------------------------------------------------------ operations

    def all_reduce(self, array: Any, op: ReduceOp = ReduceOp.SUM) -> Work:
        """Reduce the arrays of all ranks, value by value; every rank finds the result in its own, the same bits
        everywhere."""
        mine = array_over(array, "array", written=True)
        reduction = Reduction(op, mine.dtype)
        signature = Signature(Call.ALL_REDUCE, mine.nbytes, dtype_number(mine.dtype.name), int(op))
        kind = DoublingAllReduce if mine.nbytes <= self.config.doubling_bytes else RingAllReduce
        alone = self.size == 1 or not mine.size
        return self._start(
            signature,
            None if alone else lambda sequence, work: kind(self._engine, sequence, signature, work, mine, reduction),
        )

    def _start(self, signature: Signature, make: Callable[[int, Work], Carried] | None) -> Work:
        work = Work(self.device, str(signature))
        with self._lock:
            self._check_open(work.name)
            sequence = self._sequence
            self._sequence = sequence + 1 & 0xFFFFFFFF
            if make is not None:
                self._engine.post(make(sequence, work))
                return work
        work.finish()
        return work

    def _check_open(self, name: str) -> None:
        if self._closed:
            raise CallerError("the group is closed")
        if self._engine.error is not None:
            raise self._engine.error.during(name)

    # ------------------------------------------------------------------ end

    def drain(self, timeout: float | None = None) -> None:
        """Return once all operations are done, and every other rank has what this one sent."""
        work = Work(self.device, "drain")
        engine = self._engine
        engine.ask(lambda: engine.drain(work.finish))
        work.wait(timeout)

    def close(self) -> None:
        """Drain, and give everything back. A group that has failed is given back as it is."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        try:
            if self._engine.error is None and self.size > 1:
                self.drain()
                self._tell_all({"bye": self._sequence})
        except MrcError:
            # What was under way has said so to those who wait for it.
            pass
        finally:
            self._end()

    def _give_up(self, why: str) -> None:
        """Close without waiting for anything: the other ranks hear that this one has failed."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        if self._engine.error is None:
            self._tell_all({"failed": why})
        self._end()

    def _end(self) -> None:
        if self._control is not None:
            self._control.forget(self._name)
            self._control.close()
        self.device.call(self._engine.close)
        self._context.close()

    def __enter__(self) -> Group:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            self._give_up(f"{type(error).__name__}: {error}")

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"failed: {self._engine.error}" if self._engine.error else "open"
        return f"<Group rank {self.rank} of {self.size} on {self.device.name}: {state}>"
