# SPDX-License-Identifier: BSD-2-Clause
"""Quantities of an experiment file in the units of the code. The schema has made sure of their form."""

from __future__ import annotations

from typing import Any

from mrc.errors import CallerError
from mrc.fabric import units

_MOST_BYTES = 1 << 50


def time_ns(value: Any) -> int:
    return units.duration_ns(value) if isinstance(value, str) else int(value)


def size_bytes(value: Any) -> int:
    """Raises CallerError above 1 PiB: what many of them come to is worked out in 64 bits."""
    found = units.size_bytes(value) if isinstance(value, str) else int(value)
    if found > _MOST_BYTES:
        raise CallerError(f"a size of {found} bytes, {_MOST_BYTES} (1 PiB) are the most")
    return found


def rate_bps(value: Any) -> int:
    return units.rate_bps(value) if isinstance(value, str) else int(value)


def share(value: Any) -> float:
    return units.share(value)
