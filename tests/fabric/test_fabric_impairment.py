# SPDX-License-Identifier: BSD-2-Clause
"""What is wrong with a link, as values: ranges, what is chosen, what a change leaves."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrc.errors import CallerError
from mrc.fabric import Impairment

GIGABIT = 1_000_000_000


@pytest.mark.parametrize("field", ["loss", "duplicate", "corrupt"])
def test_shares(field: str) -> None:
    for share in (0, 0.0, 1e-6, 0.5, 1, 1.0):
        assert getattr(Impairment(**{field: share}), field) == share
    for share in (-1e-9, 1e-9, 4e-7, 1.0000001, math.inf, math.nan):
        with pytest.raises(CallerError, match=f"{field} must be"):
            Impairment(**{field: share})


@pytest.mark.parametrize(
    ("field", "least", "most"),
    [
        ("rate_bps", 100_000, 10**12),
        ("queue_bytes", 16_384, 256_000_000),
        ("ecn_at_bytes", 1, 256_000_000),
        ("trim_at_bytes", 1, 256_000_000),
        ("trim_to_bytes", 64, 65_535),
        ("trim_dscp", 1, 63),
        ("trim_dscp_lasthop", 1, 63),
    ],
)
def test_amounts(field: str, least: int, most: int) -> None:
    for value in (0, least, most):
        assert getattr(Impairment(**{field: value}), field) == value
    for wrong in (-1, least - 1 or -2, most + 1, 20_000.5):
        with pytest.raises(CallerError, match=f"{field} must be"):
            Impairment(**{field: wrong})  # type: ignore[arg-type]


@given(st.floats(1e-6, 1))
def test_a_share_is_what_can_be_drawn(share: float) -> None:
    """Whole millionths: what a lab reads back from the kernel equals what it was given."""
    kept = Impairment(loss=share).loss
    assert abs(kept - share) <= 5.000001e-7
    assert kept == round(kept * 1_000_000) / 1_000_000
    assert Impairment(loss=kept).loss == kept
    assert Impairment(loss=round(kept * 100, 4) / 100).loss == kept


@pytest.mark.parametrize(
    "values",
    [
        {"ecn_at_bytes": 20_000, "trim_at_bytes": 20_000},
        {"trim_at_bytes": 20_000, "queue_bytes": 20_000},
        {"ecn_at_bytes": 20_001, "queue_bytes": 20_000},
    ],
)
def test_thresholds_come_in_order(values: dict[str, int]) -> None:
    with pytest.raises(CallerError, match="must be below"):
        Impairment(rate_bps=GIGABIT, **values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("values", "limit"),
    [
        ({}, 0),
        ({"loss": 0.5}, 0),
        ({"rate_bps": GIGABIT}, 625_000),
        ({"rate_bps": 100_000}, 65_536),
        ({"rate_bps": 100_000, "trim_at_bytes": 40_000}, 80_000),
        ({"rate_bps": 100_000, "ecn_at_bytes": 50_000}, 100_000),
        ({"rate_bps": 10**12}, 256_000_000),
        ({"rate_bps": GIGABIT, "queue_bytes": 30_000}, 30_000),
    ],
)
def test_how_much_may_wait(values: dict[str, Any], limit: int) -> None:
    assert Impairment(**values).limit_bytes == limit


class TestChanged:
    FULL = Impairment(0.1, 0.2, 0.3, GIGABIT, 400_000, 100_000, 200_000, 256, 48, 50)

    def test_what_is_none_stays(self) -> None:
        assert self.FULL.changed() == self.FULL
        assert self.FULL.changed(loss=None, rate_bps=None) == self.FULL
        assert self.FULL.changed(loss=0.5, corrupt=0, ecn_at_bytes=None) == Impairment(
            0.5, 0.2, 0, GIGABIT, 400_000, 100_000, 200_000, 256, 48, 50
        )

    def test_no_rate_is_no_queue(self) -> None:
        assert self.FULL.changed(rate_bps=0) == Impairment(0.1, 0.2, 0.3)
        with pytest.raises(CallerError, match="needs a rate_bps"):
            self.FULL.changed(rate_bps=0, queue_bytes=20_000)
        with pytest.raises(CallerError, match="needs a rate_bps"):
            Impairment().changed(trim_at_bytes=20_000)
        for name, value in (("trim_to_bytes", 256), ("trim_dscp", 48), ("trim_dscp_lasthop", 50)):
            with pytest.raises(CallerError, match=f"{name} needs a rate_bps"):
                Impairment().changed(**{name: value})

    def test_all_fields_at_once_as_somebody_else_has_them(self) -> None:
        for wanted in (self.FULL, Impairment(), Impairment(rate_bps=GIGABIT)):
            values = {name: getattr(wanted, name) for name in wanted.__slots__}
            assert self.FULL.changed(**values) == wanted

    def test_an_unknown_field_is_the_callers_fault(self) -> None:
        with pytest.raises(CallerError, match="speed"):
            self.FULL.changed(speed=5)

    def test_off(self) -> None:
        assert Impairment().is_off
        assert not self.FULL.is_off
        assert not Impairment(corrupt=1e-6).is_off
