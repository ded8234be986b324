"""Posted receives, and the writes with immediate that consume them in RQMSN order (behaviour.md, Responder)."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable

from mrc.endpoint.completions import Completion, WorkKind, WorkStatus
from mrc.endpoint.refusals import NAK_INVALID_REQUEST, RefusedRequest

# (PSN, unbounded; RQMSN, 16 bit; immediate; bytes of the message)
Immediate = tuple[int, int, int, int]


class Receives:
    """One QP's posted receives. An early immediate waits here until every earlier request has arrived."""

    __slots__ = ("_complete", "_posted", "_qpn", "_stash", "delivered", "max_in_flight", "stashed")

    def __init__(self, qpn: int, complete: Callable[[Completion], None]) -> None:
        self._qpn = qpn
        self._complete = complete
        self._posted: deque[int] = deque()
        self._stash: list[Immediate] = []  # a heap by PSN
        self.stashed = 0  # how many of them
        # Immediates delivered so far: the RQMSN of the next one.
        self.delivered = 0
        # The most the peer may have in flight; known once the QP is ready to receive.
        self.max_in_flight = 0

    @property
    def posted(self) -> int:
        """Receives that wait for an immediate."""
        return len(self._posted)

    def post(self, wr_id: int) -> None:
        self._posted.append(wr_id)

    def check(self, immediate: Immediate | None, edge: int) -> None:
        """See that what is below `edge`, the epsn that a request leaves, may be delivered then; `immediate` is that
        request's own, if it has one, and it may be one of those in flight.

        Raises RefusedRequest where one would come out of order, find no receive, or be one too many in flight.
        """
        due = sorted(each for each in (*self._stash, *filter(None, (immediate,))) if each[0] < edge)
        for at, (psn, rqmsn, _, _) in enumerate(due):
            expected = self.delivered + at & 0xFFFF
            if rqmsn != expected:
                raise RefusedRequest(psn, NAK_INVALID_REQUEST, f"has RQMSN {rqmsn} where {expected} is next")
            if not self.max_in_flight:
                raise RefusedRequest(psn, NAK_INVALID_REQUEST, "is a write with immediate, and none are agreed")
            if at >= len(self._posted):
                raise RefusedRequest(psn, NAK_INVALID_REQUEST, "is a write with immediate, and no receive is posted")
        if immediate is None:
            return
        psn, rqmsn, _, _ = immediate
        if psn >= edge and (rqmsn - self.delivered - len(due) & 0xFFFF) >= self.max_in_flight:
            raise RefusedRequest(
                psn,
                NAK_INVALID_REQUEST,
                f"has RQMSN {rqmsn}: more writes with immediate are in flight than the {self.max_in_flight} agreed",
            )

    def take(self, immediate: Immediate) -> None:
        """It has arrived, in any order, and has been checked."""
        heapq.heappush(self._stash, immediate)
        self.stashed += 1

    def deliver(self, epsn: int) -> None:
        """Complete a receive for each immediate below `epsn`."""
        stash = self._stash
        while stash and stash[0][0] < epsn:
            _, _, immediate, length = heapq.heappop(stash)
            self.stashed -= 1
            self.delivered += 1
            self._complete(
                Completion(
                    self._posted.popleft(),
                    self._qpn,
                    WorkStatus.SUCCESS,
                    length,
                    WorkKind.RECV_RDMA_WITH_IMM,
                    immediate,
                )
            )

    def flush(self) -> None:
        """The QP is over: complete every posted receive with an error, and forget what waits."""
        self._stash.clear()
        self.stashed = 0
        while self._posted:
            self._complete(
                Completion(self._posted.popleft(), self._qpn, WorkStatus.FLUSHED, 0, WorkKind.RECV_RDMA_WITH_IMM)
            )
