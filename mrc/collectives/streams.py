# SPDX-License-Identifier: BSD-2-Clause
"""Streams: the chunks that one operation sends to one rank, and those it receives from one.

Sender and receiver plan the same segments, so a chunk needs no description. Each segment is cut into chunks of one
size, the last one shorter. A segment goes to an offset in the receiver's array, or into its scratch memory (SCRATCH)
when it is to be reduced. The chunks of an `eager` operation go through slots instead.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple, Protocol

from mrc.collectives.arrays import Bytes
from mrc.collectives.messages import Header, Token
from mrc.collectives.registrations import Memory

SCRATCH = -1


class Grant(NamedTuple):
    """Where a receiver wants a stream: in a region, and in `chunks` chunks of its scratch memory from `first` on."""

    address: int
    rkey: int
    first: int
    chunks: int


class Engine(Protocol):
    """The engine as streams use it."""

    def may_work(self) -> bool:
        """Return whether this step may process another chunk; packets come first after `_STEP_BYTES`."""

    def worked(self, count: int) -> None:
        """Count processed bytes of this step."""

    def come_back(self, stream: ReceiveStream) -> None:
        """Let `stream` process its landed chunks in a later step."""

    def scratch_chunk(self, place: int, length: int) -> Bytes:
        """Return a chunk of this rank's scratch memory."""


class LinkView(Protocol):
    """The link to a rank as its streams use it."""

    @property
    def engine(self) -> Engine: ...

    eager_bytes: int
    chunk_bytes: int
    window: int
    incoming: dict[int, ReceiveStream]
    outgoing: dict[int, SendStream]
    early: dict[int, list[tuple[Header, int]]]
    grants: dict[int, Header]

    @property
    def rank(self) -> int: ...

    def has_slot_for(self, stream: SendStream) -> bool: ...
    def send_data(self, token: Token, data: Bytes) -> None: ...
    def send_grant(self, token: Token, stream: int, length: int, grant: Grant) -> None: ...
    def send_call(self, token: Token) -> None: ...
    def scratch_place(self, chunk: int) -> tuple[int, int]: ...
    def write_chunk(
        self, stream: SendStream, at: int, length: int, lkey: int, address: int, rkey: int, number: int
    ) -> None: ...
    def report_taken(self, stream: int, taken: int) -> None: ...
    def slot_bytes(self, slot: int, length: int) -> Bytes: ...
    def free_slot(self, slot: int) -> None: ...


def _nothing(_: int) -> None:
    """Ignore progress."""


class SendSegment:
    """Send `length` bytes of `memory` from `start` on, to offset `place` of the receiver's array or to SCRATCH.

    `ready`: how many of its bytes may be sent. `ring`: the stream whose scratch chunks it forwards; they are free again
    when acknowledged.
    """

    __slots__ = ("length", "memory", "place", "ready", "ring", "sent", "source", "start")

    def __init__(
        self,
        memory: Memory,
        start: int,
        length: int,
        place: int,
        *,
        ready: bool = True,
        ring: ReceiveStream | None = None,
    ) -> None:
        self.ring = ring
        self.memory = memory
        self.start = start
        self.length = length
        self.place = place
        self.ready = length if ready else 0
        self.sent = 0
        self.source: Bytes = memory.view[start : start + length]

    def keep(self) -> None:
        """Copy the unsent data, because its memory is about to change. For eager operations."""
        if self.sent < self.length:
            self.source = self.source.copy()


class ReceiveSegment:
    """Receive `length` bytes. Each chunk is passed to `take(chunk, start)`; then `then(stop)` reports the progress.

    Without `take` a chunk already lies in its place; a chunk from a slot is copied to `target`. Chunks wait while the
    segment is not `open`.
    """

    __slots__ = ("length", "open", "place", "take", "taken", "target", "then")

    def __init__(
        self,
        length: int,
        place: int,
        *,
        target: Bytes | None = None,
        take: Callable[[Bytes, int], None] | None = None,
        then: Callable[[int], None] = _nothing,
        open: bool = True,
    ) -> None:
        self.length = length
        self.place = place
        self.target = target
        self.take = take
        self.then = then
        self.open = open
        self.taken = 0


