# SPDX-License-Identifier: BSD-2-Clause
"""What a measurement found, and the tables perftest users know."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from statistics import fmean, median, pstdev
from typing import Any

from mrc.bench.intervals import Interval


@dataclass(frozen=True, slots=True)
class WriteResult:
    """Writes of `size_bytes` bytes, `iterations` of them completed in `seconds`, from the first one posted to the last
    one acknowledged.

    `peak_gbps` is the best slice of 50 ms, or the average when all took less. `kpps` counts packets once, however
    often they were sent. `cpu_seconds` is what both processes used together, all threads, kernel time included.

    `duplicates_received` is the server's count, None where it did not report it; `spurious_retransmissions` are then
    those that the client noticed.

    `interrupted`: `seconds` end at the interruption, what lies at the server was not compared, and what it used is not
    known (`receiver_cpu_seconds` None, and so `cpu_seconds`).

    `direction`: "forward" where the client writes, "reverse" where the server does. `intervals` if any were asked for.
    """

    size_bytes: int
    iterations: int
    seconds: float
    peak_gbps: float
    packets: int
    sender_cpu_seconds: float
    receiver_cpu_seconds: float | None
    retransmitted_packets: int
    spurious_retransmissions: int
    duplicates_received: int | None = None
    per_qp_gbps: tuple[float, ...] = ()
    counters: dict[str, int] = field(default_factory=dict)
    interrupted: bool = False
    direction: str = "forward"
    intervals: tuple[Interval, ...] = ()

    @property
    def cpu_seconds(self) -> float | None:
        received = self.receiver_cpu_seconds
        return None if received is None else self.sender_cpu_seconds + received

    @property
    def cpu_seconds_per_gb(self) -> float | None:
        """Of both processes for 10^9 bytes."""
        used, written = self.cpu_seconds, self.iterations * self.size_bytes
        return used / written * 1e9 if used is not None and written else None

    @property
    def goodput_gbps(self) -> float:
        return self.iterations * self.size_bytes * 8 / self.seconds / 1e9 if self.seconds else 0.0

    @property
    def kpps(self) -> float:
        return self.packets / self.seconds / 1e3 if self.seconds else 0.0

    @property
    def message_rate_mps(self) -> float:
        """Messages per second."""
        return self.iterations / self.seconds if self.seconds else 0.0

    @property
    def per_qp_spread(self) -> float:
        """How much less than the largest the smallest share of a QP is, as a share of 1."""
        most = max(self.per_qp_gbps, default=0.0)
        return (most - min(self.per_qp_gbps)) / most if most else 0.0

    def to_json(self) -> dict[str, Any]:
        """The document that `--json` prints."""
        return {
            "size_bytes": self.size_bytes,
            "direction": self.direction,
            "iterations": self.iterations,
            "seconds": round(self.seconds, 6),
            "goodput_gbps": round(self.goodput_gbps, 6),
            "peak_gbps": round(self.peak_gbps, 6),
            "kpps": round(self.kpps, 4),
            "message_rate_mps": round(self.message_rate_mps, 2),
            "cpu_seconds": _rounded(self.cpu_seconds),
            "cpu_seconds_per_gb": _rounded(self.cpu_seconds_per_gb),
            "sender_cpu_seconds": _rounded(self.sender_cpu_seconds),
            "receiver_cpu_seconds": _rounded(self.receiver_cpu_seconds),
            "retransmitted_packets": self.retransmitted_packets,
            "spurious_retransmissions": self.spurious_retransmissions,
            "duplicates_received": self.duplicates_received,
            "per_qp_gbps": [round(share, 6) for share in self.per_qp_gbps],
            "per_qp_spread": round(self.per_qp_spread, 4),
            "counters": self.counters,
            "interrupted": self.interrupted,
            **({"intervals": [each.to_json() for each in self.intervals]} if self.intervals else {}),
        }


@dataclass(frozen=True, slots=True)
class LatencyResult:
    """Half round trips of a ping-pong, microseconds; with `interrupted` those until then."""

    size_bytes: int
    iterations: int
    t_min_us: float
    t_max_us: float
    t_typical_us: float
    t_avg_us: float
    t_stdev_us: float
    p99_us: float
    p999_us: float
    counters: dict[str, int] = field(default_factory=dict)
    interrupted: bool = False

    @classmethod
    def of(
        cls,
        size: int,
        half_round_trips_us: Sequence[float],
        counters: dict[str, int] | None = None,
        *,
        interrupted: bool = False,
    ) -> LatencyResult:
        """Typical is the median. At least one sample."""
        ordered = sorted(half_round_trips_us)
        return cls(
            size_bytes=size,
            iterations=len(ordered),
            t_min_us=ordered[0],
            t_max_us=ordered[-1],
            t_typical_us=median(ordered),
            t_avg_us=fmean(ordered),
            t_stdev_us=pstdev(ordered),
            p99_us=percentile(ordered, 0.99),
            p999_us=percentile(ordered, 0.999),
            counters=counters or {},
            interrupted=interrupted,
        )

    def to_json(self) -> dict[str, Any]:
        """The document that `--json` prints."""
        return {
            name: value if isinstance(value, dict | bool) else round(value, 3)
            for name, value in asdict(self).items()
            if value != {}
        }


def percentile(ordered: Sequence[float], share: float) -> float:
    """The smallest of the rising samples that no fewer than `share` of all are at or below (nearest rank)."""
    # A share such as 0.99 is no binary fraction: 0.99 * 100 must not become rank 100.
    return ordered[max(math.ceil(round(share * len(ordered), 6)), 1) - 1]


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 4)


_WRITE_HEADINGS = ("#bytes", "#iterations", "BW peak[Gb/sec]", "BW average[Gb/sec]", "MsgRate[Mpps]")
_LATENCY_HEADINGS = (
    "#bytes",
    "#iterations",
    "t_min[usec]",
    "t_max[usec]",
    "t_typical[usec]",
    "t_avg[usec]",
    "t_stdev[usec]",
    "99% percentile[usec]",
    "99.9% percentile[usec]",
)


def write_heading() -> str:
    return _line(_WRITE_HEADINGS, _WRITE_HEADINGS)


def write_row(result: WriteResult) -> str:
    cells = (
        str(result.size_bytes),
        str(result.iterations),
        f"{result.peak_gbps:.2f}",
        f"{result.goodput_gbps:.2f}",
        f"{result.message_rate_mps / 1e6:.6f}",
    )
    back = "  from the server" if result.direction == "reverse" else ""
    return _line(cells, _WRITE_HEADINGS) + back


def latency_heading() -> str:
    return _line(_LATENCY_HEADINGS, _LATENCY_HEADINGS)


def latency_row(result: LatencyResult) -> str:
    times = (
        result.t_min_us,
        result.t_max_us,
        result.t_typical_us,
        result.t_avg_us,
        result.t_stdev_us,
        result.p99_us,
        result.p999_us,
    )
    return _line((str(result.size_bytes), str(result.iterations), *(f"{t:.2f}" for t in times)), _LATENCY_HEADINGS)


def _line(cells: Sequence[str], headings: Sequence[str]) -> str:
    """Left-aligned as perftest's, each column as wide as its heading, and wide enough for its numbers."""
    widths = [max(len(heading), 11) for heading in headings]
    return (" " + "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True))).rstrip()
