"""What all operations share: streams to and from other ranks, and knowing when all of them have ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

from mrc.collectives.arrays import Bytes, bytes_of
from mrc.collectives.engine import Engine, stream_number
from mrc.collectives.errors import CallMismatch
from mrc.collectives.messages import Signature
from mrc.collectives.reduction import Reduction
from mrc.collectives.registrations import Memory
from mrc.collectives.streams import Grant, Incoming, Outgoing, Token
from mrc.collectives.work import Work


def spans(count: int, parts: int, unit: int) -> list[tuple[int, int]]:
    """Where each of `parts` equal parts of `count` values begins and how long it is, in bytes of `unit` a value.

    The first ones have one value more where it does not come out even.
    """
    whole, more = divmod(count, parts)
    found, at = [], 0
    for part in range(parts):
        length = (whole + (part < more)) * unit
        found.append((at, length))
        at += length
    return found


class Operation:
    """A call of the whole group under way. A kind of it says in `plan` what is sent and what comes.

    `eager`: its streams go through slots. Set it before the first stream is made.
    """

    eager = False

    def __init__(self, engine: Engine, sequence: int, signature: Signature, work: Work) -> None:
        self.engine = engine
        self.rank = engine.rank
        self.size = engine.size
        self.sequence = sequence
        self.signature = signature
        self.work = work
        self.token = Token(sequence, signature)
        self._stream = stream_number(sequence)
        self._incoming: dict[int, Incoming] = {}
        self._outgoing: dict[int, Outgoing] = {}
        self._memories: list[Memory] = []
        self._unfinished = 0
        work.says(self.waits_for)

    # ------------------------------------------------------------------ for kinds of operations

    def plan(self) -> None:
        """Make the streams, and add their segments."""
        raise NotImplementedError

    def under_way(self) -> None:
        """All streams are made: the first step of operations that go step by step."""

    def complete(self) -> None:
        """Everything came and went: what is left to do before the caller hears of it."""

    def memory(self, array: NDArray[Any] | Bytes) -> Memory:
        """An array of the caller's, or of the operation's own."""
        made = Memory(bytes_of(array), self.engine.registrations)
        self._memories.append(made)
        return made

    def outgoing(self, rank: int) -> Outgoing:
        """The stream to a rank."""
        found = self._outgoing.get(rank)
        if found is None:
            link = self.engine.links[rank]
            found = Outgoing(link, self.token, self._stream, eager=self.eager, finished=self._ended)
            self._outgoing[rank] = found
        return found

    def incoming(self, rank: int) -> Incoming | None:
        return self._incoming.get(rank)

    def receive(self, rank: int, memory: Memory | None = None) -> Incoming:
        """The stream from a rank. `memory`: where its DIRECT segments go."""
        found = self._incoming.get(rank)
        if found is None:
            link = self.engine.links[rank]
            found = Incoming(link, self.token, self._stream, eager=self.eager, memory=memory, finished=self._ended)
            self._incoming[rank] = found
        return found

    # ------------------------------------------------------------------ its course

    def begin(self) -> None:
        self.plan()
        incoming = {rank: stream for rank, stream in self._incoming.items() if not stream.is_empty}
        outgoing = {rank: stream for rank, stream in self._outgoing.items() if not stream.is_empty}
        self._incoming, self._outgoing = incoming, outgoing
        for rank in sorted({*incoming, *outgoing}):
            if self.engine.links[rank].left_at is not None:
                raise self.engine.has_left(rank)
        # One more, until all of them are under way.
        self._unfinished = len(incoming) + len(outgoing) + 1
        for rank, link in self.engine.links.items():
            if rank not in incoming and self.sequence in link.early:
                header, _ = link.early[self.sequence][0]
                self.engine.check(link, header, self.token)
                self.engine.too_much(link, self.token)
            stray = link.grants.get(self._stream)
            if stray is not None and rank not in outgoing:
                self.engine.check(link, stray, self.token)
                raise CallMismatch(f"rank {rank} waits for more than {self.signature} sends", rank)
        for stream in incoming.values():
            self.start_incoming(stream)
        for out in outgoing.values():
            self.start_outgoing(out)
        for stream in incoming.values():
            for header, slot in stream.link.early.pop(self.sequence, ()):
                self.engine.check(stream.link, header, self.token)
                stream.on_landed(slot)
        self.under_way()
        self._ended()

    def start_incoming(self, stream: Incoming) -> None:
        stream.link.incoming[self._stream] = stream
        if not self.eager:
            stream.grant()

    def start_outgoing(self, out: Outgoing) -> None:
        link = out.link
        link.outgoing[self._stream] = out
        header = link.grants.pop(self._stream, None)
        if header is not None:
            self.engine.check(link, header, self.token)
            out.grant = Grant(header.address, header.rkey, header.first, header.pieces)
        out.pump()

    def _ended(self) -> None:
        self._unfinished -= 1
        if not self._unfinished:
            self.complete()
            for rank in self._incoming:
                del self.engine.links[rank].incoming[self._stream]
            for rank in self._outgoing:
                del self.engine.links[rank].outgoing[self._stream]
            self.engine.finish(self)

    def release(self) -> None:
        for memory in self._memories:
            memory.release()
        self._memories.clear()

    def waits_for(self) -> str:
        """`: rank 1 owes 3 pieces`, for a wait that was in vain."""
        owed = [
            f"rank {rank} has sent all but {stream.pieces_left} pieces"
            for rank, stream in sorted(self._incoming.items())
            if stream.pieces_left
        ]
        kept = [
            f"rank {rank} has not taken all of this one's"
            for rank, out in sorted(self._outgoing.items())
            if out.pieces_left and rank not in self._incoming
        ]
        told = owed + kept
        return f": {'; '.join(told[:4])}{'; ...' if len(told) > 4 else ''}" if told else ""


class Reducing(Operation):
    """An operation that reduces `array` at every rank."""

    def __init__(
        self, engine: Engine, sequence: int, signature: Signature, work: Work, array: NDArray[Any], reduction: Reduction
    ) -> None:
        super().__init__(engine, sequence, signature, work)
        self.array = array
        self.reduction = reduction

    def into(self, target: Bytes, *, last: bool = False) -> Callable[[Bytes, int], None]:
        """What an arrival does: reduce a piece into the bytes of `target`. `last`: then nothing is missing."""
        reduction, size = self.reduction, self.size

        def take(piece: Bytes, start: int) -> None:
            mine = target[start : start + piece.size]
            reduction.combine(mine, piece, mine)
            if last:
                reduction.finish(mine, size)

        return take
