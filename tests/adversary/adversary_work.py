# SPDX-License-Identifier: BSD-2-Clause
"""The work of one end of a QP pair, and what must come of it: memory, completions, receives.

Each write has a range of the peer's memory of its own; a range is written again only when the write it belongs to has
completed. So memory holds, byte for byte, the old or the new content while a write is under way, and the new one from
its completion on. One byte between ranges is never written.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from adversary_shadow import hold

from mrc.endpoint.completions import Completion, WorkKind, WorkStatus
from mrc.endpoint.memory import MemoryRegion
from mrc.endpoint.work import WriteRequest

REGION_BYTES = 1 << 16
BAD_BYTES = 100
UNTOUCHED = 0xEE
POOL = np.random.default_rng(20260101).integers(0, 256, 1 << 18, np.uint8).tobytes()
_SOURCE = MemoryRegion(POOL, 0, 0, remote_write=False)
# What an error completion of a write may say, besides that it was flushed.
FAILURES = frozenset(
    {
        WorkStatus.REMOTE_INVALID_REQUEST,
        WorkStatus.REMOTE_ACCESS_ERROR,
        WorkStatus.REMOTE_OPERATION_ERROR,
        WorkStatus.RETRY_EXCEEDED,
    }
)


@dataclass(slots=True)
class Write:
    """A posted write: `data` to the peer's region from `at` on; `immediate` None for a plain one. `lands` is False for
    one that the peer has to refuse. `solicited`: its immediate wakes who waits at the peer."""

    number: int
    at: int
    data: bytes
    immediate: int | None
    lands: bool = True
    solicited: bool = False

    @property
    def stop(self) -> int:
        return self.at + len(self.data)


class Work:
    """What one end posted, and its completions as they come. `told` says whether the wire has told the requestor of a
    message that it arrived (Shadow.may_complete)."""

    def __init__(self, region: MemoryRegion, told: Callable[[int], bool]) -> None:
        self.region = region
        self.peer: Work | None = None
        self.posted: list[Write] = []
        self.unfinished: deque[Write] = deque()
        self.completed = 0
        self.failed = False
        self.gone = False
        self.immediates: list[Write] = []
        self.receives_posted = 0
        self.receives_done = 0
        self.delivered = 0
        self.receives_failed = False
        self._told = told
        self._at = 0
        self._pool_at = 0
        self._busy = np.zeros(REGION_BYTES, np.bool_)
        # The peer's memory as completed writes left it, and as it will be when all that were posted have.
        self._old = np.full(REGION_BYTES, UNTOUCHED, np.uint8)
        self._new = self._old.copy()

    # ------------------------------------------------------------------ posting

    def write(
        self, length: int, immediate: int | None, again: int | None = None, *, solicited: bool = False
    ) -> WriteRequest | None:
        """A write of `length` bytes to a range of its own, or None when there is no room; with `again`, to where a
        write of that number (modulo all) went, if it has completed."""
        at = self._at
        if again is not None and self.posted:
            at = self.posted[again % len(self.posted)].at
        if at + length + 1 > REGION_BYTES:
            at = 0
        if self._busy[at : at + length].any():
            return None
        if again is None:
            self._at = at + length + 1
        self._pool_at = (self._pool_at + 4099) % (len(POOL) - REGION_BYTES)
        data = POOL[self._pool_at : self._pool_at + length]
        self._busy[at : at + length] = True
        self._new[at : at + length] = np.frombuffer(data, np.uint8)
        write = Write(len(self.posted), at, data, immediate, solicited=solicited)
        return self._request(write, self.region.rkey)

    def bad_write(self, *, beyond: bool) -> WriteRequest:
        """A write of one packet that the peer has to refuse: past the end of its region, or to no R_Key of its."""
        at = REGION_BYTES - BAD_BYTES // 2 if beyond else 0
        rkey = self.region.rkey if beyond else self.region.rkey ^ 1
        return self._request(Write(len(self.posted), at, POOL[:BAD_BYTES], None, lands=False), rkey)

    def _request(self, write: Write, rkey: int) -> WriteRequest:
        self.posted.append(write)
        self.unfinished.append(write)
        if write.immediate is not None:
            self.immediates.append(write)
        start = self._pool_at if write.lands else 0
        va = self.region.va + write.at
        # An older checkout knows no such thing (tools/differential --before).
        asks = {"solicited": True} if write.solicited else {}
        return WriteRequest(write.number, _SOURCE, start, len(write.data), va, rkey, write.immediate, **asks)

    def solicited(self, immediate: int) -> bool:
        """Whether the write with immediate of that number is."""
        return self.immediates[immediate].solicited

    # ------------------------------------------------------------------ completions

    def on_completion(self, done: Completion) -> None:
        hold(not self.gone, "a completion after the QP was destroyed:", done)
        if done.kind == WorkKind.RECV_RDMA_WITH_IMM:
            self._on_receive(done)
        else:
            self._on_write(done)

    def _on_write(self, done: Completion) -> None:
        """In post order, each once; a success when all of it was acknowledged, and then it is in place."""
        hold(done.wr_id == self.completed, "write", done.wr_id, "completed where", self.completed, "is next")
        hold(done.wr_id < len(self.posted), "write", done.wr_id, "completed but was never posted")
        write = self.unfinished.popleft()
        self.completed += 1
        if done.status != WorkStatus.SUCCESS:
            hold(done.byte_len == 0, "a failed write of", done.byte_len, "bytes")
            hold(done.status == WorkStatus.FLUSHED or done.status in FAILURES, "status", done.status)
            self.failed = True
            return
        hold(not self.failed, "write", done.wr_id, "succeeded after another had failed")
        hold(write.lands, "write", done.wr_id, "succeeded although its target is none")
        hold(done.byte_len == len(write.data), "byte_len", done.byte_len, "of a write of", len(write.data))
        hold(self._told(write.number), "write", done.wr_id, "completed before cack_psn covered its last PSN")
        hold(self._in_place(write), "write", done.wr_id, "completed and is not in place")
        if write.immediate is not None and self.peer is not None:
            later = sum(each.immediate is not None for each in self.unfinished)
            due = len(self.immediates) - later
            hold(self.peer.delivered >= due, "write", done.wr_id, "completed before its immediate was delivered")
        self._old[write.at : write.stop] = self._new[write.at : write.stop]
        self._busy[write.at : write.stop] = False

    def _in_place(self, write: Write) -> bool:
        return not write.data or bytes(self.region.view[write.at : write.stop]) == write.data

    def _on_receive(self, done: Completion) -> None:
        """In RQMSN order, each once, with the right number and length, and everything posted before it in place."""
        hold(done.wr_id == self.receives_done, "receive", done.wr_id, "completed where", self.receives_done, "is next")
        hold(done.wr_id < self.receives_posted, "receive", done.wr_id, "completed but was never posted")
        self.receives_done += 1
        if done.status != WorkStatus.SUCCESS:
            hold(done.status == WorkStatus.FLUSHED, "a receive ended with", done.status)
            hold(done.immediate is None and done.byte_len == 0, "a flushed receive with content:", done)
            self.receives_failed = True
            return
        hold(not self.receives_failed, "receive", done.wr_id, "succeeded after others were flushed")
        peer = self.peer
        hold(peer is not None and self.delivered < len(peer.immediates), "an immediate that nobody sent:", done)
        assert peer is not None
        write = peer.immediates[self.delivered]
        self.delivered += 1
        hold(done.immediate == write.immediate, "immediate", done.immediate, "where", write.immediate, "is next")
        hold(done.byte_len == len(write.data), "byte_len", done.byte_len, "of a write of", len(write.data))
        hold(
            getattr(done, "solicited", False) == write.solicited,
            "immediate",
            write.immediate,
            "solicited or not:",
            done,
        )
        for earlier in peer.unfinished:
            if earlier.number > write.number:
                break
            hold(peer._in_place(earlier), "immediate", write.immediate, "delivered before write", earlier.number)

    # ------------------------------------------------------------------ checks

    def check_memory(self) -> None:
        """Every byte of the peer's memory is what it was or what it is to become."""
        now = self.region.array
        wrong = (now != self._old) & (now != self._new)
        if wrong.any():
            hold(False, "byte", int(np.flatnonzero(wrong)[0]), "of the peer's memory is neither old nor new")

    def check_all_succeeded(self) -> None:
        hold(self.completed == len(self.posted), len(self.posted) - self.completed, "writes have not completed")
        hold(not self.failed, "a write failed on a QP that is not in ERROR")
        hold(bool((self.region.array == self._new).all()), "memory is not what the completed writes say")

    def check_all_ended(self) -> None:
        hold(self.completed == len(self.posted), len(self.posted) - self.completed, "writes have no completion")
        hold(
            self.receives_done == self.receives_posted, self.receives_posted - self.receives_done, "receives have none"
        )
