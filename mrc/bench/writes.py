# SPDX-License-Identifier: BSD-2-Clause
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
_NO_LIMIT = 1 << 62
# Hears every 50 ms of the time (monotonic, ns) and the bits completed until then.
OnProgress = Callable[[int, int], None]


@dataclass(slots=True)
class _Busy:
    """One QP: the write it repeats, how many it is to write, and how many were posted and completed."""

    qp: QP
    quiet: SendWR
    most: int
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
    It ends after `seconds`, or after `most` writes over all QPs. `on_progress` hears how far it is. `run` does it all;
    in a loop that does other things too, `begin`, then `turn` until it returns True, then `written`.
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
        *,
        seconds: float | None = None,
        most: int | None = None,
    ) -> None:
        self._cq = cq
        self._on_progress = on_progress
        self._terms = terms
        self._cq_mod = min(cq_mod, terms.depth)
        self._opcode = WROpcode.RDMA_WRITE_WITH_IMM if terms.test == WRITE_IMM else WROpcode.RDMA_WRITE
        self._immediate = 0 if terms.test == WRITE_IMM else None
        self._seconds = seconds
        self._limited = most is not None
        each, more = divmod(_NO_LIMIT if most is None else most, len(qps))
        self._busy = {
            qp.qp_num: _Busy(qp, self._request(0, source, target, number, SendFlag(0)), each + (number < more))
            for number, qp in enumerate(qps)
        }
        self._bits = self._slice_bits = 0
        self._began = self._slice_began = self._elapsed_ns = 0
        self._deadline = _NO_LIMIT
        self._peak = 0.0
        self._posting = True

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

    @property
    def bits(self) -> int:
        """Bits completed so far."""
        return self._bits

    def run(self, loop: Callable[[Callable[[], bool]], None]) -> Written:
        """Write, then wait for the rest. `loop` turns until its argument holds. Raises PeerError.

        A KeyboardInterrupt out of `loop` ends it at once, with what was completed until then.
        """
        self.begin()
        try:
            loop(self.turn)
        except KeyboardInterrupt:
            return self.written(interrupted=True)
        return self.written()

    def begin(self) -> None:
        """Post the first writes."""
        self._began = self._slice_began = time.monotonic_ns()
        if self._seconds is not None:
            self._deadline = self._began + int(self._seconds * 1e9)
        for each in self._busy.values():
            self._fill(each)

    def turn(self) -> bool:
        """Take completions and post further writes. Returns whether all is done. Raises PeerError."""
        completions = self._cq.poll(_POLLED_AT_ONCE)
        if not completions:
            return False
        now = time.monotonic_ns()
        if now >= self._deadline:
            self._posting = False
        posting, busy, size = self._posting, self._busy, self._terms.size
        bits = self._bits
        for completion in completions:
            each = busy[completion.qp_num]
            if completion.status != WCStatus.SUCCESS:
                raise PeerError(f"a write failed: {each.qp.explain(completion.status)}")
            bits += (completion.wr_id - each.completed) * size * 8
            each.completed = completion.wr_id
            if posting:
                self._fill(each)
        self._bits = bits
        if now - self._slice_began >= PEAK_SLICE_NS:
            self._peak = max(self._peak, (bits - self._slice_bits) / (now - self._slice_began))
            self._slice_bits, self._slice_began = bits, now
            if self._on_progress is not None:
                self._on_progress(now, bits)
        if posting and not self._limited:
            return False
        if any(each.completed != each.posted or (posting and each.posted != each.most) for each in busy.values()):
            return False
        self._elapsed_ns = now - self._began
        return True

    def written(self, *, interrupted: bool = False) -> Written:
        """What was written until the last turn, or until now where it was interrupted."""
        elapsed = time.monotonic_ns() - self._began if interrupted else self._elapsed_ns
        # What took less than a slice has no other peak.
        peak = max(self._peak, self._bits / elapsed)
        return Written(tuple(each.completed for each in self._busy.values()), elapsed, peak, interrupted)

    def _fill(self, each: _Busy) -> None:
        """Post whole groups of `cq_mod` writes, the last of each signaled, its number the count so far."""
        post, quiet = each.qp.post_send, each.quiet
        while each.posted < each.most:
            group = min(self._cq_mod, each.most - each.posted)
            if each.posted - each.completed + group > self._terms.depth:
                return
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
