# SPDX-License-Identifier: BSD-2-Clause
"""Point-to-point: sends and receives between two ranks, matched by tag and in order.

The receiver begins: it grants its array. So no data arrives before its receive is posted; the sender waits.

A receive from any rank first asks all of them (WANT). From then on they say how many sends with that tag they have had
since (HAVE), beside those whose grants were under way; the receiver counts the receives that it has posted since, and
grants its array to a rank that has more.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

from mrc.collectives.arrays import bytes_of
from mrc.collectives.engine import Engine
from mrc.collectives.errors import RankLost
from mrc.collectives.link import POINT_STREAMS, Link
from mrc.collectives.messages import POINT_STREAM, STREAM_MASK, Call, Header, Signature, Token
from mrc.collectives.registrations import Memory
from mrc.collectives.streams import ReceiveSegment, ReceiveStream, SendSegment, SendStream
from mrc.collectives.work import Work

MOST_TAGS = 1 << 32


class _Point:
    """A send or a receive of one array."""

    def __init__(self, engine: Engine, rank: int | None, work: Work, array: NDArray[Any], tag: int) -> None:
        """`rank`: the other one; None: any."""
        self.engine = engine
        self.rank = rank
        self.work = work
        self.tag = tag
        self.array = array
        self.memory = Memory(bytes_of(array), engine.registrations)
        self.token = Token(tag, Signature(Call.POINT))
        self.stream = 0

    @property
    def link(self) -> Link:
        assert self.rank is not None
        return self.engine.link(self.rank)

    def release(self) -> None:
        self.memory.release()


class Send(_Point):
    """A send. It begins with the receiver's grant."""

    def begin(self, points: Points) -> None:
        points.of(self.link).send(self)

    def start(self, header: Header, ended: Callable[[], None]) -> None:
        out = SendStream(self.link, self.token, header.stream, eager=False, finished=ended)
        out.add(SendSegment(self.memory, 0, self.array.nbytes, 0))
        self.engine.calls.granted(out, header)
        self.stream = header.stream
        self.link.outgoing[header.stream] = out
        out.pump()


class Receive(_Point):
    """A receive. It begins when fewer than POINT_STREAMS from the same rank are in progress."""

    def begin(self, points: Points) -> None:
        if self.rank is None:
            points.receive_from_any(self)
        else:
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
        self.rank = link.rank
        self._link = link
        self._engine = engine
        self._ended = ended
        self._sends: dict[int, deque[Send]] = {}
        self._grants: dict[int, deque[Header]] = {}
        self._receives: deque[Receive] = deque()
        self._receiving = 0
        self._numbered = 0
        # By tag, once a receive from any rank was asked for: sends of ours and receives of ours since.
        self._wanted: dict[int, int] = {}
        self._had: dict[int, int] = {}
        self._received_since: dict[int, int] = {}

    @property
    def waits(self) -> bool:
        """Whether a send or receive has not begun."""
        return bool(self._sends or self._receives)

    def send(self, send: Send) -> None:
        self._sends.setdefault(send.tag, deque()).append(send)
        if send.tag in self._wanted:
            self._wanted[send.tag] += 1
            self._have(send.tag)
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
        if receive.tag in self._received_since:
            self._received_since[receive.tag] += 1
        self._receives.append(receive)
        self._begin_receives()

    def want(self, tag: int) -> None:
        """Ask the other rank to say what it has with this tag, once."""
        if tag not in self._received_since:
            # Those that wait for a stream of their own are granted after this.
            self._received_since[tag] = sum(each.tag == tag for each in self._receives)
            self._link.send_want(tag)

    def on_want(self, tag: int) -> None:
        # Grants come in order, so those made before this are here.
        self._wanted[tag] = len(self._sends.get(tag, ())) - len(self._grants.get(tag, ()))
        self._have(tag)

    def _have(self, tag: int) -> None:
        if self._wanted[tag] > 0:
            self._link.send_have(tag, self._wanted[tag])

    def on_have(self, tag: int, count: int) -> None:
        self._had[tag] = count

    def has(self, tag: int) -> bool:
        """Return whether the other rank has a send with this tag that no receive was posted for."""
        return self._had.get(tag, 0) > self._received_since.get(tag, 0)

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
        self._from_any: list[Receive] = []

    def of(self, link: Link) -> _Between:
        found = self._between.get(link.rank)
        if found is None:
            found = self._between[link.rank] = _Between(link, self._engine, self._ended)
        return found

    def begin(self, point: Send | Receive) -> None:
        self._under_way[point] = None
        if point.rank is not None and self._engine.has_gone(point.rank):
            raise self._engine.has_left(point.rank)
        point.begin(self)

    def on_grant(self, link: Link, header: Header) -> None:
        self.of(link).on_grant(header)

    # ------------------------------------------------------------------ from any rank

    def receive_from_any(self, receive: Receive) -> None:
        self._from_any.append(receive)
        for rank in self._others():
            self.of(self._engine.link(rank)).want(receive.tag)
        self._match_any(receive.tag)

    def on_want(self, link: Link, header: Header) -> None:
        self.of(link).on_want(header.sequence)

    def on_have(self, link: Link, header: Header) -> None:
        self.of(link).on_have(header.sequence, header.length)
        self._match_any(header.sequence)

    def _match_any(self, tag: int) -> None:
        for receive in [each for each in self._from_any if each.tag == tag]:
            found = next((each for each in self._between.values() if each.has(tag)), None)
            if found is None:
                break
            self._from_any.remove(receive)
            receive.rank = receive.work.source = found.rank
            found.receive(receive)
        if any(each.tag == tag for each in self._from_any) and not self._others():
            raise RankLost("every other rank has closed its group before this operation")

    def _others(self) -> list[int]:
        engine = self._engine
        return [rank for rank in range(engine.size) if rank != engine.rank and not engine.has_gone(rank)]

    # ------------------------------------------------------------------ ends

    def left(self, rank: int) -> None:
        """Raise RankLost if a send or receive with a rank that has left has not begun."""
        if rank in self._between and self._between[rank].waits:
            raise self._engine.has_left(rank)
        for tag in {each.tag for each in self._from_any}:
            self._match_any(tag)

    def _ended(self, point: _Point) -> None:
        self._under_way.pop(point, None)
        point.release()
        point.work.finish()
        self._engine.look_if_idle()

    def take_all(self) -> list[_Point]:
        """Remove and return everything unfinished."""
        taken = list(self._under_way)
        self._under_way.clear()
        self._from_any.clear()
        return taken

    def __bool__(self) -> bool:
        return bool(self._under_way)
