# SPDX-License-Identifier: BSD-2-Clause
"""How quantities are written for people."""

from __future__ import annotations

import pytest

from mrc.report import units


@pytest.mark.parametrize(
    ("count", "says"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1536, "1.5 KiB"),
        (64 << 20, "64.0 MiB"),
        (3 << 30, "3.0 GiB"),
        (5 << 40, "5.0 TiB"),
        (5000 << 40, "5000.0 TiB"),
    ],
)
def test_sizes_are_written_in_1024s(count: int, says: str) -> None:
    assert units.size_text(count) == says


@pytest.mark.parametrize(
    ("count", "says"),
    [(None, "-"), (0, "0 KiB"), (1024_000, "1000 KiB"), (1 << 20, "1.0 MiB"), (900 << 20, "900.0 MiB")],
)
def test_a_narrow_size_keeps_its_width(count: int | None, says: str) -> None:
    assert units.narrow_size_text(count) == says


@pytest.mark.parametrize(
    ("count", "says"), [(0, "0 B"), (999, "999 B"), (400_000, "400 kB"), (1_500_000, "1.5 MB"), (2e15, "2000 TB")]
)
def test_queues_are_written_in_1000s(count: float, says: str) -> None:
    assert units.decimal_size_text(count) == says


def test_rates_and_goodput() -> None:
    assert units.rate_text(2_500_000_000) == "2.5 Gbit/s"
    assert units.goodput_text(9.8765) == "9.88 Gbit/s"
    assert units.goodput_text(None) == "-"


def test_rates_of_a_table_have_three_digits() -> None:
    texts = [units.gbps_text(value) for value in (None, 0.0, 0.0123, 0.2661, 1.0, 12.04, 123.4, 1234.5)]
    assert texts == ["-", "0.000", "0.0123", "0.266", "1.00", "12.0", "123", "1,234"]


def test_a_duration_is_never_a_thousand_of_its_unit() -> None:
    texts = [units.measured_s_text(each) for each in (0.9999999, 0.99949, 0.0009999, 0.000999)]
    assert texts == ["1.00 s", "999 ms", "1 ms", "999 us"]


def test_nothing_is_no_less_than_nothing() -> None:
    assert units.microseconds_text(-40, ",.1f") == "0.0"
    assert units.microseconds_text(-60, ",.1f") == "-0.1"


def test_shares_configured_and_measured() -> None:
    assert [units.share_text(each) for each in (0.005, 0.1, 1)] == ["0.5%", "10%", "100%"]
    assert [units.percent_text(each) for each in (0, 0.00123, 0.048, 1)] == ["0 %", "0.12 %", "4.8 %", "100.0 %"]


def test_durations() -> None:
    assert [units.measured_s_text(each) for each in (1.5, 0.0168, 80e-6)] == ["1.50 s", "16.8 ms", "80 us"]


def test_numbers_and_counts() -> None:
    assert (units.number_text(None), units.number_text(1234), units.number_text(0.25, ".0%")) == ("-", "1,234", "25%")
    assert (units.count_text(0, 0.0), units.count_text(1234, 0.048), units.count_text(5)) == ("0", "1,234 (4.8 %)", "5")
    assert (units.plural(1, "packet"), units.plural(2000, "packet")) == ("1 packet", "2,000 packets")