class SendStream:
    """The chunks that one operation sends to one rank. `finished()` is called when all are sent, and, unless `eager`,
    acknowledged."""

    __slots__ = (
        "_acknowledged",
        "_finished",
        "_segments",
        "_sent",
        "eager",
        "forwards",
        "grant",
        "length",
        "link",
        "stream",
        "taken",
        "token",
    )

    def __init__(self, link: LinkView, token: Token, stream: int, *, eager: bool, finished: Callable[[], None]) -> None:
        self.link = link
        self.token = token
        self.stream = stream
        self.eager = eager
        self.grant: Grant | None = None
        self.forwards: ReceiveStream | None = None  # whose scratch memory it sends from
        self.taken = 0  # chunks that the receiver has taken
        self.length = 0  # bytes in all
        self._sent = 0
        self._acknowledged = 0
        self._segments: deque[SendSegment] = deque()
        self._finished = finished

    def add(self, segment: SendSegment) -> SendSegment:
        if segment.length:
            self._segments.append(segment)
            self.length += segment.length
        return segment

    def advance(self, segment: SendSegment, ready: int) -> None:
        """Allow `ready` bytes of the segment to be sent."""
        segment.ready = ready
        self.pump()

    def pump(self) -> None:
        """Send all chunks that may be sent."""
        segments = self._segments
        if not segments:
            return
        size = self.link.eager_bytes if self.eager else self.link.chunk_bytes
        while segments:
            segment = segments[0]
            length = min(size, segment.length - segment.sent)
            if segment.ready - segment.sent < length or not self._may_send():
                return
            if self.eager:
                self.link.send_data(self.token, segment.source[segment.sent : segment.sent + length])
            else:
                self._write(segment, length)
            self._sent += 1
            segment.sent += length
            if segment.sent == segment.length:
                segments.popleft()
        if self.eager:
            self._finished()

    def _may_send(self) -> bool:
        if self.eager:
            return self.link.has_slot_for(self)
        return self.grant is not None and self._sent - self.taken < self.grant.chunks

    def _write(self, segment: SendSegment, length: int) -> None:
        grant = self.grant
        assert grant is not None
        if segment.place == SCRATCH:
            address, rkey = self.link.scratch_place(grant.first + self._sent % grant.chunks)
        else:
            address, rkey = grant.address + segment.place + segment.sent, grant.rkey
        mr = segment.memory.mr
        at = segment.start + segment.sent
        if segment.ring is not None:
            at = self.link.chunk_bytes * segment.ring.place_of(self._sent)
        self.link.write_chunk(self, mr.addr + at, length, mr.lkey, address, rkey, self._sent)

    def on_left(self) -> bool:
        """Take all sent chunks for received, because the receiver completed the operation and closed the group. Return
        whether all chunks were sent."""
        if self._segments:
            return False
        if not self.eager and self._acknowledged < self._sent:
            self._acknowledged = self._sent
            self._finished()
        return True

    def on_acknowledged(self) -> None:
        self._acknowledged += 1
        if self.forwards is not None:
            self.forwards.give_back()
        if not self._segments and self._acknowledged == self._sent:
            self._finished()

    @property
    def is_empty(self) -> bool:
        """Return whether the stream has no segments."""
        return not self._segments and not self._sent

    @property
    def chunks_left(self) -> int:
        """The number of chunks not yet sent."""
        size = self.link.eager_bytes if self.eager else self.link.chunk_bytes
        return sum(-(-(each.length - each.sent) // size) for each in self._segments)


class ReceiveStream:
    """The chunks that one operation receives from one rank. `finished()` is called when all are processed."""

    __slots__ = (
        "_finished",
        "_given_back",
        "_landed",
        "_left",
        "_reported",
        "_segments",
        "_taken",
        "base",
        "chunks",
        "eager",
        "first",
        "holds",
        "length",
        "link",
        "memory",
        "stream",
        "token",
        "waits",
    )

    def __init__(
        self,
        link: LinkView,
        token: Token,
        stream: int,
        *,
        eager: bool,
        memory: Memory | None,
        finished: Callable[[], None],
    ) -> None:
        """`memory`: the array that segments with a place go to."""
        self.link = link
        self.token = token
        self.stream = stream
        self.eager = eager
        self.memory = memory
        self.base = 0  # where in it
        self.first = 0
        self.chunks = link.window
        self.holds = False  # scratch memory is given back by `give_back`, not when a chunk was taken
        self.waits = False  # the sender learns later where to send
        self.length = 0  # bytes in all
        self._given_back = 0
        self._landed: deque[int] = deque()  # slots, or the numbers of chunks
        self._taken = 0
        self._reported = 0
        self._left = 0
        self._segments: deque[ReceiveSegment] = deque()
        self._finished = finished

    def add(self, segment: ReceiveSegment) -> ReceiveSegment:
        if segment.length:
            self._segments.append(segment)
            self.length += segment.length
            size = self.link.eager_bytes if self.eager else self.link.chunk_bytes
            self._left += -(-segment.length // size)
        return segment

    def place_of(self, number: int) -> int:
        """Return the place of a chunk in scratch memory, in chunks."""
        return self.first + number % self.chunks

    def give_back(self) -> None:
        """Free the oldest chunk that was held."""
        self._given_back += 1
        self._tell()

    @property
    def is_empty(self) -> bool:
        return not self._segments

    @property
    def chunks_left(self) -> int:
        return self._left

    def grant(self) -> None:
        """Grant the sender its place."""
        address, rkey = 0, 0
        if self.memory is not None and any(each.place != SCRATCH for each in self._segments):
            address, rkey = self.memory.mr.addr + self.base, self.memory.mr.rkey
        self.link.send_grant(self.token, self.stream, self.length, Grant(address, rkey, self.first, self.chunks))

    def on_landed(self, slot: int) -> None:
        """A chunk has landed, in slot `slot` if the operation is eager."""
        self._landed.append(slot)
        self.process()

    def process(self) -> None:
        """Process landed chunks until the engine's step is over."""
        landed, link = self._landed, self.link
        while landed and self._segments and self._segments[0].open:
            if not link.engine.may_work():
                link.engine.come_back(self)
                return
            self._take(self._segments[0], landed.popleft())
        if landed and not self._segments:
            raise self.token.too_much(link.rank)

    def _take(self, segment: ReceiveSegment, at: int) -> None:
        link = self.link
        start = segment.taken
        length = min(link.eager_bytes if self.eager else link.chunk_bytes, segment.length - start)
        if self.eager:
            chunk = link.slot_bytes(at, length)
            if segment.take is not None:
                segment.take(chunk, start)
            elif segment.target is not None:
                segment.target[start : start + length] = chunk
            link.free_slot(at)
        elif segment.take is not None:
            segment.take(link.engine.scratch_chunk(self.place_of(self._taken), length), start)
        link.engine.worked(length)
        self._taken += 1
        self._left -= 1
        segment.taken += length
        if segment.taken == segment.length:
            self._segments.popleft()
        if not self.eager and not self.holds:
            self._given_back += 1
            self._tell()
        segment.then(segment.taken)
        if not self._left:
            self._finished()

    def _tell(self) -> None:
        """Send a credit for processed chunks, unless the sender may send all remaining ones anyway."""
        free = self._given_back
        still = self._left + self._taken - free  # chunks that there has to be room for
        if free - self._reported >= max(1, self.chunks // 4) and still > self.chunks - (free - self._reported):
            self._reported = free
            self.link.report_taken(self.stream, free)
