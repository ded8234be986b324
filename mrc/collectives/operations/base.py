# SPDX-License-Identifier: BSD-2-Clause
"""The base of all operations: streams to and from other ranks, and their common end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from numpy.typing import NDArray

from mrc.collectives.arrays import Bytes, bytes_of
from mrc.collectives.engine import Engine
from mrc.collectives.errors import CallMismatch
from mrc.collectives.messages import Signature, Token, stream_number
from mrc.collectives.reduction import Reduction
from mrc.collectives.registrations import Memory
from mrc.collectives.streams import ReceiveSegment, ReceiveStream, SendSegment, SendStream
from mrc.collectives.work import Work


def spans(count: int, parts: int, unit: int) -> list[tuple[int, int]]:
    """Split `count` values of `unit` bytes into `parts` parts: return offset and length of each, in bytes.

    The first parts have one value more if the count is not divisible.
    """
    whole, more = divmod(count, parts)
    found, at = [], 0
    for part in range(parts):
        length = (whole + (part < more)) * unit
        found.append((at, length))
        at += length
    return found


class Posted(NamedTuple):
    """An operation as its caller posted it: where it is carried out, its number, its arguments, its future."""

    engine: Engine
    sequence: int
    signature: Signature
    work: Work


class Operation:
    """An operation of the whole group. Subclasses add segments to streams in `plan`.

    `eager`: chunks go through slots. Set it before the first stream is made.
    """

    eager = False

    def __init__(self, posted: Posted) -> None:
        self.engine, self.sequence, self.signature, self.work = posted
        self.rank = self.engine.rank
        self.size = self.engine.size
        self.token = Token(self.sequence, self.signature)
        self._stream = stream_number(self.sequence)
        self._incoming: dict[int, ReceiveStream] = {}
        self._outgoing: dict[int, SendStream] = {}
        # The arrays are kept alive together with their regions.
        self._memories: list[tuple[NDArray[Any], Memory]] = []
        self._unfinished = 0
        self.work.says(self.waits_for)

    # ------------------------------------------------------------------ for kinds of operations

    def plan(self) -> None:
        """Make the streams and add their segments."""
        raise NotImplementedError

    def under_way(self) -> None:
        """Start the first step of a stepwise operation. All streams are made."""

    def complete(self) -> None:
        """Finish the result. All streams have ended."""

    def memory(self, array: NDArray[Any]) -> Memory:
        """Return the memory of an array, of the caller or of the operation."""
        for known, memory in self._memories:
            if known is array:
                return memory
        made = Memory(bytes_of(array), self.engine.registrations)
        self._memories.append((array, made))
        return made

    def outgoing(self, rank: int) -> SendStream:
        """Return the stream to a rank."""
        found = self._outgoing.get(rank)
        if found is None:
            link = self.engine.link(rank)
            found = SendStream(link, self.token, self._stream, eager=self.eager, finished=self._ended)
            self._outgoing[rank] = found
        return found

    def incoming(self, rank: int) -> ReceiveStream | None:
        return self._incoming.get(rank)

    def receive(self, rank: int, memory: Memory | None = None) -> ReceiveStream:
        """Return the stream from a rank. `memory`: the array for segments with a place."""
        found = self._incoming.get(rank)
        if found is None:
            link = self.engine.link(rank)
            found = ReceiveStream(link, self.token, self._stream, eager=self.eager, memory=memory, finished=self._ended)
            self._incoming[rank] = found
        return found

    # ------------------------------------------------------------------ its course

    def begin(self) -> None:
        self.plan()
        incoming = {rank: stream for rank, stream in self._incoming.items() if not stream.is_empty}
        outgoing = {rank: stream for rank, stream in self._outgoing.items() if not stream.is_empty}
        self._incoming, self._outgoing = incoming, outgoing
        for rank in sorted({*incoming, *outgoing}):
            # A rank that left after this operation has sent and received everything.
            if self.engine.has_left_before(rank, self.sequence):
                raise self.engine.has_left(rank)
        # One more than there are, until all are started.
        self._unfinished = len(incoming) + len(outgoing) + 1
        for rank, link in list(self.engine.links.items()):
            called = link.calls.pop(self.sequence, None)
            if called is not None:
                self.token.check(rank, called)
            if rank not in incoming and self.sequence in link.early:
                header, _ = link.early[self.sequence][0]
                self.token.check(rank, header)
                raise self.token.too_much(rank)
            stray = link.grants.get(self._stream)
            if stray is not None and rank not in outgoing:
                self.token.check(rank, stray)
                raise CallMismatch(f"rank {rank} waits for more than {self.signature} sends", rank)
        for stream in incoming.values():
            self._start_incoming(stream)
        for out in outgoing.values():
            self._start_outgoing(out)
            if not self.eager and not incoming and out.grant is None:
                # Two ranks that only send would wait for each other.
                out.link.send_call(self.token)
        if self.eager and not outgoing:
            # So would two that only receive.
            for stream in incoming.values():
                if self.sequence not in stream.link.early:
                    stream.link.send_call(self.token)
        for stream in incoming.values():
            for header, slot in stream.link.early.pop(self.sequence, ()):
                self.token.check(stream.link.rank, header)
                stream.on_landed(slot)
        self.under_way()
        self._ended()

    def _start_incoming(self, stream: ReceiveStream) -> None:
        stream.link.incoming[self._stream] = stream
        if not self.eager and not stream.waits:
            stream.grant()

    def let_come(self, rank: int) -> None:
        """Grant a stream that was held back."""
        if not self.eager:
            self._incoming[rank].grant()

    def _start_outgoing(self, out: SendStream) -> None:
        link = out.link
        link.outgoing[self._stream] = out
        header = link.grants.pop(self._stream, None)
        if header is not None:
            self.engine.calls.granted(out, header)
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
        """Return, for example, `: rank 1 has sent all but 3 chunks`."""
        owed = [
            f"rank {rank} has sent all but {stream.chunks_left} chunks"
            for rank, stream in sorted(self._incoming.items())
            if stream.chunks_left
        ]
        kept = [
            f"rank {rank} has not taken all of this one's"
            for rank, out in sorted(self._outgoing.items())
            if out.chunks_left and rank not in self._incoming
        ]
        reasons = owed + kept
        return f": {'; '.join(reasons[:4])}{'; ...' if len(reasons) > 4 else ''}" if reasons else ""


Leaves = tuple[int, SendSegment]


class Stepwise(Operation):
    """An operation in steps: a step may send what earlier steps received. `plan` calls `step` for each.

    Chunks that arrive early wait for their step.
    """

    def __init__(self, posted: Posted) -> None:
        super().__init__(posted)
        self._steps: list[tuple[list[Leaves], tuple[int, ReceiveSegment] | None]] = []

    def step(self, leaves: Sequence[Leaves] = (), comes: tuple[int, ReceiveSegment] | None = None) -> None:
        """Add a step: send `leaves` to their ranks, and go on when `comes` has arrived, at once without it.

        Segments of one stream are in the order of steps, at both ends.
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
    """Makes the `take` functions of segments that are reduced, for `size` ranks."""

    def __init__(self, reduction: Reduction, size: int) -> None:
        self._reduction = reduction
        self._size = size

    def into(self, target: Bytes, *, last: bool = False, first: bool = False) -> Callable[[Bytes, int], None]:
        """Reduce chunks into `target`. `first`: the chunk is the first operand. `last`: this completes the values."""
        combine = self._reduction.combine

        def take(chunk: Bytes, start: int) -> None:
            mine = target[start : start + chunk.size]
            if first:
                combine(chunk, mine, mine)
            else:
                combine(mine, chunk, mine)
            if last:
                self.finish(mine)

        return take

    def onto(self, source: Bytes) -> Callable[[Bytes, int], None]:
        """Reduce `source` into chunks in place."""

        def take(chunk: Bytes, start: int) -> None:
            self._reduction.combine(source[start : start + chunk.size], chunk, chunk)

        return take

    def finish(self, values: Bytes) -> None:
        """Complete values that all ranks contributed to."""
        self._reduction.finish(values, self._size)
