# SPDX-License-Identifier: BSD-2-Clause
"""Completion queues, and the channels that notify of them."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable
from enum import Enum, auto
from errno import EBUSY, EINVAL, EIO
from typing import Any

from mrc.verbs.bells import Bells, Deadline
from mrc.verbs.enums import AsyncEventType, WCStatus
from mrc.verbs.errors import VerbsError
from mrc.verbs.notifications import Notifications
from mrc.verbs.owner import Owner
from mrc.verbs.tables import brief, table
from mrc.verbs.work import WC

MAX_CQE = 1 << 22


class CompChannel:
    """A completion channel: a file descriptor (`fileno`) that is readable while one of its CQs has an event.

    It works with select, poll and epoll. Closing it while a CQ uses it raises VerbsError EBUSY.
    """

    def __init__(self, context: Owner) -> None:
        context.check_open()
        self.context = context
        self.cqs: set[CQ] = set()
        self._events: Notifications[CQ] = Notifications(context.device)
        self._closed = False
        context.channels.add(self)

    def fileno(self) -> int:
        """Return the file descriptor: `select` and event loops take the channel itself."""
        return self._events.fd

    def get_cq_event(self, timeout: float | None = None) -> CQ:
        """The CQ of the oldest event. Waits at most `timeout` seconds, without one for ever.

        Each event wants to be acknowledged with `ack_cq_events`. Raises VerbsError EAGAIN with a timeout of 0 when
        there is none, ETIMEDOUT after any other, EIO when the channel is closed.
        """
        cq = self._events.get(timeout)
        with cq._lock:  # noqa: SLF001
            cq.unacknowledged += 1
        return cq

    def _tell(self, cq: CQ) -> None:
        self._events.put(cq)

    def _forget(self, cq: CQ) -> None:
        self._events.forget(lambda each: each is cq)

    def close(self) -> None:
        """Close the channel. Raises VerbsError EBUSY while completion queues use it."""
        if self._closed:
            return
        if self.cqs:
            raise VerbsError(EBUSY, f"{len(self.cqs)} completion queues use the channel")
        self._closed = True
        self._events.close()
        self.context.channels.discard(self)

    def __enter__(self) -> CompChannel:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        whose = f"of {self.context.device.name}"
        if self._closed:
            return brief("CompChannel", whose, closed=True)
        return brief("CompChannel", whose, closed=False, says=f"fd {self.fileno()}, {len(self.cqs)} CQs")

    def __str__(self) -> str:
        return table("CompChannel", [("fd", self.fileno()), ("CQs", len(self.cqs))])


class _Armed(Enum):
    """For what the next event is wanted."""

    NOTHING = auto()
    SOLICITED = auto()
    ANYTHING = auto()


class CQ:
    """A completion queue of up to `cqe` completions (1..2^22). `cq_context` is the application's own.

    Completions that find it full are lost: the Context gets a CQ_ERR event, and `poll` raises EIO once what had room
    is taken. Closing it while a QP uses it raises VerbsError EBUSY. EINVAL for a size out of range.

    With a `handler` the queue keeps no completions: it calls the handler with each, where the endpoint runs. The
    endpoint waits for the handler, so let it only store the completion and request a step by `Context.call_soon`. It
    raises nothing. EINVAL for a handler together with a channel.
    """

    def __init__(
        self,
        context: Owner,
        cqe: int = 256,
        *,
        channel: CompChannel | None = None,
        cq_context: Any = None,
        handler: Callable[[WC], None] | None = None,
    ) -> None:
        context.check_open()
        if type(cqe) is not int or not 1 <= cqe <= MAX_CQE:
            raise VerbsError(EINVAL, f"cqe must be 1..{MAX_CQE}, got {cqe!r}")
        if channel is not None and (channel.context is not context or channel._closed):  # noqa: SLF001
            raise VerbsError(EINVAL, "the channel is closed, or another context's")
        if channel is not None and handler is not None:
            raise VerbsError(EINVAL, "a completion queue has a handler or a channel, not both")
        self.context = context
        self.cqe = cqe
        self.handler = handler
        self.channel = channel
        self.cq_context = cq_context
        self.unacknowledged = 0
        self.overrun = False
        self.qps: set[object] = set()
        self._queue: deque[WC] = deque()
        self._armed = _Armed.NOTHING
        self._lock = threading.Lock()
        self._bells = Bells(context.device)
        self._closed = False
        context.cqs.add(self)
        if channel is not None:
            channel.cqs.add(self)

    def poll(self, num_entries: int = 1) -> list[WC]:
        """Up to `num_entries` completions, oldest first; none when there is none. Never waits.

        Raises VerbsError EIO when there is no other and some were lost, or the queue is closed.
        """
        queue = self._queue
        if not queue:
            if self._closed:
                raise VerbsError(EIO, "the completion queue is closed")
            if self.overrun:
                raise VerbsError(EIO, f"more than {self.cqe} completions came before they were polled: some are lost")
            self.context.device.idle()
        taken: list[WC] = []
        while queue and len(taken) < num_entries:
            try:
                taken.append(queue.popleft())
            except IndexError:  # another thread took it
                break
        return taken

    async def wait(self, num_entries: int = 64, timeout: float | None = None) -> list[WC]:
        """Wait in a coroutine of asyncio, then return up to `num_entries` completions, at least one, oldest first.

        It needs no channel. It waits at most `timeout` seconds; None: without limit. Cancelling it loses no completion.
        Raises VerbsError EAGAIN with a timeout of 0 when there is no completion, ETIMEDOUT after any other timeout, EIO
        when completions were lost or the queue is closed, EINVAL for a queue with a handler.
        """
        if self.handler is not None:
            raise VerbsError(EINVAL, "the completion queue gives its completions to a handler")
        if done := self.poll(num_entries):
            return done
        deadline = Deadline(self.context.device, timeout)
        with self._bells.one() as bell:
            while True:
                bell.hush()
                if done := self.poll(num_entries):
                    return done
                if not await bell.wait_async(deadline.left_s()):
                    raise deadline.error("nothing has completed")

    def __aiter__(self) -> CQ:
        """Iterate over completions as they come, until the queue is closed."""
        return self

    async def __anext__(self) -> WC:
        try:
            return (await self.wait(1))[0]
        except VerbsError:
            if self._closed:
                raise StopAsyncIteration from None
            raise

    def req_notify(self, solicited_only: bool = False) -> None:
        """Notify the channel of the next completion: once, and not for those that are there already.

        So poll once more after asking. With `solicited_only` only these count: a completion in error, and a receive
        that a write with immediate posted SOLICITED consumed. Raises VerbsError EINVAL for a CQ without channel.
        """
        if self.channel is None:
            raise VerbsError(EINVAL, "the completion queue has no channel to tell")
        with self._lock:
            if self._armed is not _Armed.ANYTHING:
                self._armed = _Armed.SOLICITED if solicited_only else _Armed.ANYTHING

    def ack_cq_events(self, count: int) -> None:
        """Acknowledge events got from the channel. Raises VerbsError EINVAL for more than were got."""
        with self._lock:
            if not 0 <= count <= self.unacknowledged:
                raise VerbsError(EINVAL, f"{self.unacknowledged} events are not acknowledged yet, got {count}")
            self.unacknowledged -= count

    # ------------------------------------------------------------------ for QPs, where the endpoint runs

    def push(self, completion: WC, solicited: bool = False) -> None:
        if self.handler is not None:
            self.handler(completion)
            return
        if len(self._queue) >= self.cqe:
            if not self.overrun:
                self.overrun = True
                self._bells.ring()
                self.context.report(AsyncEventType.CQ_ERR, self, f"more than {self.cqe} completions: some are lost")
            return
        with self._lock:
            self._queue.append(completion)
            armed = self._armed
            solicited = solicited or completion.status != WCStatus.SUCCESS
            tells = armed is _Armed.ANYTHING or (armed is _Armed.SOLICITED and solicited)
            if tells:
                self._armed = _Armed.NOTHING
        self._bells.ring()
        if tells and self.channel is not None:
            self.channel._tell(self)  # noqa: SLF001

    def forget(self, qp_num: int) -> None:
        """A QP is gone or begins anew: what it left here means nothing any more."""
        for completion in [each for each in list(self._queue) if each.qp_num == qp_num]:
            with contextlib.suppress(ValueError):  # polled meanwhile
                self._queue.remove(completion)

    # ------------------------------------------------------------------ end

    def close(self) -> None:
        """Events that were not got or not acknowledged go with it."""
        if self._closed:
            return
        if self.qps:
            raise VerbsError(EBUSY, f"{len(self.qps)} QPs use the completion queue")
        self._closed = True
        self._bells.close()
        if self.channel is not None:
            self.channel.cqs.discard(self)
            self.channel._forget(self)  # noqa: SLF001
        self.context.cqs.discard(self)

    def __enter__(self) -> CQ:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        lost = ", some lost (overrun)" if self.overrun else ""
        says = f"{len(self._queue)} of {self.cqe} completions waiting{lost}, {len(self.qps)} QPs"
        return brief("CQ", f"of {self.context.device.name}", closed=self._closed, says=says)

    def __str__(self) -> str:
        return table(
            "CQ",
            [
                ("cqe", self.cqe),
                ("waiting", len(self._queue)),
                ("overrun", self.overrun),
                ("unacknowledged events", self.unacknowledged),
                ("QPs", len(self.qps)),
            ],
        )
