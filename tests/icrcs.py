# SPDX-License-Identifier: BSD-2-Clause
"""ICRCs of rows of a received batch."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mrc.wire.received_batch import ReceivedBatch


def icrcs_right(batch: ReceivedBatch, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Which of these rows have a right ICRC."""
    return np.array([batch.icrc_right(row) for row in rows.tolist()], np.bool_)
