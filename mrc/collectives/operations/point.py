"""Point-to-point: sends and receives between two ranks, matched by tag and in order.

The receiver begins: it grants its array. So no data arrives before its receive is posted; the sender waits.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

from mrc.collectives.arrays import bytes_of
from mrc.collectives.engine import Engine
from mrc.collectives.link import POINT_STREAMS, Link
from mrc.collectives.messages import POINT_STREAM, STREAM_MASK, Call, Header, Signature
from mrc.collectives.registrations import Memory
from mrc.collectives.streams import ReceiveSegment, ReceiveStream, SendSegment, SendStream, Token
from mrc.collectives.work import Work

MOST_TAGS = 1 << 32


class _Point:
    """A send or a receive of one array."""

    def __init__(self, engine: Engine, link: Link, work: Work, array: NDArray[Any], tag: int) -> None:
        self.engine = engine
        self.link = link
        self.work = work
        self.tag = tag
        self.array = array
        self.memory = Memory(bytes_of(array), engine.registrations)
        self.token = Token(tag, Signature(Call.POINT))
        self.stream = 0

    def release(self) -> None:
        self.memory.release()


class Send(_Point):
    """A send. It begins with the receiver's grant."""

    def begin(self, points: Points) -> None:
        points.of(self.link).send(self)

    def start(self, header: Header, ended: Callable[[], None]) -> None:
        out = SendStream(self.link, self.token, header.stream, eager=False, finished=ended)
        out.add(SendSegment(self.memory, 0, self.array.nbytes, 0))
        self.engine.granted(out, header)
        self.stream = header.stream
        self.link.outgoing[header.stream] = out
        out.pump()


class Receive(_Point):
    """A receive. It begins when fewer than POINT_STREAMS from the same rank are in progress."""

    def begin(self, points: Points) -> None:
        points.of(self.link).receive(self)

    def start(self, stream: int, ended: Callable[[], None]) -> None:
        come = ReceiveStream(self.link, self.token, stream, eager=False, memory=self.memory, finished=ended)
        come.add(ReceiveSegment(self.array.nbytes, 0))
        self.stream = stream
        self.link.incoming[stream] = come
        come.grant()


class _Between:
    """The sends and receives with one other rank."""

    def __init__(self, link: Link, engine: Engine, ended: Callable[[_Point], None]) -> None:
        self._link = link
        self._engine = engine
        self._ended = ended
        self._sends: dict[int, deque[Send]] = {}
        self._grants: dict[int, deque[Header]] = {}
        self._receives: deque[Receive] = deque()
        self._receiving = 0
        self._numbered = 0

    @property
    def waits(self) -> bool:
        """Whether a send or receive has not begun."""
        return bool(self._sends or self._receives)

    def send(self, send: Send) -> None:
        self._sends.setdefault(send.tag, deque()).append(send)
        self._match(send.tag)

    def on_grant(self, header: Header) -> None:
        self._grants.setdefault(header.sequence, deque()).append(header)
        self._match(header.sequence)

    def _match(self, tag: int) -> None:
        sends, grants = self._sends.get(tag), self._grants.get(tag)
        if not sends or not grants:
            return
        send, header = sends.popleft(), grants.popleft()
        for known, left in ((self._sends, sends), (self._grants, grants)):
            if not left:
                del known[tag]
        send.start(header, lambda: self._sent(send))

    def _sent(self, send: Send) -> None:
        del self._link.outgoing[send.stream]
        self._ended(send)

    def receive(self, receive: Receive) -> None:
        self._receives.append(receive)
        self._begin_receives()

    def _begin_receives(self) -> None:
        while self._receives and self._receiving < POINT_STREAMS:
            receive = self._receives.popleft()
            self._receiving += 1
            stream = POINT_STREAM | self._numbered & STREAM_MASK
            self._numbered += 1
            receive.start(stream, lambda receive=receive: self._received(receive))  # type: ignore[misc]

    def _received(self, receive: Receive) -> None:
        del self._link.incoming[receive.stream]
        self._receiving -= 1
        self._ended(receive)
        self._begin_receives()


class Points:
    """The unfinished sends and receives of this rank."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._between: dict[int, _Between] = {}
        self._under_way: dict[_Point, None] = {}  # in the order in which they were called

    def of(self, link: Link) -> _Between:
        found = self._between.get(link.rank)
        if found is None:
            found = self._between[link.rank] = _Between(link, self._engine, self._ended)
        return found

    def begin(self, point: Send | Receive) -> None:
        self._under_way[point] = None
        if point.link.left_at is not None:
            raise self._engine.has_left(point.link.rank)
        point.begin(self)

    def on_grant(self, link: Link, header: Header) -> None:
        self.of(link).on_grant(header)

    def left(self, link: Link) -> None:
        """Raise RankLost if a send or receive with a rank that has left has not begun."""
        if self.of(link).waits:
            raise self._engine.has_left(link.rank)

    def _ended(self, point: _Point) -> None:
        self._under_way.pop(point, None)
        point.release()
        point.work.finish()
        self._engine.look_if_idle()

    def take_all(self) -> list[_Point]:
        """Remove and return everything unfinished."""
        taken = list(self._under_way)
        self._under_way.clear()
        return taken

    def __bool__(self) -> bool:
        return bool(self._under_way)
