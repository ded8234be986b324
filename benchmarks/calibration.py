# SPDX-License-Identifier: BSD-2-Clause
"""A fixed piece of work that is none of the project's: how fast the machine is at the moment.

Of the same kind as what is measured, so that it drifts alike: interpreter, small numpy operations, checksums, copies.
"""

from __future__ import annotations

import time
import zlib
from statistics import median

import numpy as np

_BLOCK = bytes(64 << 10)
_SMALL = np.arange(128, dtype=np.int64)
_ROWS = np.ones((128, 4096), np.uint8)


_TIMES = 31


def calibration_s() -> float:
    """Seconds of CPU time the work takes: the median of a few."""
    taken = []
    for _ in range(_TIMES):
        began = time.process_time()
        calibrate()
        taken.append(time.process_time() - began)
    return median(taken)


def calibrate() -> int:
    total = 0
    for number in range(2000):
        total += number * number & 0xFF
    for _ in range(100):
        total += int((_SMALL + 3 >> 1)[_SMALL & 7].sum())
    total += zlib.crc32(_BLOCK)
    return total + int(_ROWS[::-1].copy()[0, 0])
