"""Writes as fast as they go: a number of them kept outstanding on every QP."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mrc.bench.terms import WRITE_IMM, Terms
from mrc.errors import PeerError
from mrc.verbs import CQ, MR, QP, RemoteMemory, SendFlag, SendWR, WCStatus, WROpcode

PEAK_SLICE_NS = 50_000_000
_POLLED_AT_ONCE = 256
# Hears every 50 ms of the time (monotonic, ns) and the bits completed until then.
OnProgress = Callable[[int, int], None]


@dataclass(slots=True)
class _Busy:
    """One QP: the write it repeats, and how many were posted and completed."""

    qp: QP
    quiet: SendWR
    posted: int = 0
    completed: int = 0


@dataclass(frozen=True, slots=True)
class Written:
    """`completed` writes of each QP, in `elapsed_ns` from the first post to the last completion, or to the
    interruption."""

    completed: tuple[int, ...]
    elapsed_ns: int
    peak_gbps: float
    interrupted: bool = False


class Writing:
    """Keeps `terms.depth` writes outstanding on each QP, every `cq_mod`-th of which makes a completion.

    As in perftest each QP writes the same bytes to the same place again and again: QP n those from n x size on.
    `on_progress` hears how far it is.
    """

    def __init__(
        self,
        qps: Sequence[QP],
        cq: CQ,
        source: MR,
        target: RemoteMemory,
        terms: Terms,
        cq_mod: int,
        on_progress: OnProgress | None = None,
    ) -> None:
        self._cq = cq
        self._on_progress = on_progress
        self._terms = terms
        self._cq_mod = min(cq_mod, terms.depth)
        self._opcode = WROpcode.RDMA_WRITE_WITH_IMM if terms.test == WRITE_IMM else WROpcode.RDMA_WRITE
        self._immediate = 0 if terms.test == WRITE_IMM else None
        self._busy = {
            qp.qp_num: _Busy(qp, self._request(0, source, target, number, SendFlag(0))) for number, qp in enumerate(qps)
        }

    def _request(self, wr_id: int, source: MR, target: RemoteMemory, number: int, flags: SendFlag) -> SendWR:
        offset = number * self._terms.size
        return SendWR(
            wr_id,
            self._opcode,
            source.sge(offset, self._terms.size),
            target.addr + offset,
            target.rkey,
            self._immediate,
            flags,
        )

    def run(self, loop: Callable[[Callable[[], bool]], None], seconds: float) -> Written:
        """Write for so long, then wait for the rest. `loop` turns until its argument holds. Raises PeerError.

        A KeyboardInterrupt out of `loop` ends it at once, with what was completed until then.
        """
        clock = time.monotonic_ns
        size, poll = self._terms.size, self._cq.poll
        busy = self._busy
        bits_completed = slice_bits = 0
        peak = 0.0
        posting, interrupted = True, False
        began = slice_began = clock()
        deadline = began + int(seconds * 1e9)

        def done() -> bool:
            nonlocal bits_completed, slice_bits, slice_began, peak, posting
            completions = poll(_POLLED_AT_ONCE)
            if not completions:
                return False
            now = clock()
            if now >= deadline:
                posting = False
            for completion in completions:
                each = busy[completion.qp_num]
                if completion.status != WCStatus.SUCCESS:
                    raise PeerError(f"a write failed: {each.qp.explain(completion.status)}")
                bits_completed += (completion.wr_id - each.completed) * size * 8
                each.completed = completion.wr_id
                if posting:
                    self._fill(each)
            if now - slice_began >= PEAK_SLICE_NS:
                peak = max(peak, (bits_completed - slice_bits) / (now - slice_began))
                slice_bits, slice_began = bits_completed, now
                if self._on_progress is not None:
                    self._on_progress(now, bits_completed)
            return not posting and all(each.completed == each.posted for each in busy.values())

        for each in busy.values():
            self._fill(each)
        try:
            loop(done)
        except KeyboardInterrupt:
            interrupted = True
        elapsed = clock() - began
        # What took less than a slice has no other peak.
        peak = max(peak, bits_completed / elapsed)
        return Written(tuple(each.completed for each in busy.values()), elapsed, peak, interrupted)

    def _fill(self, each: _Busy) -> None:
        """Post whole groups of `cq_mod` writes, the last of each signaled, its number the count so far."""
        post, quiet, group = each.qp.post_send, each.quiet, self._cq_mod
        while each.posted - each.completed + group <= self._terms.depth:
            for _ in range(group - 1):
                post(quiet)
            each.posted += group
            post(
                SendWR(
                    each.posted,
                    quiet.opcode,
                    quiet.sge,
                    quiet.remote_addr,
                    quiet.rkey,
                    quiet.imm_data,
                    SendFlag.SIGNALED,
                )
            )
