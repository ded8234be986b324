"""What all operations share: streams to and from other ranks, and knowing when all of them have ended."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from numpy.typing import NDArray

from mrc.collectives.arrays import Bytes, bytes_of
from mrc.collectives.engine import Engine, stream_number
from mrc.collectives.errors import CallMismatch
from mrc.collectives.messages import Signature
from mrc.collectives.reduction import Reduction
from mrc.collectives.registrations import Memory
from mrc.collectives.streams import Arrival, Departure, Incoming, Outgoing, Token
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
        # Arrays, so that they stay, and what they are to streams.
        self._memories: list[tuple[NDArray[Any], Memory]] = []
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

    def memory(self, array: NDArray[Any]) -> Memory:
        """An array of the caller's, or of the operation's own."""
        for known, memory in self._memories:
            if known is array:
                return memory
        made = Memory(bytes_of(array), self.engine.registrations)
        self._memories.append((array, made))
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
            # Who left after this operation has sent all of it, and got what it was owed.
            if self.engine.has_left_before(rank, self.sequence):
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
            self._start_incoming(stream)
        for out in outgoing.values():
            self._start_outgoing(out)
        for stream in incoming.values():
            for header, slot in stream.link.early.pop(self.sequence, ()):
                self.engine.check(stream.link, header, self.token)
                stream.on_landed(slot)
        self.under_way()
        self._ended()

    def _start_incoming(self, stream: Incoming) -> None:
        stream.link.incoming[self._stream] = stream
        if not self.eager and not stream.waits:
            stream.grant()

    def let_come(self, rank: int) -> None:
        """A stream that waited may come now."""
        if not self.eager:
            self._incoming[rank].grant()

    def _start_outgoing(self, out: Outgoing) -> None:
        link = out.link
        link.outgoing[self._stream] = out
        header = link.grants.pop(self._stream, None)
        if header is not None:
            self.engine.granted(out, header)
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
        for _, memory in self._memories:
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


Leaves = tuple[int, Departure]


class Stepwise(Operation):
    """An operation in steps: what leaves in one may depend on what came in those before. `step` adds one, in `plan`.

    What comes early waits for its step.
    """

    def __init__(self, engine: Engine, sequence: int, signature: Signature, work: Work) -> None:
        super().__init__(engine, sequence, signature, work)
        self._steps: list[tuple[list[Leaves], tuple[int, Arrival] | None]] = []

    def step(self, leaves: Sequence[Leaves] = (), comes: tuple[int, Arrival] | None = None) -> None:
        """Send these to their ranks, and go on once this has come from its rank; without one at once.

        Of one step's streams to a rank the segments are in the order of the steps, at both ends.
        """
        for rank, departure in leaves:
            departure.ready = 0
            self.outgoing(rank).add(departure)
        if comes is not None:
            rank, arrival = comes
            number, then = len(self._steps), arrival.then

            def go_on(stop: int) -> None:
                then(stop)
                if stop == arrival.length:
                    self._go(number + 1)

            arrival.open, arrival.then = False, go_on
            self.receive(rank).add(arrival)
        self._steps.append((list(leaves), comes))

    def under_way(self) -> None:
        self._go(0)

    def _go(self, number: int) -> None:
        while number < len(self._steps):
            leaves, comes = self._steps[number]
            for rank, departure in leaves:
                self.outgoing(rank).advance(departure, departure.length)
            if comes is not None and comes[1].length:
                rank, arrival = comes
                arrival.open = True
                self.receive(rank).process()
                return
            number += 1


class Reducer:
    """What arrivals do where values are reduced: `op` of `size` ranks' values."""

    def __init__(self, reduction: Reduction, size: int) -> None:
        self._reduction = reduction
        self._size = size

    def into(self, target: Bytes, *, last: bool = False, first: bool = False) -> Callable[[Bytes, int], None]:
        """Reduce a piece into the bytes of `target`. `first`: its values come first. `last`: then nothing is
        missing."""
        combine = self._reduction.combine

        def take(piece: Bytes, start: int) -> None:
            mine = target[start : start + piece.size]
            if first:
                combine(piece, mine, mine)
            else:
                combine(mine, piece, mine)
            if last:
                self.finish(mine)

        return take

    def onto(self, source: Bytes) -> Callable[[Bytes, int], None]:
        """Reduce the bytes of `source` into a piece, where it lies."""

        def take(piece: Bytes, start: int) -> None:
            self._reduction.combine(source[start : start + piece.size], piece, piece)

        return take

    def finish(self, values: Bytes) -> None:
        """Values of all ranks are in these."""
        self._reduction.finish(values, self._size)
