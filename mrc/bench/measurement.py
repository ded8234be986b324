# SPDX-License-Identifier: BSD-2-Clause
"""One measurement of writes at the client: its memory, and what came of it in each direction."""

from __future__ import annotations

import hashlib
import os
from typing import Any

from mrc.bench.backwards import Received
from mrc.bench.figures import WriteResult
from mrc.bench.intervals import Interval
from mrc.bench.terms import FORWARD, REVERSE, Terms
from mrc.bench.writes import Written
from mrc.errors import PeerError
from mrc.net.transfer.report import reported_duplicates, spurious_retransmissions
from mrc.verbs import MR, PD, AccessFlag


class Measurement:
    """The memory of one measurement at this end: `source` is written from, `region` is written to."""

    def __init__(self, pd: PD, terms: Terms, direction: str) -> None:
        size = terms.size * terms.qps
        self._content = os.urandom(size) if direction != REVERSE else b""
        self._memory = bytearray(size) if direction != FORWARD else bytearray()
        self.source: MR | None = pd.mr(self._content, AccessFlag(0)) if self._content else None
        self.region: MR | None = pd.mr(self._memory) if self._memory else None

    def sent_sum(self) -> str:
        return hashlib.sha256(self._content).hexdigest()

    def received_sum(self) -> str:
        return hashlib.sha256(self._memory).hexdigest()

    def close(self, *, interrupted: bool) -> None:
        """What is still written from or to is closed with the context."""
        for each in () if interrupted else (self.source, self.region):
            if each is not None:
                each.close()


def forward_result(
    terms: Terms,
    written: Written,
    cpu_s: float,
    stopped: dict[str, Any],
    counters: dict[str, int],
    intervals: tuple[Interval, ...],
) -> WriteResult:
    """What the client wrote. `stopped` is empty where it was interrupted: the server was not asked.

    Both ends have said what they know: from now on `counters` have one number of spurious retransmissions too.
    """
    count, seconds = sum(written.completed), written.elapsed_ns / 1e9
    resent = counters.get("retransmitted_packets", 0)
    duplicates = reported_duplicates(stopped) if stopped else None
    spurious = spurious_retransmissions(resent, counters.get("spurious_retransmissions", 0), duplicates)
    if spurious:
        counters["spurious_retransmissions"] = spurious
    return WriteResult(
        size_bytes=terms.size,
        iterations=count,
        seconds=seconds,
        peak_gbps=written.peak_gbps,
        packets=count * terms.packets_per_write,
        sender_cpu_seconds=cpu_s,
        receiver_cpu_seconds=cpu_seconds_of(stopped) if stopped else None,
        retransmitted_packets=resent,
        spurious_retransmissions=spurious,
        duplicates_received=duplicates,
        per_qp_gbps=tuple(each * terms.size * 8 / seconds / 1e9 for each in written.completed),
        counters=counters,
        interrupted=written.interrupted,
        intervals=intervals,
    )


def reverse_result(
    terms: Terms,
    received: Received | None,
    at_client: tuple[int, int, float],
    counters: dict[str, int],
    intervals: tuple[Interval, ...],
) -> WriteResult:
    """What the server wrote.

    `received` None: it was interrupted, and only this end's figures are known: writes, nanoseconds, CPU seconds.
    """
    count, elapsed_ns, cpu_s = at_client
    per_qp: tuple[float, ...] = ()
    if received is not None:
        count, elapsed_ns = sum(received.completed), received.elapsed_ns
        per_qp = tuple(each * terms.size * 8 / elapsed_ns for each in received.completed)
    duplicates = sum(counters.get(name, 0) for name in ("duplicates_old", "duplicates_above_epsn"))
    resent = received.retransmitted_packets if received is not None else 0
    noticed = received.spurious_retransmissions if received is not None else 0
    return WriteResult(
        size_bytes=terms.size,
        iterations=count,
        seconds=elapsed_ns / 1e9,
        peak_gbps=received.peak_gbps if received is not None else count * terms.size * 8 / elapsed_ns,
        packets=count * terms.packets_per_write,
        sender_cpu_seconds=received.cpu_seconds if received is not None else 0.0,
        receiver_cpu_seconds=cpu_s if received is not None else None,
        retransmitted_packets=resent,
        spurious_retransmissions=spurious_retransmissions(resent, noticed, duplicates),
        duplicates_received=duplicates,
        per_qp_gbps=per_qp,
        counters=counters,
        interrupted=received is None,
        direction=REVERSE,
        intervals=intervals,
    )


def cpu_seconds_of(stopped: dict[str, Any]) -> float:
    """What the server used. Raises PeerError for no number."""
    value = stopped.get("cpu_seconds")
    if not isinstance(value, int | float) or not 0 <= value < 1e9:
        raise PeerError(f"the server says it used {value!r} seconds of CPU time")
    return float(value)
