# SPDX-License-Identifier: BSD-2-Clause
"""Figures and tables of a measurement, from samples worked out by hand."""

from __future__ import annotations

import math
import re

import pytest

from mrc.bench.figures import (
    LatencyResult,
    WriteResult,
    latency_heading,
    latency_row,
    percentile,
    write_heading,
    write_row,
)


@pytest.mark.parametrize(
    ("count", "share", "expected"),
    [
        (100, 0.99, 99),
        (100, 0.999, 100),
        (1000, 0.99, 990),
        (1000, 0.999, 999),
        (1001, 0.99, 991),
        (10, 0.99, 10),
        (1, 0.99, 1),
        (200, 0.5, 100),
    ],
)
def test_percentile_by_nearest_rank(count: int, share: float, expected: int) -> None:
    assert percentile(range(1, count + 1), share) == expected


def test_latency_of_known_samples() -> None:
    result = LatencyResult.of(2, [4.0, 1.0, 3.0, 2.0])
    assert (result.t_min_us, result.t_max_us) == (1.0, 4.0)
    assert result.t_typical_us == 2.5
    assert result.t_avg_us == 2.5
    assert result.t_stdev_us == pytest.approx(math.sqrt(1.25))
    assert (result.p99_us, result.p999_us) == (4.0, 4.0)
    assert (result.size_bytes, result.iterations) == (2, 4)


def written(**changes: object) -> WriteResult:
    """59 writes of 1 MiB in a second, 256 packets each."""
    figures = {
        "size_bytes": 1 << 20,
        "iterations": 59,
        "seconds": 1.0,
        "peak_gbps": 0.62,
        "packets": 59 * 256,
        "sender_cpu_seconds": 0.25,
        "receiver_cpu_seconds": 0.5,
        "retransmitted_packets": 3,
        "spurious_retransmissions": 1,
        "per_qp_gbps": (0.25, 0.225),
    }
    return WriteResult(**(figures | changes))  # type: ignore[arg-type]


def test_write_figures() -> None:
    document = written().to_json()
    # 59 x 1048576 x 8 bits, and 59 x 256 packets, in one second.
    assert document["goodput_gbps"] == pytest.approx(0.494927872, abs=1e-6)
    assert document["kpps"] == pytest.approx(15.104)
    assert document["message_rate_mps"] == 59.0
    assert document["cpu_seconds"] == 0.75
    assert document["retransmitted_packets"] == 3
    # 0.225 is a tenth below 0.25.
    assert document["per_qp_spread"] == pytest.approx(0.1)


def test_nothing_measured_is_no_division_by_zero() -> None:
    document = written(iterations=0, packets=0, seconds=0.0, per_qp_gbps=()).to_json()
    assert (document["goodput_gbps"], document["kpps"], document["message_rate_mps"]) == (0, 0, 0)
    assert document["per_qp_spread"] == 0


def test_the_write_table_is_perftests() -> None:
    headings = ["#bytes", "#iterations", "BW peak[Gb/sec]", "BW average[Gb/sec]", "MsgRate[Mpps]"]
    assert re.split(r"\s{2,}", write_heading().strip()) == headings
    row = write_row(written())
    assert row.split() == ["1048576", "59", "0.62", "0.49", "0.000059"]
    # Every number begins where its heading does.
    starts = [write_heading().index(heading) for heading in headings]
    assert [row[start:].split()[0] for start in starts] == row.split()
    assert all(row[start - 1] == " " for start in starts)


def test_the_latency_table_is_perftests() -> None:
    headings = [
        "#bytes",
        "#iterations",
        "t_min[usec]",
        "t_max[usec]",
        "t_typical[usec]",
        "t_avg[usec]",
        "t_stdev[usec]",
    ]
    headings += ["99% percentile[usec]", "99.9% percentile[usec]"]
    assert re.split(r"\s{2,}", latency_heading().strip()) == headings
    row = latency_row(LatencyResult.of(2, [4.0, 1.0, 3.0, 2.0]))
    assert row.split() == ["2", "4", "1.00", "4.00", "2.50", "2.50", "1.12", "4.00", "4.00"]
