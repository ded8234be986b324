# SPDX-License-Identifier: BSD-2-Clause
"""Writes over a simulated fabric: one at a time, or kept going without end."""

from __future__ import annotations

from collections.abc import Callable

from mrc.endpoint.completions import Completion, WorkStatus
from mrc.endpoint.endpoint import Endpoint
from mrc.endpoint.memory import MemoryRegion
from mrc.endpoint.qp import QueuePair
from mrc.endpoint.work import WriteRequest
from mrc.sim.clock import Clock

_VA = 1 << 20  # of every region, instead of its real address, which differs from run to run
_FIRST_WR_ID = 1 << 32  # away from the numbers a caller that posts for itself would choose


class Completions:
    """Hands the completions of one endpoint to the posters of the work; the rest stay in `others`."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.others: list[Completion] = []
        self._endpoint = endpoint
        self._waiting: dict[tuple[int, int], Callable[[Completion], None]] = {}
        self._next_wr_id = _FIRST_WR_ID

    def expect(self, qpn: int, handler: Callable[[Completion], None]) -> int:
        """A work request id whose completion goes to `handler`."""
        wr_id = self._next_wr_id
        self._next_wr_id += 1
        self._waiting[qpn, wr_id] = handler
        return wr_id

    def deliver(self) -> None:
        queue = self._endpoint.completions
        while queue:
            done = queue.popleft()
            self._waiting.pop((done.qpn, done.wr_id), self.others.append)(done)


class QpEnd:
    """One QP of a connected pair, and where both ends live."""

    __slots__ = ("clock", "completions", "endpoint", "peer", "peer_endpoint", "qp")

    def __init__(
        self,
        clock: Clock,
        qp: QueuePair,
        endpoint: Endpoint,
        completions: Completions,
        peer: QueuePair,
        peer_endpoint: Endpoint,
    ) -> None:
        self.clock = clock
        self.qp = qp
        self.endpoint = endpoint
        self.completions = completions
        self.peer = peer
        self.peer_endpoint = peer_endpoint

    def post(self, source: MemoryRegion, region: MemoryRegion, handler: Callable[[Completion], None]) -> None:
        """Write all of `source` to the start of `region`."""
        wr_id = self.completions.expect(self.qp.qpn, handler)
        self.qp.post_write(WriteRequest(wr_id, source, 0, source.length, region.va, region.rkey))
        self.endpoint.wake(self.qp)


class Transfer:
    """One write. `status` and `completed_at` (ns) are None until it completes."""

    __slots__ = ("_clock", "_target", "completed_at", "data", "posted_at", "status")

    def __init__(self, end: QpEnd, data: bytes) -> None:
        self.data = data
        self.posted_at = end.clock.now
        self.completed_at: int | None = None
        self.status: WorkStatus | None = None
        self._clock = end.clock
        self._target = bytearray(len(data))
        region = end.peer_endpoint.memory.register(self._target, va=_VA)
        end.post(MemoryRegion(data, 0, 0, remote_write=False), region, self._completed)

    def _completed(self, completion: Completion) -> None:
        self.status = completion.status
        self.completed_at = self._clock.now

    @property
    def done(self) -> bool:
        """Whether it has completed, with whatever status."""
        return self.status is not None

    @property
    def arrived(self) -> bool:
        """Whether the peer's memory holds what was sent."""
        return self._target == self.data


class Stream:
    """Keeps `depth` writes of `message_bytes` posted until `stop`, all to the same memory of the peer."""

    __slots__ = ("_end", "_region", "_source", "completed", "running", "status")

    def __init__(self, end: QpEnd, message_bytes: int, depth: int) -> None:
        self._end = end
        self._source = MemoryRegion(bytes(message_bytes), 0, 0, remote_write=False)
        self._region = end.peer_endpoint.memory.register(bytearray(message_bytes), va=_VA)
        self.running = True
        self.completed = 0
        self.status = WorkStatus.SUCCESS
        for _ in range(depth):
            self._post()

    def _post(self) -> None:
        self._end.post(self._source, self._region, self._completed)

    def _completed(self, completion: Completion) -> None:
        self.completed += 1
        if completion.status != WorkStatus.SUCCESS:
            self.status = completion.status
            self.running = False
        if self.running:
            self._post()

    def stop(self) -> None:
        """Post no more; what is posted still completes."""
        self.running = False

    @property
    def delivered_bytes(self) -> int:
        """Payload bytes the QP has placed in the peer's memory, each once."""
        return self._end.peer.counters.bytes_placed
