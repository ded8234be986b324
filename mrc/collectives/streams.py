"""What one operation sends to one rank, and what it gets from one: pieces in an order that both ends know.

Neither end says what a piece is. Both know the segments of the stream, and that each is cut into pieces of one size,
the last one shorter. A segment goes to a place in the peer's array (DIRECT), or where it is reduced, to its scratch
memory (SCRATCH). Short streams, those of `eager` operations, go through slots instead.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple, Protocol

from mrc.collectives.arrays import Bytes
from mrc.collectives.messages import Header, Signature
from mrc.collectives.registrations import Memory

SCRATCH = -1


class Grant(NamedTuple):
    """Where the pieces of a stream go: a region of the peer's, and `pieces` of its scratch memory from `first` on."""

    address: int
    rkey: int
    first: int
    pieces: int


class Token(NamedTuple):
    """Which operation a stream belongs to: its number, and what was called."""

    sequence: int
    signature: Signature


class Engine(Protocol):
    """What gives streams their time."""

    def may_work(self) -> bool:
        """Whether there is time for another piece before packets want to be looked after."""

    def worked(self, count: int) -> None:
        """So many bytes were taken."""

    def come_back(self, stream: Incoming) -> None:
        """Have `stream` process what is there, later."""

    def scratch_piece(self, place: int, length: int) -> Bytes:
        """What a peer wrote into this rank's scratch memory."""

    def too_much(self, link: Way, token: Token) -> None:
        """More came than the operation takes."""


class Way(Protocol):
    """The link to a rank, as its streams see it."""

    @property
    def engine(self) -> Engine: ...

    eager_bytes: int
    piece_bytes: int
    window: int
    incoming: dict[int, Incoming]
    outgoing: dict[int, Outgoing]
    early: dict[int, list[tuple[Header, int]]]
    grants: dict[int, Header]

    @property
    def rank(self) -> int: ...

    def has_slot_for(self, stream: Outgoing) -> bool: ...
    def send_data(self, token: Token, data: Bytes) -> None: ...
    def send_grant(self, token: Token, stream: int, length: int, grant: Grant) -> None: ...
    def scratch_place(self, piece: int) -> tuple[int, int]: ...
    def write_piece(
        self, stream: Outgoing, at: int, length: int, lkey: int, address: int, rkey: int, number: int
    ) -> None: ...
    def say_taken(self, stream: int, taken: int) -> None: ...
    def slot_bytes(self, slot: int, length: int) -> Bytes: ...
    def free_slot(self, slot: int) -> None: ...


def _nothing(_: int) -> None:
    """Nobody waits for it."""


class Departure:
    """A segment to send: `length` bytes of `memory` from `start` on, to `place` in the peer's array or to SCRATCH.

    `ready`: so many of its bytes may be sent. `ring`: its pieces lie where those of this stream came in, in scratch
    memory, which is free again when they were acknowledged.
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
        ring: Incoming | None = None,
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
        """Its memory is about to change: what has not been sent yet is copied. For what goes through slots."""
        if self.sent < self.length:
            self.source = self.source.copy()


class Arrival:
    """A segment to receive. Of `length` bytes, each piece goes to `take(piece, start)`; then `then(stop)` hears how
    far it is.

    Without `take` it lies in its place already, or is copied to `target` where it comes through slots. While it is not
    `open` pieces wait.
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


