# SPDX-License-Identifier: BSD-2-Clause
"""Every benchmark is told how fast the machine was just before and just after it."""

from __future__ import annotations

import pytest
from calibration import calibration_s


@pytest.fixture(autouse=True)
def calibrated(benchmark):
    before = calibration_s()
    yield
    benchmark.extra_info["calibration_s"] = [before, calibration_s()]
