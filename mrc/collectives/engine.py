# SPDX-License-Identifier: BSD-2-Clause
"""The engine of a group: carries out operations one after another, driven by completions, in the endpoint's thread.

The handler of the completion queue stores completions and requests a step (`Context.call_soon`). A step does not hold
the endpoint, so packets go on while it reduces. It ends after `_STEP_BYTES`, and the next step does the rest. Nothing
waits.

An operation posted while no step runs begins in the caller's thread: its first packets leave before that thread gives
up the interpreter. A lock keeps the two apart; neither waits for it.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from mrc.collectives.arrays import Bytes
from mrc.collectives.calls import Calls, is_before
from mrc.collectives.config import GroupConfig
from mrc.collectives.errors import GroupError, RankLost, RankUnreachable
from mrc.collectives.link import Link
from mrc.collectives.posts import Collective, Point
from mrc.collectives.registrations import Memory, Registrations
from mrc.collectives.resources import Resources
from mrc.collectives.scratches import let_go, scratches
from mrc.collectives.streams import ReceiveStream
from mrc.errors import MrcError
from mrc.verbs import WC
from mrc.verbs.device import Device

_log = logging.getLogger("mrc.collectives")

# Bytes processed in one step: less than a millisecond, after which the stand-in would take the packets.
_STEP_BYTES = 1 << 20

Idle = Callable[[MrcError | None], None]


class Engine:
    """The engine of one group. `post`, `post_point` and `ask` may be called from any thread."""

    def __init__(self, device: Device, rank: int, size: int, config: GroupConfig) -> None:
        self.rank = rank
        self.size = size
        self.config = config
        self.error: GroupError | None = None
        # Called once when the group has failed.
        self.on_failed: Callable[[GroupError], None] | None = None
        # Sends a message to a rank over the control.
        self.tell: Callable[[int, dict[str, Any]], None] = _nobody
        self._device = device
        self._resources: Resources | None = None
        self._making = threading.Lock()
        self._used_scratch = False
        self.links: dict[int, Link] = {}
        self._by_qp: dict[int, Link] = {}
        # The number of the first operation without each rank that has closed its group.
        self._left_at: dict[int, int] = {}
        self._came: deque[WC] = deque()
        self.calls = Calls()
        self._posted: deque[Collective] = deque()
        self._points_posted: deque[Point] = deque()
        self._asked: deque[Callable[[], None]] = deque()
        self._scheduled = self._step_waits = False
        self._turn = threading.Lock()
        self._open = size == 1
        self._waiting: deque[Collective] = deque()
        self._left = 0
        self._behind: deque[ReceiveStream] = deque()
        self._when_idle: list[Idle] = []
        self._closed = False

    # ------------------------------------------------------------------ from any thread

    def _note(self, completion: WC) -> None:
        self._came.append(completion)
        self._schedule()

    def post(self, operation: Collective) -> None:
        """Carry out an operation after those posted before. Begins in the calling thread if nothing is in progress."""
        self._posted.append(operation)
        if self.calls.current is not None or not self._open or not self._have_turn(self._begin):
            self._schedule()

    def post_point(self, point: Point) -> None:
        """Carry out a send or a receive, concurrently with collective operations."""
        self._points_posted.append(point)
        self._schedule()

    def ask(self, action: Callable[[], None]) -> None:
        """Run `action` in a step of the engine."""
        self._asked.append(action)
        self._schedule()

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._device.call_soon(self._step)

    # ------------------------------------------------------------------ where the engine runs

    def open(self) -> None:
        """Begin operations: all ranks are connected."""
        self._open = True
        self._schedule()

    def _step(self) -> None:
        self._scheduled = False
        self._step_waits = True
        self._have_turn(self._work)

    def _have_turn(self, action: Callable[[], None]) -> bool:
        """Run `action` unless the other thread is at it, and return whether it ran. A step that was kept out runs
        later."""
        if not self._turn.acquire(blocking=False):
            return False
        try:
            self._guard(action)
        finally:
            self._turn.release()
        if self._step_waits:
            self._schedule()
        return True

    def _begin(self) -> None:
        """Begin posted operations in the calling thread."""
        self._begin_posted()
        self._report_freed()

    def _begin_posted(self) -> None:
        while self._posted:
            self._waiting.append(self._posted.popleft())
        self._next()

    # ------------------------------------------------------------------ what is made when it is needed

    @property
    def resources(self) -> Resources:
        made = self._resources
        if made is None:
            # A caller's thread and the engine's may both be the first.
            with self._making:
                made = self._resources
                if made is None:
                    made = self._resources = Resources(self._device, self.config, self._note)
        return made

    @property
    def registrations(self) -> Registrations:
        return self.resources.registrations

    @property
    def scratch(self) -> Memory:
        return self.resources.scratch

    def link(self, rank: int) -> Link:
        """Return the link to a rank. It comes up where there is none yet."""
        found = self._link(rank)
        found.ask()
        return found

    def _link(self, rank: int) -> Link:
        found = self.links.get(rank)
        if found is None:
            found = self.links[rank] = Link(rank, self.resources, self.config, self)
            self._by_qp[found.qp.qp_num] = found
            if rank in self._left_at:
                found.close()
        return found

    def let_scratch_go(self) -> None:
        self.ask(self._let_scratch_go)

    def _let_scratch_go(self) -> None:
        # Nobody writes there but in an operation that this rank has begun.
        if self.calls.current is None and self._resources is not None and not self._closed:
            let_go(self._resources.scratch.view)

    def until_posted(self) -> None:
        self._device.call(lambda: None)

    def on_side(self, rank: int, side: Any, *, linked: bool) -> None:
        """Another rank has told its side of the link to this one."""
        if self.error is not None or self._closed:
            return
        try:
            self._link(rank).on_side(side, linked=linked)
        except MrcError as error:
            raise RankUnreachable(f"there is no link to rank {rank}: {error}", rank) from None

    def on_linked(self, rank: int) -> None:
        """Another rank has connected to this one."""
        if self.error is None and not self._closed and rank in self.links:
            self.links[rank].on_linked()

    # ------------------------------------------------------------------ one step

    def _report_freed(self) -> None:
        for link in list(self.links.values()):
            link.report_freed()

    def _guard(self, action: Callable[[], None]) -> None:
        """Run `action`; an error ends the group."""
        self._left = _STEP_BYTES
        try:
            action()
            return
        except GroupError as error:
            failure = error
        except Exception as error:
            _log.exception("a group's engine has failed")
            failure = GroupError(f"this rank's engine failed: {type(error).__name__}: {error}", self.rank)
        self.fail(failure)
        # The rest of what the step was asked for: to close the group, say.
        self._schedule()

    def _work(self) -> None:
        self._step_waits = False
        asked, came, behind = self._asked, self._came, self._behind
        while asked:
            asked.popleft()()
        for _ in range(len(behind)):
            behind.popleft().process()
        while came and self._left > 0:
            done = came.popleft()
            link = self._by_qp.get(done.qp_num)
            if link is not None:
                link.on_completion(done)
        if self.calls.current is None:
            self._begin_posted()
        while self._points_posted and self._open:
            point = self._points_posted.popleft()
            if self.error is not None:
                point.release()
                point.work.finish(self.error.during(point.work.name))
                continue
            self.calls.points.begin(point)
        self._report_freed()
        if came or behind:
            self._schedule()

    def _next(self) -> None:
        """Begin waiting operations until one is in progress."""
        while self.calls.current is None and self._waiting and (self._open or self.error is not None):
            operation = self._waiting.popleft()
            if self.error is not None:
                operation.work.finish(self.error.during(operation.work.name))
                continue
            self.calls.begin(operation)
            operation.begin()

    def finish(self, operation: Collective) -> None:
        """End an operation. The operation itself calls this."""
        self.calls.end(operation)
        operation.release()
        if self._used_scratch:
            self._used_scratch = False
            scratches.used(self)
        operation.work.finish()
        if self.calls.current is not None:
            return
        if self._waiting:
            self.ask(self._next)
        elif self._when_idle:
            self.ask(self.look_if_idle)

    # ------------------------------------------------------------------ for links and streams

    def may_work(self) -> bool:
        return self._left > 0

    def worked(self, count: int) -> None:
        self._left -= count

    def come_back(self, stream: ReceiveStream) -> None:
        if stream not in self._behind:
            self._behind.append(stream)

    def scratch_chunk(self, place: int, length: int) -> Bytes:
        self._used_scratch = True
        start = place * self.config.chunk_bytes
        return self.resources.scratch.view[start : start + length]

    def on_failure(self, link: Link, why: str) -> None:
        """Raise RankUnreachable: the QP failed although the rank is not known to be gone."""
        raise RankUnreachable(f"rank {link.rank} cannot be reached: {why}", link.rank)

    # ------------------------------------------------------------------ what others say

    def settle(self, action: Callable[[], None]) -> None:
        """Run `action` once everything that has arrived until now is processed. From any thread."""
        # The endpoint hands over completions before each of these calls.
        self._device.call_soon(lambda: self._device.call_soon(lambda: self.ask(lambda: self._settled(action))))

    def _settled(self, action: Callable[[], None]) -> None:
        if self._came or self._behind:
            self._device.call_soon(lambda: self.ask(lambda: self._settled(action)))
        else:
            action()

    def left(self, rank: int, sequence: int) -> None:
        """A rank has closed its group: it takes no part in operation `sequence` and later ones, and has completed
        earlier ones."""
        if rank in self._left_at or self.error is not None:
            return
        self._left_at[rank] = sequence
        link = self.links.get(rank)
        if link is not None:
            outgoing, incoming = list(link.outgoing.values()), list(link.incoming.values())
            link.close()
            for out in outgoing:
                if not out.on_left():
                    raise self.has_left(rank)
            if any(stream.chunks_left for stream in incoming):
                raise self.has_left(rank)
        self.calls.points.left(rank)

    def has_left_before(self, rank: int, sequence: int) -> bool:
        """Return whether a rank closed its group before operation `sequence`."""
        return rank in self._left_at and not is_before(sequence, self._left_at[rank])

    def has_gone(self, rank: int) -> bool:
        """Return whether a rank has closed its group."""
        return rank in self._left_at

    def has_left(self, rank: int) -> RankLost:
        return RankLost(f"rank {rank} has closed its group before this operation", rank)

    def lost(self, rank: int, why: str) -> None:
        """Raise RankLost for a rank whose process has ended, unless it closed the group before."""
        if rank not in self._left_at:
            raise RankLost(f"rank {rank} is gone: {why}", rank)

    # ------------------------------------------------------------------ the end

    def fail(self, error: GroupError) -> None:
        """End the group. First the QPs, so that nothing is written into arrays any more; then report to the other
        ranks, and then to the callers."""
        if self.error is not None or self._closed:
            return
        self.error = error
        for link in self.links.values():
            link.close()
        # Before the callers, whose process may end at once.
        if self.on_failed is not None:
            self.on_failed(error)
        self._came.clear()
        self._behind.clear()
        ended: list[Collective | Point] = [*([self.calls.current] if self.calls.current else []), *self._waiting]
        ended += self.calls.points.take_all()
        # Callers may post more at this moment: those are taken in the next step.
        for posted in (self._posted, self._points_posted):
            while posted:
                ended.append(posted.popleft())
        self.calls.current = None
        self._waiting.clear()
        for operation in ended:
            operation.release()
            operation.work.finish(error.during(operation.work.name))
        for idle in self._when_idle:
            idle(error)
        self._when_idle.clear()

    def when_idle(self, idle: Idle) -> None:
        """Call `idle` when all operations are done, or with the group's error."""
        if self.error is not None:
            idle(self.error)
            return
        self._when_idle.append(idle)
        self.look_if_idle()

    @property
    def is_idle(self) -> bool:
        """Whether no operation is left."""
        busy = self.calls.current is not None or self.calls.points
        return not (busy or self._waiting or self._posted or self._points_posted)

    def look_if_idle(self) -> None:
        """Tell those who wait for it if no operation is left."""
        if not self.is_idle:
            return
        waiting, self._when_idle = self._when_idle, []
        for idle in waiting:
            idle(None)

    def close(self) -> None:
        """Release all resources, in a step of the engine."""
        self._closed = True
        for link in self.links.values():
            link.close()
        if self._resources is not None:
            self._resources.close()


def _nobody(rank: int, note: dict[str, Any]) -> None:
    """Drop a message of a group that has no control."""