class Outgoing:
    """What one operation sends to one rank. `finished()` is called once all of it is sent, and acknowledged unless
    `eager`."""

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

    def __init__(self, link: Way, token: Token, stream: int, *, eager: bool, finished: Callable[[], None]) -> None:
        self.link = link
        self.token = token
        self.stream = stream
        self.eager = eager
        self.grant: Grant | None = None
        self.forwards: Incoming | None = None  # whose scratch memory it sends from
        self.taken = 0  # pieces that the receiver has taken
        self.length = 0  # bytes in all
        self._sent = 0
        self._acknowledged = 0
        self._segments: deque[Departure] = deque()
        self._finished = finished

    def add(self, segment: Departure) -> Departure:
        if segment.length:
            self._segments.append(segment)
            self.length += segment.length
        return segment

    def advance(self, segment: Departure, ready: int) -> None:
        """So many bytes of the segment may be sent now."""
        segment.ready = ready
        self.pump()

    def pump(self) -> None:
        """Send what may be sent."""
        segments = self._segments
        if not segments:
            return
        size = self.link.eager_bytes if self.eager else self.link.piece_bytes
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
        return self.grant is not None and self._sent - self.taken < self.grant.pieces

    def _write(self, segment: Departure, length: int) -> None:
        grant = self.grant
        assert grant is not None
        if segment.place == SCRATCH:
            address, rkey = self.link.scratch_place(grant.first + self._sent % grant.pieces)
        else:
            address, rkey = grant.address + segment.place + segment.sent, grant.rkey
        mr = segment.memory.mr
        at = segment.start + segment.sent
        if segment.ring is not None:
            at = self.link.piece_bytes * segment.ring.place_of(self._sent)
        self.link.write_piece(self, mr.addr + at, length, mr.lkey, address, rkey, self._sent)

    def on_left(self) -> bool:
        """The peer took part in this operation and has left: all that was sent has arrived. Returns whether all was
        sent."""
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
        """Whether nothing was added."""
        return not self._segments and not self._sent

    @property
    def pieces_left(self) -> int:
        """Pieces not yet sent."""
        size = self.link.eager_bytes if self.eager else self.link.piece_bytes
        return sum(-(-(each.length - each.sent) // size) for each in self._segments)


class Incoming:
    """What one operation gets from one rank. `finished()` is called once all of it is taken."""

    __slots__ = (
        "_finished",
        "_given_back",
        "_landed",
        "_left",
        "_segments",
        "_taken",
        "_told",
        "base",
        "eager",
        "first",
        "holds",
        "length",
        "link",
        "memory",
        "pieces",
        "stream",
        "token",
        "waits",
    )

    def __init__(
        self, link: Way, token: Token, stream: int, *, eager: bool, memory: Memory | None, finished: Callable[[], None]
    ) -> None:
        """`memory`: the array that its DIRECT segments go to."""
        self.link = link
        self.token = token
        self.stream = stream
        self.eager = eager
        self.memory = memory
        self.base = 0  # where in it
        self.first = 0
        self.pieces = link.window
        self.holds = False  # scratch memory is given back by `give_back`, not when a piece was taken
        self.waits = False  # the sender is told later where to send
        self.length = 0  # bytes in all
        self._given_back = 0
        self._landed: deque[int] = deque()  # slots, or the numbers of pieces
        self._taken = 0
        self._told = 0
        self._left = 0
        self._segments: deque[Arrival] = deque()
        self._finished = finished

    def add(self, segment: Arrival) -> Arrival:
        if segment.length:
            self._segments.append(segment)
            self.length += segment.length
            size = self.link.eager_bytes if self.eager else self.link.piece_bytes
            self._left += -(-segment.length // size)
        return segment

    def place_of(self, number: int) -> int:
        """Where a piece lies in scratch memory, in pieces."""
        return self.first + number % self.pieces

    def give_back(self) -> None:
        """A piece that was held is needed no more."""
        self._given_back += 1
        self._tell()

    @property
    def is_empty(self) -> bool:
        return not self._segments

    @property
    def pieces_left(self) -> int:
        return self._left

    def grant(self) -> None:
        """Say where it goes."""
        address, rkey = 0, 0
        if self.memory is not None and any(each.place != SCRATCH for each in self._segments):
            address, rkey = self.memory.mr.addr + self.base, self.memory.mr.rkey
        self.link.send_grant(self.token, self.stream, self.length, Grant(address, rkey, self.first, self.pieces))

    def on_landed(self, slot: int) -> None:
        """A piece is there: in a slot, or where it belongs."""
        self._landed.append(slot)
        self.process()

    def process(self) -> None:
        """Take what is there, for as long as the engine has time."""
        landed, link = self._landed, self.link
        while landed and self._segments and self._segments[0].open:
            if not link.engine.may_work():
                link.engine.come_back(self)
                return
            self._take(self._segments[0], landed.popleft())
        if landed and not self._segments:
            link.engine.too_much(link, self.token)

    def _take(self, segment: Arrival, at: int) -> None:
        link = self.link
        start = segment.taken
        length = min(link.eager_bytes if self.eager else link.piece_bytes, segment.length - start)
        if self.eager:
            piece = link.slot_bytes(at, length)
            if segment.take is not None:
                segment.take(piece, start)
            elif segment.target is not None:
                segment.target[start : start + length] = piece
            link.free_slot(at)
        elif segment.take is not None:
            segment.take(link.engine.scratch_piece(self.place_of(self._taken), length), start)
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
        """Let the sender go on. It is not told while it may send all that is left anyway."""
        free = self._given_back
        still = self._left + self._taken - free  # pieces that there has to be room for
        if free - self._told >= max(1, self.pieces // 4) and still > self.pieces - (free - self._told):
            self._told = free
            self.link.say_taken(self.stream, free)
