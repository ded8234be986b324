# SPDX-License-Identifier: BSD-2-Clause
"""Every benchmark is told how fast the machine was just before and just after it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from calibration import calibration_s


@pytest.fixture(autouse=True)
def calibrated(benchmark: Any) -> Iterator[None]:
    before = calibration_s()
    yield
    benchmark.extra_info["calibration_s"] = [before, calibration_s()]
